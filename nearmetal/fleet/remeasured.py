"""Judges suspects by a second sweep of the same nodes. Pure functions.

What noise alone made slow is quick again: fresh values were not selected for being slow. Suspects
and healthy links are measured in one job, so that a slow hour is no finding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from nearmetal.fleet.model import Fit, median
from nearmetal.fleet.outliers import (
    BOTH,
    INTO,
    MEDIAN_ERROR,
    OUT,
    Suspect,
    errors,
    natural_variance,
    scale,
)
from nearmetal.stats.plan import CONFIRMATION_ERROR, THRESHOLD
from nearmetal.stats.ranks import SPREAD_EFFICIENCY, spread

#: Most healthy nodes whose links show how healthy links vary: enough of them, in little memory.
MOST_SENDERS = 64
#: Fewest links that show it.
LEAST_HEALTHY = 3
#: Suspects that fresh values show again, and those that they cannot judge.
Judged = tuple[list[Suspect], list[Suspect]]


def judged(suspects: Sequence[Suspect], fit: Fit, slowness: np.ndarray) -> Judged:
    """The suspects that fresh values show again, with the change and the p-value of these.

    A suspect's median is compared with that of the healthy links. What healthy nodes differ by
    nature is known from the first sweep. The whole error is plan.CONFIRMATION_ERROR, shared
    equally. A suspect without a fresh value is not judged, and none is without healthy links.
    The ends of a suspected link are healthy nodes: noise makes a link of most nodes suspected.

    :arg fit: of the first sweep, which knows how healthy nodes and near and far links differ.
    :arg slowness: (n, n) fresh values, as of the first sweep (model.fit).
    """
    held = {node for one in suspects if one.kind != "link" for node in one.nodes}
    quiet = [node for node in range(len(fit.out)) if node not in held]
    senders = quiet[:: -(-len(quiet) // MOST_SENDERS) or 1]
    healthy = _known(_of_healthy(suspects, fit, slowness, held, senders, quiet))
    if len(healthy) < LEAST_HEALTHY:
        return [], list(suspects)
    noise, natural = float(spread(healthy)), natural_variance(fit.out, errors(fit))
    freedom = max(1.0, SPREAD_EFFICIENCY * (len(healthy) - 1))
    found, unknown = [], []
    for one in suspects:
        own = _known(_of(one, fit, slowness, held, quiet))
        if not len(own):
            unknown.append(one)
            continue
        shift = median(own) - median(healthy)
        variance = noise**2 * (_of_median(len(own)) + _of_median(len(healthy)))
        if one.kind != "link":
            variance += natural
        deviation = math.sqrt(variance)
        p = float(special.stdtr(freedom, -shift / deviation)) if deviation else float(shift <= 0)
        if p <= CONFIRMATION_ERROR / len(suspects) and shift > math.log1p(THRESHOLD):
            found.append(replace(one, change=math.expm1(shift), p=p))
    return found, unknown


def judged_nodes(suspects: Sequence[Suspect], effects: np.ndarray) -> Judged:
    """The nodes that fresh values show again, with the change and the p-value of these.

    A node is compared with the others, which show how healthy nodes vary in the second sweep. The
    whole error is plan.CONFIRMATION_ERROR, shared equally. A suspect without a fresh value is not
    judged, and none is without healthy nodes.

    :arg effects: (n,) logarithms of fresh times; NaN: not measured.
    """
    quiet = effects.copy()
    quiet[[node for one in suspects for node in one.nodes]] = np.nan
    healthy = _known(quiet)
    if len(healthy) < LEAST_HEALTHY:
        return [], list(suspects)
    deviation, freedom = scale(healthy)
    deviation *= math.sqrt(1 + _of_median(len(healthy)))
    found, unknown = [], []
    for one in suspects:
        shift = float(effects[one.nodes[0]]) - median(healthy)
        if not math.isfinite(shift):
            unknown.append(one)
            continue
        p = float(special.stdtr(freedom, -shift / deviation)) if deviation else float(shift <= 0)
        if p <= CONFIRMATION_ERROR / len(suspects) and shift > math.log1p(THRESHOLD):
            found.append(replace(one, change=math.expm1(shift), p=p))
    return found, unknown


def _of_healthy(
    suspects: Sequence[Suspect],
    fit: Fit,
    slowness: np.ndarray,
    held: set[int],
    senders: Sequence[int],
    quiet: Sequence[int],
) -> np.ndarray:
    """Shifts of the links between healthy nodes, (senders, quiet); NaN for suspected links."""
    shifts = _shifts(fit, slowness, held, senders, quiet)
    rows, columns = (
        {node: place for place, node in enumerate(nodes)} for nodes in (senders, quiet)
    )
    for one in suspects:
        for sender, receiver in (one.nodes, one.nodes[::-1]) if one.kind == "link" else ():
            if sender in rows and receiver in columns:
                shifts[rows[sender], columns[receiver]] = np.nan
    return shifts


def _of(
    one: Suspect, fit: Fit, slowness: np.ndarray, held: set[int], quiet: Sequence[int]
) -> np.ndarray:
    """Shifts of a suspect's links: a link's own, else those with healthy nodes."""
    near: Sequence[int] = one.nodes
    far = quiet
    if one.kind == "link":
        near, far = one.nodes[:1], one.nodes[1:]
    parts = []
    if one.direction in (OUT, BOTH):
        parts.append(_shifts(fit, slowness, held, near, far).ravel())
    if one.direction in (INTO, BOTH):
        parts.append(_shifts(fit, slowness, held, far, near).ravel())
    return np.concatenate(parts)


def _shifts(
    fit: Fit,
    slowness: np.ndarray,
    held: set[int],
    senders: Sequence[int],
    receivers: Sequence[int],
) -> np.ndarray:
    """Logarithms of the values beyond what healthy nodes would have, (senders, receivers)."""
    rows, columns = np.array(senders, dtype=int), np.array(receivers, dtype=int)
    expected = fit.expected(rows, columns, held)
    return np.log(slowness[np.ix_(rows, columns)]) - expected


def _known(values: np.ndarray) -> np.ndarray:
    return values[np.isfinite(values)]


def _of_median(count: int) -> float:
    """Variance of the median of so many values, relative to that of one, for normal noise."""
    return 1 / count if count < 3 else MEDIAN_ERROR**2 / count
