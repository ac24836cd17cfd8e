"""Where the tasks of a launch may run, from ``src/binding.sh``."""

import re
from dataclasses import dataclass
from itertools import combinations

from nearmetal.checks.parsing import ParseError, whole

LINE = re.compile(r"(\S+) task=(\d+) cores=([\d,]*) of=(\d+) numa=([\d,]*) of_numa=(\d+)", re.ASCII)


@dataclass(frozen=True)
class Place:
    host: str
    task: int
    cores: frozenset[int]  #: it may run on
    node_cores: int  #: that its node has for us
    numa: frozenset[int]
    node_numa: int


def parse_binding(text: str) -> list[Place]:
    """Every task's place, by task number. ParseError for a line that is none, or where there are no
    tasks."""
    places = []
    for line in filter(str.strip, text.splitlines()):
        if not (found := LINE.fullmatch(line.strip())):
            raise ParseError(
                f"{line!r} does not tell where a task runs: is hwloc installed on every node?"
            )
        places.append(_place(line.strip(), *found.groups()))
    if not places:
        raise ParseError("no task told where it runs: see the job's stderr")
    places.sort(key=lambda place: place.task)
    if [place.task for place in places] != list(range(len(places))):
        raise ParseError(
            f"tasks {', '.join(str(place.task) for place in places)} tell where they run, not "
            "each of them once: lines were lost; see the job's stderr"
        )
    nodes: dict[str, tuple[int, int]] = {}
    for place in places:
        has = place.node_cores, place.node_numa
        if nodes.setdefault(place.host, has) != has:
            raise ParseError(
                f"{place.host} has {has[0]} cores to task {place.task} and {nodes[place.host][0]} "
                "to another: rerun"
            )
    return places


def _place(line: str, host, task, cores, of, numa, of_numa) -> Place:
    """ParseError where hwloc's numbers do not fit the node."""
    counts = [whole(text, "a number of hwloc's") for text in (task, of, of_numa)]
    place = Place(host, counts[0], _numbers(cores), counts[1], _numbers(numa), counts[2])
    # Logical numbers count from 0 what the node has for us.
    if not place.cores or max(place.cores) >= place.node_cores:
        raise ParseError(
            f"{line!r} names other cores than the node has: digits were damaged; rerun"
        )
    if place.numa and max(place.numa) >= max(1, place.node_numa):
        raise ParseError(
            f"{line!r} names other NUMA nodes than the node has: digits were damaged; rerun"
        )
    return place


def _numbers(text: str) -> frozenset[int]:
    numbers = [whole(number, "a core or NUMA node") for number in text.split(",") if number]
    if len(set(numbers)) != len(numbers):
        raise ParseError(f"{text!r} names a core or NUMA node twice: digits were damaged; rerun")
    return frozenset(numbers)


def differs(places: list[Place], wanted: str, threads: int = 1) -> str:
    """What is not as wanted, in words; empty if all is.

    :arg wanted: `none`: every task on all cores of its node; `core`: each on cores of its own, no
    other task's; `numa`: each on
        all cores of one NUMA node.
    :arg threads: of a task, each of which is to have a core.
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
    if wanted == "core":
        for one, other in combinations(places, 2):
            if one.host == other.host and one.cores & other.cores:
                return (
                    f"tasks {one.task} and {other.task} share core {min(one.cores & other.cores)} "
                    f"of {one.host}"
                )
    return ""
