"""`gate --only` and `--weight`: which variables are judged, and how they share the error."""

from dataclasses import replace

import pytest

from nearmetal import results
from nearmetal.judge import record
from nearmetal.judge.alpha_weights import AlphaWeights, WeightsError
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.days import drifts
from tests.support.campaigns import campaign
from tests.support.judging import judge_session


def parsed(number: int, **options) -> results.Session:
    return results.parse_session(campaign(number, **options), "here")


@pytest.fixture(scope="module")
def known():
    sessions = [parsed(number) for number in range(12)]
    return record.record(sessions, Baseline("lab", "lab.yaml", {}))[0]


def judged(known, session, only=(), weights=()):
    shares = AlphaWeights.of(only, weights)
    return judge_session(shares.of_session(session), shares.of_baseline(known))


def test_only_the_selected_variables_are_judged_and_none_is_missed(known):
    report = judged(known, parsed(100), ["pingpong:startup_latency"])
    assert {one.check.split()[0] for one in report.verdicts} == {"pingpong"}
    names = {one.variable for one in report.verdicts}
    assert names == {"startup_latency", "startup_latency_over_native"}
    assert "incomplete" not in {one.name for one in report.verdicts}


def test_a_selected_case_that_the_session_lacks_is_missed(known):
    session = parsed(100)
    lost = session.cases[0]
    without = replace(session, cases=session.cases[1:], promised=len(session.cases) - 1)
    report = judged(known, without, [lost.check.split()[0]])
    assert ("incomplete", *lost.key) in {(one.name, *one.key) for one in report.verdicts}


def test_a_weight_of_a_check_that_the_session_lacks_or_skipped_is_none_too_many(known):
    whole = parsed(100)
    session = replace(whole, cases=(), skipped=(), promised=len(whole.cases))
    for pattern in ("pingpong", "pingpong:startup_latency"):
        weighted = AlphaWeights.of((), [f"{pattern}=2"])
        assert weighted.of_session(session, known) == session
        assert AlphaWeights.of([pattern], ()).of_session(session, known).promised == len(
            whole.cases
        )
    skipped = replace(session, skipped=(whole.cases[0].where,))
    assert AlphaWeights.of((), ["pingpong=2"]).of_session(skipped) == skipped
    assert "changes nothing" in AlphaWeights.of((), ["pingpong=2"]).note(None)


def test_few_variables_find_smaller_changes():
    sessions = [parsed(number, cv=0.08) for number in range(12)]
    noisy = record.record(sessions, Baseline("lab", "lab.yaml", {}))[0]

    def finds(only=(), weights=()):
        return next(
            one.finds
            for one in judged(noisy, parsed(100, cv=0.08), only, weights).verdicts
            if one.where == ("pingpong %placement=internode", "emulated", "mpich")
            and one.variable == "startup_latency"
        )

    pattern = "pingpong:startup_latency"
    assert finds([pattern]) < finds(weights=[f"{pattern}=10"]) < finds()
    assert finds() < finds(weights=[f"{pattern}=0.1"])


def test_the_parts_of_the_error_are_the_whole(known):
    weighted = AlphaWeights.of((), ["pingpong=0.1", "*:startup_latency=3"]).of_baseline(known)
    total = weighted.weight(weighted.entries)
    parts = [
        weighted.weigh(key[0], name) / total
        for key, entry in weighted.entries.items()
        for name, noise in entry.noise.items()
        if noise.finds is not None
    ]
    assert sum(parts) == pytest.approx(1) and len(parts) == known.variables
    assert len({round(part, 12) for part in parts}) == 2


def test_drift_is_that_of_all_variables(known):
    narrow = AlphaWeights.of(["pingpong:startup_latency"], ()).of_baseline(known)
    assert drifts(narrow).keys() == drifts(known).keys()


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("pinpong", r"'pinpong' matches no variable .*did you mean pingpong\?"),
        ("pingpong:latency", "'pingpong:latency' matches no variable .*startup_latency"),
    ],
)
def test_a_pattern_that_matches_nothing_is_refused(pattern, said):
    for shares in (AlphaWeights.of([pattern], ()), AlphaWeights.of((), [f"{pattern}=2"])):
        with pytest.raises(WeightsError, match=said):
            shares.of_session(parsed(100))


@pytest.mark.parametrize(
    "text", ["pingpong", "pingpong=", "=2", "pingpong=0", "a=-1", "a=nan", "a=inf"]
)
def test_a_weight_that_is_none_is_refused(text):
    with pytest.raises(WeightsError, match="Fix: give PATTERN=NUMBER"):
        AlphaWeights.of((), [text])


def test_a_ratio_is_chosen_with_its_variable():
    with pytest.raises(WeightsError, match="pingpong:startup_latency'"):
        AlphaWeights.of(["pingpong:startup_latency_over_native"], [])
    with pytest.raises(WeightsError, match="ratio"):
        AlphaWeights.of([], ["*_over_native=2"])
