"""Two variants measured interleaved: is B slower than A? Pure functions of paired samples.

Sample i of A and sample i of B come from launches at the same time, or one right after the other. A
disturbance then affects both and cancels in their ratio (duet benchmarking: Bulej et al., ICPE
2020). Only noise that A and B share cancels. The shared part is measured. Below LEAST_SHARED, A and
B are judged as two independent samples.

At each of PAIRS (in pairs):

- `regressed` or `improved` (B against A): the one-sided test is significant at the campaign's
  alpha, and the Hodges-Lehmann estimate of the change is beyond THRESHOLD.
- `ok`: tests at OK_ERROR show that the change is below the minimum detectable change on both sides.

`make bench-gate` measures the resulting error rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from nearmetal.stats import ranks
from nearmetal.stats.judge import JudgeError, changed, positive_logs
from nearmetal.stats.plan import DETECTABLE, PAIRS, POWER, THRESHOLD, alpha

#: Least shared part of the noise. Below it, two independent samples need fewer repeats than pairs.
LEAST_SHARED = 0.5
#: Chance that a change as large as the minimum detectable one is called `ok` at one analysis.
OK_ERROR = 0.0025
#: Standard error of the shared part on Fisher's scale, relative to that of a correlation in normal
#: noise (tests/unit/test_pairs.py).
WIDER = 1.15


@dataclass(frozen=True)
class PairDecision:
    """The test's decision on B against A."""

    #: Verdict: ok, regressed, improved, inconclusive.
    name: str
    #: As a fraction; > 0 is a higher value of B.
    change: float
    #: Of the change, 95 %.
    interval: tuple[float, float]
    #: p-value of the change's direction, at the deciding analysis.
    p: float
    #: Number of pairs used.
    pairs: int
    #: part of the variance that A and B share; < 0: they vary in opposite directions; None: unknown
    shared: float | None
    #: Of the shared part, 95 %.
    shared_interval: tuple[float, float]
    #: paired, unpaired
    method: str
    #: minimum detectable change as a fraction; None: above DETECTABLE[1]
    detectable: float | None
    #: inconclusive: pairs of the next analysis; None: there is no further analysis
    wanted: int | None = None


def judge_pairs(a, b, lower_is_better: bool, variables: int = 1) -> PairDecision:
    """Judge B against A in a campaign with this number of variables.

    :arg a, b: one positive value for each repeat, in the order of measurement and in any unit. a[i]
        and b[i] are a pair.
    :raises JudgeError: different numbers of values, no pair, or a value that is not positive and
        finite.
    """
    first, second = positive_logs(a, "samples of A"), positive_logs(b, "samples of B")
    if len(first) != len(second) or not len(first):
        raise JudgeError(f"{len(first)} samples of A and {len(second)} of B do not form pairs")
    if variables < 1:
        raise JudgeError(f"a campaign has at least one variable, not {variables}")
    error = alpha(variables)
    for count in PAIRS:
        if count > len(first):
            break
        analysis = _Analysis.of(first[:count], second[:count], error)
        if side := analysis.changed(error):
            return analysis.decision(changed(side, lower_is_better))
        if analysis.unchanged():
            return analysis.decision("ok")
    wanted = next((count for count in PAIRS if count > len(first)), None)
    return _Analysis.of(first, second, error).decision("inconclusive", wanted)


def shared_part(first: np.ndarray, second: np.ndarray) -> tuple[float | None, tuple[float, float]]:
    """Shared part of the variance of paired logarithms, (n,) each, and its 95 % interval.

    It is the correlation from the scales of sum and difference (Gnanadesikan and Kettenring, 1972).
    Each scale is a median of distances between pairs, so that a few outliers change little. None if
    nothing varies, or for fewer than five pairs.
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
class _Analysis:
    """The pairs of one analysis, judged paired or unpaired according to their shared part."""

    first: np.ndarray
    second: np.ndarray
    shared: float | None
    shared_interval: tuple[float, float]
    paired: bool
    shift: float
    #: Minimum detectable shift, NaN: none.
    detectable: float

    @classmethod
    def of(cls, first: np.ndarray, second: np.ndarray, error: float) -> _Analysis:
        shared, interval = shared_part(first, second)
        paired = shared is None or shared >= LEAST_SHARED  # unknown: they were measured as pairs
        if paired:
            differences = second - first
            shift, noise = ranks.centre(differences), float(ranks.spread(differences))
        else:
            shift = float(np.median(second[:, None] - first[None, :]))
            noise = math.hypot(ranks.spread(first), ranks.spread(second))
        deviation = noise * math.sqrt(ranks.INEFFICIENCY / PAIRS[-1])
        reach = (special.ndtri(1 - error) + special.ndtri(POWER)) * deviation
        detectable = max(math.log1p(DETECTABLE[0]), reach)
        if detectable > math.log1p(DETECTABLE[1]):
            detectable = math.nan
        return cls(first, second, shared, interval, paired, shift, detectable)

    def p(self, side: int, against: float = 0.0) -> float:
        """One-sided p-value of a shift of B's logarithm from A's to this side, by more than
        `against`."""
        if self.paired:
            return ranks.signed_rank(side * (self.second - self.first) - against)
        ahead = side * (self.second[:, None] - self.first[None, :]) - against
        count = np.count_nonzero(ahead > 0) + np.count_nonzero(ahead == 0) // 2
        return float(ranks.mann_whitney(len(self.second), len(self.first))[count])

    @property
    def side(self) -> int:
        return 1 if self.shift >= 0 else -1

    def changed(self, error: float) -> int:
        """The side of a change: 1 a higher value of B, -1 a lower one; 0: no change."""
        if abs(self.shift) <= math.log1p(THRESHOLD) or self.p(self.side) > error:
            return 0
        return self.side

    def unchanged(self) -> bool:
        """Whether the shift is below the minimum detectable one on both sides."""
        if not abs(self.shift) < self.detectable:
            return False
        return all(self.p(side, -self.detectable) <= OK_ERROR for side in (1, -1))

    def decision(self, name: str, wanted: int | None = None) -> PairDecision:
        if self.paired:
            low, high = ranks.centre_interval(self.second - self.first)
        else:
            low, high = ranks.shift_interval(self.first, self.second)
        return PairDecision(
            name,
            math.expm1(self.shift),
            (math.expm1(low), math.expm1(high)),
            self.p(self.side),
            len(self.first),
            self.shared,
            self.shared_interval,
            "paired" if self.paired else "unpaired",
            None if math.isnan(self.detectable) else math.expm1(self.detectable),
            wanted,
        )
