"""How much whole sessions move from day to day, beyond what their launches explain.  Pure functions.

A new session has its own day too, and no number of launches in it takes that away.  From one variable's dozen of sessions
a drift of half its launches' noise is hardly told from none.  All variables of a campaign together show it well, so what is
typical is estimated over them (as limma does for the variances of genes: Smyth, 2004) and given to the judge, who takes what
the variable shows by itself where that is more.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from scipy import special, stats

#: Drift is taken for none unless the sessions' ranks show it at this p-value.
SHOWN = 0.01
#: Median of |x - y| by the standard deviation of x and y, for normal noise.
PAIR = math.sqrt(2) * 0.6744898


def typical(baselines: Iterable[Sequence[Sequence[float]]]) -> float:
    """Standard deviation of sessions' common shifts, as a fraction, typical of these variables; 0 where none shows.

    :arg baselines: for each variable its sessions, each with one positive value a launch.
    """
    found = [levels(padded(sessions)[None]) for sessions in baselines if len(sessions) > 1]
    return together(*map(np.concatenate, zip(*found))) if found else 0.0


def padded(sessions: Sequence[Sequence[float]]) -> np.ndarray:
    """Logarithms, (sessions, launches of the longest), with NaN where a session holds fewer."""
    table = np.full((len(sessions), max(map(len, sessions))), math.nan)
    for row, session in zip(table, sessions):
        row[: len(session)] = np.log(session)
    return table


def levels(logs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of each variable in logs, (variables, sessions, launches): Kruskal and Wallis' statistic, its degrees of freedom, and
    the variance of the sessions' shifts (below 0 where the launches' noise explains more than there is)."""
    variables, sessions, launches = logs.shape
    held = np.isfinite(logs)
    sizes, total = held.sum(axis=2), held.sum(axis=(1, 2))
    ranks = stats.rankdata(np.where(held, logs, np.inf).reshape(variables, -1), axis=1).reshape(
        logs.shape
    )
    off = np.where(held, ranks - ((total + 1) / 2)[:, None, None], 0)
    squares = (off**2).sum(axis=(1, 2))
    between = (off.sum(axis=2) ** 2 / np.maximum(sizes, 1)).sum(axis=1)
    freedom = np.where(squares > 0, sessions - 1, 0)  # launches that are all equal tell nothing
    statistic = (total - 1) * between / np.where(squares > 0, squares, 1)
    # Medians, and differences within a session: neither minds a few outliers, nor, the latter, a session's shift.
    centres = np.nanmedian(logs, axis=2)
    first, second = np.triu_indices(launches, 1)
    apart = np.abs(logs[:, :, first] - logs[:, :, second]).reshape(variables, -1)
    noise = (
        np.nanmedian(apart, axis=1) / PAIR
        if apart.size and np.isfinite(apart).any()
        else np.zeros(variables)
    )
    # A median of n launches has about this part of one launch's variance; exact for 1 and for many.
    of_centre = (math.pi / 2 / (sizes + math.pi / 2 - 1)).mean(axis=1)
    # The median of a variance's estimate lies below it, and the median is what `together` takes.
    low = special.chdtri(sessions - 1, 0.5) / (sessions - 1)
    return statistic, freedom, np.var(centres, axis=1, ddof=1) / low - noise**2 * of_centre


def together(statistic: np.ndarray, freedom: np.ndarray, variance: np.ndarray) -> float:
    """The drift that is typical of variables with these `levels`."""
    if not freedom.sum() or special.chdtrc(freedom.sum(), statistic.sum()) > SHOWN:
        return 0.0
    return math.sqrt(max(0.0, np.median(variance[freedom > 0])))


def each(statistic: np.ndarray, freedom: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The drift of each of these variables: what is typical of them, or more where it shows more by itself."""
    shows = special.chdtrc(np.maximum(freedom, 1), statistic) <= SHOWN
    alone = np.sqrt(np.where((freedom > 0) & shows, np.maximum(variance, 0), 0))
    return np.maximum(together(statistic, freedom, variance), alone)
