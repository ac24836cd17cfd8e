"""What nodes added to the times in earlier sweeps. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nearmetal.fleet import outliers
from nearmetal.fleet.congestion import Congestion
from nearmetal.fleet.findings import AnySweep
from nearmetal.fleet.nodes import NodeSweep
from nearmetal.fleet.sweep import BANDWIDTH, LATENCY

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
    effects: np.ndarray  #: (n,) logarithms; NaN: not measured
    errors: np.ndarray  #: (n,) standard errors by the noise alone


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
    effects: dict[str, dict[str, Percent]]  #: words of a way -> node -> its part


def ways(one: AnySweep) -> list[Way]:
    """The ways in which nodes of a sweep can be slow; beside traffic, none is judged."""
    if isinstance(one, Congestion):
        return []
    if isinstance(one, NodeSweep):
        return [Way(words, found.values, found.errors) for words, found in one.effects.items()]
    latency, bandwidth = one.fits[LATENCY], one.fits[BANDWIDTH]
    return [
        Way(LATENCY, latency.out, outliers.errors(latency)),
        Way(f"{BANDWIDTH}, sends", bandwidth.out, outliers.errors(bandwidth)),
        Way(f"{BANDWIDTH}, receives", bandwidth.into, outliers.errors(bandwidth, axis=0)),
    ]


def percent(way: Way, node: int) -> Percent | None:
    """A node's part; None if it was not measured."""
    effect, error = float(way.effects[node]), float(way.errors[node])
    if math.isnan(effect):
        return None
    ends = (100 * math.expm1(effect + sign * NORMAL * error) for sign in (0, -1, 1))
    return Percent(*ends)


def slowest(found: Sequence[Way], count: int) -> list[int]:
    """Numbers of the nodes with the largest effects; nodes without any value come first."""
    effects = np.array([way.effects for way in found])
    worst = np.where(np.isnan(effects), math.inf, effects).max(axis=0)
    return list(map(int, np.argsort(-worst, kind="stable")[:count]))


def least_measured(one: AnySweep) -> int:
    """The number of nodes with a value, in the way that fewest nodes have one."""
    return min((int(np.isfinite(way.effects).sum()) for way in ways(one)), default=0)


def outlier(one: AnySweep) -> str:
    """The node that is farthest behind the median, in which way and by how much, in words."""
    found = [
        (part.value, f"{one.nodes[node]} {part.value:+.0f} % ({way.words})")
        for way in ways(one)
        for node in range(len(one.nodes))
        if (part := percent(way, node))
    ]
    return max(found, default=(0.0, "no node has a value"))[1]


class Collector:
    """Collects what some nodes added in sweeps, without keeping the sweeps."""

    def __init__(self, nodes: Sequence[str]):
        self.nodes = nodes
        self.found: list[Past] = []
        self.full = not nodes  #: whether MOST_SWEEPS or MOST_LINKS are reached
        self._links = 0

    def add(self, started: str, one: AnySweep) -> None:
        """Add a sweep, unless these are enough. The first one always counts."""
        self._links += len(one.nodes) ** 2
        enough = bool(self.found) and self._links > MOST_LINKS
        self.full = self.full or enough or len(self.found) == MOST_SWEEPS
        if self.full:
            return
        places = {node: place for place, node in enumerate(one.nodes)}
        effects: dict[str, dict[str, Percent]] = {}
        for way in ways(one):
            known = ((node, percent(way, places[node])) for node in self.nodes if node in places)
            effects[way.words] = {node: part for node, part in known if part}
        self.found.append(Past(started, effects))
