"""Did a variable change over several sessions, none of which decides alone? Pure functions.

The last sessions since the baseline are pooled: the last one, two, three, and so on (WINDOWS), and
each pool is held against the baseline by the rank test of judge.py. That is the window-limited
generalized likelihood ratio of a change at an unknown time (Lai, Sequential changepoint detection
in quality control and dynamical systems, JRSS B 57, 1995, section 3), on ranks.

The error of a night is divided among variables and windows (Bonferroni): the chance that an
unchanged night raises any alarm is at most NIGHT_ERROR. Where days differ, the change must also
exceed what so many days do.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from nearmetal.stats import drift as days
from nearmetal.stats import ranks
from nearmetal.stats.judge import JudgeError, baseline_of, positive_logs
from nearmetal.stats.plan import DAY_ERROR, DETECTABLE, POWER, THRESHOLD

#: Chance that an unchanged session raises any alarm by the pooled sessions.
NIGHT_ERROR = 0.01
#: Chance that an unchanged session leaves any variable suspicious.
SUSPICION = 0.1
#: Numbers of last sessions that are pooled.
WINDOWS = (1, 2, 3, 4, 6, 8, 12, 16)


@dataclass(frozen=True)
class Watch:
    """What the sessions since the baseline show of a variable together."""

    name: str  #: regressed, improved, watched, or inconclusive if it is suspicious
    change: float  #: as a fraction; > 0 is a higher value; over the last `sessions`
    interval: tuple[float, float]  #: 95 % interval of the change, including drift
    p: float  #: p-value of the change's direction
    sessions: int  #: number of sessions pooled
    finds: float | None  #: change that the pool finds with POWER; None: above DETECTABLE[1]


def watch(
    baseline, nights: Sequence, lower_is_better: bool, variables: int = 1, drift: float = 0.0
) -> Watch:
    """Judge one variable by the last sessions together.

    :arg baseline: sessions with one value for each repeat.
    :arg nights: sessions since the baseline, oldest first, with one value for each repeat.
    :arg variables: number of variables in the campaign.
    :arg drift: drift between sessions as a fraction, as for `judge`.
    :raises JudgeError: no sample, or a value that is not positive and finite.
    """
    sessions, base = baseline_of(baseline, variables)
    drift = max(drift, days.typical([sessions]))
    logs = [positive_logs(night, "samples") for night in nights]
    if not logs or not len(logs[-1]):
        raise JudgeError("no sample to judge")
    pools = [
        _Pool(base, logs[-count:], drift, len(sessions)) for count in WINDOWS if count <= len(logs)
    ]
    error = NIGHT_ERROR / variables / len(WINDOWS)
    # A change that the last session alone does not share has passed.
    last = pools[0].shift
    for pool in pools:
        if pool.is_beyond(error) and last * pool.shift > pool.shift**2 / 2:
            name = "regressed" if (pool.shift > 0) == lower_is_better else "improved"
            return pool.watch(name, error)
    suspicion = SUSPICION / variables / len(WINDOWS)
    for pool in pools:
        worse = (pool.shift > 0) == lower_is_better
        if worse and pool.is_beyond(suspicion) and last * pool.shift > pool.shift**2 / 2:
            return pool.watch("inconclusive", error)
    return min(pools, key=lambda pool: pool.reach(error)).watch("watched", error)


@dataclass(frozen=True)
class _Pool:
    """The samples of some last sessions, against the baseline's."""

    base: np.ndarray
    nights: list[np.ndarray]
    drift: float
    baseline_sessions: int

    @functools.cached_property
    def new(self) -> np.ndarray:
        return np.concatenate(self.nights)

    @functools.cached_property
    def test(self) -> tuple[float, float]:
        """Hodges-Lehmann shift, and its one-sided Mann-Whitney p-value."""
        shift, p = ranks.two_samples(self.base[None], self.new[None])
        return float(shift[0]), float(p[0])

    @property
    def shift(self) -> float:
        return self.test[0]

    @functools.cached_property
    def within(self) -> float:
        """Standard error of the shift by the noise between repeats."""
        noise = float(ranks.spread(self.base[None])[0])
        return noise * math.sqrt(ranks.INEFFICIENCY * (1 / len(self.base) + 1 / len(self.new)))

    @property
    def between(self) -> float:
        """Standard error of the shift by the drift between sessions."""
        return self.drift * math.sqrt(1 / self.baseline_sessions + 1 / len(self.nights))

    @functools.cached_property
    def threshold(self) -> float:
        """The shift that counts as a change: beyond THRESHOLD, and beyond what days do."""
        least = math.log1p(THRESHOLD)
        if not self.drift:
            return least
        freedom = self.baseline_sessions - 1
        quantile = (
            special.stdtrit(freedom, 1 - DAY_ERROR) if freedom else special.ndtri(1 - DAY_ERROR)
        )
        return max(least, float(quantile) * math.hypot(self.within, self.between))

    def is_beyond(self, alpha: float) -> bool:
        shift, p = self.test
        return p <= alpha and abs(shift) > self.threshold

    def reach(self, alpha: float) -> float:
        """The shift that the pool finds with POWER, as a logarithm."""
        power = float(special.ndtri(POWER))
        least = max(
            math.log1p(DETECTABLE[0]), (float(special.ndtri(1 - alpha)) + power) * self.within
        )
        if not self.drift:
            return least
        return max(least, self.threshold + power * math.hypot(self.within, self.between))

    def watch(self, name: str, alpha: float) -> Watch:
        shift, p = self.test
        low, high = ranks.shift_interval(self.base, self.new)
        reach = self.reach(alpha)
        return Watch(
            name,
            math.expm1(shift),
            (
                math.expm1(shift - math.hypot(shift - low, 1.96 * self.between)),
                math.expm1(shift + math.hypot(high - shift, 1.96 * self.between)),
            ),
            p,
            len(self.nights),
            math.expm1(reach) if reach <= math.log1p(DETECTABLE[1]) else None,
        )
