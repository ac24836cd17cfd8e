"""The bootstrap of nearmetal/stats/nearness.py by NumPy, for sessions of many variables.

It draws the same samples, so that the shares do not depend on the number of variables.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence

import numpy as np

from nearmetal.stats.nearness import DRAWS, SEED, Pair

#: Numbers of samples of each pair: on the base, and elsewhere.
Sizes = tuple[tuple[int, int], ...]
#: Of each draw, how often it holds each sample: (samples, draws).
Counts = np.ndarray


def drawn(pairs: Sequence[Pair]) -> list[float]:
    """Sum of the pairs' logarithms of shares in each draw, ascending."""
    sizes = tuple((len(pair.base), len(pair.other)) for pair in pairs)
    bases = _log_medians_of_bases(tuple(pair.base for pair in pairs), sizes)
    total = np.zeros(DRAWS)
    for pair, base, (_, counts) in zip(pairs, bases, _counts(sizes)):
        logs = base - _log_medians(pair.other, counts)
        total += logs if pair.lower_is_better else -logs
    return np.sort(total).tolist()


@functools.lru_cache(maxsize=8)
def _log_medians_of_bases(
    bases: tuple[tuple[float, ...], ...], sizes: Sizes
) -> tuple[np.ndarray, ...]:
    """Cached, as all partitions are compared with one base."""
    pairs = zip(bases, _counts(sizes))
    return tuple(_log_medians(samples, counts) for samples, (counts, _) in pairs)


@functools.lru_cache(maxsize=8)
def _counts(sizes: Sizes) -> tuple[tuple[Counts, Counts], ...]:
    """The counts of each pair, on the base and elsewhere."""
    # Python's generator and NumPy's are the same one: with one state they draw the same numbers.
    _, state, _ = random.Random(SEED).getstate()
    generator = np.random.RandomState()
    generator.set_state(("MT19937", np.array(state[:-1], np.uint32), state[-1], 0, 0.0))
    counts = []
    for base, other in sizes:
        # One call a pair, as nearness.py draws: base and other take their numbers in turns.
        numbers = generator.random_sample((DRAWS, base + other))
        counts.append((_counted(numbers[:, :base]), _counted(numbers[:, base:])))
    return tuple(counts)


def _counted(numbers: np.ndarray) -> Counts:
    """The counts of draws, each of which chose samples by numbers from 0 to 1, (draws, samples)."""
    draws, size = numbers.shape
    chosen = (numbers * size).astype(int) + size * np.arange(draws)[:, None]
    counts = np.bincount(chosen.ravel(), minlength=draws * size)
    return counts.reshape(draws, size).T.astype(np.min_scalar_type(size))


def _log_medians(samples: Sequence[float], counts: Counts) -> np.ndarray:
    """Logarithm of the median of each draw."""
    values, size = np.array(samples), len(samples)
    order = values.argsort()
    ordered = values[order]
    # The median is the first sample up to which a draw holds half of its samples.
    up_to = counts[order].cumsum(axis=0, dtype=counts.dtype)
    low = (up_to < (size + 1) // 2).sum(axis=0)
    high = (up_to < size // 2 + 1).sum(axis=0) if size % 2 == 0 else low
    return np.log((ordered[low] + ordered[high]) / 2)
