"""CPU binding of the tasks of a launch, from ``src/binding.sh``."""

import re
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, bounded, whole

#: What each line of binding.sh begins with. Lines of others have no such mark.
MARK = "# nearmetal binding: "
LINE = re.compile(
    rf"{MARK}host=(\S+) task=(\d+) cores=([\d,]*) of=(\d+) numa=([\d,]*) of_numa=(\d+)", re.ASCII
)


@dataclass(frozen=True)
class Place:
    host: str
    task: int
    cores: frozenset[int]  #: cores that the task may run on
    node_cores: int  #: number of the node's cores that the job may use
    numa: frozenset[int]  #: NUMA nodes of these cores
    node_numa: int  #: number of the node's NUMA nodes that the job may use


@bounded
def parse_binding(text: str) -> list[Place]:
    """The place of every task, ordered by task number. Lines without our mark are skipped. Raises
    ParseError for a damaged line, and if there are no tasks."""
    places = []
    for line in _ours(text):
        if not (found := LINE.fullmatch(line.strip())):
            raise ParseError(
                f"{line!r} is not the binding of a task: is hwloc installed on every node?"
            )
        places.append(_place(line.strip(), *found.groups()))
    if not places:
        raise ParseError("no task reported its binding: see the job's stderr")
    places.sort(key=lambda place: place.task)
    if [place.task for place in places] != list(range(len(places))):
        raise ParseError(
            f"tasks {', '.join(str(place.task) for place in places)} report their binding, not "
            "each task once: lines were lost; see the job's stderr"
        )
    nodes: dict[str, tuple[int, int]] = {}
    for place in places:
        has = place.node_cores, place.node_numa
        if nodes.setdefault(place.host, has) != has:
            raise ParseError(
                f"{place.host} has {has[0]} cores and {has[1]} NUMA nodes by task {place.task}, "
                f"but {' and '.join(map(str, nodes[place.host]))} by another task: rerun"
            )
    return places


@bounded
def parse_bindings(text: str, processes: int) -> list[list[Place]]:
    """The places of each of several launches on so many processes. Raises ParseError as
    `parse_binding`, and if a launch is cut off."""
    lines = _ours(text)
    if not lines or len(lines) % processes:
        raise ParseError(
            f"{len(lines)} tasks reported their binding instead of {processes} in each launch: "
            "see the job's stderr"
        )
    starts = range(0, len(lines), processes)
    return [parse_binding("\n".join(lines[start : start + processes])) for start in starts]


def _ours(text: str) -> list[str]:
    return [line for line in text.splitlines() if MARK.strip() in line]


def _place(line: str, host, task, cores, of, numa, of_numa) -> Place:
    """The place in a line. Raises ParseError if hwloc's numbers do not fit the node."""
    counts = [whole(text, "a number from hwloc") for text in (task, of, of_numa)]
    place = Place(host, counts[0], _numbers(cores), counts[1], _numbers(numa), counts[2])
    # Logical numbers count from 0 the cores that the job may use.
    if not place.cores or max(place.cores) >= place.node_cores:
        raise ParseError(
            f"{line!r} names cores that the node does not have: digits were damaged; rerun"
        )
    if place.numa and max(place.numa) >= max(1, place.node_numa):
        raise ParseError(
            f"{line!r} names NUMA nodes that the node does not have: digits were damaged; rerun"
        )
    return place


def _numbers(text: str) -> frozenset[int]:
    numbers = [whole(number, "a core or NUMA node") for number in text.split(",") if number]
    if len(set(numbers)) != len(numbers):
        raise ParseError(f"{text!r} names a core or NUMA node twice: digits were damaged; rerun")
    return frozenset(numbers)


def differs(places: list[Place], wanted: str, threads: int = 1) -> str:
    """A sentence about the first task that is not bound as wanted; '' if all tasks are.

    :arg wanted: `none`: every task may run on all cores of its node. `core`: every task has cores
        that no other task has. `numa`: every task may run on all cores of one NUMA node.
    :arg threads: threads of a task; each needs a core.
    """
    for place in places:
        who = (
            f"task {place.task} on {place.host} may run on {len(place.cores)} of "
            f"{place.node_cores} cores"
        )
        if wanted == "none" and len(place.cores) < place.node_cores:
            return f"{who}, although it should be unbound"
        if len(place.cores) < min(threads, place.node_cores):
            return f"{who}, although it has {threads} threads"
        if (
            wanted != "none"
            and len(place.cores) == place.node_cores > threads
            and (wanted == "core" or place.node_numa > 1)
        ):
            return f"{who}: it is not bound"
        if wanted == "numa" and len(place.numa) != 1:
            return (
                f"task {place.task} on {place.host} may run on {len(place.numa)} NUMA nodes "
                "instead of one"
            )
    groups = shared(places) if wanted == "core" else []
    if not groups:
        return ""
    host, tasks, cores = groups[0]
    return f"tasks {tasks[0]} and {tasks[1]} share core {cores[0]} of {host}"


def shared(places: list[Place]) -> list[tuple[str, list[int], list[int]]]:
    """The cores that tasks of a node have in common, as (host, tasks, cores)."""
    tasks: dict[tuple[str, int], list[int]] = {}
    for place in places:
        for core in place.cores:
            tasks.setdefault((place.host, core), []).append(place.task)
    groups: dict[tuple[str, tuple[int, ...]], list[int]] = {}
    for (host, core), of_core in sorted(tasks.items()):
        if len(of_core) > 1:
            groups.setdefault((host, tuple(of_core)), []).append(core)
    return [(host, list(of_cores), cores) for (host, of_cores), cores in groups.items()]


def faults(places: list[Place], wanted: str) -> str:
    """As `differs`, but with all tasks that share cores, and these cores."""
    groups = shared(places) if wanted == "core" else []
    said = [
        f"on {host}, tasks {_ranges(tasks)} share core{'s' * (len(cores) > 1)} {_ranges(cores)}"
        for host, tasks, cores in groups
    ]
    return "; ".join(said) or differs(places, wanted)


def bound_percent(places: list[Place], wanted: str) -> float:
    """The percentage of tasks that are bound as wanted: `core` or `numa`."""
    groups = shared(places) if wanted == "core" else []
    sharing = {task for _, tasks, _ in groups for task in tasks}
    good = [place for place in places if place.task not in sharing and not differs([place], wanted)]
    return 100 * len(good) / len(places)


def _ranges(numbers: list[int]) -> str:
    """Ascending numbers such as `0, 1, 4-9`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(
        f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs
    )
