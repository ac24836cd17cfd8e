"""Did variables change between two sessions of a system that has no baseline? Pure functions.

Two sessions do not show how much sessions differ without a cause. So only a large change counts:
more than LEAST, and more than DISTANCE times the typical change of all variables. All variables of
a session are judged together:

- Noise within a session is that of both sessions' repeats. Few repeats tell little of it, so that
  its variance borrows PRIOR degrees of freedom from all variables (Smyth, Linear models and
  empirical Bayes methods for assessing differential expression, 2004, section 3.3).
- A change must be significant by a t-test on logarithms, at an equal part of the campaign's error
  rate.
- Where the typical change is beyond LEAST itself, the whole system changed, or sessions differ that
  much: nobody knows which. A variable that changed so is inconclusive then, and not ok.

`make bench-gate` measures the error rates (table "two sessions").
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from nearmetal.stats import ranks
from nearmetal.stats.judge import Decision, JudgeError, changed, positive_logs
from nearmetal.stats.plan import CAMPAIGN_ERROR

#: Smallest change that counts, as a fraction.
LEAST = 0.25
#: Typical changes of all variables that a change must exceed.
DISTANCE = float(special.ndtri(1 - 0.001))
#: Degrees of freedom that the variance of a variable borrows from all variables.
PRIOR = 1.0
#: Least number of variables that show a typical change.
LEAST_VARIABLES = 10


@dataclass(frozen=True)
class Samples:
    """One variable in both sessions. Values in any unit, one for each repeat."""

    before: Sequence[float]
    now: Sequence[float]
    lower_is_better: bool


def judge(variables: Sequence[Samples]) -> list[Decision | JudgeError]:
    """The decisions on all variables of a session, in their order.

    A variable with fewer than two repeats in a session, or with a value that is not positive, has a
    JudgeError in its place.
    """
    decisions: list[Decision | JudgeError] = []
    usable = []
    for variable in variables:
        try:
            usable.append((len(decisions), variable, _logs(variable.before), _logs(variable.now)))
            decisions.append(JudgeError(""))  # the decision takes its place
        except JudgeError as why:
            decisions.append(why)
    if not usable:
        return decisions
    shifts = _shifts([(before, now) for _, _, before, now in usable])
    variances = [_variance(before, now) for _, _, before, now in usable]
    common = float(np.median([variance for variance, _ in variances]))
    typical = 1.4826 * float(np.median(np.abs(shifts)))
    least = unchanged = math.log1p(LEAST)
    if len(usable) >= LEAST_VARIABLES:
        least = max(least, DISTANCE * typical)
        unchanged = least if typical < unchanged else unchanged
    bounds = _Bounds(least, unchanged, len(usable))
    for (place, variable, before, now), shift, (variance, freedom) in zip(
        usable, shifts, variances
    ):
        # The posterior variance of Smyth (2004).
        freedom += PRIOR
        variance = (PRIOR * common + (freedom - PRIOR) * variance) / freedom
        error = math.sqrt(variance * (1 / len(before) + 1 / len(now)))
        decisions[place] = _decision(variable, shift, error, freedom, bounds)
    return decisions


@dataclass(frozen=True)
class _Bounds:
    """What holds for all variables of a session; bounds are of logarithms of changes."""

    #: A change is beyond it.
    changed: float
    #: An unchanged variable is below it.
    unchanged: float
    variables: int


def _logs(values: Sequence[float]) -> np.ndarray:
    logs = positive_logs(values, "samples")
    if len(logs) < 2:
        raise JudgeError(
            f"{len(logs)} repeat(s) in a session: two are needed. Fix: run with -S repeats=3"
        )
    return logs


def _shifts(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    """The shift of each pair. Those of one shape are computed together, which is much faster."""
    by_shape: dict[tuple[int, int], list[int]] = {}
    for place, (before, now) in enumerate(pairs):
        by_shape.setdefault((len(before), len(now)), []).append(place)
    shifts = [0.0] * len(pairs)
    for places in by_shape.values():
        before, now = (np.array(logs) for logs in zip(*(pairs[place] for place in places)))
        for place, shift in zip(places, ranks.two_samples(before, now)[0]):
            shifts[place] = float(shift)
    return shifts


def _variance(before: np.ndarray, now: np.ndarray) -> tuple[float, float]:
    """Variance of a repeat within a session, and its degrees of freedom."""
    freedom = len(before) + len(now) - 2
    squares = sum(float(((logs - logs.mean()) ** 2).sum()) for logs in (before, now))
    return squares / freedom, freedom


def _decision(
    samples: Samples, shift: float, error: float, freedom: float, bounds: _Bounds
) -> Decision:
    p = float(special.stdtr(freedom, -abs(shift) / error)) if error else float(shift == 0)
    reach = float(special.stdtrit(freedom, 0.975)) * error
    name = "inconclusive"
    if p <= CAMPAIGN_ERROR / bounds.variables / 2 and abs(shift) > bounds.changed:
        name = changed(shift, samples.lower_is_better)
    elif abs(shift) + reach < bounds.unchanged:
        name = "ok"
    return Decision(
        name,
        math.expm1(shift),
        (math.expm1(shift - reach), math.expm1(shift + reach)),
        p,
        len(samples.now),
        math.expm1(bounds.changed),
    )
