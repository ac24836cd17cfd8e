"""Variables that one session leaves undecided, judged by all sessions since the baseline."""

from dataclasses import replace

import pytest

from nearmetal import results
from nearmetal.judge import against_baseline, confirm, record, render
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.campaign import Campaign
from tests.support.campaigns import campaign
from tests.support.judging import drifts_of, judge_pooled, judge_session

SLOWER = ("", "emulated", "mpich", "startup_latency")
CASE = ("pingpong %placement=internode", "emulated", "mpich")
CV = 0.08


def night(number: int, **options) -> results.Session:
    return results.parse_session(campaign(number, cv=CV, launches=3, **options), "here")


@pytest.fixture(scope="module")
def known():
    sessions = [results.parse_session(campaign(number, cv=CV), "here") for number in range(12)]
    return record.record(sessions, Baseline("lab", "lab.yaml", {}))[0]


def watched(known, earlier: list, tonight: results.Session):
    return judge_pooled(tonight, known, earlier)


def test_a_noisy_system_is_green_and_says_what_would_have_been_seen(known):
    alone = judge_session(night(20), known)
    report = watched(known, [night(number) for number in range(13, 20)], night(20))
    assert (alone.exit_code, report.exit_code) == (2, 0)
    assert {one.name for one in report.verdicts} <= {"watched", "ok"}
    one = next(one for one in report.verdicts if one.name == "watched")
    assert "no change over 8 sessions since 2025-" in one.reason and one.finds < 0.3
    [note] = [note for note in report.notes if note.startswith("watched: ")]
    assert "at most 1 %" in note
    assert "watched" in render.table(report) and render.document(report)["exit_code"] == 0


def test_a_row_shows_the_values_that_its_change_is_made_of(known):
    """Tonight alone is far off by chance; the pool is not."""
    tonight = night(20, steps=[(SLOWER, 1.4)])
    nights = [night(number) for number in range(13, 20)]
    report = watched(known, nights, tonight)
    decided = [one for one in report.verdicts if "sessions since" in one.reason]
    assert decided
    for one in decided:
        assert one.value / one.baseline - 1 == pytest.approx(one.change, abs=0.04)
        assert one.pooled > one.repeats == 3
        assert render.row(one)[-1].startswith(str(one.pooled)) or one.wanted
    document = render.document(report)["judged"]
    assert {one["repeats"] for one in document if "sessions since" in one["reason"]} == {
        one.pooled for one in decided
    }


def test_a_change_of_all_sessions_is_found_together(known):
    nights = [night(number, steps=[(SLOWER, 1.12)]) for number in range(30, 38)]
    alone = judge_session(nights[-1], known)
    report = watched(known, nights[:-1], nights[-1])

    def verdict(of):
        return next(v for v in of.verdicts if v.where == CASE and v.variable == "startup_latency")

    assert verdict(alone).name == "inconclusive" and verdict(report).name == "regressed"
    assert verdict(report).reason.startswith("over ") and report.exit_code == 1


def test_a_change_that_fresh_repeats_leave_open_is_not_called_by_the_ones_that_it_began_with(known):
    """A sabotage that is over by then: the session's own repeats show it, the fresh ones do not."""
    tonight = results.parse_session(campaign(40, cv=CV, steps=[(SLOWER, 2.0)]), "here")
    alone = judge_session(tonight, known)

    def verdict(of):
        return next(v for v in of.verdicts if v.where == CASE and v.variable == "startup_latency")

    assert verdict(alone).name == "regressed"
    [value] = [
        value
        for case in night(41).cases
        if case.where == CASE
        for value in case.values
        if value.variable == "startup_latency"
    ]
    fresh = {(*CASE, "startup_latency"): [1.1 * one for one in value.samples]}
    again = judge_session(tonight, known, fresh)
    assert verdict(again).name == "inconclusive" and verdict(again).by_fresh
    assert verdict(again).value < 1.3 * verdict(again).baseline
    report = Campaign(tonight, known).judge_against_baseline(fresh)
    assert verdict(report).name in ("inconclusive", "watched")


def test_sessions_of_one_day_count_as_one(known):
    """Eight sessions of one afternoon show less than eight nights: they share a shift."""

    def later(step: float) -> list[results.Session]:
        found = [night(number) for number in range(13, 21)]
        return [
            replace(one, time=found[0].time + step * number) for number, one in enumerate(found)
        ]

    def finds(step: float) -> float:
        *earlier, tonight = later(step)
        drifts = dict.fromkeys(drifts_of(known), 0.03)
        report = judge_pooled(tonight, known, earlier, drifts)
        return min(one.finds for one in report.verdicts if one.name == "watched")

    assert finds(600) > 1.3 * finds(86400)


def test_an_earlier_value_of_zero_leaves_its_session_out(known):
    broken, *_ = earlier = [night(number) for number in range(42, 48)]
    cases = [
        replace(case, values=tuple(replace(one, samples=(0.0,) * 3) for one in case.values))
        for case in broken.cases
    ]
    tonight = night(48)
    found = watched(known, [replace(broken, cases=tuple(cases)), *earlier[1:]], tonight)
    without = watched(known, earlier[1:], tonight)
    assert found.verdicts == without.verdicts


def test_sessions_since_the_baseline_are_those_after_its_last_one(known):
    inside = [night(number) for number in (5, 11)]
    after = [night(number) for number in (12, 13)]
    assert against_baseline.since(known.sessions, [*inside, *after]) == after
    assert against_baseline.since(known.sessions, after) == after


def test_a_report_without_anything_undecided_stays_as_it_is(known):
    campaign = Campaign(night(40), known)
    report = campaign.judge_alone({})
    decided = tuple(replace(one, name="ok") for one in report.verdicts)
    report = replace(report, verdicts=decided)
    assert against_baseline.judge_pooled(report, campaign.terms, [], {}) is report


def test_a_later_session_sees_the_fresh_samples_of_one_that_was_measured_again(known):
    bad = results.parse_session(campaign(42, cv=CV, steps=[(SLOWER, 2.0)]), "here")
    data = campaign(43, cv=CV, launches=3)
    data["session_info"]["nearmetal_confirms"] = bad.uuid
    [again] = [results.parse_session(data, "here")]
    assert confirm.with_fresh(bad, []) == bad

    def samples(session):
        [case] = [case for case in session.cases if case.where == CASE]
        return next(v.samples for v in case.values if v.variable == "startup_latency")

    assert samples(confirm.with_fresh(bad, [again])) == samples(again) != samples(bad)
