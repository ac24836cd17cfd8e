"""Exact rank tests and their estimates, for many trials at once. Pure functions of logarithms."""

import math
from functools import lru_cache

import numpy as np
from scipy import special

#: Variance of the Hodges-Lehmann estimate relative to the mean, for normal noise (Lehmann, 1963).
INEFFICIENCY = math.pi / 3
#: Logarithm of the number of orders of two samples that a float holds, with a margin.
MOST_ORDERS = 600.0
#: Efficiency of the median absolute deviation for normal noise (Rousseeuw and Croux, Alternatives
#: to the median absolute deviation, JASA 88, 1993, section 2).
SPREAD_EFFICIENCY = 0.3674
#: Efficiency of Qn for ten normal values or a few more: of five it is less, of a hundred 0.8
#: (section 3 there, and by simulation).
QN_EFFICIENCY = 0.6
#: Factors that remove the bias of Qn for so many values (Croux and Rousseeuw, Time-efficient
#: algorithms for two highly robust estimators of scale, COMPSTAT 1992, section 4).
QN_FACTORS = {2: 0.399, 3: 0.994, 4: 0.512, 5: 0.844, 6: 0.611, 7: 0.857, 8: 0.669, 9: 0.872}


def spread(logs: np.ndarray) -> np.ndarray:
    """Robust standard deviation over the last axis, from the median absolute deviation.

    For logarithms, this is the coefficient of variation.
    """
    return 1.4826 * np.median(np.abs(logs - np.median(logs, axis=-1, keepdims=True)), axis=-1)


def qn(values: np.ndarray) -> float:
    """Qn: robust standard deviation of values, (n,), from the differences of all pairs.

    It is more efficient than `spread`, and takes n * n / 2 differences.
    """
    count = len(values)
    half = count // 2 + 1
    place = half * (half - 1) // 2 - 1
    first, second = np.triu_indices(count, 1)
    apart = np.partition(np.abs(values[first] - values[second]), place)[place]
    by_count = count / (count + (1.4 if count % 2 else 3.8))
    return 2.2219 * QN_FACTORS.get(count, by_count) * float(apart)


def two_samples(base: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hodges-Lehmann shift of `new`, (trials, n), against `base`, (trials, m), and its p-value.

    The Mann-Whitney p-value is one-sided, in the direction of the shift, and exact. A tie counts
    half. The sum is rounded so that the p-value is never too small.
    """
    differences = (new[:, :, None] - base[:, None, :]).reshape(len(base), -1)
    shift = np.median(differences, axis=1)
    signed = differences * np.where(shift >= 0, 1, -1)[:, None]
    ahead = np.count_nonzero(signed > 0, axis=1) + np.count_nonzero(signed == 0, axis=1) // 2
    return shift, mann_whitney(new.shape[1], base.shape[1])[ahead]


def shift_interval(base: np.ndarray, new: np.ndarray) -> tuple[float, float]:
    """95 % interval of the shift from order statistics (Hollander and Wolfe, section 4.3)."""
    differences = np.sort((new[:, None] - base[None, :]).ravel())
    return _order(differences, math.sqrt(len(differences) * (len(base) + len(new) + 1) / 12))


def centre(differences: np.ndarray) -> float:
    """Hodges-Lehmann centre of paired differences, (n,): the median of their Walsh averages."""
    first, second = np.triu_indices(len(differences))
    return float(np.median(differences[first] + differences[second]) / 2)


def centre_interval(differences: np.ndarray) -> tuple[float, float]:
    """95 % interval of the centre from order statistics (Hollander and Wolfe, section 3.3)."""
    count = len(differences)
    first, second = np.triu_indices(count)
    walsh = np.sort((differences[first] + differences[second]) / 2)
    return _order(walsh, math.sqrt(count * (count + 1) * (2 * count + 1) / 24))


def signed_rank(differences: np.ndarray) -> float:
    """Wilcoxon signed-rank test: P(W >= w) if differences, (n,), are symmetric about 0. Exact.

    The p-value is never too small: zeros count as negative, and a tie has the mean rank, rounded
    down in the sum.
    """
    size = np.abs(differences)
    order = np.sort(size)
    ranks = (np.searchsorted(order, size, "left") + 1 + np.searchsorted(order, size, "right")) / 2
    return float(wilcoxon(len(size))[math.floor(ranks[differences > 0].sum())])


@lru_cache
def mann_whitney(new: int, base: int) -> np.ndarray:
    """P(U >= u) for every u: coefficients of the Gaussian binomial (Mann and Whitney, 1947).

    Beyond MOST_ORDERS, by the normal approximation with its correction for continuity.
    """
    orders = special.gammaln(new + base + 1) - special.gammaln(new + 1) - special.gammaln(base + 1)
    if orders > MOST_ORDERS:
        deviation = math.sqrt(new * base * (new + base + 1) / 12)
        return special.ndtr((new * base / 2 + 0.5 - np.arange(new * base + 1)) / deviation)
    counts = np.zeros(new * base + 1)
    counts[0] = 1
    for i in range(1, new + 1):
        numerator = counts.copy()
        numerator[base + i :] -= counts[: max(0, len(counts) - base - i)]
        for start in range(i):  # divided by 1 - q^i
            numerator[start::i] = np.cumsum(numerator[start::i])
        counts = numerator
    return _upper(counts)


@lru_cache
def wilcoxon(count: int) -> np.ndarray:
    """P(W >= w) for every w: coefficients of the product of 1 + q^i over ranks (Wilcoxon, 1945)."""
    counts = np.zeros(count * (count + 1) // 2 + 1)
    counts[0] = 1
    for rank in range(1, count + 1):
        counts[rank:] += counts[:-rank].copy()
    return _upper(counts)


def _upper(counts: np.ndarray) -> np.ndarray:
    # Rounding may leave a chance of -1e-16.
    return np.clip(np.cumsum((counts / counts.sum())[::-1])[::-1], 0, 1)


def _order(sorted_values: np.ndarray, deviation: float) -> tuple[float, float]:
    count = len(sorted_values)
    low = max(0, math.floor(count / 2 - 1.96 * deviation))
    high = min(count - 1, math.ceil(count / 2 + 1.96 * deviation) - 1)
    return float(sorted_values[low]), float(sorted_values[high])
