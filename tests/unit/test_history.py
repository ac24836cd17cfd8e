"""Where the level of a variable moved. Error rates over many are `make bench-gate`'s matter."""

import time
from dataclasses import replace

import numpy as np
import pytest

from bench import noise as bench_noise
from nearmetal.judge import history
from nearmetal.results import Case, Session, Value
from nearmetal.results.session import Cause, Disturbed
from nearmetal.stats import trend
from tests.support.said import lacking


def session(number: int, values: dict[str, tuple[float, ...]], facts=None, failure=None) -> Session:
    """The number-th session, of one case with one variable for each of `values`."""
    measured = tuple(
        Value("pingpong", "gnu", "lab:native", name, float(np.median(samples)), "us", samples)
        for name, samples in values.items()
    )
    case = Case(
        "pingpong",
        "lab:native",
        "gnu",
        measured,
        facts or {},
        {},
        failure,
        "sanity" if failure else None,
    )
    started = f"202611{1 + number // 24:02d}T{number % 24:02d}0000+0000"
    return Session(f"{number:08d}-0000", started, "lab", (case,), time=float(number))


def stored(
    count: int,
    variables: int = 1,
    step: float = 0.0,
    at: int = 0,
    cv: float = 0.02,
    launches: int = 5,
    facts=None,
):
    values = bench_noise.repeats(np.random.default_rng(3), (count, variables, launches), cv)
    values[at:, 0] *= 1 + step
    return [
        session(
            number,
            {f"latency{i}": tuple(row) for i, row in enumerate(rows.tolist())},
            facts and facts(number),
        )
        for number, rows in enumerate(values)
    ]


def test_a_step_is_found_in_its_session_with_what_changed_there():
    def facts(number):
        return (
            {"kernel": "6.1", "mtu": "1500"}
            if number < 60
            else {"kernel": "6.8", "mtu": "1500", "thp": "always"}
        )

    (point,) = history.change_points(stored(100, variables=20, step=0.05, at=60, facts=facts))
    assert (point.variable, point.session, point.unit) == ("latency0", "00000060-0000", "us")
    assert point.change == pytest.approx(0.05, abs=0.01) and point.after == pytest.approx(
        1.05, abs=0.01
    )
    assert point.facts == {"kernel": ("6.1", "6.8"), "thp": ("absent", "always")}


def test_the_order_in_which_sessions_are_given_does_not_matter():
    sessions = stored(60, step=-0.10, at=30)
    assert history.change_points(sessions[::-1]) == history.change_points(sessions)
    assert history.change_points(sessions)[0].change == pytest.approx(-0.10, abs=0.01)


def test_a_step_and_its_way_back_are_two_change_points():
    sessions = stored(60, step=0.10, at=20)
    back = stored(60, step=0.10, at=40)
    values = [s.cases[0].values[0].samples for s in sessions[:40]] + [
        s.cases[0].values[0].samples for s in back[:20]
    ]
    points = history.change_points([session(i, {"latency": row}) for i, row in enumerate(values)])
    assert [point.session[:8] for point in points] == ["00000020", "00000040"]
    assert points[0].after == points[1].before


def test_a_change_below_the_threshold_is_none_however_sure():
    assert not history.change_points(stored(100, step=0.015, at=50, cv=0.002))
    assert history.change_points(stored(100, step=0.03, at=50, cv=0.002))


def creeping(per_day: float, days: int = 84, flat: int = 12) -> list[Session]:
    """Sessions of successive days, which creep after `flat` of them."""
    values = bench_noise.repeats(np.random.default_rng(6), (days, 5), 0.02)
    values *= np.exp(np.clip(np.arange(days) - flat, 0, None) * per_day)[:, None]
    return [
        replace(session(number, {"latency": tuple(row)}), time=86400.0 * number)
        for number, row in enumerate(values.tolist())
    ]


@pytest.mark.parametrize("direction", [1, -1])
def test_a_creep_is_reported_as_one_and_not_as_steps(direction):
    sessions = creeping(direction * 0.01 / 7)
    (point,) = history.change_points(sessions)
    assert point.creeps and point.per_week == pytest.approx(direction * 0.01, abs=0.002)
    assert point.change == pytest.approx(direction * 0.10, abs=0.03) and point.sessions >= 60
    (said,) = history.sentences([point])
    assert not lacking(said, "creeps by", f"{direction * 1:+d}"[0], "% a week", "since session")
    assert "0 change points, 1 creep" in history.render(sessions, [point])


def test_a_step_is_no_creep_and_a_flat_history_neither():
    (point,) = history.change_points(stored(100, step=0.2, at=50))
    assert not point.creeps
    assert not history.change_points(creeping(0.0))
    assert not history.change_points(stored(10, step=0.0))


def test_sessions_that_resemble_the_ones_before_are_no_new_level():
    rng, count = np.random.default_rng(4), 100
    flagged = {"independent": 0, "as they are": 0}
    for _ in range(count):
        days = np.zeros(100)
        for day in range(1, 100):
            days[day] = 0.8 * days[day - 1] + rng.normal(0, 0.012)
        values = np.median(bench_noise.repeats(rng, (100, 5), 0.03), axis=1) * np.exp(days)
        error = history.ERROR / 200 / 100
        flagged["as they are"] += bool(history.levels(values, error))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trend, "memory", lambda residuals: 1.0)
            flagged["independent"] += bool(history.levels(values, error))
    assert flagged["independent"] >= 10 and flagged["as they are"] <= 5


def test_weekly_looks_at_days_with_a_memory_show_hardly_anything():
    """Few sessions of one variable look like a step; those of all variables show the memory."""
    rng, shown = np.random.default_rng(7), np.zeros(12, bool)
    days = bench_noise.remembering(rng, len(shown), 110, 0.9, 0.02)
    values = np.median(bench_noise.repeats(rng, (*days.shape, 5), 0.03), axis=2) * days
    for look in range(19, 111, 7):
        shared = trend.common_memory(list(np.log(values[:, :look])))
        for number, row in enumerate(values[:, :look]):
            points, creep = history.moves(row, 1, shared)
            shown[number] |= bool(points) or creep is not None
    assert shown.sum() <= 2


@pytest.mark.parametrize("sessions", [24, 60, 200])
@pytest.mark.parametrize("part", [0.5, 1.0])
def test_a_step_that_most_variables_share_is_no_memory(sessions, part):
    rows = bench_noise.repeats(np.random.default_rng(8), (40, sessions), 0.02)
    rows[: int(40 * part), sessions * 2 // 3 :] *= 1.2
    assert trend.common_memory(list(np.log(rows))) == 1.0


def test_one_day_off_is_no_new_level():
    sessions = stored(60)
    sessions[30] = session(30, {"latency0": (3.0, 3.1, 2.9)})
    assert not history.change_points(sessions)


def test_sessions_that_failed_are_no_points():
    sessions = stored(60)
    sessions += [
        session(60 + i, {"latency0": (2.0,) * 5}, failure="wrong answer") for i in range(20)
    ]
    assert not history.change_points(sessions)


def test_what_was_disturbed_is_no_point_and_named():
    sessions = stored(80, step=0.5, at=60)
    beside = (Disturbed(1, False, (Cause("waited", 0.5, "a rank waited 50 % of its time"),)),)
    for number in range(60, 80):
        [case] = sessions[number].cases
        sessions[number] = replace(sessions[number], cases=(replace(case, disturbances=beside),))
    assert not history.change_points(sessions)
    said = history.render(sessions, [])
    assert not lacking(said, "disturbed cases", sessions[60].started, "17 more")


def test_too_few_sessions_say_so():
    sessions = stored(6, step=0.5, at=3)
    assert not history.change_points(sessions)
    said = history.render(sessions, [])
    assert not lacking(said, "too few sessions", "1 of 1 variables", "need 14")
    assert "no session holds a value" in history.render([], [])


def test_flat_series_have_hardly_any_though_otava_proposes_some():
    flat = np.median(bench_noise.repeats(np.random.default_rng(5), (200, 60, 5), 0.05), axis=2)
    assert sum(bool(history.proposed(row)) for row in flat) >= 4
    assert not any(history.levels(row, history.ERROR / 200 / 60) for row in flat)


def test_the_table_names_session_change_and_facts():
    sessions = stored(
        60, step=0.10, at=40, facts=lambda number: {"kernel": "6.1" if number < 40 else "6.8"}
    )
    text = history.render(sessions, history.change_points(sessions))
    assert "60 sessions, 1 variables: 1 change points" in text
    assert "00000040" in text and "kernel: 6.1 -> 6.8" in text and "+10" in text


def seconds_for(variables: int) -> float:
    """Processor time for the change points of a hundred sessions."""
    sessions = stored(100, variables=variables, launches=50, step=0.05, at=60)
    start = time.process_time()
    points = history.change_points(sessions)
    history.render(sessions, points)
    assert [point.variable for point in points] == ["latency0"]
    return time.process_time() - start


def test_ten_times_the_values_take_no_more_than_thirty_times_as_long():
    """A million stored values and a tenth of them, in one run. Measured: a factor of 3.4 to 3.8."""
    assert seconds_for(200) < 30 * seconds_for(20)
