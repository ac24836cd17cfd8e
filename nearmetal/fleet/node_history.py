"""What nodes added to the times in earlier sweeps. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearmetal.fleet.findings import AnySweep
from nearmetal.fleet.outliers import Effects

#: Most sweeps that are read again.
MOST_SWEEPS = 60
#: Most links of all sweeps that are read again: each sweep is fitted (8192 nodes: 10 s).
MOST_LINKS = 40_000_000
#: Half width of a 95 % interval, in standard errors.
NORMAL = 1.96


@dataclass(frozen=True)
class Way:
    """What nodes add to the times of a metric, or of messages of one direction."""

    words: str
    effects: Effects


@dataclass(frozen=True)
class Percent:
    """A part of the time beyond the median of all nodes in percent, with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:+.1f} % ({self.low:+.1f} to {self.high:+.1f})"


@dataclass(frozen=True)
class Past:
    """What some nodes added in one sweep."""

    started: str
    #: Words of a way -> node -> its part.
    effects: dict[str, dict[str, Percent]]


def ways(sweep: AnySweep) -> list[Way]:
    """The ways in which nodes of a sweep can be slow; beside traffic, none is judged."""
    return [Way(words, effects) for words, effects in sweep.effects.items()]


def percent(way: Way, node: int) -> Percent | None:
    """A node's part; None if it was not measured."""
    effect, error = float(way.effects.values[node]), float(way.effects.errors[node])
    if math.isnan(effect):
        return None
    reach = NORMAL * error
    return Percent(*map(float, 100 * np.expm1([effect, effect - reach, effect + reach])))


def slowest(ways: Sequence[Way], count: int) -> list[int]:
    """Numbers of the nodes with the largest effects; nodes without any value come first."""
    effects = np.array([way.effects.values for way in ways])
    # Whoever gives no value is the most suspicious.
    worst = np.where(np.isnan(effects), math.inf, effects).max(axis=0)
    return list(map(int, np.argsort(-worst, kind="stable")[:count]))


def least_measured(sweep: AnySweep) -> int:
    """The number of nodes with a value, in the way that fewest nodes have one."""
    counts = [int(np.isfinite(effects.values).sum()) for effects in sweep.effects.values()]
    return min(counts, default=0)


def outlier(sweep: AnySweep) -> str:
    """The node that is farthest behind the median, in which way and by how much, in words."""
    farthest = (-math.inf, "no node has a value")
    for way in ways(sweep):
        for number, node in enumerate(sweep.nodes):
            if part := percent(way, number):
                words = f"{node} {part.value:+.0f} % ({way.words})"
                farthest = max(farthest, (part.value, words))
    return farthest[1]


class Collector:
    """Collects what some nodes added in sweeps, without keeping the sweeps."""

    def __init__(self, nodes: Sequence[str]):
        self.nodes = nodes
        self.found: list[Past] = []
        #: Whether MOST_SWEEPS or MOST_LINKS are reached.
        self.full = not nodes
        self._links = 0

    def add(self, started: str, sweep: AnySweep) -> None:
        """Add a sweep, unless these are enough. The first one always counts."""
        # A sweep of nodes costs as much as its links would: an upper bound.
        self._links += len(sweep.nodes) ** 2
        enough = bool(self.found) and self._links > MOST_LINKS
        self.full = self.full or enough or len(self.found) == MOST_SWEEPS
        if self.full:
            return
        places = dict(zip(sweep.nodes, range(len(sweep.nodes))))
        effects: dict[str, dict[str, Percent]] = {}
        for way in ways(sweep):
            parts = effects[way.words] = {}
            for node in self.nodes:
                if node in places and (part := percent(way, places[node])):
                    parts[node] = part
        self.found.append(Past(started, effects))
