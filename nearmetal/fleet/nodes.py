"""A sweep of what each node can do by itself: what a database holds of it, and who is slow."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from nearmetal.fleet import outliers, remeasured, repeats, sweep
from nearmetal.fleet.outliers import Effects, Suspect
from nearmetal.fleet.repeats import Repeats
from nearmetal.fleet.sweep import Odd, Refused, Stored
from nearmetal.model.node_metrics import LOST, METRICS, RATE, Metric
from nearmetal.results import Case
from nearmetal.stats.ranks import spread
from nearmetal.util import sanitize, typed_json

#: Most values of a metric: 100 repeats of the largest sweep.
MOST_VALUES = 100 * sweep.MOST_NODES
WORDS = {metric.name: metric.words for metric in METRICS}


@dataclass(frozen=True)
class NodeEffects(Effects):
    """What each node adds to the logarithm of the time; 0 is the fleet's median."""

    repeats: Repeats


@dataclass(frozen=True)
class NodeSweep:
    """The values of all nodes of a case."""

    nodes: tuple[str, ...]
    #: Name of a metric -> (repeats, n); NaN: none.
    values: dict[str, np.ndarray]
    repeats: int
    #: Node -> metric that failed in every repeat -> why.
    dead: dict[str, dict[str, str]]
    odd: Odd
    #: Name of the switch that each node is at; (): not known.
    switches: tuple[str, ...] = ()
    refused: Refused = field(default_factory=dict)

    #: What is judged apart.
    measures = tuple(metric.words for metric in METRICS)

    @cached_property
    def effects(self) -> dict[str, NodeEffects]:
        """Words of a metric -> what nodes add."""
        return {metric.words: effects(slowness(metric, self)) for metric in METRICS}

    def suspects(self, what: str, error: float) -> list[Suspect]:
        """The nodes that are slow in a metric."""
        own = self.effects[what]
        return outliers.of_nodes(own.values, own.repeats, error)

    def judged(
        self, what: str, suspects: Sequence[Suspect], second: NodeSweep
    ) -> remeasured.Judged:
        """The suspects that a second sweep shows again, and those that it cannot judge."""
        fresh = second.of_nodes(self.nodes).effects[what].values
        return remeasured.judged_nodes(suspects, fresh)

    def of_nodes(self, nodes: Sequence[str]) -> NodeSweep:
        """The values of these nodes, in this order; NaN for nodes that were not measured."""
        numbers = dict(zip(self.nodes, range(len(self.nodes))))
        places = [numbers.get(node, -1) for node in nodes]
        absent = np.array(places) < 0
        values = {}
        for name, matrix in self.values.items():
            values[name] = np.where(absent, np.nan, matrix[:, places])
        return replace(self, nodes=tuple(nodes), values=values, switches=())

    def failures(self) -> dict[str, str]:
        """Node -> what failed in every repeat, and why, in words."""
        return {node: _failure(reasons) for node, reasons in self.dead.items()}


def _failure(reasons: dict[str, str]) -> str:
    """`memory, noise failed: no answer; ...`, of metric -> reason."""
    metrics: dict[str, list[str]] = {}
    for name, why in reasons.items():
        metrics.setdefault(why, []).append(WORDS[name])
    return "; ".join(f"{', '.join(words)} failed: {why}" for why, words in metrics.items())


def slowness(metric: Metric, nodes: NodeSweep) -> np.ndarray:
    """(repeats, n) times for the same work: larger ones are worse."""
    values = nodes.values[metric.name]
    # Work takes longer by the time that is lost.
    if metric.kind == LOST:
        return 1 / (1 - values / 100)
    if metric.kind == RATE:
        return 1 / values
    return values


def effects(slow: np.ndarray) -> NodeEffects:
    """What nodes add to the logarithms of times, (repeats, n).

    The median of a repeat over the nodes is not theirs. A node has one of its quick repeats
    (`repeats.place`).
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a median of nothing is NaN
        logs = np.log(slow)
        logs = logs - np.nanmedian(logs, axis=1, keepdims=True)
        middle = np.nanmedian(logs, axis=0)
        found = repeats.of(logs)
        values = found.quick - np.nanmedian(found.quick)
    residual = (logs - middle)[np.isfinite(logs - middle)]
    # Medians of nodes and of repeats were taken out of the residuals.
    freedom = found.counts.sum() - np.count_nonzero(found.counts) - len(logs) + 1
    noise = 0.0
    if freedom >= 1:
        noise = float(spread(residual)) * math.sqrt(len(residual) / freedom)
    errors = outliers.MEDIAN_ERROR * noise / np.sqrt(np.maximum(found.counts, 1))
    return NodeEffects(values, errors, found)


def read(case: Case) -> NodeSweep:
    """The sweep of a case. Raises SweepError."""
    with sweep.stored(case, "node_values") as data:
        nodes = data.hosts()
        count = data.count("repeats", sweep.MOST_REPEATS)
        if not 1 < len(nodes) < sweep.MOST_NODES or count * len(nodes) > MOST_VALUES:
            raise ValueError(f"{count} repeats of {len(nodes)} nodes")
        values = {}
        for name in WORDS:
            column = data.values(name, count * len(nodes)).astype(float)
            # A node that loses all of its time does no work.
            if name == "noise" and np.nanmax(column, initial=0) >= 100:
                raise ValueError(f"{data.at(name)} is 100 % or more")
            values[name] = column.reshape(count, len(nodes))
        switches = data.switches(nodes)
        return NodeSweep(nodes, values, count, _dead(data), data.odd, switches, data.refused)


def _dead(data: Stored) -> dict[str, dict[str, str]]:
    """What failed of each node, and why. Raises ShapeError or ValueError."""
    dead: dict[str, dict[str, str]] = {}
    for node, failed in data.object("dead").items():
        place = f"{data.at('dead')}.{node}"
        for name, why in typed_json.mapping(failed, place).items():
            if name not in WORDS:
                raise ValueError(f"{place}: {name} is no metric")
            dead.setdefault(sweep.host(node), {})[name] = sanitize.line(str(why))
    return dead
