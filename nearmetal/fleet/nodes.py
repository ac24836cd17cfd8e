"""A sweep of what each node can do by itself: what a database holds of it, and who is slow."""

from __future__ import annotations

import binascii
import math
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from nearmetal.fleet import outliers, remeasured, repeats, sweep
from nearmetal.fleet.outliers import Suspect
from nearmetal.fleet.repeats import Repeats
from nearmetal.fleet.sweep import Odd, Refused, SweepError
from nearmetal.model.node_metrics import LOST, METRICS, RATE, Metric
from nearmetal.results import Case
from nearmetal.stats.ranks import spread
from nearmetal.util import sanitize, typed_json

#: Most values of a metric: 100 repeats of the largest sweep.
MOST_VALUES = 100 * sweep.MOST_NODES
WORDS = {metric.name: metric.words for metric in METRICS}


@dataclass(frozen=True)
class Effects:
    """What each node adds to the logarithm of the time; 0 is the fleet's median."""

    values: np.ndarray  #: (n,); NaN: not measured
    errors: np.ndarray  #: (n,) standard errors, by the noise between repeats alone
    repeats: Repeats


@dataclass(frozen=True)
class NodeSweep:
    """The values of all nodes of a case."""

    nodes: tuple[str, ...]
    values: dict[str, np.ndarray]  #: name of a metric -> (repeats, n); NaN: none
    repeats: int
    dead: dict[str, dict[str, str]]  #: node -> metric that failed in every repeat -> why
    odd: Odd  #: as of sweep.Sweep
    switches: tuple[str, ...] = ()  #: name of the switch that each node is at; (): not known
    refused: Refused = field(default_factory=dict)

    #: What is judged apart.
    measures = tuple(metric.words for metric in METRICS)

    @cached_property
    def effects(self) -> dict[str, Effects]:
        """Words of a metric -> what nodes add."""
        return {metric.words: effects(slowness(metric, self)) for metric in METRICS}

    def suspects(self, what: str, error: float) -> list[Suspect]:
        """The nodes that are slow in a metric."""
        found = self.effects[what]
        return outliers.of_nodes(found.values, found.repeats, error)

    def judged(
        self, what: str, suspects: Sequence[Suspect], second: NodeSweep
    ) -> remeasured.Judged:
        """The suspects that a second sweep shows again, and those that it cannot judge."""
        fresh = second.of_nodes(self.nodes).effects[what].values
        return remeasured.judged_nodes(suspects, fresh)

    def of_nodes(self, nodes: Sequence[str]) -> NodeSweep:
        """The values of these nodes, in this order; NaN for nodes that were not measured."""
        places = [self.nodes.index(node) if node in self.nodes else -1 for node in nodes]
        values = {
            name: np.where(np.array(places) < 0, np.nan, found[:, places])
            for name, found in self.values.items()
        }
        return replace(self, nodes=tuple(nodes), values=values, switches=())

    def failures(self) -> dict[str, str]:
        """Node -> what failed in every repeat, and why, in words."""
        found = {}
        for node, failed in self.dead.items():
            reasons: dict[str, list[str]] = {}
            for name, why in failed.items():
                reasons.setdefault(why, []).append(WORDS[name])
            found[node] = "; ".join(
                f"{', '.join(names)} failed: {why}" for why, names in reasons.items()
            )
        return found


def slowness(metric: Metric, one: NodeSweep) -> np.ndarray:
    """(repeats, n) times for the same work: larger ones are worse."""
    values = one.values[metric.name]
    if metric.kind == LOST:
        return 1 / (1 - values / 100)
    return 1 / values if metric.kind == RATE else values


def effects(slow: np.ndarray) -> Effects:
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
    freedom = found.counts.sum() - np.count_nonzero(found.counts) - len(logs) + 1
    noise = 0.0
    if freedom >= 1:
        noise = float(spread(residual)) * math.sqrt(len(residual) / freedom)
    errors = outliers.MEDIAN_ERROR * noise / np.sqrt(np.maximum(found.counts, 1))
    return Effects(values, errors, found)


def read(case: Case) -> NodeSweep:
    """The sweep of a case. Raises SweepError."""
    where, data = f"{' | '.join(case.where)}: node_values", case.node_values
    try:
        nodes = sweep.hosts(data, where)
        repeats = typed_json.count(data, "repeats", where, sweep.MOST_REPEATS)
        if not 1 < len(nodes) < sweep.MOST_NODES or repeats * len(nodes) > MOST_VALUES:
            raise ValueError(f"{repeats} repeats of {len(nodes)} nodes")
        values = {
            name: _matrix(data, name, (repeats, len(nodes)), f"{where}.{name}") for name in WORDS
        }
        dead = _dead(typed_json.mapping(data.get("dead"), f"{where}.dead"), f"{where}.dead")
        odd = sweep.odd_of(typed_json.mapping(data.get("odd", {}), f"{where}.odd"), f"{where}.odd")
        named = typed_json.sequence(data.get("switches", []), f"{where}.switches")
        switches = tuple(sanitize.line(str(name)) for name in named)
        refused = sweep.refused_of(data, where)
    except (typed_json.ShapeError, binascii.Error, zlib.error, ValueError, LookupError) as error:
        raise SweepError(f"{where}: the stored values cannot be read ({error})") from None
    if len(switches) not in (0, len(nodes)):
        raise SweepError(f"{where}: {len(switches)} switches of {len(nodes)} nodes: rerun")
    return NodeSweep(nodes, values, repeats, dead, odd, switches, refused)


def _matrix(data: Mapping, name: str, form: tuple[int, int], where: str) -> np.ndarray:
    """The values of a metric, (repeats, n). Raises ShapeError, ValueError and others."""
    packed = typed_json.mapping(data.get(name), where)
    found = sweep.unpacked(packed, form[0] * form[1], where).astype(float)
    if name == "noise" and np.nanmax(found, initial=0) >= 100:
        raise ValueError(f"{where} is 100 % or more")
    return found.reshape(form)


def _dead(data: Mapping, where: str) -> dict[str, dict[str, str]]:
    """What failed of each node, and why. Raises ShapeError or ValueError."""
    found: dict[str, dict[str, str]] = {}
    for node, failed in data.items():
        place = f"{where}.{node}"
        for name, why in typed_json.mapping(failed, place).items():
            if name not in WORDS:
                raise ValueError(f"{place}: {name} is no metric")
            found.setdefault(sweep.host(node), {})[name] = sanitize.line(str(why))
    return found
