"""Did a variable change over several sessions, none of which decides alone? Pure functions.

The last sessions since the baseline are pooled: the last one, two, three, and so on (WINDOWS), and
each pool is held against the baseline by the rank test of judge.py. That is the window-limited
generalized likelihood ratio of a change at an unknown time (Lai, Sequential changepoint detection
in quality control and dynamical systems, JRSS B 57, 1995, section 3), on ranks.

The error of a session is divided among variables and windows (Bonferroni): the chance that an
unchanged session raises any alarm is at most POOLED_ERROR. Where days differ, the change must also
exceed what so many days do, and show on more than one day (days.py). Sessions of one day share its
shift, so that days count.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from nearmetal.stats import days, ranks, sequential
from nearmetal.stats.drift import effective
from nearmetal.stats.judge import JudgeError, baseline_of, logs_of
from nearmetal.stats.plan import DETECTABLE, POWER, THRESHOLD

#: Chance that an unchanged session raises any alarm by the pooled sessions.
POOLED_ERROR = 0.01
#: Chance that an unchanged session leaves any variable suspicious.
SUSPICION = 0.1
#: Numbers of last sessions that are pooled.
WINDOWS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class PooledDecision:
    """What the sessions since the baseline show of a variable together."""

    #: Regressed, improved, watched, or inconclusive if it is suspicious.
    name: str
    #: As a fraction; > 0 is a higher value; over the last `sessions`
    change: float
    #: 95 % interval of the change, including drift.
    interval: tuple[float, float]
    #: p-value of the change's direction.
    p: float
    #: Number of sessions pooled.
    sessions: int
    #: Change that the pool finds with POWER; None: above DETECTABLE[1].
    finds: float | None


def judge_pooled(
    baseline,
    sessions: Sequence,
    lower_is_better: bool,
    variables: float = 1,
    drift: float | None = None,
    dates: Sequence[Hashable] | None = None,
    memory: float = 0.0,
    bound: float = 0.0,
    before: int = 0,
) -> PooledDecision:
    """Judge one variable by the last sessions together.

    :arg baseline: days with one value for each repeat.
    :arg sessions: those since the baseline, oldest first, with one value for each repeat.
    :arg variables: number of variables in the campaign.
    :arg drift: drift between days as a fraction, as for `judge`.
    :arg dates: the day of each of `sessions`: those of one day share its shift. None: each has a
        day of its own.
    :arg memory: of days, as `days.memory` finds it.
    :arg bound: change that needs no second day, as `days.bounds` finds it.
    :arg before: number of days between the baseline and the first of `sessions`.
    :raises JudgeError: no sample, or a value that is negative or not finite.
    """
    recorded, base = baseline_of(baseline, variables)
    if drift is None:
        drift = float(effective([recorded], variables)[0])
    logs = [logs_of(session, "samples") for session in sessions]
    if not logs or not len(logs[-1]):
        raise JudgeError("no sample to judge")
    error = POOLED_ERROR / variables / len(WINDOWS)
    known = tuple(map(len, recorded))
    rows = [session[None] for session in logs]
    pools = pools_of(base[None], rows, np.array([drift]), known, error, dates, memory, before)
    better = -1 if lower_is_better else 1
    changed, side = deciding(pools, error, np.array([bound]))
    if side[0]:
        name = "improved" if side[0] == better else "regressed"
        return pools[changed[0]].decision(name, error)
    likely, side = deciding(pools, SUSPICION * error / POOLED_ERROR)
    if side[0] == -better:
        return pools[likely[0]].decision("inconclusive", error)
    return min(pools, key=lambda pool: pool.reach(error)[0]).decision("watched", error)


def pools_of(
    base: np.ndarray,
    sessions: Sequence[np.ndarray],
    drift: np.ndarray,
    known: tuple[int, ...],
    day_error: float,
    dates: Sequence[Hashable] | None = None,
    memory: float = 0.0,
    before: int = 0,
) -> list[Pool]:
    """The pools of the last sessions, for many variables at once.

    :arg base: logarithms of the baseline, (trials, samples).
    :arg known: number of samples of each day of the baseline.
    :arg sessions: logarithms of each session, (trials, repeats), oldest first.
    :arg drift: (trials,), standard deviation between days.
    :arg day_error: chance that the shifts of days alone are called a change by one pool.
    :arg dates, memory, before: as for `judge_pooled`.
    """
    dates = range(len(sessions)) if dates is None else dates
    pools = []
    for count in WINDOWS:
        if count > len(sessions):
            break
        pool, on = sessions[-count:], dates[-count:]
        since = before + len(set(dates[:-count]) - set(on))
        new = tuple(map(len, days.by_day([session[0] for session in pool], on)))
        between = drift * math.sqrt(days.contrast(memory, known, new, since))
        pools.append(Pool(base, pool, on, between, day_error))
    return pools


def deciding(
    pools: Sequence[Pool], alpha: float, bounds: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Place of the first pool that shows a change of each trial, and the change's side; 0: none.

    :arg bounds: (trials,), changes that need no second day. None: none does.
    """
    place = np.zeros(len(pools[0].base), dtype=int)
    side = np.zeros(len(place))
    for number, pool in enumerate(pools):
        found = pool.side(alpha, pools[0])
        for trial in np.flatnonzero((side == 0) & (found != 0)):
            if bounds is None or pool.lasts(trial, bounds[trial]):
                place[trial], side[trial] = number, found[trial]
    return place, side


@dataclass(frozen=True)
class Pool:
    """The samples of some last sessions against the baseline's. Arrays have one entry a trial."""

    base: np.ndarray
    sessions: Sequence[np.ndarray]
    #: The day of each session.
    dates: Sequence[Hashable]
    #: Standard error of the shift by the drift between days.
    between: np.ndarray
    day_error: float

    @functools.cached_property
    def new(self) -> np.ndarray:
        return np.concatenate(self.sessions, axis=1)

    @functools.cached_property
    def test(self) -> tuple[np.ndarray, np.ndarray]:
        """Hodges-Lehmann shifts, and their one-sided Mann-Whitney p-values."""
        return ranks.two_samples(self.base, self.new)

    @functools.cached_property
    def within(self) -> np.ndarray:
        """Standard error of the shift by the noise between repeats."""
        samples = 1 / self.base.shape[1] + 1 / self.new.shape[1]
        return ranks.spread(self.base) * math.sqrt(ranks.INEFFICIENCY * samples)

    @functools.cached_property
    def threshold(self) -> np.ndarray:
        """The shift that counts as a change: beyond THRESHOLD, and beyond what days do."""
        least, quantile = math.log1p(THRESHOLD), special.ndtri(1 - self.day_error)
        drifting = np.maximum(least, quantile * np.hypot(self.within, self.between))
        return np.where(self.between > 0, drifting, least)

    def side(self, alpha: float, last: Pool) -> np.ndarray:
        """1: higher values, -1: lower ones, 0: no change.

        :arg last: the last session alone. A change that it does not share has passed.
        """
        shift, p = self.test
        lasting = last.test[0] * shift > shift**2 / 2
        changed = (p <= alpha) & (np.abs(shift) > self.threshold) & lasting
        return np.where(changed, np.sign(shift), 0)

    def lasts(self, trial: int, bound: float) -> bool:
        """Whether a change of this trial is beyond the bound, or shows on more than one day."""
        shift = float(self.test[0][trial])
        if abs(shift) > bound:
            return True
        sessions = [session[trial] for session in self.sessions]
        return days.on_other_days(self.base[trial], sessions, self.dates, shift)

    def reach(self, alpha: float) -> np.ndarray:
        """The shift that the pool finds with POWER, as a logarithm."""
        power = special.ndtri(POWER)
        by_noise = sequential.reach(alpha, self.base.shape[1]) * self.within
        least = np.maximum(math.log1p(DETECTABLE[0]), by_noise)
        drifting = self.threshold + power * np.hypot(self.within, self.between)
        return np.where(self.between > 0, np.maximum(least, drifting), least)

    def decision(self, name: str, alpha: float) -> PooledDecision:
        """What the pool shows of its single trial."""
        shift, p = (float(array[0]) for array in self.test)
        low, high = ranks.shift_interval(self.base[0], self.new[0])
        day, reach = 1.96 * float(self.between[0]), float(self.reach(alpha)[0])
        return PooledDecision(
            name,
            math.expm1(shift),
            (
                math.expm1(shift - math.hypot(shift - low, day)),
                math.expm1(shift + math.hypot(high - shift, day)),
            ),
            p,
            len(self.sessions),
            math.expm1(reach) if reach <= math.log1p(DETECTABLE[1]) else None,
        )
