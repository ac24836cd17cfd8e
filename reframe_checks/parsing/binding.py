"""Where the tasks of a launch may run, from ``src/binding.sh``."""

import re
from dataclasses import dataclass
from itertools import combinations

from . import ParseError

LINE = re.compile(r"(\S+) task=(\d+) cores=([\d,]*) of=(\d+) numa=([\d,]*) of_numa=(\d+)")


@dataclass(frozen=True)
class Place:
    host: str
    task: int
    cores: frozenset[int]  #: it may run on
    node_cores: int  #: that its node has for us
    numa: frozenset[int]
    node_numa: int


def parse_binding(text: str) -> list[Place]:
    """Every task's place, by task number. ParseError for a line that is none, or where there are no tasks."""
    places = []
    for line in filter(str.strip, text.splitlines()):
        if not (found := LINE.fullmatch(line.strip())):
            raise ParseError(
                f"{line!r} does not tell where a task runs: is hwloc installed on every node?"
            )
        host, task, cores, of, numa, of_numa = found.groups()
        places.append(
            Place(host, int(task), _numbers(cores), int(of), _numbers(numa), int(of_numa))
        )
    if not places:
        raise ParseError("no task told where it runs: see the job's stderr")
    return sorted(places, key=lambda place: place.task)


def _numbers(text: str) -> frozenset[int]:
    return frozenset(int(number) for number in text.split(",") if number)


def differs(places: list[Place], wanted: str, threads: int = 1) -> str:
    """What is not as wanted, in words; empty if all is.

    :arg wanted: `none`: every task on all cores of its node; `core`: each on cores of its own, no other task's; `numa`: each on
        all cores of one NUMA node.
    :arg threads: of a task, each of which is to have a core.
    """
    for place in places:
        who = f"task {place.task} on {place.host} may run on {len(place.cores)} of {place.node_cores} cores"
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
            return f"task {place.task} on {place.host} may run on {len(place.numa)} NUMA nodes instead of one"
    if wanted == "core":
        for one, other in combinations(places, 2):
            if one.host == other.host and one.cores & other.cores:
                return f"tasks {one.task} and {other.task} share core {min(one.cores & other.cores)} of {one.host}"
    return ""
