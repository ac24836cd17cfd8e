"""Drift: the variation of whole days, beyond the noise of their samples. Pure functions.

A new session has its own day's shift, which more samples of that day do not reduce. A dozen days of
one variable hardly show a drift of half its noise, and variables drift unevenly. So the drift is
estimated by empirical Bayes over all variables of a campaign (Efron, Large-Scale Inference,
Cambridge 2010, chapter 1): the days' F statistics of all variables give the mixture of drifts in
the campaign (nonparametric maximum likelihood: Kiefer and Wolfowitz, Annals of Mathematical
Statistics 27, 1956), and the mixture and its own statistic give each variable's posterior.

What counts is how far a day may shift a variable. `effective` states it as the standard deviation
of a normal drift whose tail at the campaign's day error is that of the posterior.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy import special, stats

from nearmetal.stats.plan import day_error

#: Median of |x - y| relative to the standard deviation of x and y, for normal noise.
PAIR = math.sqrt(2) * 0.6744898
#: Standard deviations within a day beyond which a sample counts as that far.
CLIP = 3.0
#: Drifts of the mixture, as variance of a day's mean over that by noise alone; 0: no drift.
RATIOS = (0.1, 1000.0, 26)
#: Weight of the prior over all drifts, in variables.
PRIOR = 0.01
#: Standard errors by which the mean F statistic of all variables must exceed that of noise alone.
SHOWN = 1.8
#: Steps of the EM algorithm, and of the search for a quantile.
STEPS = 200
HALVINGS = 60


def effective(baselines: Sequence[Sequence[Sequence[float]]], variables: float) -> np.ndarray:
    """The drift of each variable, as a fraction, for thresholds at `day_error(variables)`.

    :arg baselines: days of each variable, with one positive value for each repeat.
    :arg variables: number of variables that share the day error.
    """
    drifts = np.zeros(len(baselines))
    if by_shape := tables(baselines):
        levels = [_Levels.of(logs) for _, logs in by_shape]
        order = np.concatenate([places for places, _ in by_shape])
        drifts[order] = _effective(_Levels.together(levels), variables)
    return drifts


def tables(baselines: Sequence[Sequence[Sequence[float]]]) -> list[tuple[list[int], np.ndarray]]:
    """Logarithms of the variables that have equally many days and samples, which are computed
    together: their places in `baselines`, and (variables, days, samples)."""
    by_shape: dict[tuple[int, int], tuple[list[int], list[np.ndarray]]] = {}
    for place, days in enumerate(baselines):
        table = _padded(days)
        places, found = by_shape.setdefault(table.shape, ([], []))
        places.append(place)
        found.append(table)
    return [(places, np.array(found)) for places, found in by_shape.values()]


def _padded(days: Sequence[Sequence[float]]) -> np.ndarray:
    """Logarithms, (days, most samples of a day), with NaN for missing samples."""
    table = np.full((len(days), max(map(len, days), default=0)), math.nan)
    for row, day in zip(table, days):
        row[: len(day)] = np.log(day)
    return table


def scores(logs: np.ndarray) -> np.ndarray:
    """Normal scores of each variable's samples, of the shape of `logs`: (variables, days, samples).

    They have one distribution, whatever that of the samples is (van der Waerden, 1952).
    """
    flat = logs.reshape(len(logs), -1)
    places = stats.rankdata(flat, axis=1, nan_policy="omit")
    count = np.isfinite(flat).sum(axis=1, keepdims=True)
    return special.ndtri(places / (count + 1)).reshape(logs.shape)


def noise(logs: np.ndarray) -> np.ndarray:
    """Robust standard deviation within days, (variables,), by the pairs of each day's samples.

    :arg logs: (variables, days, samples), with NaN for missing samples.
    """
    first, second = np.triu_indices(logs.shape[2], 1)
    apart = np.abs(logs[:, :, first] - logs[:, :, second]).reshape(len(logs), -1)
    if not apart.size or not np.isfinite(apart).any():
        return np.zeros(len(logs))
    return np.nanmedian(apart, axis=1) / PAIR


def squares(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean squares between days and within them, of (variables, days, samples)."""
    sizes = np.isfinite(values).sum(axis=2)
    total, days = sizes.sum(axis=1), values.shape[1]
    means = np.nanmean(values, axis=2)
    overall = (sizes * means).sum(axis=1) / total
    between = (sizes * (means - overall[:, None]) ** 2).sum(axis=1)
    within = np.nansum((values - means[:, :, None]) ** 2, axis=(1, 2))
    return between / max(days - 1, 1), within / np.maximum(total - days, 1)


class _Levels:
    """What the days of many variables show; each array has one entry for each variable.

    Samples far from their day's median count as CLIP standard deviations away: outliers change
    neither the means of days nor the noise by much.
    """

    def __init__(self, *arrays: np.ndarray):
        #: F statistic of the days, and of their normal scores; degrees of freedom between days and
        #: within them; variance of a day's mean by noise; standard deviation of the days' medians;
        #: number of days.
        self.f, self.of_scores, self.between, self.within, self.noise, self.spread, self.days = (
            arrays
        )

    @classmethod
    def of(cls, logs: np.ndarray) -> "_Levels":
        """From logarithms, (variables, days, samples)."""
        variables, days, _ = logs.shape
        sizes = np.isfinite(logs).sum(axis=2)
        total = sizes.sum(axis=1)
        centres = np.nanmedian(logs, axis=2)
        reach = CLIP * noise(logs)[:, None, None]
        values = centres[:, :, None] + np.clip(logs - centres[:, :, None], -reach, reach)
        between, within = squares(values)
        of_scores = squares(scores(logs))
        with np.errstate(divide="ignore", invalid="ignore"):
            size = (total - (sizes**2).sum(axis=1) / total) / max(days - 1, 1)
            by_noise = within / np.where(size > 0, size, 1)
            f = between / within, of_scores[0] / of_scores[1]
        spread = np.std(centres, axis=1, ddof=1) if days > 1 else np.zeros(variables)
        freedom = np.full(variables, days - 1), total - days
        return cls(*f, *freedom, by_noise, spread, np.full(variables, days))

    @classmethod
    def together(cls, parts: Sequence["_Levels"]) -> "_Levels":
        arrays = [
            (part.f, part.of_scores, part.between, part.within, part.noise, part.spread, part.days)
            for part in parts
        ]
        return cls(*map(np.concatenate, zip(*arrays)))

    def differ(self) -> bool:
        """Whether days differ at all: noise alone always looks like a little drift."""
        # With fewer degrees of freedom, F has no variance.
        known = self.show_drift & (self.within > 4) & np.isfinite(self.of_scores)
        between, within = self.between[known], self.within[known]
        mean = within / (within - 2)
        variance = 2 * mean**2 * (between + within - 2) / between / (within - 4)
        excess = (self.of_scores[known] - mean).sum()
        return bool(excess > SHOWN * math.sqrt(variance.sum()))

    @property
    def show_drift(self) -> np.ndarray:
        """Whether the days of a variable show something of its drift."""
        return (self.between > 0) & (self.within > 0) & np.isfinite(self.f)


def _effective(levels: _Levels, variables: float) -> np.ndarray:
    error = day_error(variables)
    quantile = float(special.ndtri(1 - error))
    effective = np.zeros(len(levels.f))
    # The shift of a new day against the mean of the baseline's days, relative to a day's drift.
    new_day = np.sqrt(1 + 1 / levels.days)
    known = np.flatnonzero(levels.show_drift)
    if levels.differ():
        top = max(RATIOS[1], 3 * float(levels.f[known].max()))
        ratios = np.concatenate([[0.0], np.geomspace(RATIOS[0], top, RATIOS[2])])
        posterior = _posterior(levels, known, ratios)
        drifts = np.sqrt(ratios * levels.noise[known, None]) * new_day[known, None]
        effective[known] = _tail(posterior, drifts, error) / quantile / new_day[known]
    # Samples of a day that are all alike leave no noise to compare with.
    alike = (levels.between > 0) & ~levels.show_drift & (levels.spread > 1e-9)
    wider = special.stdtrit(np.maximum(levels.between, 1), 1 - error) / quantile
    return np.where(alike, levels.spread * wider, effective)


def _posterior(levels: _Levels, known: np.ndarray, ratios: np.ndarray) -> np.ndarray:
    """Weights of the mixture's drifts for each of the known variables, (known, ratios).

    Method: the nonparametric maximum likelihood by the EM algorithm (Kiefer and Wolfowitz, 1956).
    """
    scaled = levels.f[known, None] / (1 + ratios)
    density = stats.f.pdf(scaled, levels.between[known, None], levels.within[known, None])
    likelihood = np.maximum(density / (1 + ratios), 1e-300)
    weights = np.full(len(ratios), 1 / len(ratios))
    for _ in range(STEPS):
        posterior = likelihood * weights
        posterior /= posterior.sum(axis=1, keepdims=True)
        weights = (posterior.sum(axis=0) + PRIOR / len(ratios)) / (len(known) + PRIOR)
    posterior = likelihood * weights
    return posterior / posterior.sum(axis=1, keepdims=True)


def _tail(posterior: np.ndarray, drifts: np.ndarray, error: float) -> np.ndarray:
    """The shift that a day of each variable exceeds with this chance."""
    low = np.zeros(len(drifts))
    high = drifts.max(axis=1) * special.ndtri(1 - error) + 1e-12
    scale = np.maximum(drifts, 1e-15)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        chance = (posterior * special.ndtr(-middle[:, None] / scale)).sum(axis=1)
        low, high = np.where(chance > error, middle, low), np.where(chance > error, high, middle)
    # Below this, the drift is none.
    return np.where(high > 1e-5, high, 0.0)
