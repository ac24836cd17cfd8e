"""Several sessions judged together: their errors, what they find, and what has passed."""

import numpy as np
import pytest

from nearmetal.stats import pooled
from nearmetal.stats.judge import JudgeError

VARIABLES = 100


def sessions(
    rng, count: int, cv: float, repeats: int = 5, factor: float = 1.0
) -> list[list[float]]:
    return [list(factor * np.exp(rng.normal(0, cv, repeats))) for _ in range(count)]


@pytest.mark.parametrize("cv", [0.03, 0.08])
def test_unchanged_nights_raise_no_alarm_more_often_than_promised(cv):
    rng, names = np.random.default_rng(1), []
    for _ in range(VARIABLES // 2):
        base, later = sessions(rng, 12, cv), sessions(rng, 6, cv)
        names += [
            pooled.judge_pooled(base, later[: count + 1], True, VARIABLES).name
            for count in range(6)
        ]
    # At most one variable in six nights, whose error is six times 1 %. An alarm for one variable in
    # ten fails with 97 %. `make bench-gate` measures the rate.
    assert sum(name != "watched" for name in names) <= 1


def test_a_step_that_no_night_decides_is_found_by_several():
    rng, needed = np.random.default_rng(2), []
    for _ in range(20):
        base, later = sessions(rng, 12, 0.03), sessions(rng, 8, 0.03, factor=1.05)
        found = [pooled.judge_pooled(base, later[: n + 1], True, 200).name for n in range(8)]
        needed.append(found.index("regressed") + 1 if "regressed" in found else 99)
    assert 1 < np.median(needed) <= 4


@pytest.mark.parametrize("lower_is_better, name", [(True, "regressed"), (False, "improved")])
def test_the_direction_follows_from_the_unit(lower_is_better, name):
    rng = np.random.default_rng(3)
    base, later = sessions(rng, 12, 0.02), sessions(rng, 6, 0.02, factor=1.1)
    found = pooled.judge_pooled(base, later, lower_is_better)
    assert found.name == name and found.change == pytest.approx(0.1, abs=0.02)
    assert found.interval[0] < 0.1 < found.interval[1] and found.p < 1e-4


def test_more_sessions_find_smaller_changes():
    rng = np.random.default_rng(4)
    base, later = sessions(rng, 12, 0.08), sessions(rng, 8, 0.08)
    finds = [pooled.judge_pooled(base, later[:count], True, 200).finds for count in (1, 2, 4, 8)]
    assert finds == sorted(finds, reverse=True) and finds[0] > 1.5 * finds[-1]


def test_a_change_that_has_passed_is_no_alarm():
    rng = np.random.default_rng(5)
    base = sessions(rng, 12, 0.02)
    later = [*sessions(rng, 6, 0.02, factor=1.2), *sessions(rng, 1, 0.02)]
    assert pooled.judge_pooled(base, later[:-1], True).name == "regressed"
    assert pooled.judge_pooled(base, later, True).name == "watched"


def test_days_that_differ_are_no_change():
    rng = np.random.default_rng(6)

    def day(count):
        return [list(np.exp(rng.normal(0, 0.02) + rng.normal(0, 0.01, 5))) for _ in range(count)]

    base, later = day(12), day(8)
    found = pooled.judge_pooled(base, later, True, 200)
    assert found.name == "watched" and found.finds > 0.05


def several_a_day(rng, days: int, a_day: int, drift: float) -> list[list[float]]:
    """Unchanged sessions, several on each day, which share the day's shift."""
    shifts = rng.normal(0, drift, days)
    return [list(np.exp(shift + rng.normal(0, 0.01, 5))) for shift in shifts for _ in range(a_day)]


def test_several_unchanged_sessions_a_day_raise_no_alarm_more_often_than_promised():
    rng, alarms = np.random.default_rng(8), {"sessions": 0, "days": 0}
    for _ in range(150):
        base, later = several_a_day(rng, 12, 1, 0.02), several_a_day(rng, 2, 4, 0.02)
        for what, dates in (("sessions", None), ("days", [1] * 4 + [2] * 4)):
            found = pooled.judge_pooled(base, later, True, 1, 0.02, dates)
            alarms[what] += found.name in ("regressed", "improved")
    # As many days as sessions would call the day a change. The promise is 1 %.
    assert alarms["sessions"] >= 6 and alarms["days"] <= 4


def test_samples_that_cannot_be_judged_are_refused():
    base = sessions(np.random.default_rng(7), 12, 0.02)
    for wrong in ([], [[]], [[1.0, float("nan")]], [[-1.0]]):
        with pytest.raises(JudgeError):
            pooled.judge_pooled(base, wrong, True)
