"""CPU binding of the tasks of a launch, from ``src/binding.sh``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, bounded, damaged, numbers
from nearmetal.checks.parsing.output import chunks

#: What each line of binding.sh begins with. Lines of others have no such mark.
MARK = "# nearmetal binding: "
LINE = re.compile(
    rf"{MARK}host=(\S+) task=(\d+) cores=([\d,]*) of=(\d+) numa=([\d,]*) of_numa=(\d+)", re.ASCII
)


@dataclass(frozen=True)
class Place:
    host: str
    task: int
    #: Cores that the task may run on, and number of the node's cores that the job may use.
    cores: frozenset[int]
    node_cores: int
    #: NUMA nodes of these cores, and number of the node's NUMA nodes that the job may use.
    numa: frozenset[int]
    node_numa: int


@bounded
def parse_binding(text: str) -> list[Place]:
    """The place of every task, ordered by task number. Lines without our mark are skipped. Raises
    ParseError for a damaged line, and if there are no tasks."""
    places = [_place(line.strip()) for line in _own_lines(text)]
    if not places:
        raise ParseError("no task reported its binding: see the job's stderr")
    places.sort(key=lambda place: place.task)
    tasks = [place.task for place in places]
    if tasks != list(range(len(places))):
        raise damaged(f"tasks {', '.join(map(str, tasks))} report their binding, not each once")
    nodes: dict[str, tuple[int, int]] = {}
    for place in places:
        size = place.node_cores, place.node_numa
        # A task counts all cores that the job has on its node, whatever it is bound to.
        if nodes.setdefault(place.host, size) != size:
            raise damaged(
                f"{place.host} has {size[0]} cores and {size[1]} NUMA nodes by task {place.task}, "
                f"but {' and '.join(map(str, nodes[place.host]))} by another task"
            )
    return places


@bounded
def parse_bindings(text: str, processes: int) -> list[list[Place]]:
    """The places of each of several launches on so many processes. Raises ParseError as
    `parse_binding`, and if a launch is cut off."""
    lines = _own_lines(text)
    if not lines or len(lines) % processes:
        raise ParseError(
            f"{len(lines)} tasks reported their binding instead of {processes} in each launch: "
            "see the job's stderr"
        )
    # Launches follow each other: the lines of one are never among those of another.
    return [parse_binding("\n".join(launch)) for launch in chunks(lines, processes)]


def _own_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if MARK.strip() in line]


def _place(line: str) -> Place:
    """The place in a line. Raises ParseError if hwloc's numbers do not fit the node."""
    match = LINE.fullmatch(line)
    if not match:
        raise ParseError(
            f"{line!r} is not the binding of a task: is hwloc installed on every node?"
        )
    host, task, cores, node_cores, numa, node_numa = match.groups()
    number, cores_there, numa_there = numbers.wholes(
        (task, node_cores, node_numa), "a number from hwloc"
    )
    place = Place(host, number, _numbers(cores), cores_there, _numbers(numa), numa_there)
    # hwloc's logical numbers count from 0 the cores that the job may use.
    if not place.cores or max(place.cores) >= place.node_cores:
        raise damaged(f"{line!r} names cores that the node does not have")
    if place.numa and max(place.numa) >= max(1, place.node_numa):
        raise damaged(f"{line!r} names NUMA nodes that the node does not have")
    return place


def _numbers(text: str) -> frozenset[int]:
    named = numbers.wholes(filter(None, text.split(",")), "a core or NUMA node")
    if len(set(named)) != len(named):
        raise damaged(f"{text!r} names a core or NUMA node twice")
    return frozenset(named)


def differs(places: list[Place], wanted: str, threads: int = 1) -> str:
    """A sentence about the first task that is not bound as wanted; '' if all tasks are.

    :arg wanted: `none`: every task may run on all cores of its node. `core`: every task has cores
        that no other task has. `numa`: every task may run on all cores of one NUMA node.
    :arg threads: threads of a task; each needs a core.
    """
    for place in places:
        who = f"task {place.task} on {place.host} may run on"
        cores = f"{who} {len(place.cores)} of {place.node_cores} cores"
        if wanted == "none" and len(place.cores) < place.node_cores:
            return f"{cores}, although it should be unbound"
        if len(place.cores) < min(threads, place.node_cores):
            return f"{cores}, although it has {threads} threads"
        # A task that needs all cores of its node is bound by having them.
        free = len(place.cores) == place.node_cores > threads
        # A node with one NUMA node leaves nothing to bind to.
        bindable = wanted == "core" or (wanted == "numa" and place.node_numa > 1)
        if free and bindable:
            return f"{cores}: it is not bound"
        if wanted == "numa" and len(place.numa) != 1:
            return f"{who} {len(place.numa)} NUMA nodes instead of one"
    for host, tasks, cores_in_common in shared(places, wanted):
        return f"tasks {tasks[0]} and {tasks[1]} share core {cores_in_common[0]} of {host}"
    return ""


def shared(places: list[Place], wanted: str = "core") -> list[tuple[str, list[int], list[int]]]:
    """The cores that tasks of a node have in common, as (host, tasks, cores).

    [] unless the binding `core` is wanted.
    """
    if wanted != "core":
        return []
    tasks_by_core: dict[tuple[str, int], list[int]] = {}
    for place in places:
        for core in place.cores:
            tasks_by_core.setdefault((place.host, core), []).append(place.task)
    groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for (host, core), tasks in sorted(tasks_by_core.items()):
        if len(tasks) > 1:
            groups.setdefault((host, tuple(tasks)), []).append(core)
    return [(host, list(tasks), cores) for (host, tasks), cores in groups.items()]


def faults(places: list[Place], wanted: str) -> str:
    """As `differs`, but with all tasks that share cores, and these cores."""
    sentences = []
    for host, tasks, cores in shared(places, wanted):
        plural = "s" * (len(cores) > 1)
        sentences.append(f"on {host}, tasks {_ranges(tasks)} share core{plural} {_ranges(cores)}")
    return "; ".join(sentences) or differs(places, wanted)


def bound_percent(places: list[Place], wanted: str) -> float:
    """The percentage of tasks that are bound as wanted: `core` or `numa`."""
    sharing: set[int] = set()
    for _, tasks, _ in shared(places, wanted):
        sharing.update(tasks)
    good = [place for place in places if place.task not in sharing and not differs([place], wanted)]
    return 100 * len(good) / len(places)


def _ranges(ascending: list[int]) -> str:
    """Ascending numbers such as `0, 1, 4-9`."""
    runs: list[list[int]] = []
    for number in ascending:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    words: list[str] = []
    for run in runs:
        words += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run)
    return ", ".join(words)
