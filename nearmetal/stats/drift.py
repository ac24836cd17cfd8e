"""Drift: the variation of whole sessions from day to day, beyond the noise of their samples.

A new session has its own day's shift, which more samples of that day do not reduce. A dozen
sessions of one variable hardly show a drift of half its noise. All variables of a campaign
together show it well. So the typical drift is estimated from all variables (as limma does for the
variances of genes: Smyth, 2004). The judge uses the typical drift, or that of the variable alone if
it is larger. Pure functions.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import special, stats

#: p-value of the sessions' ranks above which the drift counts as 0.
SHOWN = 0.01
#: Median of |x - y| relative to the standard deviation of x and y, for normal noise.
PAIR = math.sqrt(2) * 0.6744898


def typical(baselines: Iterable[Sequence[Sequence[float]]]) -> float:
    """Typical drift of these variables: standard deviation of the sessions' shifts, as a fraction.

    0 if there is no significant drift.

    :arg baselines: the sessions of each variable, with one positive value for each repeat.
    """
    found = [levels(padded(sessions)[None]) for sessions in baselines if len(sessions) > 1]
    return together(*map(np.concatenate, zip(*found))) if found else 0.0


def padded(sessions: Sequence[Sequence[float]]) -> np.ndarray:
    """Logarithms, (sessions, most samples of a session), with NaN for missing samples."""
    table = np.full((len(sessions), max(map(len, sessions))), math.nan)
    for row, session in zip(table, sessions):
        row[: len(session)] = np.log(session)
    return table


def levels(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kruskal-Wallis statistic, degrees of freedom and variance of the sessions' shifts.

    Each has one entry for each variable in logs, (variables, sessions, samples). A variance below 0
    means that the samples' noise explains more than the observed variation.
    """
    variables, sessions, samples = logs.shape
    held = np.isfinite(logs)
    sizes, total = held.sum(axis=2), held.sum(axis=(1, 2))
    ranks = stats.rankdata(np.where(held, logs, np.inf).reshape(variables, -1), axis=1).reshape(
        logs.shape
    )
    off = np.where(held, ranks - ((total + 1) / 2)[:, None, None], 0)
    squares = (off**2).sum(axis=(1, 2))
    between = (off.sum(axis=2) ** 2 / np.maximum(sizes, 1)).sum(axis=1)
    freedom = np.where(squares > 0, sessions - 1, 0)  # equal samples carry no information
    statistic = (total - 1) * between / np.where(squares > 0, squares, 1)
    # Medians and differences within a session are robust. The differences do not contain the
    # session's shift.
    centres = np.nanmedian(logs, axis=2)
    first, second = np.triu_indices(samples, 1)
    apart = np.abs(logs[:, :, first] - logs[:, :, second]).reshape(variables, -1)
    noise = np.zeros(variables)
    if apart.size and np.isfinite(apart).any():
        noise = np.nanmedian(apart, axis=1) / PAIR
    # Variance of a median of n samples relative to one sample: exact for 1 and for many.
    of_centre = (math.pi / 2 / (sizes + math.pi / 2 - 1)).mean(axis=1)
    # The median of variance estimates is below the variance, and `together` uses the median.
    low = special.chdtri(sessions - 1, 0.5) / (sessions - 1)
    return statistic, freedom, np.var(centres, axis=1, ddof=1) / low - noise**2 * of_centre


def together(statistic: np.ndarray, freedom: np.ndarray, variance: np.ndarray) -> float:
    """The typical drift of variables with these `levels`."""
    if not freedom.sum() or special.chdtrc(freedom.sum(), statistic.sum()) > SHOWN:
        return 0.0
    return math.sqrt(max(0.0, np.median(variance[freedom > 0])))


def each(statistic: np.ndarray, freedom: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The drift of each variable: the typical one, or its own if that is significant and larger."""
    shows = special.chdtrc(np.maximum(freedom, 1), statistic) <= SHOWN
    alone = np.sqrt(np.where((freedom > 0) & shows, np.maximum(variance, 0), 0))
    return np.maximum(together(statistic, freedom, variance), alone)
