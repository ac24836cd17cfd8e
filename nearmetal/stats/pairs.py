"""Two variants measured in turns: is B slower than A?  Pure functions of paired launches.

Launch i of A and of B ran together or one right after the other, so that what troubles the machine troubles both, and
drops out of their ratio (duet benchmarking: Bulej et al., ICPE 2020). That helps only as far as the noise is shared: the
shared part is measured, and below LEAST_SHARED the launches are judged as two independent samples instead.

At each of LOOKS pairs: `regressed` or `improved` (B against A) where the one-sided test says so at the campaign's share of
error and the Hodges-Lehmann estimate of the change is beyond THRESHOLD; `ok` where tests at OK_ERROR say that it is smaller
than the smallest change that can be found, either way. How often it errs is measured: bench_gate.py.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from nearmetal.stats import ranks
from nearmetal.stats.judge import CAMPAIGN_ERROR, JudgeError, positive_logs
from nearmetal.stats.sequential import LOOKS, POWER, SIZES, THRESHOLD

#: Where less of the noise is shared, pairs have more than half of the variance left: two samples find as much, sooner.
LEAST_SHARED = 0.5
#: Chance that a change of the smallest size passes for `ok` at a look.
OK_ERROR = 0.0025
#: Standard error of the shared part on Fisher's scale by that of a correlation of normal noise (see tests/test_pairs.py).
WIDER = 1.15


@dataclass(frozen=True)
class PairVerdict:
    word: str  #: ok, regressed, improved, inconclusive: B against A
    change: float  #: of B against A, as a fraction; > 0 is a higher value
    interval: tuple[float, float]  #: of the change, 95 %
    p: float  #: of the direction in which it changed, at the look that decided
    pairs: int  #: that the verdict used
    shared: (
        float | None
    )  #: part of the variance that A and B share; < 0: in opposite ways; None: unknown
    shared_interval: tuple[float, float]  #: of it, 95 %
    method: str  #: paired, unpaired
    size: (
        float | None
    )  #: the smallest change that can be found, as a fraction; None: not even SIZES[1]
    wanted: int | None = (
        None  #: inconclusive: pairs at which it is asked again; None: LOOKS are exhausted
    )


def judge_pairs(a, b, lower_is_better: bool, variables: int = 1) -> PairVerdict:
    """Judge B against A in a campaign of so many variables.

    :arg a, b: one value a launch, in the order of measurement; a[i] and b[i] are of the same pair. Positive, any unit.
    :raises JudgeError: not as many of the one as of the other, no pair, or a value that is not positive and finite.
    """
    first, second = positive_logs(a, "launches of A"), positive_logs(b, "launches of B")
    if len(first) != len(second) or not len(first):
        raise JudgeError(f"{len(first)} launches of A and {len(second)} of B are no pairs")
    if variables < 1:
        raise JudgeError(f"a campaign has at least one variable, not {variables}")
    share = CAMPAIGN_ERROR / variables / len(LOOKS)
    for count in (count for count in LOOKS if count <= len(first)):
        look = _Look.at(first[:count], second[:count], share)
        if side := look.changed(share):
            return look.verdict("regressed" if (side > 0) == lower_is_better else "improved")
        if look.unchanged():
            return look.verdict("ok")
    look = _Look.at(first, second, share)
    return look.verdict(
        "inconclusive", next((count for count in LOOKS if count > len(first)), None)
    )


def shared_part(first: np.ndarray, second: np.ndarray) -> tuple[float | None, tuple[float, float]]:
    """Part of the variance of pairs' logarithms, (n,) each, that both share, and its 95 % interval.

    The correlation by the scales of sum and difference (Gnanadesikan and Kettenring, 1972), each of which is a median of
    distances between pairs, so that a few outliers change little. None where nothing varies, or of fewer than five pairs.
    """
    if len(first) < 5:
        return None, (-1.0, 1.0)
    i, j = np.triu_indices(len(first), 1)
    both, apart = (np.median(np.abs(x[i] - x[j])) ** 2 for x in (first + second, first - second))
    if not both + apart:
        return None, (-1.0, 1.0)
    part = float((both - apart) / (both + apart))
    reach = 1.96 * WIDER / math.sqrt(len(first) - 3)
    middle = math.atanh(min(max(part, -1 + 1e-12), 1 - 1e-12))
    return part, (math.tanh(middle - reach), math.tanh(middle + reach))


@dataclass(frozen=True)
class _Look:
    """The pairs so far, by the method that their shared part calls for."""

    first: np.ndarray
    second: np.ndarray
    shared: float | None
    shared_interval: tuple[float, float]
    paired: bool
    shift: float
    size: float  #: smallest shift that can be found, NaN: none

    @classmethod
    def at(cls, first: np.ndarray, second: np.ndarray, share: float) -> "_Look":
        shared, interval = shared_part(first, second)
        paired = shared is None or shared >= LEAST_SHARED  # unknown: pairs are what was measured
        differences = second - first
        if paired:
            shift, noise = ranks.centre(differences), float(ranks.spread(differences))
        else:
            shift = float(np.median(second[:, None] - first[None, :]))
            noise = math.hypot(ranks.spread(first), ranks.spread(second))
        error = noise * math.sqrt(ranks.INEFFICIENCY / LOOKS[-1])
        size = max(math.log1p(SIZES[0]), (special.ndtri(1 - share) + special.ndtri(POWER)) * error)
        return cls(
            first,
            second,
            shared,
            interval,
            paired,
            shift,
            size if size <= math.log1p(SIZES[1]) else math.nan,
        )

    def p(self, side: int, against: float = 0.0) -> float:
        """One-sided, for B's logarithm being further to that side of A's than `against`."""
        if self.paired:
            return ranks.signed_rank(side * (self.second - self.first) - against)
        ahead = side * (self.second[:, None] - self.first[None, :]) - against
        count = np.count_nonzero(ahead > 0) + np.count_nonzero(ahead == 0) // 2
        return float(ranks.mann_whitney(len(self.second), len(self.first))[count])

    @property
    def side(self) -> int:
        return 1 if self.shift >= 0 else -1

    def changed(self, share: float) -> int:
        return (
            self.side
            if abs(self.shift) > math.log1p(THRESHOLD) and self.p(self.side) <= share
            else 0
        )

    def unchanged(self) -> bool:
        return abs(self.shift) < self.size and all(
            self.p(side, -self.size) <= OK_ERROR for side in (1, -1)
        )

    def verdict(self, word: str, wanted: int | None = None) -> PairVerdict:
        low, high = (
            ranks.centre_interval(self.second - self.first)
            if self.paired
            else ranks.shift_interval(self.first, self.second)
        )
        return PairVerdict(
            word,
            math.expm1(self.shift),
            (math.expm1(low), math.expm1(high)),
            self.p(self.side),
            len(self.first),
            self.shared,
            self.shared_interval,
            "paired" if self.paired else "unpaired",
            None if math.isnan(self.size) else math.expm1(self.size),
            wanted,
        )
