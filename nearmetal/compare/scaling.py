"""How far a benchmark scales: the processes and nodes beyond which more of them gain nothing.

Derived from the medians of the rates. They are no variables: a number of processes has no noise
that the gate could judge, and the rates say the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from nearmetal.compare.published import Figure
from nearmetal.results import Case, Session, Value

#: Name of a rate: class, processes, threads of a process.
RATE = re.compile(r"mops_([A-Z])_(\d+)(?:x(\d+))?")
#: Published quantities that `Reach` has too.
QUANTITIES = ("scales_to", "nodes_to_beat_one_node")


@dataclass(frozen=True)
class Reach:
    """How far one benchmark of one case scales."""

    case: Case
    size: str  #: its class
    threads: str  #: of a process; '' where the program has none
    counts: tuple[int, ...]  #: processes that were measured, ascending
    scales_to: int  #: processes of the highest rate; of equal rates, the fewest
    #: Fewest nodes that are faster than one node. None: no measured number is, or the case does
    #: not say how many processes a node has.
    nodes_to_beat_one_node: int | None

    @property
    def open_ended(self) -> bool:
        """Whether the most processes were the fastest, so that still more may gain."""
        return self.scales_to == self.counts[-1]

    def beside(self, figures: Iterable[Figure]) -> Iterator[Figure]:
        """The published figures of the same benchmark and class."""
        wanted = {"benchmark": self.case.parameters.get("benchmark"), "class": self.size}
        check = self.case.check.split(" ", 1)[0]
        for figure in figures:
            same = figure.check == check and {**wanted, **figure.parameters} == wanted
            if same and figure.variable in QUANTITIES:
                yield figure


def reaches(session: Session | None) -> list[Reach]:
    """How far each benchmark scales that ran on several numbers of processes."""
    found = []
    for case in session.cases if session else ():
        rates: dict[tuple[str, str], dict[int, float]] = {}
        for size, threads, count, rate in _rates(case.values if case.measured else ()):
            rates.setdefault((size, threads), {})[count] = rate
        per_node = case.workload.get("processes_per_node")
        for (size, threads), by_count in rates.items():
            if len(by_count) > 1:
                found.append(_reach(case, size, threads, by_count, per_node))
    return found


def _rates(values: Iterable[Value]) -> Iterator[tuple[str, str, int, float]]:
    for value in values:
        if named := RATE.fullmatch(value.variable):
            yield named[1], named[3] or "", int(named[2]), value.value


def _reach(case: Case, size: str, threads: str, rates: dict[int, float], per_node) -> Reach:
    counts = tuple(sorted(rates))
    nodes = _nodes_to_beat_one_node(rates, int(per_node)) if per_node else None
    return Reach(case, size, threads, counts, max(counts, key=rates.__getitem__), nodes)


def _nodes_to_beat_one_node(rates: dict[int, float], per_node: int) -> int | None:
    """A job fills each node before the next one."""
    alone = max((rate for count, rate in rates.items() if count <= per_node), default=None)
    faster = [
        -(-count // per_node)
        for count, rate in rates.items()
        if count > per_node and alone is not None and rate > alone
    ]
    return min(faster, default=None)
