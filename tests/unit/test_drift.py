"""How far days shift variables, from all variables of a campaign."""

import numpy as np
import pytest

from bench import noise as bench_noise
from nearmetal.stats import drift, judge

VARIABLES = 200


def campaign(variables: int, cv: float, days: float, sessions: int = 12, whose: str = "own"):
    return bench_noise.campaign(
        np.random.default_rng(2), variables, cv, days, 5 * sessions, 75, whose
    )


@pytest.mark.parametrize("cv, days", [(0.02, 0.01), (0.03, 0.01), (0.02, 0.02)])
def test_many_variables_show_what_one_hides(cv, days):
    base, _ = campaign(VARIABLES, cv, days)
    assert np.median(drift.effective(base, VARIABLES)) == pytest.approx(days, rel=0.4)
    assert drift.effective(base[:1], 1)[0] < 3 * days


def test_an_odd_day_of_one_variable_says_nothing_of_the_others():
    """Three of five samples of a day are outliers somewhere in a fifth of all campaigns."""
    base, _ = campaign(VARIABLES, 0.03, 0.0)
    base[0, 3, :3] *= 1.5
    assert not drift.effective(base, VARIABLES).any()


@pytest.mark.parametrize("cv", [0.02, 0.08])
def test_noise_and_outliers_alone_are_no_drift(cv):
    assert not drift.effective(campaign(VARIABLES, cv, 0.0)[0], VARIABLES).any()


def test_variables_that_drift_do_not_cost_the_quiet_ones_their_power():
    rng = np.random.default_rng(3)
    quiet = rng.random(VARIABLES) < 0.4
    shifts = rng.normal(0, 0.02, (VARIABLES, 12, 1)) * ~quiet[:, None, None]
    noise = rng.normal(0, 1, (VARIABLES, 12, 5)) * np.where(quiet, 0.01, 0.03)[:, None, None]
    base = np.exp(shifts + noise)
    found = drift.effective(base, VARIABLES)
    assert np.median(found[~quiet]) == pytest.approx(0.02, rel=0.4)
    assert np.median(found[quiet]) < 0.007


def test_sessions_of_different_length_and_single_ones():
    base, _ = campaign(50, 0.02, 0.02)
    ragged = [
        [list(session[: 3 + i % 3]) for i, session in enumerate(variable)] for variable in base
    ]
    ragged[7] = ragged[7][:5]
    assert np.median(drift.effective(ragged, 50)) == pytest.approx(0.02, rel=0.5)
    assert list(drift.effective([[[1.0, 1.1, 0.9]]], 1)) == [0.0]
    assert list(drift.effective([], 1)) == []


def test_what_never_varies_tells_nothing():
    assert not drift.effective([np.full((12, 5), 3.0)] * 20, 20).any()
    assert not drift.effective([[[1.0]] * 30], 1).any()


def test_days_without_noise_within_show_their_own_spread():
    days = [[value] * 5 for value in (1.0, 1.02, 0.98, 1.01, 0.99, 1.02, 1.0, 0.98)]
    assert drift.effective([days], 1)[0] == pytest.approx(0.016, rel=0.5)


def test_a_day_like_the_baselines_other_days_is_no_regression():
    """Every launch of it lies beyond most of the baseline's, which a test of launches alone takes
    for sure."""
    base, _ = campaign(1, 0.005, 0.02)
    launches = np.random.default_rng(3).normal(1.0, 0.005, 75) * 1.03 * np.median(base)
    assert judge.judge(base[0], launches, True, variables=60).name == "ok"
    flat, _ = campaign(1, 0.005, 0.0)
    assert judge.judge(flat[0], launches, True, variables=60).name == "regressed"
    told = judge.judge(flat[0], launches, True, variables=60, drift=0.02)
    assert told.name == "ok"
    assert told.interval[0] < 0.0 < told.interval[1]
