"""Nodes beside traffic of others: what a database holds of them, and who failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from nearmetal.fleet import sweep
from nearmetal.fleet.outliers import Effects, Suspect
from nearmetal.fleet.sweep import Odd, Refused, Stored
from nearmetal.model.congestion import KINDS, METRICS, NAMES
from nearmetal.results import Case
from nearmetal.util import typed_json


@dataclass(frozen=True)
class Row:
    """What traffic does to a metric. Ratios are times beside traffic over times alone."""

    #: The metric.
    words: str
    #: Its value without traffic, with its unit.
    alone: str
    #: Median over the victims.
    ratio: float | None
    #: Of the means.
    ratio_mean: float | None
    #: Of the quantiles of 99 %; None: too few samples.
    ratio_99: float | None
    #: Of the longest times.
    ratio_worst: float | None
    #: The victim with the largest ratio, and that ratio.
    worst_node: str
    worst_node_ratio: float | None


@dataclass(frozen=True)
class Congestion:
    """Victims beside traffic of a kind."""

    nodes: tuple[str, ...]
    victims: tuple[str, ...]
    #: One of KINDS.
    traffic: str
    repeats: int
    #: Name of a metric -> of each victim; NaN: none.
    ratios: dict[str, tuple[float, ...]]
    #: Nodes that failed, and why.
    dead: dict[str, str]
    #: Nodes with slots that were not done, and why.
    undone: dict[str, str]
    odd: Odd
    rows: tuple[Row, ...]
    refused: Refused = field(default_factory=dict)

    # Nothing is judged: a ratio has no node to blame.
    measures = ()
    switches = ()

    @property
    def effects(self) -> dict[str, Effects]:
        return {}

    def suspects(self, what: str, error: float) -> list[Suspect]:
        return []

    def failures(self) -> dict[str, str]:
        """Node -> why it failed."""
        return {node: f"it failed: {why}" for node, why in self.dead.items()}

    @property
    def left(self) -> list[str]:
        """What was not done, in sentences. What these nodes waited for is not known."""
        return [f"not done on {node}: {why}" for node, why in self.undone.items()]


def read(case: Case) -> Congestion:
    """The roles and ratios of a case. Raises SweepError."""
    with sweep.stored(case, "congestion") as data:
        nodes, victims = data.hosts(), data.hosts("victims")
        repeats = data.count("repeats", sweep.MOST_REPEATS)
        traffic = typed_json.text(data.data, "traffic", data.where)
        if traffic not in KINDS or not 1 < len(nodes) < sweep.MOST_NODES:
            raise ValueError(f"{repeats} repeats of {len(nodes)} nodes with traffic {traffic!r}")
        # Some nodes are left that generate the traffic.
        if not victims or not set(victims) < set(nodes):
            raise ValueError(f"{len(victims)} victims of {len(nodes)} nodes")
        ratios = {name: _ratios(data, name, len(victims)) for name in NAMES}
        return Congestion(
            nodes,
            victims,
            traffic,
            repeats,
            ratios,
            data.reasons("dead"),
            data.reasons("undone"),
            data.odd,
            tuple(_rows(case, victims, ratios)),
            data.refused,
        )


def _ratios(data: Stored, name: str, count: int) -> tuple[float, ...]:
    """Ratios of all victims; NaN for null. Raises ShapeError or ValueError."""
    where = f"{data.at('ratios')}.{name}"
    stored = typed_json.sequence(data.object("ratios").get(name), where)
    typed_json.numbers([ratio for ratio in stored if ratio is not None], where)
    # NumPy reads null as NaN, and a comparison with NaN is false.
    ratios = np.array(stored, dtype=float)
    if len(ratios) != count or np.any(ratios <= 0) or np.any(np.isinf(ratios)):
        raise ValueError(f"{where} has {len(stored)} ratios of {count} victims, or bad ones")
    return tuple(map(float, ratios))


def _rows(
    case: Case, victims: Sequence[str], ratios: Mapping[str, Sequence[float]]
) -> Iterator[Row]:
    """A row for each metric that the case has values of."""
    for metric in METRICS:
        alone = case.value(metric.name)
        own = np.array(ratios[metric.name])
        if alone is None or np.isnan(own).all():
            continue
        worst = int(np.nanargmax(own))
        yield Row(
            metric.words,
            f"{alone.value:.4g} {metric.unit}",
            _number(case, f"{metric.name}_ratio"),
            _number(case, f"{metric.name}_ratio_mean"),
            _number(case, f"{metric.name}_ratio_99"),
            _number(case, f"{metric.name}_ratio_worst"),
            victims[worst],
            float(own[worst]),
        )


def _number(case: Case, variable: str) -> float | None:
    if value := case.value(variable):
        return value.value
    return None
