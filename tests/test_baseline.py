"""`nearmetal baseline`: what it writes, what ReFrame and the gate read again, and what it refuses."""

import json

import pytest
import yaml

from nearmetal import baseline, record, results
from nearmetal.baseline import Baseline, BaselineError

from .campaigns import campaign, only


def parsed(*numbers, **options) -> list[results.Session]:
    return [results.parse_session(campaign(number, **options), "here") for number in numbers]


@pytest.fixture
def empty(tmp_path):
    return Baseline("lab", tmp_path / "lab.yaml", {})


@pytest.fixture
def known(empty):
    """Recorded from twelve sessions of five launches, saved, and read again."""
    after, _ = record.record(parsed(*range(12)), empty)
    baseline.save(after)
    return baseline.load("lab", empty.path.parent)


def test_what_is_saved_is_what_is_read(known):
    case = "pingpong %placement=internode", "emulated", "openmpi"
    entry = known.entries[case]
    assert len(known.entries) == 6 and known.variables == 24
    assert entry.units == {
        "startup_latency": "us",
        "latency_1KiB": "us",
        "bandwidth_64KiB": "Gb/s",
        "peak_bandwidth": "Gb/s",
    }
    assert (
        len(entry.sessions) == 12
        and [len(launches) for launches in entry.launches["startup_latency"]] == [5] * 12
    )
    assert entry.facts["transport"] == "eth0 (tap)" and entry.facts["nic_driver"] == "eth0: tap"
    noise = entry.noise["startup_latency"]
    assert (
        noise.spread == pytest.approx(0.02, rel=0.4)
        and noise.launches == 60
        and noise.finds == 0.05
    )


def test_the_file_is_what_reframe_takes_as_references(known):
    data = yaml.safe_load(known.path.read_text())
    assert data["pingpong"]["$index"] == ["$partition", "$environ", "placement"]
    entries = data["pingpong"]["lab:native"]["mpich"]["internode"]
    assert entries["startup_latency"][1:] == [None, 0.25, "us"] and entries["peak_bandwidth"][
        1:
    ] == [-0.25, None, "Gb/s"]


def test_a_diff_is_small_and_old_cases_stay(known):
    before = known.path.read_text()
    fresh = [
        results.parse_session(
            only(campaign(number), lambda case: case["environ"] == "mpich"), "here"
        )
        for number in range(20, 32)
    ]
    after, _ = record.record(fresh, known)
    baseline.save(after)
    again = baseline.load("lab", known.path.parent)
    assert set(again.entries) == set(known.entries)
    for key, entry in again.entries.items():
        assert (entry == known.entries[key]) == (key[2] == "openmpi")
    baseline.save(Baseline("lab", known.path, known.entries))
    assert known.path.read_text() == before


def failed(data: dict) -> dict:
    data["runs"][0]["testcases"][0] |= {
        "result": "fail",
        "fail_phase": "sanity",
        "fail_reason": "sanity error: cut off",
    }
    return data


@pytest.mark.parametrize(
    "sessions, message",
    [
        ([], "no session to record from"),
        (
            [campaign(n) for n in range(3)],
            "15 launches in 3 sessions, but a rank test needs at least 20",
        ),
        (
            [*(campaign(n) for n in range(11)), failed(campaign(11))],
            "session 00000011-campaign failed: .*cut off",
        ),
        (
            [
                *(campaign(n) for n in range(11)),
                only(campaign(11), lambda case: case["environ"] == "mpich"),
            ],
            "session 00000011-campaign is incomplete: 3 of 6 cases",
        ),
        (
            [*(campaign(n) for n in range(11)), campaign(11, kernel="7.0.0")],
            "kernel is not the same in all sessions: .*; 7.0.0",
        ),
        (
            [campaign(n, cv=1.5) for n in range(12)],
            "too noisy to be judged: it varies by .* --leave-out-noisy",
        ),
    ],
)
def test_what_is_no_baseline_is_refused_and_says_which_session(empty, sessions, message):
    with pytest.raises(BaselineError, match=message):
        record.record([results.parse_session(data, "here") for data in sessions], empty)
    assert not empty.path.exists()


def test_noisy_variables_can_stay_unjudged_and_are_named(empty):
    after, notes = record.record(parsed(*range(12), cv=1.5), empty, leave_out_noisy=True)
    assert after.variables == 0 and len(notes) == 24 and "it stays unjudged" in notes[0]


def test_another_revision_of_the_suite_is_noted_not_refused(empty):
    sessions = [*parsed(*range(11)), *parsed(11, revision="abc")]
    _, notes = record.record(sessions, empty)
    assert len(notes) == 1 and notes[0].startswith("revision differs between the sessions: ")


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda text: text[:400], "lab.yaml: "),
        (lambda text: "{", "cannot be read as YAML"),
        (
            lambda text: text.replace("launches: 60", "launches: many", 1),
            "'many' is not of type 'integer'",
        ),
        (
            lambda text: text.replace("launches_sha256: ", "launches_sha256: 0", 1)[:],
            "launches_sha256",
        ),
        (
            lambda text: text.replace("0.25, us]", "fast, us]", 1),
            "write a number, its lower and upper bound",
        ),
    ],
)
def test_a_damaged_file_is_refused_with_the_fix(known, damage, message):
    known.path.write_text(damage(known.path.read_text()))
    with pytest.raises(BaselineError, match=message) as error:
        baseline.load("lab", known.path.parent)
    assert "Fix: " in str(error.value)


def test_launches_that_are_not_those_it_was_written_with_are_refused(known):
    beside = known.path.with_name("lab.launches.json")
    data = json.loads(beside.read_text())
    data[" | ".join(next(iter(known.entries)))]["startup_latency"][0][0] *= 2
    beside.write_text(json.dumps(data))
    with pytest.raises(BaselineError, match="not the launches that lab.yaml was written with"):
        baseline.load("lab", known.path.parent)


def test_no_baseline_says_how_to_get_one(tmp_path):
    with pytest.raises(
        BaselineError,
        match="elsewhere has no baseline. Fix: `nearmetal baseline record --system elsewhere`",
    ):
        baseline.load("elsewhere", tmp_path)


def test_the_share_of_variance_between_launches():
    import numpy as np

    rng = np.random.default_rng(1)

    def launches(between, within):
        return [
            tuple(np.exp(rng.normal(0, between) + rng.normal(0, within, 10))) for _ in range(200)
        ]

    assert record.between_launches(launches(0.03, 0.03)) == pytest.approx(0.5, abs=0.1)
    assert record.between_launches(launches(0.0, 0.03)) < 0.05
    assert record.between_launches(launches(0.03, 0.001)) > 0.95
    assert record.between_launches([]) is None and record.between_launches([(1.0,), (2.0,)]) is None
