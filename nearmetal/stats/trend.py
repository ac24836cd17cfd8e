"""Series of sessions: how independent their values are, and whether they creep. Pure functions.

Values of successive days resemble each other where a system has a memory. Fewer of them count then:
their number over the integrated autocorrelation time (Sokal, Monte Carlo methods in statistical
mechanics, 1989, section 3), which is estimated with Bartlett's weights.

A creep is a change in small steps. A step looks like one, and a creep like several steps. The line
of Theil and Sen is a creep only where it fits better than a step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from nearmetal.stats.plan import THRESHOLD

#: Autocorrelation time below which values count as independent: noise alone looks like some.
MEMORY = 1.5
#: Least number of values whose autocorrelation is estimated.
LEAST = 8
#: Numbers of last sessions that are searched for a creep.
WINDOWS = (365, 168, 84, 42, 21)


@dataclass(frozen=True)
class Creep:
    """A change in small steps, up to the last value."""

    #: Place of its first value.
    start: int
    #: From value to value, as a logarithm.
    slope: float
    #: two-sided
    p: float

    def over(self, count: int) -> float:
        """The change from the first of this number of values to the last, as a fraction."""
        return math.expm1(self.slope * (count - 1))


def memory(residuals: np.ndarray) -> float:
    """Autocorrelation time of residuals, (n,), in values; 1: they are independent."""
    count = len(residuals)
    centred = residuals - residuals.mean() if count else residuals
    variance = float(centred @ centred)
    if count < LEAST or variance == 0:
        return 1.0
    reach = min(count - 1, round(1.5 * math.sqrt(count)))
    lags = np.arange(1, reach + 1)
    correlations = np.array([centred[:-lag] @ centred[lag:] for lag in lags]) / variance
    time = 1 + 2 * float((1 - lags / (reach + 1)) @ correlations)
    # The mean is that of the same values, so that each correlation is estimated too low.
    time /= 1 - min(0.5, 0.9 * reach / count)
    return time if time > MEMORY else 1.0


def allowing_for(p: float, time: float) -> float:
    """A two-sided p-value of values with this autocorrelation time."""
    if time <= 1:
        return p
    deviate = -float(special.ndtri(max(p, 1e-300) / 2)) / math.sqrt(time)
    return float(2 * special.ndtr(-deviate))


def creep(values: np.ndarray, error: float) -> Creep | None:
    """The creep of positive values, (n,), up to the last one; None if there is none.

    The rank test is Kendall's, the slope that of Theil and Sen.

    :arg error: chance of a creep among unchanged values.
    """
    logs = np.log(values)
    windows = [window for window in WINDOWS if window <= len(logs)]
    if len(logs) < WINDOWS[0] and len(logs) >= WINDOWS[-1]:
        windows.append(len(logs))
    share = error / len(WINDOWS)
    creeps = [_creep(logs[-window:], len(logs) - window, share) for window in windows]
    # Of creeps with one p-value, that over the longest window.
    return min(filter(None, creeps), key=lambda creep: (creep.p, creep.start), default=None)


def _creep(logs: np.ndarray, start: int, error: float) -> Creep | None:
    places = np.arange(len(logs))
    p = float(stats.kendalltau(places, logs).pvalue)
    if not p <= error:  # NaN: all values are equal
        return None
    slope, intercept, *_ = stats.theilslopes(logs, places)
    residuals = logs - (intercept + slope * places)
    p = allowing_for(p, memory(residuals))
    grown = abs(slope) * (len(logs) - 1) > math.log1p(THRESHOLD)
    if p > error or not grown or np.abs(residuals).sum() >= _misfit_of_a_step(logs):
        return None
    return Creep(start, float(slope), p)


def _misfit_of_a_step(logs: np.ndarray) -> float:
    """Sum of the distances from the best pair of levels, one before the other."""
    return min(_misfit(logs[:place]) + _misfit(logs[place:]) for place in range(2, len(logs) - 1))


def _misfit(logs: np.ndarray) -> float:
    """Sum of the distances from the median."""
    return np.abs(logs - np.median(logs)).sum()
