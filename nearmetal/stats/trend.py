"""Series of sessions: how independent their values are, and whether they creep. Pure functions.

Values of successive days resemble each other where a system has a memory. Fewer of them count then:
their number over the integrated autocorrelation time (Sokal, Monte Carlo methods in statistical
mechanics, 1989, section 3).

A creep is a change in small steps. A step looks like one, and a creep like several steps. The line
of Theil and Sen is a creep only where it fits better than a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from nearmetal.stats.plan import THRESHOLD

#: Correlation of successive values, in standard errors, up to which they count as independent.
NOISE_ALONE = 1.5
#: Largest factor of correlations from lag to lag, and rounds in which it is corrected.
LONGEST_FACTOR, ROUNDS = 0.97, 4
#: Correlation from which most series have a memory: a step that they share looks like less.
LEAST_COMMON = 0.15
#: Sessions of a stretch, and least number of series that show a memory in common.
STRETCH, LEAST_SERIES = 40, 10
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
    if len(residuals) < LEAST:
        return 1.0
    least = NOISE_ALONE / math.sqrt(len(residuals))
    return _time(_correlations(residuals), len(residuals), least)


def common_memory(series: Sequence[np.ndarray]) -> float:
    """Autocorrelation time that most series have; 1: their values are independent, or too few.

    Few values of one series do not distinguish a step from a memory, but those of many series do:
    a step of most series is in one stretch of the time, and a memory in all.
    """
    count = max(map(len, series), default=0)
    rows = np.array([values for values in series if len(values) == count])
    if len(rows) < LEAST_SERIES or count < 2 * LEAST:
        return 1.0
    by_stretch = []
    for stretch in np.array_split(rows, max(2, count // STRETCH), axis=1):
        by_stretch.append(np.median(list(map(_correlations, stretch)), axis=0))
    by_stretch.sort(key=lambda correlations: correlations[0])
    middle = by_stretch[(len(by_stretch) - 1) // 2]
    return _time(middle, count / len(by_stretch), LEAST_COMMON)


def _correlations(values: np.ndarray) -> np.ndarray:
    """Autocorrelations of successive lags from 1 on, in units of the variance."""
    centred = values - values.mean()
    lags = range(1, min(len(values) // 3, round(1.5 * math.sqrt(len(values)))) + 2)
    products = np.array([centred[:-lag] @ centred[lag:] for lag in lags])
    return products / (centred @ centred or 1.0)


def _time(raw: np.ndarray, count: float, least: float) -> float:
    """Autocorrelation time by correlations of successive lags.

    Values are taken for the sum of an autoregressive process of order 1 and of noise: correlations
    fall by one factor from lag to lag.

    :arg count: number of values whose mean was taken out.
    :arg least: correlation of successive values from which they have a memory.
    """
    time = 1.0
    for _ in range(ROUNDS):
        # The mean has a variance too, which the correlations lack.
        lost = min(0.5, time / count)
        correlations = raw * (1 - lost) + lost
        if correlations[0] < least:
            return 1.0
        positive = correlations[: np.argmin(np.append(correlations, 0.0) > 0)]
        before, after = positive[:-1], positive[1:]
        factor = float(positive[0])
        if len(after):
            factor = float(before @ after / (before @ before))
        time = 1 + 2 * float(positive[0]) / (1 - min(factor, LONGEST_FACTOR))
    return min(time, count / 2)


def allowing_for(p: float, time: float, count: int) -> float:
    """A two-sided p-value of values with this autocorrelation time, estimated from so many."""
    if time <= 1:
        return p
    deviate = -float(special.ndtri(max(p, 1e-300) / 2)) / math.sqrt(time)
    return float(2 * special.stdtr(max(1.0, count / time - 2), -deviate))


def creep(values: np.ndarray, error: float, shared: float = 1.0) -> Creep | None:
    """The creep of positive values, (n,), up to the last one; None if there is none.

    The rank test is Kendall's, the slope that of Theil and Sen.

    :arg error: chance of a creep among unchanged values.
    :arg shared: `common_memory` of all series.
    """
    logs = np.log(values)
    windows = [window for window in WINDOWS if window <= len(logs)]
    if len(logs) < WINDOWS[0] and len(logs) >= WINDOWS[-1]:
        windows.append(len(logs))
    share = error / len(WINDOWS)
    creeps = [_creep(logs, len(logs) - window, share, shared) for window in windows]
    # Of creeps with one p-value, that over the longest window.
    return min(filter(None, creeps), key=lambda creep: (creep.p, creep.start), default=None)


def _creep(logs: np.ndarray, start: int, error: float, shared: float) -> Creep | None:
    window = logs[start:]
    places = np.arange(len(window))
    p = float(stats.kendalltau(places, window).pvalue)
    if not p <= error:  # NaN: all values are equal
        return None
    slope, intercept, *_ = stats.theilslopes(window, places)
    residuals = window - (intercept + slope * places)
    # A few values do not show their memory.
    whole = residuals
    if start:
        whole = np.concatenate([logs[:start] - np.median(logs[:start]), residuals])
    p = allowing_for(p, max(shared, memory(whole)), len(logs))
    grown = abs(slope) * (len(window) - 1) > math.log1p(THRESHOLD)
    if p > error or not grown or np.abs(residuals).sum() >= _misfit_of_a_step(window):
        return None
    return Creep(start, float(slope), p)


def _misfit_of_a_step(logs: np.ndarray) -> float:
    """Sum of the distances from the best pair of levels, one before the other."""
    return min(_misfit(logs[:place]) + _misfit(logs[place:]) for place in range(2, len(logs) - 1))


def _misfit(logs: np.ndarray) -> float:
    """Sum of the distances from the median."""
    return np.abs(logs - np.median(logs)).sum()
