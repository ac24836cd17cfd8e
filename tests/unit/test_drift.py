"""How much sessions move as a whole, from a campaign's variables."""

import numpy as np
import pytest

from bench import noise as bench_noise
from nearmetal.stats import drift, judge


def campaign(variables: int, cv: float, days: float, sessions: int = 12, whose: str = "own"):
    return bench_noise.campaign(
        np.random.default_rng(2), variables, cv, days, 5 * sessions, 75, whose
    )


@pytest.mark.parametrize("cv, days", [(0.02, 0.01), (0.03, 0.01), (0.02, 0.005)])
def test_many_variables_show_what_one_hides(cv, days):
    base, _ = campaign(200, cv, days)
    assert drift.typical(base) == pytest.approx(days, rel=0.3)
    assert drift.typical(base[:1]) == 0


@pytest.mark.parametrize("cv", [0.02, 0.08])
def test_noise_and_outliers_alone_are_no_drift(cv):
    assert drift.typical(campaign(200, cv, 0.0)[0]) == 0


def test_large_drift_shows_in_one_variable_and_counts_for_it():
    base, _ = campaign(200, 0.02, 0.05, whose="half")
    assert drift.typical(base[:1]) == pytest.approx(0.05, rel=0.5)
    found = drift.each(*drift.levels(np.log(base)))
    assert np.median(found[::2]) == pytest.approx(0.05, rel=0.3)
    assert np.median(found[1::2]) < np.median(found[::2])


def test_sessions_of_different_length_and_single_ones():
    base, _ = campaign(50, 0.02, 0.02)
    ragged = [
        [list(session[: 3 + i % 3]) for i, session in enumerate(variable)] for variable in base
    ]
    assert drift.typical(ragged) == pytest.approx(0.02, rel=0.4)
    assert drift.typical([[[1.0, 1.1, 0.9]]]) == 0 and drift.typical([]) == 0


def test_what_never_varies_tells_nothing():
    assert drift.typical([np.full((12, 5), 3.0)] * 20) == 0
    assert drift.typical([[[1.0]] * 30]) == 0


def test_a_day_like_the_baselines_other_days_is_no_regression():
    """Every launch of it lies beyond most of the baseline's, which a test of launches alone takes
    for sure."""
    base, _ = campaign(1, 0.005, 0.02)
    launches = np.random.default_rng(3).normal(1.0, 0.005, 75) * 1.03 * np.median(base)
    assert judge.judge(base[0], launches, True, variables=60).name == "ok"
    flat, _ = campaign(1, 0.005, 0.0)
    assert judge.judge(flat[0], launches, True, variables=60).name == "regressed"
    told = judge.judge(flat[0], launches, True, variables=60, drift=0.02)
    assert (told.name, told.drift) == ("ok", 0.02)
    assert told.interval[0] < 0.0 < told.interval[1]
