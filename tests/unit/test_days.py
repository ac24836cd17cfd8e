"""What a baseline's days say of other days: memory, pools, and days that stand alone."""

import numpy as np
import pytest

from bench import noise as bench_noise
from nearmetal.stats import days, drift

VARIABLES = 100


def baselines(shifts: np.ndarray, cv: float = 0.02) -> np.ndarray:
    """Values of days with these shifts, (variables, days), five of each."""
    return np.exp(shifts[:, :, None] + np.random.default_rng(4).normal(0, cv, (*shifts.shape, 5)))


def remembering(memory: float, variables: int = VARIABLES) -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.log(bench_noise.remembering(rng, variables, 12, memory, 0.02))


@pytest.mark.parametrize("memory", [0.6, 0.9])
def test_many_variables_show_the_memory_of_few_days(memory):
    assert days.memory(baselines(remembering(memory))) == pytest.approx(memory, abs=0.12)


def test_a_random_walk_is_the_longest_memory():
    walk = np.random.default_rng(6).normal(0, 0.01, (VARIABLES, 12)).cumsum(axis=1)
    assert days.memory(baselines(walk)) > 0.85


@pytest.mark.parametrize("spread", [0.0, 0.02])
def test_independent_days_have_no_memory(spread):
    shifts = np.random.default_rng(7).normal(0, spread, (VARIABLES, 12))
    assert days.memory(baselines(shifts)) == 0


def test_few_days_and_ragged_ones():
    values = baselines(remembering(0.9))
    assert days.memory(values[:, :7]) == 0 == days.memory([])
    assert days.memory([[[1.0]] * 12]) == 0
    ragged = [[list(day[: 5 - place % 2]) for place, day in enumerate(one)] for one in values]
    ragged[3] = ragged[3][:9]
    assert days.memory(ragged) == pytest.approx(0.9, abs=0.12)


def test_the_contrast_of_independent_days_is_that_of_two_means():
    assert days.contrast(0.0, (5,) * 12, (5,)) == pytest.approx(1 + 1 / 12)
    assert days.contrast(0.0, (5,) * 12, (5,) * 4, 3) == pytest.approx(1 / 4 + 1 / 12)
    # A longer day weighs more, and one day of the baseline shows nothing of how days differ.
    assert days.contrast(0.0, (20, 5, 5), (5,)) == pytest.approx(1 + 1 / 2)
    assert days.contrast(0.0, (20,), (5,)) == pytest.approx(2)


def test_the_contrast_of_days_with_a_memory_is_that_of_their_means():
    series = np.log(bench_noise.remembering(np.random.default_rng(8), 20000, 22, 0.9, 1.0))
    shown = series[:, :12].var(axis=1, ddof=1).mean()
    for new, between in ((1, 0), (4, 0), (4, 6)):
        pool = series[:, 12 + between : 12 + between + new].mean(axis=1)
        far = (pool - series[:, :12].mean(axis=1)).var() / shown
        found = days.contrast(0.9, (5,) * 12, (5,) * new, between)
        assert found == pytest.approx(far, rel=0.05)


def test_sessions_of_one_day_are_one_day():
    found = days.by_day([[1.0] * 5, [1.0] * 7, [1.0] * 3], ["a", "a", "b"])
    assert list(map(len, found)) == [12, 3]


def test_a_change_far_beyond_all_days_needs_no_second_one():
    shifts = np.random.default_rng(9).normal(0, 0.01, (VARIABLES, 12))
    shifts[3, 5] = 0.1
    values = baselines(shifts, 0.005)
    found = days.bounds(values, drift.effective(values, VARIABLES))
    assert found == pytest.approx(np.full(VARIABLES, 0.3), rel=0.2)


def test_where_no_day_differs_no_change_needs_a_second_one():
    values = baselines(np.zeros((VARIABLES, 12)))
    assert not days.bounds(values, drift.effective(values, VARIABLES)).any()
    few = values[:, : days.LEAST_DAYS - 1]
    assert not days.bounds(few, np.ones(VARIABLES)).any()


def test_days_of_noisier_variables_say_nothing_of_quiet_ones():
    shifts = np.random.default_rng(9).normal(0, 0.01, (VARIABLES, 12))
    quiet, noisy = baselines(shifts, 0.01), baselines(10 * shifts, 0.1)
    both = np.concatenate([quiet, noisy])
    found = days.bounds(both, drift.effective(both, len(both)))
    assert found[:VARIABLES].max() < 0.15 < found[VARIABLES:].min()


def of_days(*shifts: float) -> list[np.ndarray]:
    rng = np.random.default_rng(10)
    return [shift + rng.normal(0, 0.02, 5) for shift in shifts]


@pytest.mark.parametrize(
    "shifts, dates, lasts",
    [
        ([0.2], "a", False),
        ([0.2, 0.2], "aa", False),
        ([0.2, 0.15], "ab", True),
        ([0.2, 0.02], "ab", False),
        ([0.2, 0.0, 0.2], "abc", False),
        ([0.2, 0.0, 0.2, 0.2], "abcd", True),
    ],
)
def test_a_change_shows_on_other_days_than_the_one_that_shows_it_most(shifts, dates, lasts):
    base = np.random.default_rng(11).normal(0, 0.02, 60)
    for sign in (1, -1):
        sessions = of_days(*(sign * shift for shift in shifts))
        assert days.on_other_days(base, sessions, dates, sign * max(shifts)) == lasts
