"""What the days of a baseline say of other days: how they resemble each other, and how far one may
go. Pure functions.

Days have a memory: the shift of a day resembles that of the day before. The mean of several days
then varies more than that of independent days, and the more, the longer the baseline is over. The
variogram shows it without knowing the mean (Cressie, Statistics for Spatial Data, 1993, section
2.4). Few days of one variable tell nothing of it, so that all variables share one autocorrelation.

The shifts of days may also have heavy tails, or come from a few modes. No normal drift covers them.
So a change that one day alone shows must show on another day too, unless it is far beyond all days
of the baseline.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import cache, lru_cache

import numpy as np
from scipy import special

from nearmetal.stats import drift, ranks
from nearmetal.stats.plan import LEAST_DAYS
from nearmetal.stats.variances import moderated

#: Lags of days that show the autocorrelation.
LAGS = (1, 2, 3)
#: Standard errors by which days must resemble each other more than independent ones.
RESEMBLE = 1.645
#: Autocorrelations from one day to the next. The last is almost a random walk.
MEMORIES = tuple(np.linspace(0, 0.98, 99).tolist())
#: A change beyond so many times the farthest day of the baseline needs no second day. Of twelve
#: days whose tail falls with the square of the shift, a thirteenth goes as far in 1 %.
FAR = 3.0
#: The farthest day is sought among the variables that are at most so many times as noisy.
AS_NOISY = 2.0
#: Chance that an unchanged baseline has a step, least size of one, and fewest days of a level.
STEP_ERROR, STEP, LEAST_LEVEL = 0.01, 0.05, 2
#: Least variance.
TINY = 1e-18
#: p-value with which another day shows half of a change.
ANOTHER_DAY = 0.01


def memory(baselines: Sequence[Sequence[Sequence[float]]]) -> float:
    """The autocorrelation from one day to the next, of all variables together; 0: none.

    Only variables with the most frequent number of days count.

    :arg baselines: days of each variable, with one positive value for each repeat.
    """
    by_days: dict[int, list[np.ndarray]] = {}
    for _, logs in drift.tables(baselines):
        _, count, samples = logs.shape
        if count >= LEAST_DAYS and samples > 1:
            by_days.setdefault(count, []).append(_variogram(drift.scores(logs)))
    if not by_days:
        return 0.0
    variograms = [np.concatenate(parts, axis=1) for parts in by_days.values()]
    days, (near, every, noise) = max(zip(by_days, variograms), key=lambda one: one[1].shape[1])
    # 1 for independent days, and less where days that are near each other are alike.
    ratio = near.sum() / every.sum()
    error = math.sqrt(((near - ratio * every) ** 2).sum()) / every.sum()
    if 1 - ratio <= RESEMBLE * error:
        return 0.0
    by_noise = min(noise.sum() / every.sum(), 0.99)
    of_days = (ratio - by_noise) / (1 - by_noise)
    return min(MEMORIES, key=lambda memory: abs(_resembling(memory, days) - of_days))


def _variogram(scores: np.ndarray) -> np.ndarray:
    """Of (variables, days, samples): half the mean squared difference between the means of days
    that are LAGS apart, the same of all days, and its part by noise; (3, variables)."""
    sizes, means = np.isfinite(scores).sum(axis=2), np.nanmean(scores, axis=2)
    near = [((means[:, lag:] - means[:, :-lag]) ** 2).mean(axis=1) / 2 for lag in LAGS]
    noise = drift.squares(scores)[1] * (1 / sizes).mean(axis=1)
    return np.array([np.mean(near, axis=0), means.var(axis=1, ddof=1), noise])


@cache
def _resembling(memory: float, days: int) -> float:
    """The variogram at LAGS relative to that of all pairs of so many days."""
    near = np.mean([_apart(memory, np.array(lag)) for lag in LAGS])
    return float(near / _apart(memory, _lags(days)).mean())


def _apart(memory: float, lags: np.ndarray) -> np.ndarray:
    """Half the mean squared difference of days so far apart, in units of the days' variance."""
    if memory:
        return 1 - memory**lags
    return np.where(lags > 0, 1.0, 0.0)


def _lags(days: int) -> np.ndarray:
    """Distances of all pairs of so many days."""
    first, second = np.triu_indices(days, 1)
    return second - first


@lru_cache(maxsize=4096)
def contrast(
    memory: float, known: tuple[int, ...], new: tuple[int, ...], between: int = 0
) -> float:
    """Variance of the mean of new days less that of the baseline's, in units of the drift's square.

    A day with more samples weighs more. Of independent days, one against a dozen: 1 + 1/12.

    :arg known: samples of each day of the baseline.
    :arg new: samples of each new day.
    :arg between: number of days between both.
    """
    weights = np.concatenate([-np.array(known) / sum(known), np.array(new) / sum(new)])
    places = np.arange(len(weights))
    places[len(known) :] += between
    apart = _apart(memory, np.abs(places[:, None] - places))
    # The drift is what the baseline's days show of it: in a dozen days less than in a year.
    shown = _apart(memory, _lags(len(known))).mean() if len(known) > 1 else 1.0
    return float(-(weights[:, None] * weights * apart).sum() / shown)


def by_day(sessions: Sequence, dates: Sequence[Hashable]) -> list[np.ndarray]:
    """The samples of each day: sessions of one day share its shift.

    :arg sessions: samples of each.
    :arg dates: the day of each.
    """
    parts: dict[Hashable, list] = {}
    for session, date in zip(sessions, dates):
        parts.setdefault(date, []).append(session)
    return list(map(np.concatenate, parts.values()))


def bounds(baselines: Sequence[Sequence[Sequence[float]]], drifts: np.ndarray) -> np.ndarray:
    """The shift beyond which a change needs no second day, (variables,), as a logarithm.

    It is 0 where the days of no variable differ, and for a variable of less than LEAST_DAYS.

    :arg baselines: days of each variable, with one positive value for each repeat.
    :arg drifts: as `drift.effective` gives them.
    """
    found = np.zeros(len(baselines))
    if not drifts.any():
        return found
    farthest, noise = np.zeros(len(baselines)), np.zeros(len(baselines))
    for places, logs in drift.tables(baselines):
        flat = logs.reshape(len(logs), -1)
        centre = np.nanmedian(flat, axis=1, keepdims=True)
        count = np.isfinite(flat).sum(axis=1)
        error = drift.noise(logs) * np.sqrt(math.pi / 2 * (logs.shape[1] / count + 1 / count))
        days = np.abs(np.nanmedian(logs, axis=2) - centre)
        farthest[places], noise[places] = days.max(axis=1) - error, error
    order = np.argsort(noise)
    so_far = np.maximum.accumulate(farthest[order])
    as_noisy = np.searchsorted(noise[order], AS_NOISY * noise, side="right") - 1
    enough = np.array(list(map(len, baselines))) >= LEAST_DAYS
    return np.where(enough, FAR * np.maximum(so_far[as_noisy], 0), 0.0)


def steps(baselines: Sequence[Sequence[Sequence[float]]]) -> list[tuple[int, float] | None]:
    """Where the days of each variable change their level: number of the first day of the new one,
    and the shift as a logarithm; None: nowhere.

    The test is a t-test of the days' medians at each place. Days that resemble each other move
    farther by themselves.

    :arg baselines: days of each variable, with one positive value for each repeat.
    """
    found: list[tuple[int, float] | None] = [None] * len(baselines)
    alike = 0.0
    if drift.effective(baselines, len(baselines)).any():
        alike = memory(baselines)
    for places, logs in drift.tables(baselines):
        medians = np.nanmedian(logs, axis=2)
        count, most = medians.shape[1], np.ones(len(medians))
        splits = range(LEAST_LEVEL, count - LEAST_LEVEL + 1)
        for day in splits:
            before, after = medians[:, :day], medians[:, day:]
            shifts = after.mean(axis=1) - before.mean(axis=1)
            squares = day * before.var(axis=1) + (count - day) * after.var(axis=1)
            freedom = np.full(len(medians), count - 2.0)
            variances, degrees = moderated(squares / freedom, freedom)
            apart = contrast(alike, (1,) * day, (1,) * (count - day))
            errors = np.sqrt(np.maximum(variances * apart, TINY))
            p = special.stdtr(degrees, -np.abs(shifts) / errors)
            error = STEP_ERROR / 2 / len(baselines) / len(splits)
            is_step = (p < np.minimum(most, error)) & (np.abs(shifts) > math.log1p(STEP))
            most = np.where(is_step, p, most)
            for row in np.flatnonzero(is_step):
                found[places[row]] = day, float(shifts[row])
    return found


def on_other_days(
    base: np.ndarray, sessions: Sequence[np.ndarray], dates: Sequence[Hashable], shift: float
) -> bool:
    """Whether a change shows on other days than the one that shows it most.

    Most of the others show at least half of it, and all of them together significantly.

    :arg base: logarithms of the baseline's samples, (samples,).
    :arg sessions: logarithms of each session's.
    :arg dates: the day of each session.
    :arg shift: the change that all sessions show together, as a logarithm.
    """
    sign = math.copysign(1.0, shift)
    centre = np.median(sign * base)
    *others, _ = sorted((sign * day for day in by_day(sessions, dates)), key=np.median)
    if not others:
        return False
    # The lower median: of two other days, both.
    if np.median(others[(len(others) - 1) // 2]) - centre < abs(shift) / 2:
        return False
    far, p = ranks.two_samples(sign * base[None], np.concatenate(others)[None])
    return bool(far[0] > 0 and p[0] <= ANOTHER_DAY)
