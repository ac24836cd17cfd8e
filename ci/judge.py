"""Did a variable change?  A sequential rank test of fresh launches against a baseline.  Pure functions.

One sample is one fresh launch: what varies between launches is the noise that counts (Kalibera and Jones, Rigorous
benchmarking in reasonable time, ISMM 2013), and rank tests and medians stand the outliers that means don't
(Hoefler and Belli, Scientific benchmarking of parallel computing systems, SC15, rules 5 to 8).

At each of LOOKS launches the new samples are compared with the baseline's: `regressed` or `improved` where a one-sided
Mann-Whitney test says so *and* the Hodges-Lehmann estimate of the change is beyond THRESHOLD; `ok` where that estimate
stays MARGIN standard errors below the smallest change that can be found; else more launches are asked for.  The error rate
of a whole campaign is shared equally (Bonferroni) by its variables and the looks, so that looking again costs nothing that
was not paid for.  How often it errs is measured: ci/bench_gate.py.
"""
import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

#: Numbers of launches after which a verdict is sought; the last is where asking ends.
LOOKS = (5, 7, 10, 14, 20, 32, 50, 75)
#: Fewer samples in a baseline than this cannot give a p-value as small as a campaign's share.
LEAST_BASELINE = 20
#: Share of unchanged campaigns that may raise any alarm, which is a variable called `regressed`.
CAMPAIGN_ERROR = 0.05
#: A change below this fraction is of no practical interest, however sure.
THRESHOLD = 0.02
#: The smallest change worth finding, and the largest for which more launches are worth their time (see `resolution`).
SIZES = (0.05, 0.20)
#: Standard errors by which the estimate must stay below that size for `ok`.
MARGIN = 3.0
#: Power that `resolution` asks for.
POWER = 0.95
#: Variance of the Hodges-Lehmann estimate by that of the mean, for normal noise (Lehmann, 1963).
INEFFICIENCY = math.pi / 3


class JudgeError(ValueError):
    """The samples can't be judged; the message says why."""


@dataclass(frozen=True)
class Verdict:
    word: str                       #: ok, regressed, improved, inconclusive
    change: float                   #: fraction by which the variable changed; > 0 is a higher value
    interval: tuple[float, float]   #: of the change, 95 %
    p: float                        #: of the direction in which it changed, at the look that decided
    launches: int                   #: that the verdict used
    size: float | None              #: the smallest change that can be found in this noise, as a fraction; None: not even SIZES[1]
    wanted: int | None = None       #: inconclusive: launches at which it would be asked again; None: no number of LOOKS is enough


def judge(baseline, launches, lower_is_better: bool, variables: int = 1) -> Verdict:
    """Judge one variable of a campaign of so many variables.

    :arg baseline: one value a launch, at least LEAST_BASELINE, positive, any unit.
    :arg launches: one value a fresh launch in the order of measurement, same unit; what lies beyond the last look that is
        reached waits for the next.
    :raises JudgeError: too few samples, or a value that is not positive and finite.
    """
    base, new = _logs(baseline, 'baseline'), _logs(launches, 'launches')
    if len(base) < LEAST_BASELINE:
        raise JudgeError(f'the baseline holds {len(base)} launches; at least {LEAST_BASELINE} are needed: record more sessions')
    if not len(new):
        raise JudgeError('no launch to judge')
    if variables < 1:
        raise JudgeError(f'a campaign has at least one variable, not {variables}')
    share = CAMPAIGN_ERROR / variables / len(LOOKS)
    noise = spread(base)
    size = resolution(noise, len(base), share)
    for count in (count for count in LOOKS if count <= len(new)):
        look = _look(base, new[:count])
        word = _word(look, noise, len(base), count, size, share, lower_is_better)
        if word != 'inconclusive':
            return Verdict(word, look.change, look.interval, look.p, count, size)
    look = _look(base, new)
    wanted = next((count for count in LOOKS if count > len(new)), None)
    return Verdict('inconclusive', look.change, look.interval, look.p, len(new), size, wanted)


def spread(logs: np.ndarray) -> float:
    """Robust standard deviation of logarithms, from the median absolute deviation: the coefficient of variation."""
    return float(1.4826 * np.median(np.abs(logs - np.median(logs))))


def standard_error(noise: float, baseline: int, launches: int) -> float:
    """Of the Hodges-Lehmann estimate of the logarithm of the change."""
    return noise * math.sqrt(INEFFICIENCY * (1 / baseline + 1 / launches))


def resolution(noise: float, baseline: int, share: float) -> float | None:
    """The change that the last look finds with POWER at that error, but no smaller than SIZES[0]; None above SIZES[1]."""
    reach = (special.ndtri(1 - share) + special.ndtri(POWER)) * standard_error(noise, baseline, LOOKS[-1])
    size = max(SIZES[0], math.expm1(reach))
    return size if size <= SIZES[1] else None


@dataclass(frozen=True)
class _Look:
    change: float
    interval: tuple[float, float]
    p: float


def _logs(values, what: str) -> np.ndarray:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or not np.all(np.isfinite(array) & (array > 0)):
        raise JudgeError(f'the {what} hold a value that is not positive and finite: {array.tolist()}')
    return np.log(array)


def _look(base: np.ndarray, new: np.ndarray) -> _Look:
    """Estimate, interval and one-sided p-value in the estimate's direction."""
    differences = np.sort((new[:, None] - base[None, :]).ravel())
    change = float(np.median(differences))
    # The interval that belongs to the test: order statistics of the differences (Hollander and Wolfe, section 4.3).
    pairs = len(differences)
    half = 1.96 * math.sqrt(pairs * (len(base) + len(new) + 1) / 12)
    low, high = max(0, math.floor(pairs / 2 - half)), min(pairs - 1, math.ceil(pairs / 2 + half) - 1)
    sign = 1 if change >= 0 else -1
    ahead = np.count_nonzero(sign * differences > 0) + np.count_nonzero(differences == 0) / 2
    return _Look(math.expm1(change), (math.expm1(differences[low]), math.expm1(differences[high])),
                 _mann_whitney(ahead, len(new), len(base)))


def _mann_whitney(u: float, new: int, base: int) -> float:
    """P(U >= u) if nothing changed; a tie counts half and is rounded to the safe side."""
    return float(_tail(new, base)[math.floor(u)])


@lru_cache
def _tail(new: int, base: int) -> np.ndarray:
    """P(U >= u) for every u, exactly: the coefficients of the Gaussian binomial (Mann and Whitney, 1947)."""
    counts = np.zeros(new * base + 1)
    counts[0] = 1
    for i in range(1, new + 1):
        numerator = counts.copy()
        numerator[base + i:] -= counts[:max(0, len(counts) - base - i)]
        for start in range(i):  # divided by 1 - q^i
            numerator[start::i] = np.cumsum(numerator[start::i])
        counts = numerator
    return np.cumsum((counts / counts.sum())[::-1])[::-1]


def _word(look: _Look, noise, baseline, count, size, share, lower_is_better) -> str:
    if look.p <= share and abs(look.change) > THRESHOLD:
        return 'regressed' if (look.change > 0) == lower_is_better else 'improved'
    reach = abs(math.log1p(look.change)) + MARGIN * standard_error(noise, baseline, count)
    return 'ok' if size is not None and reach < math.log1p(size) else 'inconclusive'
