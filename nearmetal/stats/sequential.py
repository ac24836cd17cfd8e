"""The sequential test behind `judge`, for many trials at once, on arrays of logarithms.

And after how many samples it probably decides. The estimate of a change moves while samples are
added: given the estimate after some samples, the one after more is normal around it, with the
difference of the two variances. Its chance of a decision at an analysis follows. An analysis that
probably decides nothing is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from nearmetal.stats import ranks
from nearmetal.stats.plan import (
    ANALYSES,
    CONFIRMATION_ANALYSES,
    CONFIRMATION_ERROR,
    DETECTABLE,
    LEAST_UNCHANGED,
    LOST_POWER,
    MARGIN,
    POWER,
    REACH,
    THRESHOLD,
)

#: Side of a trial that is not yet decided.
UNDECIDED = 2
#: Side of a trial whose fresh samples show the opposite of the first ones: no more can decide it.
OPPOSITE = 3
#: An analysis is worth its samples if it decides with this chance.
PROBABLE = 0.5


@dataclass(frozen=True)
class Errors:
    """Standard errors of the Hodges-Lehmann estimates of the trials' changes."""

    #: Standard deviation between samples, (trials,)
    noise: np.ndarray
    #: Number of samples in the baseline.
    samples: int
    #: Standard deviation between days, (trials,), as drift.effective gives it.
    drift: np.ndarray
    #: Number of days in the baseline.
    days: int
    #: Chance that a day's shift alone is called a change.
    day_error: float

    @classmethod
    def of(cls, base: np.ndarray, drift: np.ndarray, days: int, day_error: float) -> Errors:
        """Those against a baseline of these samples: (trials, samples), of so many days."""
        return cls(ranks.spread(base), base.shape[1], drift, days, day_error)

    def rows(self, rows: np.ndarray) -> Errors:
        """Those of some of the trials."""
        return replace(self, noise=self.noise[rows], drift=self.drift[rows])

    def within_session(self, count: int) -> np.ndarray:
        """Standard error after this number of samples of one session."""
        return self.noise * math.sqrt(ranks.INEFFICIENCY * (1 / self.samples + 1 / count))

    def with_drift(self, count: int) -> np.ndarray:
        """Standard error with the day's own shift, which more samples of that day do not reduce."""
        drift = self.drift * math.sqrt(1 + 1 / self.days)
        return np.hypot(self.within_session(count), drift)

    def threshold(self, count: int) -> np.ndarray:
        """The shift that counts as a change: beyond THRESHOLD, and beyond a day's shift."""
        least = math.log1p(THRESHOLD)
        quantile = special.ndtri(1 - self.day_error)
        drifting = np.maximum(least, quantile * self.with_drift(count))
        return np.where(self.drift > 0, drifting, least)

    def detectable(self, alpha: float) -> np.ndarray:
        """Minimum detectable change: the shift that REACH samples find with POWER.

        At least DETECTABLE[0]; NaN above DETECTABLE[1].
        """
        by_noise = reach(alpha, self.samples) * self.within_session(REACH)
        least = np.maximum(math.log1p(DETECTABLE[0]), by_noise)
        power = special.ndtri(POWER) * self.with_drift(REACH)
        drifting = np.maximum(least, self.threshold(REACH) + power)
        shift = np.where(self.drift > 0, drifting, least)
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

    #: 1 a higher value, -1 a lower one, 0 unchanged, UNDECIDED, OPPOSITE.
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
            changed = (p[part] <= alpha) & (distance > errors.threshold(taken)[part])
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


def decide_in_two_stages(
    base: np.ndarray,
    first: np.ndarray,
    fresh: np.ndarray,
    alpha: float,
    confirmation_error: float,
    errors: Errors,
) -> Decisions:
    """Compare in two stages; arguments as for `decide`.

    A change in `first` must be found again in `fresh` alone, at `confirmation_error` over all of
    CONFIRMATION_ANALYSES. An undecided trial continues with the samples of both stages, in order.
    An unchanged trial stays unchanged.
    """
    alone = decide(base, first, alpha, errors)
    side, count = alone.side.copy(), alone.count.copy()
    shift, p = alone.shift.copy(), alone.p.copy()
    rows = np.flatnonzero(alone.side == UNDECIDED)
    together = np.concatenate([first[rows], fresh[rows]], axis=1)
    both = decide(base[rows], together, alpha, errors.rows(rows))
    side[rows], count[rows], shift[rows], p[rows] = both.side, both.count, both.shift, both.p
    rows = np.flatnonzero(np.abs(alone.side) == 1)
    confirmed = decide(
        base[rows],
        fresh[rows],
        confirmation_error / len(CONFIRMATION_ANALYSES),
        errors.rows(rows),
        CONFIRMATION_ANALYSES,
    )
    opposite = confirmed.side == -alone.side[rows]
    side[rows] = np.where(opposite, OPPOSITE, confirmed.side)
    count[rows] = alone.count[rows] + confirmed.count
    shift[rows], p[rows] = confirmed.shift, confirmed.p
    return Decisions(side, count, shift, p, alone.detectable)


def _parts(rows: np.ndarray, cells: int) -> list[np.ndarray]:
    """Rows in parts whose tables of differences fit into the processor's cache."""
    return np.array_split(rows, max(1, len(rows) * cells // 2_000_000)) if len(rows) else []


def next_analysis(
    shift: float,
    taken: int,
    errors: Errors,
    alpha: float,
    detectable: float,
    analyses: Sequence[int],
) -> int | None:
    """Number of samples of the next analysis that probably decides; else of the last analysis.

    None if there is no further analysis.

    :arg shift: estimate of the change after the samples taken, as a logarithm.
    :arg errors: of this one variable.
    :arg alpha: error rate of an analysis.
    :arg detectable: minimum detectable change as a logarithm; NaN: none.
    """
    later = [count for count in analyses if count > taken]
    for count in later:
        if _chance(shift, taken, count, errors, alpha, detectable) >= PROBABLE:
            return count
    return later[-1] if later else None


def fresh_analysis(shift: float, errors: Errors) -> int:
    """Number of fresh samples that probably confirm a change of this shift, by themselves."""
    error = CONFIRMATION_ERROR / len(CONFIRMATION_ANALYSES)
    for count in CONFIRMATION_ANALYSES:
        least = max(errors.threshold(count)[0], _significant(errors, count, error))
        if abs(shift) >= least:
            return count
    return CONFIRMATION_ANALYSES[-1]


def _significant(errors: Errors, count: int, alpha: float) -> float:
    """The smallest estimate that is significant."""
    return float(special.ndtri(1 - alpha) * errors.within_session(count)[0])


def _chance(
    shift: float, taken: int, count: int, errors: Errors, alpha: float, detectable: float
) -> float:
    """Chance that the analysis of so many samples decides."""
    now, then = float(errors.within_session(taken)[0]), float(errors.within_session(count)[0])
    spread = math.sqrt(max(now**2 - then**2, 1e-18))
    changed = max(float(errors.threshold(count)[0]), _significant(errors, count, alpha))
    chance = special.ndtr((-changed - shift) / spread) + special.ndtr((shift - changed) / spread)
    margin = max(MARGIN * then, special.ndtri(POWER) * float(errors.with_drift(count)[0]))
    least = detectable - margin
    if count >= LEAST_UNCHANGED and least > 0:
        chance += special.ndtr((least - shift) / spread) - special.ndtr((-least - shift) / spread)
    return float(chance)
