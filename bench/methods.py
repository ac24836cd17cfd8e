"""What others do to find that a latency rose: beside the gate in bench_gate.py.

Each takes a baseline, (trials, launches), and the fresh launches that it looks at, (trials,
launches), and says which trials it flags. Otava is asked as its users ask it, at its default
p-value; it counts where it finds a rise within NEAR launches of the first fresh one.
"""

import numpy as np
from otava.analysis import compute_change_points
from scipy import stats

from bench import noise as bench_noise

#: Launches that the others look at: what a campaign takes.
COUNT = 5
#: By how many launches a change point may miss the first fresh launch.
NEAR = 2
#: Samples within a launch, for the methods that take these for their own.
WITHIN = 5
#: Trials of Otava by those of the rest: it takes some hundred times as long.
SLOW = 10


def fixed(base: np.ndarray, new: np.ndarray) -> np.ndarray:
    """More than 5 % above the baseline's median: a reference of ReFrame's with 0.05."""
    return np.median(new, axis=1) > 1.05 * np.median(base, axis=1)


def welch(base: np.ndarray, new: np.ndarray) -> np.ndarray:
    return (
        stats.ttest_ind(
            np.log(new), np.log(base), axis=1, equal_var=False, alternative="greater"
        ).pvalue
        < 0.01
    )


def otava(base: np.ndarray, new: np.ndarray, each: int = 1) -> np.ndarray:
    """`each`: points of a launch."""
    first = base.shape[1] - NEAR * each
    # Otava cuts its windows out of lists only: an array it would take whole for each.
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
    """(method, which trials it flags, launches it looks at); fewer trials where it is slow."""
    few = max(1, len(base) // SLOW)
    raw = [
        bench_noise.samples(rng, part[:few], WITHIN, cv).reshape(few, -1)
        for part in (base, new[:, :COUNT])
    ]
    return [
        ("fixed +5 %, one launch", fixed(base, new[:, :1]), 1),
        (f"fixed +5 %, median of {COUNT}", fixed(base, new[:, :COUNT]), COUNT),
        ("Welch's t on launches", welch(base, new[:, :COUNT]), COUNT),
        ("Otava on launches", otava(base[:few], new[:few, :COUNT]), COUNT),
        (f"Otava on {WITHIN} raw samples each", otava(*raw, each=WITHIN), COUNT),
    ]


def pooled(
    rng, trials: int, baseline: int, cv: float, between: float
) -> list[tuple[str, np.ndarray, int]]:
    """Unchanged launches by a rank test at 1 %, once with the samples within each pooled, once with
    a median a launch.

    :arg between: part of a sample's variance that is between launches.
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
        ("a median a launch", flagged(medians[:, baseline:], medians[:, :baseline]), COUNT),
    ]
