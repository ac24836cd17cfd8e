"""Drift: how much whole sessions vary from day to day, beyond the noise of their samples.

A new session has its own day's shift, which more samples of that day do not reduce. A dozen
sessions of one variable hardly show a drift of half its noise. All variables of a campaign
together show it well. So the typical drift is estimated over them (as limma does for the variances
of genes: Smyth, 2004). The judge uses it, or the drift of the variable alone where that is larger.
Pure functions.
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

    :arg baselines: for each variable its sessions, each with one positive value a repeat.
    """
    found = [levels(padded(sessions)[None]) for sessions in baselines if len(sessions) > 1]
    return together(*map(np.concatenate, zip(*found))) if found else 0.0


def padded(sessions: Sequence[Sequence[float]]) -> np.ndarray:
    """Logarithms, (sessions, samples of the longest), with NaN where a session holds fewer."""
    table = np.full((len(sessions), max(map(len, sessions))), math.nan)
    for row, session in zip(table, sessions):
        row[: len(session)] = np.log(session)
    return table


def levels(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kruskal-Wallis statistic, degrees of freedom and variance of the sessions' shifts.

    Of each variable in logs, (variables, sessions, samples). A variance below 0 means that the
    samples' noise explains more than there is.
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
    # Medians and differences within a session are robust; the latter do not contain a session's
    # shift.
    centres = np.nanmedian(logs, axis=2)
    first, second = np.triu_indices(samples, 1)
    apart = np.abs(logs[:, :, first] - logs[:, :, second]).reshape(variables, -1)
    noise = np.zeros(variables)
    if apart.size and np.isfinite(apart).any():
        noise = np.nanmedian(apart, axis=1) / PAIR
    # Variance of a median of n samples relative to one sample: exact for 1 and for many.
    of_centre = (math.pi / 2 / (sizes + math.pi / 2 - 1)).mean(axis=1)
    # The median of a variance's estimate lies below the variance, and `together` takes the median.
    low = special.chdtri(sessions - 1, 0.5) / (sessions - 1)
    return statistic, freedom, np.var(centres, axis=1, ddof=1) / low - noise**2 * of_centre


def together(statistic: np.ndarray, freedom: np.ndarray, variance: np.ndarray) -> float:
    """The typical drift of variables with these `levels`."""
    if not freedom.sum() or special.chdtrc(freedom.sum(), statistic.sum()) > SHOWN:
        return 0.0
    return math.sqrt(max(0.0, np.median(variance[freedom > 0])))


def each(statistic: np.ndarray, freedom: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The drift of each variable: the typical one, or its own if significant and larger."""
    shows = special.chdtrc(np.maximum(freedom, 1), statistic) <= SHOWN
    alone = np.sqrt(np.where((freedom > 0) & shows, np.maximum(variance, 0), 0))
    return np.maximum(together(statistic, freedom, variance), alone)
