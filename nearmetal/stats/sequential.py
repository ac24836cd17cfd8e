"""The sequential test behind `judge`, for many trials at once, on arrays of logarithms."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from nearmetal.stats import ranks
from nearmetal.stats.plan import (
    ANALYSES,
    CONFIRMED,
    DETECTABLE,
    HUGE,
    LEAST_UNCHANGED,
    LOST_POWER,
    MARGIN,
    POWER,
    REACH,
    THRESHOLD,
)

#: Side of a trial that is not yet decided.
UNDECIDED = 2


@dataclass(frozen=True)
class Errors:
    """Standard errors of the Hodges-Lehmann estimates of the trials' changes."""

    #: Standard deviation between samples, (trials,)
    noise: np.ndarray
    #: Number of samples in the baseline.
    samples: int
    #: Standard deviation of the day's shift against the baseline's days, (trials,): the drift of
    #: drift.effective times the root of `memory.contrast`.
    between: np.ndarray
    #: Chance that a day's shift alone is called a change.
    day_error: float
    #: Smallest change that is reported, as a fraction.
    least: float = THRESHOLD

    @classmethod
    def of(cls, base: np.ndarray, between: np.ndarray, day_error: float) -> Errors:
        """Those against a baseline of these samples, (trials, samples)."""
        return cls(ranks.spread(base), base.shape[1], between, day_error)

    def of_fresh(self) -> Errors:
        """Those of fresh samples."""
        return replace(self, least=CONFIRMED)

    def rows(self, rows: np.ndarray) -> Errors:
        """Those of some of the trials."""
        return replace(self, noise=self.noise[rows], between=self.between[rows])

    def within_session(self, count: int) -> np.ndarray:
        """Standard error after this number of samples of one session."""
        return self.noise * math.sqrt(ranks.INEFFICIENCY * (1 / self.samples + 1 / count))

    def with_drift(self, count: int) -> np.ndarray:
        """Standard error with the day's own shift, which more samples of that day do not reduce."""
        return np.hypot(self.within_session(count), self.between)

    def threshold(self, count: int) -> np.ndarray:
        """The shift that counts as a change: beyond the smallest one, and beyond a day's shift."""
        least = math.log1p(self.least)
        quantile = special.ndtri(1 - self.day_error)
        drifting = np.maximum(least, quantile * self.with_drift(count))
        return np.where(self.between > 0, drifting, least)

    def detectable(self, alpha: float) -> np.ndarray:
        """Minimum detectable change: the shift that REACH samples find with POWER.

        At least DETECTABLE[0]; NaN above DETECTABLE[1].
        """
        by_noise = reach(alpha, self.samples) * self.within_session(REACH)
        least = np.maximum(math.log1p(DETECTABLE[0]), by_noise)
        power = special.ndtri(POWER) * self.with_drift(REACH)
        drifting = np.maximum(least, self.threshold(REACH) + power)
        shift = np.where(self.between > 0, drifting, least)
        return np.where(shift <= math.log1p(DETECTABLE[1]), shift, math.nan)


def reach(alpha: float, samples: int) -> float:
    """The shift that a test at `alpha` finds with POWER, in standard errors.

    The noise is known from so many samples of the baseline only, so that the shift is larger than
    for a known one: with k for it, k - z(alpha) = z(POWER) * sqrt(1 + v * k**2), where v is the
    relative variance of the noise's estimate.
    """
    least = float(special.ndtri(1 - alpha))
    power = float(special.ndtri(POWER + LOST_POWER))
    unknown = power**2 / (2 * ranks.SPREAD_EFFICIENCY * samples)
    root = math.sqrt(least**2 - (1 - unknown) * (least**2 - power**2))
    return (least + root) / (1 - unknown)


@dataclass(frozen=True)
class Decisions:
    """Decisions on many trials; each array has one entry for each trial."""

    #: 1 a higher value, -1 a lower one, 0 unchanged, UNDECIDED.
    side: np.ndarray
    #: Number of samples used.
    count: np.ndarray
    #: Estimate at the deciding analysis.
    shift: np.ndarray
    #: p-value of the shift's direction at the deciding analysis.
    p: np.ndarray
    #: Minimum detectable change, NaN: none.
    detectable: np.ndarray


def decide(
    base: np.ndarray,
    new: np.ndarray,
    alpha: float,
    errors: Errors,
    analyses: tuple[int, ...] = ANALYSES,
) -> Decisions:
    """Compare new samples with a baseline at each interim analysis that they reach.

    :arg base: (trials, samples).
    :arg new: (trials, samples), in the order of measurement.
    :arg alpha: error rate of each analysis.
    :arg errors: against this baseline.
    """
    detectable, reached = errors.detectable(alpha), new.shape[1]
    side, count = np.full(len(base), UNDECIDED), np.full(len(base), reached)
    shift, p = np.zeros(len(base)), np.ones(len(base))
    for taken in sorted({*(count for count in analyses if count <= reached), reached}):
        for part in _parts(np.flatnonzero(side == UNDECIDED), taken * base.shape[1]):
            shift[part], p[part] = ranks.two_samples(base[part], new[part, :taken])
            if taken not in analyses:  # not a planned analysis: only an estimate
                continue
            distance = np.abs(shift[part])
            significant = p[part] <= alpha
            if taken == reached:
                significant |= _is_huge(base[part], new[part])
            changed = significant & (distance > errors.threshold(taken)[part])
            margin = np.maximum(
                MARGIN * errors.within_session(taken),
                special.ndtri(POWER) * errors.with_drift(taken),
            )[part]
            decisive = taken >= min(LEAST_UNCHANGED, reached)
            unchanged = np.where(decisive & (distance + margin < detectable[part]), 0, UNDECIDED)
            direction = np.where(shift[part] > 0, 1, -1)
            side[part] = np.where(changed, direction, unchanged)
            count[part] = np.where(side[part] == UNDECIDED, reached, taken)
    return Decisions(side, count, shift, p, detectable)


def _is_huge(base: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Whether all new samples of a trial are farther from the baseline's than these are apart, and
    by a factor of HUGE: few samples of many variables are never significant by their ranks."""
    low, high = base.min(axis=1), base.max(axis=1)
    gap = np.maximum(new.min(axis=1) - high, low - new.max(axis=1))
    return gap > np.maximum(high - low, math.log(HUGE))


def screen(decisions: Decisions, errors: Errors, level: float, worse: int = 1) -> np.ndarray:
    """Which trials need fresh samples, (trials,): those that changed, and undecided ones with a
    shift for the worse that is significant.

    :arg errors: of the trials.
    :arg level: p-value that is significant (plan.screen).
    :arg worse: 1 if higher values are worse, -1 if lower ones are.
    """
    shift, count = decisions.shift * worse, int(decisions.count.max(initial=1))
    least = np.where(errors.between > 0, special.ndtri(1 - level) * errors.with_drift(count), 0)
    suspicious = (decisions.p <= level) & (shift > least) & (decisions.side == UNDECIDED)
    return suspicious | (np.abs(decisions.side) == 1)


def _parts(rows: np.ndarray, cells: int) -> list[np.ndarray]:
    """Rows in parts whose tables of differences fit into the processor's cache."""
    return np.array_split(rows, max(1, len(rows) * cells // 2_000_000)) if len(rows) else []
