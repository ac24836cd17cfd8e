"""Nodes beside traffic of others: what a database holds of them, and who failed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from nearmetal.fleet import sweep
from nearmetal.fleet.sweep import Odd, Refused, SweepError
from nearmetal.model.congestion import KINDS, METRICS, NAMES
from nearmetal.results import Case
from nearmetal.util import typed_json


@dataclass(frozen=True)
class Row:
    """What traffic does to a metric. Ratios are times beside traffic over times alone."""

    words: str  #: the metric
    alone: str  #: its value without traffic, with its unit
    ratio: float | None  #: median over the victims
    ratio_mean: float | None  #: of the means
    ratio_99: float | None  #: of the quantiles of 99 %; None: too few samples
    ratio_worst: float | None  #: of the longest times
    worst_node: str  #: the victim with the largest ratio
    worst_node_ratio: float | None


@dataclass(frozen=True)
class Congestion:
    """Victims beside traffic of a kind."""

    nodes: tuple[str, ...]
    victims: tuple[str, ...]
    traffic: str  #: one of KINDS
    repeats: int
    ratios: dict[str, tuple[float, ...]]  #: name of a metric -> of each victim; NaN: none
    dead: dict[str, str]  #: nodes that failed, and why
    undone: dict[str, str]  #: nodes with slots that were not done, and why
    odd: Odd  #: as of sweep.Sweep
    rows: tuple[Row, ...]
    refused: Refused = field(default_factory=dict)

    #: Nothing is judged: a ratio has no node to blame.
    measures = ()
    switches = ()

    def failures(self) -> dict[str, str]:
        """Node -> why it failed."""
        return {node: f"it failed: {why}" for node, why in self.dead.items()}

    @property
    def left(self) -> list[str]:
        """What was not done, in sentences. What these nodes waited for is not known."""
        return [f"not done on {node}: {why}" for node, why in self.undone.items()]


def read(case: Case) -> Congestion:
    """The roles and ratios of a case. Raises SweepError."""
    where, data = f"{' | '.join(case.where)}: congestion", case.congestion
    try:
        nodes = sweep.hosts(data, where)
        victims = sweep.hosts(data, where, "victims")
        repeats = typed_json.count(data, "repeats", where, sweep.MOST_REPEATS)
        traffic = typed_json.text(data, "traffic", where)
        if traffic not in KINDS or not 1 < len(nodes) < sweep.MOST_NODES:
            raise ValueError(f"{repeats} repeats of {len(nodes)} nodes with traffic {traffic!r}")
        if not victims or not set(victims) < set(nodes):
            raise ValueError(f"{len(victims)} victims of {len(nodes)} nodes")
        given = typed_json.mapping(data.get("ratios"), f"{where}.ratios")
        ratios = {name: _ratios(given, name, len(victims), f"{where}.ratios") for name in NAMES}
        dead, undone = (sweep.reasons_of(data, key, where) for key in ("dead", "undone"))
        refused = sweep.refused_of(data, where)
        odd = sweep.odd_of(typed_json.mapping(data.get("odd", {}), f"{where}.odd"), f"{where}.odd")
    except (typed_json.ShapeError, ValueError, LookupError) as error:
        raise SweepError(f"{where}: the stored values cannot be read ({error})") from None
    rows = tuple(_rows(case, victims, ratios))
    return Congestion(nodes, victims, traffic, repeats, ratios, dead, undone, odd, rows, refused)


def _ratios(data: Mapping, name: str, count: int, where: str) -> tuple[float, ...]:
    """Ratios of all victims. Raises ShapeError or ValueError."""
    given = typed_json.sequence(data.get(name), f"{where}.{name}")
    typed_json.numbers([one for one in given if one is not None], f"{where}.{name}")
    found = tuple(math.nan if one is None else float(one) for one in given)
    if len(found) != count or any(one <= 0 or math.isinf(one) for one in found):
        raise ValueError(f"{where}.{name} has {len(found)} ratios of {count} victims, or bad ones")
    return found


def _rows(case: Case, victims: Sequence[str], ratios: Mapping[str, Sequence[float]]):
    """A row for each metric that the case has values of."""
    values = {value.variable: value for value in case.values}
    for metric in METRICS:
        known = [(ratio, node) for ratio, node in zip(ratios[metric.name], victims) if ratio > 0]
        if metric.name not in values or not known:
            continue
        ratio, node = max(known)
        middle, mean, high, worst = (
            values[name].value if name in values else None
            for name in (f"{metric.name}_ratio{tail}" for tail in ("", "_mean", "_99", "_worst"))
        )
        alone = f"{values[metric.name].value:.4g} {metric.unit}"
        yield Row(metric.words, alone, middle, mean, high, worst, node, ratio)
