"""How far a benchmark scales: its speed-up, and the processes and nodes beyond which more of them
gain nothing.

Both are derived from the medians and are no variables: the rates and efficiencies say the same, and
the gate would share its error among twice as many variables.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from nearmetal.compare.published import Figure
from nearmetal.model import naming
from nearmetal.results import Case, Session, Value

#: Unit of a speed-up (nearmetal/model/units.yaml).
UNIT = "x fewest processes"
#: Name of a parallel efficiency: size, processes, threads of a process.
EFFICIENCY = re.compile(r"efficiency_(\w+)_(\d+)(x\d+)?")
#: Name of a rate: class, processes, threads of a process.
RATE = re.compile(r"mops_([A-Z])_(\d+)(?:x(\d+))?")
#: Published quantities that `Reach` has too.
QUANTITIES = ("scales_to", "nodes_to_beat_one_node")


def with_speedups(values: Iterable[Value]) -> Iterator[Value]:
    """The values of one case, and behind each parallel efficiency its speed-up.

    An efficiency has none if the case lacks the rate or time of the fewest processes.
    """
    values = list(values)
    for value in values:
        yield value
        match = EFFICIENCY.fullmatch(value.variable)
        if match is None:
            continue
        size, processes, threads = match.groups(default="")
        # An efficiency is relative to the fewest processes, which need not be one.
        fewest = _fewest(values, size, threads)
        if fewest:
            yield _speedup(value, int(processes) / fewest)


def _speedup(efficiency: Value, ideal: float) -> Value:
    samples = [sample / 100 * ideal for sample in efficiency.samples]
    return replace(
        efficiency,
        variable=efficiency.variable.replace("efficiency_", "speedup_", 1),
        unit=UNIT,
        value=efficiency.value / 100 * ideal,
        samples=tuple(samples),
        within=(),
    )


def _fewest(values: list[Value], size: str, threads: str) -> int | None:
    """The fewest processes with a rate or time of this size and these threads."""
    name = re.compile(rf"(?!efficiency_)[a-z]+_{re.escape(size)}_(\d+){threads}")
    counts = []
    for value in values:
        if match := name.fullmatch(value.variable):
            counts.append(int(match[1]))
    return min(counts, default=None)


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
        check = naming.base_name(self.case.check)
        for figure in figures:
            same = figure.check == check and {**wanted, **figure.parameters} == wanted
            if same and figure.variable in QUANTITIES:
                yield figure


def reaches(session: Session) -> list[Reach]:
    """How far each benchmark scales that ran on several numbers of processes."""
    reached = []
    for case in session.measured:
        rates: dict[tuple[str, str], dict[int, float]] = {}
        for value in case.values:
            if match := RATE.fullmatch(value.variable):
                size, count, threads = match.groups(default="")
                rates.setdefault((size, threads), {})[int(count)] = value.value
        for (size, threads), by_count in rates.items():
            if len(by_count) > 1:
                reached.append(_reach(case, size, threads, by_count))
    return reached


def _reach(case: Case, size: str, threads: str, rates: dict[int, float]) -> Reach:
    counts = tuple(sorted(rates))
    nodes = _nodes_to_beat_one_node(rates, int(case.workload.get("processes_per_node", 0)))
    return Reach(case, size, threads, counts, max(counts, key=rates.__getitem__), nodes)


def _nodes_to_beat_one_node(rates: dict[int, float], per_node: int) -> int | None:
    """The fewest; 0 processes a node: unknown."""
    on_one_node = -math.inf
    for count, rate in sorted(rates.items()):
        if count <= per_node:
            on_one_node = max(on_one_node, rate)
        elif math.isinf(on_one_node):
            return None
        elif rate > on_one_node:
            # A job fills each node before the next one.
            return -(-count // per_node)
    return None
