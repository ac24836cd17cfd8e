"""Baselines of few days or few hours: what is assumed of a variable depends on its own days."""

import re
from dataclasses import replace
from datetime import datetime, timezone

import pytest

from nearmetal import results
from nearmetal.cli import main
from nearmetal.judge import baseline, record
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.days import drifts
from nearmetal.stats import plan, pooled
from tests.support.campaigns import campaign, only
from tests.support.judging import judge_session

MINUTE, HOUR, DAY = 60, 3600, 86400


def session(number: int, seconds: float, launches: int = 7, chosen=None, **options):
    """A session that starts so long after the first one."""
    data = campaign(number, launches=launches, **options)
    start = 1.76e9 + seconds
    data["session_info"] |= {
        "time_start_unix": start,
        "time_start": datetime.fromtimestamp(start, timezone.utc).strftime("%Y%m%dT%H%M%S%z"),
    }
    return results.parse_session(only(data, chosen) if chosen else data, "here")


def recorded(sessions, before=None):
    return record.record(sessions, before or Baseline("lab", "lab.yaml", {}))


@pytest.fixture(scope="module")
def extended():
    """A baseline of eight days, to which one session of 20 repeats added the openmpi cases."""
    eight = [
        session(day, day * DAY, chosen=lambda case: case["environ"] == "mpich") for day in range(8)
    ]
    known, _ = recorded(eight)
    new = session(20, 9 * DAY, 20, lambda case: case["environ"] == "openmpi")
    return recorded([new], known)


def test_a_case_of_one_day_has_the_prior_of_one_day_beside_cases_of_eight(extended):
    known, _ = extended
    least: dict[str, float] = {}
    for (key, _), drift in drifts(known).items():
        least[key[2]] = min(drift, least.get(key[2], 1.0))
    assert len(set(map(baseline.day_of, known.sessions.values()))) == 9
    assert least == {"mpich": 0.0, "openmpi": plan.UNKNOWN_DRIFT}


def test_verdict_note_and_record_name_the_variables_of_few_days(extended):
    known, notes = extended
    report = judge_session(session(30, 10 * DAY), known)
    references = {one.environ: one.reference for one in report.verdicts}
    assert references == {"mpich": "baseline", "openmpi": "baseline of few days"}
    few = sum(one.environ == "openmpi" for one in report.verdicts)
    [note] = [note for note in report.notes if "fewer than 8" in note]
    assert f"{few} of {len(report.verdicts)} variables" in note and "one day" in note
    assert "2 % is assumed" in note
    [note] = [note for note in notes if "fewer than 8" in note.lower()]
    assert f"{few} of {len(report.verdicts)} variables" in note and "2 % is assumed" in note


def test_sessions_within_half_an_hour_are_one_level_and_others_are_their_own():
    starts = [0, 10 * MINUTE, 29 * MINUTE, 31 * MINUTE, 2 * HOUR, 26 * HOUR]
    known, _ = recorded([session(number, at) for number, at in enumerate(starts)])
    entry = next(iter(known.entries.values()))
    assert [len(one) for one in entry.by_level("startup_latency")] == [21, 7, 7, 7]
    assert len(entry.by_day("startup_latency")) == 2


@pytest.mark.parametrize(
    "starts, least",
    [
        ([0], plan.UNKNOWN_DRIFT),
        ([number * MINUTE for number in range(12)], plan.UNKNOWN_DRIFT),
        ([0, HOUR, 2 * HOUR], plan.PRIOR_DRIFT),
        ([0, DAY, 2 * DAY], plan.PRIOR_DRIFT),
        ([day * DAY for day in range(8)], 0.0),
    ],
)
def test_what_is_assumed_depends_on_levels_and_days(starts, least):
    sessions = [session(n, at, 20 // len(starts) + 1, cv=0.02) for n, at in enumerate(starts)]
    known, notes = recorded(sessions)
    assert min(drifts(known).values()) == least
    said = [note for note in notes if "is assumed" in note]
    assert len(said) == (least > 0) and all(f"{100 * least:.0f} %" in note for note in said)
    if least == plan.UNKNOWN_DRIFT:
        assert "30 minutes apart" in said[0] and "repeats=7" in said[0]


def hours(factors: list[float], step: float = HOUR) -> list[results.Session]:
    """Sessions of one day in which the native ping-pong's latency differs by these factors."""
    where = ("", "native", "", "startup_latency")
    return [
        session(number, number * step, steps=[(where, factor)], cv=0.01)
        for number, factor in enumerate(factors)
    ]


def test_hours_that_differ_show_in_a_baseline_that_is_spread_over_hours():
    """As STREAM in the lab: 7 to 15 % less in another hour, without a cause that anybody saw."""
    factors = [1.0, 1.12, 0.95, 1.08, 0.93]
    later = session(9, 9 * HOUR, 5, steps=[(("", "native", "", "startup_latency"), 1.12)], cv=0.01)

    def alarms(step: float) -> set[str]:
        known, _ = recorded(hours(factors if step == HOUR else [1.0] * 5, step))
        report = judge_session(later, known)
        return {one.variable for one in report.verdicts if one.name == "regressed"}

    assert alarms(MINUTE) == {"startup_latency"} and alarms(HOUR) == set()


def test_sessions_of_one_day_do_not_hide_how_days_differ():
    """Two sessions on each of eight days: the level of a day is common to both."""
    where = ("", "native", "", "startup_latency")
    factors = [1.0, 1.06, 0.95, 1.04, 0.97, 1.05, 0.94, 1.01]
    sessions = [
        session(2 * day + half, day * DAY + 6 * HOUR * half, steps=[(where, factor)], cv=0.01)
        for day, factor in enumerate(factors)
        for half in (0, 1)
    ]
    known, _ = recorded(sessions)
    found = {
        key[1]: value for (key, name), value in drifts(known).items() if name == "startup_latency"
    }
    assert found["native"] > 0.03


def test_a_start_that_is_no_time_is_a_level_of_its_own():
    known, _ = recorded([session(0, 0, 20)])
    _, entry = next(iter(known.entries.items()))
    values = entry.samples["startup_latency"][0]
    odd = replace(
        entry,
        sessions={"a": "yesterday", "b": "today"},
        samples={"startup_latency": [values[:10], values[10:]]},
    )
    assert len(odd.by_level("startup_latency")) == 2
    assert baseline.span_of(["yesterday", "today"]) is None


@pytest.mark.parametrize(
    "step, days, span",
    [(MINUTE, "1", "11 min"), (HOUR, "1", "11 h"), (DAY, "12", "11 days")],
)
def test_show_says_how_many_days_and_which_span_a_baseline_has(
    tmp_path, monkeypatch, capsys, step, days, span
):
    known, _ = recorded([session(number, number * step) for number in range(12)])
    baseline.save(replace(known, path=tmp_path / "lab.yaml"))
    words = ["baseline", "show", "--system", "lab", "--directory", str(tmp_path)]
    monkeypatch.setattr("sys.argv", ["nearmetal", *words])
    assert main() == 0
    head, _, *rows = capsys.readouterr().out.splitlines()
    titles = re.split(r"  +", head.strip())
    found = [dict(zip(titles, re.split(r"  +", row.strip()))) for row in rows]
    assert {(one["sessions"], one["days"], one["span"]) for one in found} == {("12", days, span)}


def test_a_day_is_one_of_utc():
    assert baseline.day_of("20260801T013000+0200") == "20260731"
    assert baseline.day_of("20260801T013000+0000") == "20260801"
    assert baseline.day_of("yesterday") == "yesterda"


@pytest.mark.parametrize("factor, name", [(1.5, "inconclusive"), (3.0, "regressed")])
def test_few_repeats_of_many_variables_name_huge_changes_alone(monkeypatch, factor, name):
    # As of 400 variables.
    monkeypatch.setattr(plan, "CAMPAIGN_ERROR", plan.CAMPAIGN_ERROR / 10)
    monkeypatch.setattr(pooled, "POOLED_ERROR", pooled.POOLED_ERROR / 10)
    known, notes = recorded([session(0, 0, 20)])
    assert [note for note in notes if "never significant" in note and "-S repeats=7" in note]
    case = "emulated", "mpich", "startup_latency"
    slower = session(30, DAY, 5, steps=[(("", *case), factor)])
    for report in (judge_session(slower, known), Campaign(slower, known).verdicts()):
        (verdict,) = [
            verdict
            for verdict in report.verdicts
            if (verdict.partition, verdict.environ, verdict.variable) == case
        ]
        assert verdict.name == name
        assert ("7 repeats" in verdict.reason) == (name == "inconclusive")


def test_a_value_of_0_is_judged(extended):
    known, _ = extended
    zero = session(30, 10 * DAY, steps=[(("", "emulated", "mpich", "startup_latency"), 0.0)])
    verdicts = judge_session(zero, known).verdicts
    (verdict,) = [
        verdict
        for verdict in verdicts
        if (verdict.partition, verdict.environ, verdict.variable)
        == ("emulated", "mpich", "startup_latency")
    ]
    assert (verdict.name, verdict.value, verdict.change) == ("improved", 0, -1)
    assert not [verdict for verdict in verdicts if verdict.name == "incomplete"]
