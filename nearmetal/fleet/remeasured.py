"""Judges suspects by a second sweep of the same nodes. Pure functions.

What noise alone made slow is quick again: fresh values were not selected for being slow. Suspects
and healthy links are measured in one job, so that a slow hour is no finding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from nearmetal.fleet.model import Fit, median
from nearmetal.fleet.outliers import (
    BOTH,
    EXTREMES,
    INTO,
    LEAST_ERROR,
    MEDIAN_ERROR,
    OUT,
    Suspect,
    errors,
    natural_variance,
    scale,
    slow_reach,
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
    held: set[int] = set()
    for suspect in suspects:
        if suspect.kind != "link":
            held.update(suspect.nodes)
    quiet = [node for node in range(len(fit.out)) if node not in held]
    # Evenly chosen: neighbours in the list may share a switch.
    senders = quiet[:: -(-len(quiet) // MOST_SENDERS) or 1]
    healthy = _known(_of_healthy(suspects, fit, slowness, held, senders, quiet))
    if len(healthy) < LEAST_HEALTHY:
        return [], list(suspects)
    noise = float(spread(healthy))
    natural = {
        OUT: natural_variance(fit.out, errors(fit)),
        INTO: natural_variance(fit.into, errors(fit, axis=0)),
    }
    natural[BOTH] = max(natural.values())
    # The tail of single links is longer than that of normal noise.
    reach = slow_reach(healthy, CONFIRMATION_ERROR / len(suspects), EXTREMES)
    middle, freedom = median(healthy), max(1.0, SPREAD_EFFICIENCY * (len(healthy) - 1))

    def beyond(suspect: Suspect) -> tuple[float, float] | None:
        own = _known(_of(suspect, fit, slowness, held, quiet))
        if not len(own):
            return None
        variance = noise**2 * (_of_median(len(own)) + _of_median(len(healthy)))
        # What a link's ends add is known from the fit; what a healthy suspect would add is not.
        if suspect.kind != "link":
            variance += natural[suspect.direction]
        return median(own) - middle, math.sqrt(variance)

    shown, unknown = _judged(suspects, beyond, freedom)
    far = math.expm1(reach - middle)
    return [suspect for suspect in shown if suspect.kind != "link" or suspect.change > far], unknown


def judged_nodes(suspects: Sequence[Suspect], effects: np.ndarray) -> Judged:
    """The nodes that fresh values show again, with the change and the p-value of these.

    A node is compared with the others, which show how healthy nodes vary in the second sweep. The
    whole error is plan.CONFIRMATION_ERROR, shared equally. A suspect without a fresh value is not
    judged, and none is without healthy nodes.

    :arg effects: (n,) logarithms of fresh times; NaN: not measured.
    """
    quiet = effects.copy()
    for suspect in suspects:
        quiet[list(suspect.nodes)] = np.nan
    healthy = _known(quiet)
    if len(healthy) < LEAST_HEALTHY:
        return [], list(suspects)
    middle = median(healthy)
    deviation, freedom = scale(healthy)
    deviation *= math.sqrt(1 + _of_median(len(healthy)))

    def beyond(suspect: Suspect) -> tuple[float, float] | None:
        shift = float(effects[suspect.nodes[0]]) - middle
        if math.isnan(shift):
            return None
        return shift, deviation

    return _judged(suspects, beyond, freedom)


def _judged(
    suspects: Sequence[Suspect],
    beyond: Callable[[Suspect], tuple[float, float] | None],
    freedom: float,
) -> Judged:
    """The suspects whose fresh values are beyond those of healthy ones, by a t-test.

    :arg beyond: function: suspect -> its shift and the standard error, as logarithms; None: it has
        no fresh value.
    :arg freedom: degrees of freedom of the standard error.
    """
    shown, unknown = [], []
    for suspect in suspects:
        fresh = beyond(suspect)
        if fresh is None:
            unknown.append(suspect)
            continue
        shift, deviation = fresh
        # Where nothing varies, any shift is significant.
        p = float(special.stdtr(freedom, -shift / max(deviation, LEAST_ERROR)))
        if p <= CONFIRMATION_ERROR / len(suspects) and shift > math.log1p(THRESHOLD):
            shown.append(replace(suspect, change=math.expm1(shift), p=p))
    return shown, unknown


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
    rows = dict(zip(senders, range(len(senders))))
    columns = dict(zip(quiet, range(len(quiet))))
    for suspect in suspects:
        if suspect.kind != "link":
            continue
        for sender, receiver in (suspect.nodes, suspect.nodes[::-1]):
            if sender in rows and receiver in columns:
                shifts[rows[sender], columns[receiver]] = np.nan
    return shifts


def _of(
    suspect: Suspect, fit: Fit, slowness: np.ndarray, held: set[int], quiet: Sequence[int]
) -> np.ndarray:
    """Shifts of a suspect's links: a link's own, else those with healthy nodes."""
    near: Sequence[int] = suspect.nodes
    far = quiet
    if suspect.kind == "link":
        near, far = suspect.nodes[:1], suspect.nodes[1:]
    parts = []
    if suspect.direction in (OUT, BOTH):
        parts.append(_shifts(fit, slowness, held, near, far).ravel())
    if suspect.direction in (INTO, BOTH):
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
    if count < 3:
        return 1 / count
    return MEDIAN_ERROR**2 / count
