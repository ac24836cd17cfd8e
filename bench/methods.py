"""Other methods that detect a rise of a latency, for comparison with the gate.

Each method takes the repeats of a baseline, (trials, repeats), and fresh repeats, (trials,
repeats). It returns which trials it flags. Otava runs as for its users, at its default p-value. A
trial counts as flagged if Otava finds a rise within NEAR repeats of the first fresh one.
"""

import numpy as np
from otava.analysis import compute_change_points
from scipy import stats

from bench import noise as bench_noise

#: Fresh repeats that a campaign has.
COUNT = 5
#: Largest distance of a change point from the first fresh repeat.
NEAR = 2
#: Samples within a repeat, for methods that treat these as independent.
WITHIN = 5
#: Otava runs on one of this many trials: it takes some hundred times as long.
SLOW = 10


def fixed(base: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Flag a median more than 5 % above the baseline's, as a ReFrame reference with 0.05 does."""
    return np.median(new, axis=1) > 1.05 * np.median(base, axis=1)


def welch(base: np.ndarray, new: np.ndarray) -> np.ndarray:
    return (
        stats.ttest_ind(
            np.log(new), np.log(base), axis=1, equal_var=False, alternative="greater"
        ).pvalue
        < 0.01
    )


def otava(base: np.ndarray, new: np.ndarray, each: int = 1) -> np.ndarray:
    """Flag the trials in which Otava finds a rise near the first fresh repeat.

    :arg each: points of a repeat.
    """
    first = base.shape[1] - NEAR * each
    # Otava cuts windows out of lists only; from an array, each window is the whole array.
    series = (np.concatenate(pair).tolist() for pair in zip(base, new))
    return np.array(
        [
            any(
                point.index >= first and point.stats.mean_2 > point.stats.mean_1
                for point in compute_change_points(values)[0]
            )
            for values in series
        ]
    )


def others(rng, base: np.ndarray, new: np.ndarray, cv: float) -> list[tuple[str, np.ndarray, int]]:
    """(method, flagged trials, repeats used) of each method. Slow methods have fewer trials."""
    few = max(1, len(base) // SLOW)
    raw = [
        bench_noise.samples(rng, part[:few], WITHIN, cv).reshape(few, -1)
        for part in (base, new[:, :COUNT])
    ]
    return [
        ("fixed +5 %, one repeat", fixed(base, new[:, :1]), 1),
        (f"fixed +5 %, median of {COUNT}", fixed(base, new[:, :COUNT]), COUNT),
        ("Welch's t on repeats", welch(base, new[:, :COUNT]), COUNT),
        ("Otava on repeats", otava(base[:few], new[:few, :COUNT]), COUNT),
        (f"Otava on {WITHIN} raw samples each", otava(*raw, each=WITHIN), COUNT),
    ]


def pooled(
    rng, trials: int, baseline: int, cv: float, between: float
) -> list[tuple[str, np.ndarray, int]]:
    """A rank test at 1 % of unchanged repeats: on all their samples pooled, and on one median for
    each repeat.

    :arg between: fraction of a sample's variance that is between repeats.
    """
    values = np.exp(rng.normal(0, cv * between**0.5, (trials, baseline + COUNT)))
    raw = bench_noise.samples(rng, values, WITHIN, cv * (1 - between) ** 0.5)
    medians = np.median(raw, axis=2)

    def flagged(new, base):
        return (
            stats.mannwhitneyu(new, base, axis=1, alternative="greater", method="asymptotic").pvalue
            < 0.01
        )

    return [
        (
            "samples pooled",
            flagged(raw[:, baseline:].reshape(trials, -1), raw[:, :baseline].reshape(trials, -1)),
            COUNT,
        ),
        ("one median per repeat", flagged(medians[:, baseline:], medians[:, :baseline]), COUNT),
    ]
