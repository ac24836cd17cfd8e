"""Two sessions without a baseline: only large changes count; all variables are judged together."""

import numpy as np
import pytest

from nearmetal.stats.judge import JudgeError
from nearmetal.stats.two_sessions import LEAST, Samples, judge


def variables(count=40, repeats=3, cv=0.02, drift=0.0, seed=1):
    """Unchanged variables; times."""
    generator = np.random.default_rng(seed)

    def session(value):
        day = np.exp(generator.normal(0, drift)) if drift else 1.0
        return (value * day * np.exp(generator.normal(0, cv, repeats))).tolist()

    values = generator.uniform(1, 1000, count)
    return [Samples(session(value), session(value), True) for value in values]


def names(found):
    return [one.name for one in found]


def test_unchanged_variables_are_ok():
    assert set(names(judge(variables()))) == {"ok"}


@pytest.mark.parametrize("lower_is_better, name", [(True, "regressed"), (False, "improved")])
def test_a_large_change_is_found_in_its_direction(lower_is_better, name):
    every = variables()
    now = [2 * value for value in every[0].now]
    found = judge([Samples(every[0].before, now, lower_is_better), *every[1:]])
    assert found[0].name == name and set(names(found[1:])) == {"ok"}
    low, high = found[0].interval
    assert low < 1 < high and found[0].change == pytest.approx(1, abs=0.1)


def test_a_change_below_the_least_is_not_called():
    every = variables()
    now = [(1 + LEAST / 2) * value for value in every[0].now]
    assert judge([Samples(every[0].before, now, True), *every[1:]])[0].name in (
        "ok",
        "inconclusive",
    )


def test_a_change_that_all_variables_share_is_not_called():
    every = [Samples(one.before, [1.5 * v for v in one.now], True) for one in variables()]
    assert set(names(judge(every))) == {"inconclusive"}


def test_noise_leaves_a_variable_undecided():
    every = variables()
    noisy = Samples([10, 20, 40], [15, 30, 60], True)
    assert judge([noisy, *every])[0].name == "inconclusive"


def test_unchanged_sessions_seldom_raise_an_alarm():
    alarms = sum(
        "regressed" in names(judge(variables(200, 3, 0.03, 0.01, seed))) for seed in range(50)
    )
    assert alarms <= 3


@pytest.mark.parametrize("bad", [[1.0], [], [1.0, 0.0], [1.0, float("nan")]])
def test_what_cannot_be_judged_says_why(bad):
    found = judge([Samples(bad, [1.0, 1.1], True), *variables()])
    assert isinstance(found[0], JudgeError) and str(found[0])
    assert "ok" in names(found[1:])


def test_equal_values_are_ok():
    assert names(judge([Samples([2.0, 2.0], [2.0, 2.0], True)])) == ["ok"]


def slower(every, first: float, others: float = 1.0):
    """The variables with the values of the second session times a factor: of the first, others."""
    made = []
    for number, one in enumerate(every):
        factor = others if number else first
        made.append(Samples(one.before, [factor * value for value in one.now], True))
    return made


def test_few_repeats_borrow_the_noise_of_the_other_variables():
    """At 8 %, three repeats of a variable alone do not show its noise."""
    named = 0
    for seed in range(20):
        first = judge(slower(variables(200, 3, 0.08, seed=seed), 1.5))[0]
        named += first.far is not None or first.name == "regressed"
    assert named >= 17


def test_a_change_that_a_day_may_be_is_inconclusive_until_a_second_day():
    first, *others = judge(slower(variables(200), 1.5))
    assert first.name == "inconclusive" and first.far == pytest.approx(0.9)
    assert set(names(others)) == {"ok"}
    assert judge(slower(variables(200), 1.4))[0].shows(first)
    assert not judge(slower(variables(200), 1.15))[0].shows(first)
    assert not judge(slower(variables(200), 0.6))[0].shows(first)


def test_many_worse_variables_beside_no_better_one_are_no_day():
    every = variables(60)
    worse = slower(every[:12], 1.5, 1.5)
    assert set(names(judge(worse + every[12:])[:12])) == {"regressed"}
    better = slower(every[12:24], 1 / 1.5, 1 / 1.5)
    assert set(names(judge(worse + better + every[24:])[:12])) == {"inconclusive"}


def test_a_change_beside_a_smaller_one_of_all_is_not_ok():
    found = names(judge(slower(variables(200), 1.6, 1.15)))
    assert found[0] != "ok" and "regressed" not in found[1:]


def test_heavy_tailed_days_are_no_regression():
    rng, alarms = np.random.default_rng(5), 0
    for seed in range(30):
        every = variables(100, seed=seed)
        days = np.exp(0.02 * rng.standard_t(2, len(every)) * (np.arange(len(every)) % 5 == 0))
        shifted = []
        for one, day in zip(every, days):
            shifted.append(Samples(one.before, [day * value for value in one.now], True))
        alarms += "regressed" in names(judge(shifted))
    assert alarms <= 2
