"""`nearmetal baseline`: what it writes, what ReFrame and the gate read again, and what it
refuses."""

import hashlib
import json
import re
from dataclasses import replace

import pytest
import yaml

from nearmetal import results
from nearmetal.cli import main
from nearmetal.judge import baseline, baseline_sessions, record
from nearmetal.judge.baseline import Baseline, BaselineError
from nearmetal.model.facts import changed_facts
from nearmetal.results.session import Cause, Disturbed
from nearmetal.stats import plan
from tests.support.campaigns import campaign, only
from tests.support.recorded import store


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
    assert len(known.entries) == 6 and known.variables == 40
    assert entry.units == {
        "startup_latency_over_native": "x native time",
        "latency_1KiB_over_native": "x native time",
        "bandwidth_64KiB_over_native": "x native rate",
        "peak_bandwidth_over_native": "x native rate",
        "startup_latency": "us",
        "latency_1KiB": "us",
        "bandwidth_64KiB": "Gb/s",
        "peak_bandwidth": "Gb/s",
    }
    assert (
        len(entry.sessions) == 12
        and [len(launches) for launches in entry.samples["startup_latency"]] == [5] * 12
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
        # The drift of all variables together says what each of them finds.
        same = replace(entry, noise=known.entries[key].noise)
        assert (same == known.entries[key]) == (key[2] == "openmpi")
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
        ([], "no session"),
        (
            [campaign(n) for n in range(3)],
            "15 samples in 3 sessions",
        ),
        (
            [*(campaign(n) for n in range(11)), failed(campaign(11))],
            "00000011-campaign.* failed.*cut off",
        ),
        (
            [
                *(campaign(n) for n in range(11)),
                only(campaign(11), lambda case: case["environ"] == "mpich"),
            ],
            "00000011-campaign is incomplete: 3 of 6",
        ),
        (
            [*(campaign(n) for n in range(11)), campaign(11, kernel="7.0.0")],
            "kernel is not the same.*; 7.0.0",
        ),
        (
            [campaign(n, cv=1.5) for n in range(12)],
            "noisy.* --leave-out-noisy",
        ),
    ],
)
def test_what_is_no_baseline_is_refused_and_says_which_session(empty, sessions, message):
    with pytest.raises(BaselineError, match=message):
        record.record([results.parse_session(data, "here") for data in sessions], empty)
    assert not empty.path.exists()


def test_noisy_variables_can_stay_unjudged_and_are_named(empty):
    after, notes = record.record(parsed(*range(12), cv=1.5), empty, leave_out_noisy=True)
    assert after.variables == 0 and len(notes) == 40 and "it stays unjudged" in notes[0]


def disturbed(session: results.Session, environ: str) -> results.Session:
    """The session with other work beside the last repeat of this environment's cases."""
    why = Cause("waited", 0.5, "a rank waited 50 % of its time for a processor on n1")
    beside = {"disturbances": (Disturbed(5, False, (why,)),)}
    cases = [replace(one, **beside) if one.environ == environ else one for one in session.cases]
    return replace(session, cases=cases)


def test_a_disturbed_case_is_left_out_and_named(empty):
    sessions = parsed(*range(12))
    sessions[3] = disturbed(sessions[3], "mpich")
    after, notes = record.record(sessions, empty)
    counts = {key[2]: len(entry.sessions) for key, entry in after.entries.items()}
    assert counts == {"mpich": 11, "openmpi": 12}
    named = [note for note in notes if sessions[3].uuid in note]
    assert len(named) == 3 and all("mpich" in note and "waited 50 %" in note for note in named)


def test_samples_of_disturbed_cases_do_not_end_the_choice_of_sessions(tmp_path):
    many = [campaign(number, launches=1) for number in range(24)]
    for case in many[-1]["runs"][0]["testcases"]:
        case["disturbed"] = [[1, False, ["waited", 0.5, "a rank waited 50 % of its time"]]]
    chosen = baseline_sessions.choose(store(tmp_path / "results.db", *many), "lab", None)
    assert len([one for one in chosen if not one.cases[0].disturbed]) == plan.LEAST_BASELINE


def test_a_case_that_was_always_disturbed_is_refused_with_the_reason(empty):
    sessions = [disturbed(one, "mpich") for one in parsed(*range(12))]
    with pytest.raises(BaselineError, match=r"mpich.*in all sessions.*waited 50 %.*Fix: end it"):
        record.record(sessions, empty)


def test_another_revision_of_the_suite_is_noted_not_refused(empty):
    sessions = [*parsed(*range(11)), *parsed(11, revision="abc")]
    _, notes = record.record(sessions, empty)
    assert len(notes) == 1 and notes[0].startswith("revision ") and "abc" in notes[0]


@pytest.mark.parametrize(
    "damage, message",
    [
        (lambda text: text[:400], "lab.yaml: "),
        (lambda text: "{", "cannot be read as YAML"),
        (
            lambda text: text.replace("launches: 60", "launches: many", 1),
            "'many'.*integer",
        ),
        (
            lambda text: text.replace("launches_sha256: ", "launches_sha256: 0", 1)[:],
            "launches_sha256",
        ),
        (
            lambda text: text.replace("0.25, us]", "fast, us]", 1),
            "a number, .*bound",
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
    with pytest.raises(BaselineError, match=r"lab.yaml"):
        baseline.load("lab", known.path.parent)


def rewritten(known, samples: bytes) -> None:
    """Other samples, with the digest that they have."""
    known.path.with_name("lab.launches.json").write_bytes(samples)
    text, digest = known.path.read_text(), hashlib.sha256(samples).hexdigest()
    known.path.write_text(re.sub("launches_sha256: .*", f"launches_sha256: {digest}", text))


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda samples: b"[", "launches.json: "),
        (lambda samples: b"[]", "the file is .*, not an object"),
        (lambda samples: samples.replace(b": [[", b": [[true, ", 1), "True, not a finite number"),
        (lambda samples: samples.replace(b": [[", b': [["x", ', 1), "'x', not a finite number"),
        (lambda samples: samples.replace(b": [[", b": [[1e999, ", 1), "launches.json: "),
        (lambda samples: samples.replace(b": [[", b": [[], [", 1), "a session without samples"),
        (lambda samples: samples.replace(b": [[", b": [5, [", 1), "not a list of lists of"),
    ],
)
def test_samples_of_a_wrong_type_are_refused(known, change, message):
    samples = known.path.with_name("lab.launches.json").read_bytes()
    rewritten(known, change(samples))
    with pytest.raises(BaselineError, match=f"{message}.*Fix: "):
        baseline.load("lab", known.path.parent)


def in_document(*keys, value):
    """Function: set a value of the baseline's document; a function of the old one may give it."""

    def change(data):
        for key in keys[:-1]:
            data = data[[*data][-1]] if key is ANY else data[key]
        last = [*data][-1] if keys[-1] is ANY else keys[-1]
        data[last] = value

    return change


ANY = object()
OF_CASE = "baseline", "cases", ANY
OF_REFERENCE = "pingpong", ANY, ANY, ANY, ANY


@pytest.mark.parametrize(
    "change, message",
    [
        (in_document(*OF_CASE, "recorded", value="2026-02-30"), "which is no date"),
        (in_document(*OF_CASE, "facts", value={"nodes": 5}), "facts.nodes: 5"),
        (in_document(*OF_CASE, "facts", value={5: "x"}), "the key .*5 is no text"),
        (in_document(5, value={}), "the key 5 is no text"),
        (in_document("baseline", "sessions", value={1: "x"}), "the key baseline.sessions.1"),
        (in_document("baseline", "cases", value={" | a | b": {}}), "CHECK"),
        (in_document(*OF_REFERENCE, value=[]), "has no reference"),
        (in_document(*OF_REFERENCE, value=["a", "b"]), "has no reference"),
        (in_document(*OF_REFERENCE, value=["a", None, None, "us"]), "pingpong"),
    ],
)
def test_a_document_of_a_wrong_type_is_refused(known, change, message):
    data = yaml.safe_load(known.path.read_text())
    change(data)
    known.path.write_text(yaml.safe_dump(data))
    with pytest.raises(BaselineError, match=message) as error:
        baseline.load("lab", known.path.parent)
    assert "Fix: " in str(error.value)


@pytest.mark.parametrize("start", ["99991231T235959-2300", "00010101T000000+2300", "yesterday"])
def test_a_start_that_is_no_time_is_a_day_of_its_own(start):
    assert baseline.time_of(start) is None and baseline.day_of(start) == start[:8]


def test_no_baseline_says_how_to_get_one(tmp_path):
    with pytest.raises(
        BaselineError,
        match=r"`nearmetal baseline record --system elsewhere`",
    ):
        baseline.load("elsewhere", tmp_path)


def test_the_share_of_variance_between_launches():
    import numpy as np

    rng = np.random.default_rng(1)

    def launches(between, within):
        return [
            tuple(np.exp(rng.normal(0, between) + rng.normal(0, within, 10))) for _ in range(200)
        ]

    assert record.between_repeats(launches(0.03, 0.03)) == pytest.approx(0.5, abs=0.1)
    assert record.between_repeats(launches(0.0, 0.03)) < 0.05
    assert record.between_repeats(launches(0.03, 0.001)) > 0.95
    # A part without any loss, as of a quiet tenth of osnoise, has no logarithm.
    assert record.between_repeats([*launches(0.03, 0.03), (0.0, 1.0)]) is None
    assert record.between_repeats([]) is None and record.between_repeats([(1.0,), (2.0,)]) is None


UNITS = {
    "startup_latency": "% of ideal",
    "latency_1KiB": "ns/day",
    "bandwidth_64KiB": "detours/s",
    "peak_bandwidth": "% of peak",
}


def in_units(data: dict, units: dict[str, str]) -> dict:
    """The campaign with other units."""
    for case in data["runs"][0]["testcases"]:
        for key, entry in case["perfvalues"].items():
            entry[4] = units[key.rsplit(":", 1)[1]]
    return data


@pytest.fixture
def of_all_units(empty):
    """A baseline of variables in those units whose references were bounded on the wrong side."""
    sessions = [results.parse_session(in_units(campaign(n), UNITS), "here") for n in range(12)]
    after, _ = record.record(sessions, empty)
    baseline.save(after)
    return empty.path


def test_references_bound_the_worse_side_of_every_unit(of_all_units):
    data = yaml.safe_load(of_all_units.read_text())
    found = data["pingpong"]["lab:native"]["mpich"]["internode"]
    assert {name: entry[1:] for name, entry in found.items()} == {
        "startup_latency": [-0.25, None, "% of ideal"],
        "latency_1KiB": [-0.25, None, "ns/day"],
        "bandwidth_64KiB": [None, 0.25, "detours/s"],
        "peak_bandwidth": [-0.25, None, "% of peak"],
    }


def as_of_an_older_version(path) -> None:
    """The file as the version before format 2 wrote it: no format, and wrong sides."""
    text = path.read_text().replace("  format: 2\n", "")
    for unit in ("% of ideal", "ns/day", "'% of peak'", "'% of ideal'", "% of peak"):
        text = text.replace(f"-0.25, null, {unit}]", f"null, 0.25, {unit}]")
    path.write_text(text.replace("null, 0.25, detours/s]", "-0.25, null, detours/s]"))


def test_a_baseline_of_an_older_version_is_refused_and_says_what_corrects_it(of_all_units):
    right = of_all_units.read_text()
    as_of_an_older_version(of_all_units)
    with pytest.raises(BaselineError, match=r"baseline.format is missing") as error:
        baseline.load("lab", of_all_units.parent)
    assert "wrong side" in str(error.value)
    assert "`nearmetal baseline record --system lab --only-bounds`" in str(error.value)
    baseline.save(baseline.load("lab", of_all_units.parent, any_bounds=True))
    assert of_all_units.read_text() == right


def test_the_command_corrects_bounds_without_a_session(of_all_units, monkeypatch, capsys):
    right = of_all_units.read_text()
    as_of_an_older_version(of_all_units)
    database = of_all_units.with_name("no.db")
    words = ["baseline", "record", "--system", "lab", "--only-bounds", "--database", str(database)]
    monkeypatch.setattr("sys.argv", ["nearmetal", *words, "--directory", str(of_all_units.parent)])
    assert main() == 0 and "6 cases" in capsys.readouterr().out
    assert of_all_units.read_text() == right and not database.exists()


def test_recording_corrects_an_older_baseline_too(of_all_units):
    as_of_an_older_version(of_all_units)
    before = baseline.load("lab", of_all_units.parent, any_bounds=True)
    sessions = [results.parse_session(in_units(campaign(n), UNITS), "here") for n in range(12)]
    baseline.save(record.record(sessions, before)[0])
    assert baseline.load("lab", of_all_units.parent).variables == 40


@pytest.mark.parametrize(
    "bounds, refused",
    [
        ("null, 0.25", True),
        ("null, null", False),
        ("-0.1, 0.1", False),
        ("-0.1, null", False),
    ],
)
def test_a_reference_that_bounds_only_the_better_side_is_refused(known, bounds, refused):
    text = known.path.read_text()
    assert text.count("-0.25, null, Gb/s]") == 12
    known.path.write_text(text.replace("-0.25, null, Gb/s]", f"{bounds}, Gb/s]", 1))
    if not refused:
        assert baseline.load("lab", known.path.parent).variables == 40
        return
    with pytest.raises(BaselineError, match="higher is better") as error:
        baseline.load("lab", known.path.parent)
    assert "bandwidth_64KiB" in str(error.value) and "--only-bounds" in str(error.value)


def test_another_format_of_a_later_version_is_refused(known):
    known.path.write_text(known.path.read_text().replace("format: 2", "format: 3"))
    with pytest.raises(BaselineError, match="format is 3"):
        baseline.load("lab", known.path.parent, any_bounds=True)


def test_a_unit_that_nobody_knows_is_bounded_on_both_sides_and_noted(empty):
    units = dict.fromkeys(UNITS, "furlongs")
    sessions = [results.parse_session(in_units(campaign(n), units), "here") for n in range(12)]
    after, notes = record.record(sessions, empty)
    assert after.variables == 0 and len(notes) == 24
    assert "better.yaml" in notes[0] and "`furlongs: more`" in notes[0]
    baseline.save(after)
    found = yaml.safe_load(empty.path.read_text())["pingpong"]["lab:native"]["mpich"]["internode"]
    assert {tuple(entry[1:]) for entry in found.values()} == {(-0.25, 0.25, "furlongs")}


def test_a_case_that_failed_by_an_expectation_alone_can_be_recorded(empty):
    def beyond(data, texts):
        for case in data["runs"][0]["testcases"]:
            case |= {"result": "fail", "fail_phase": "performance", "fail_reason": "too slow"}
            case["unexpected"] = texts
        return results.parse_session(data, "here")

    after, _ = record.record([beyond(campaign(n), ["too slow"]) for n in range(12)], empty)
    assert len(after.entries) == 6
    with pytest.raises(BaselineError, match="failed: pingpong"):
        record.record([*parsed(*range(11)), beyond(campaign(11), [])], empty)
    with pytest.raises(results.ResultsError, match="unexpected"):
        beyond(campaign(1), [1])


def test_cases_that_failed_for_want_of_a_reference_alone_can_be_recorded(empty, known):
    """Else a partition or check that is new on a system with a baseline could never get into it."""

    def unreferenced(data, phase="performance", names=("startup_latency",)):
        for case in data["runs"][0]["testcases"]:
            if case["partition"] == "native":
                case |= {"result": "fail", "fail_phase": phase, "fail_reason": "no reference"}
                case["unreferenced"] = list(names)
        return results.parse_session(data, "here")

    after, _ = record.record([unreferenced(campaign(n)) for n in range(12)], empty)
    assert {key[1] for key in after.entries} == {"native", "passthrough", "emulated"}
    for broken in (
        unreferenced(campaign(11), phase="sanity"),
        unreferenced(campaign(11), names=()),  # beyond its reference
    ):
        with pytest.raises(BaselineError, match="failed: pingpong"):
            record.record([*parsed(*range(11)), broken], empty)


def test_a_session_of_another_system_is_refused(empty):
    sessions = parsed(*range(12))
    data = campaign(3)
    data["session_info"]["system"] = "other"
    for case in data["runs"][0]["testcases"]:
        case["system"] = "other"
    other = results.parse_session(data, "here")
    with pytest.raises(BaselineError, match="00000003-campaign is of system other, not of lab"):
        record.record([*sessions[:3], other], empty)


def test_the_one_session_of_another_state_is_named(empty):
    sessions = [*parsed(*range(11)), *parsed(11, kernel="7.0.0")]
    with pytest.raises(BaselineError, match=r"Only session 00000011-campaign of .* has 7\.0\.0"):
        record.record(sessions, empty)
    halves = [*parsed(*range(6)), *parsed(*range(6, 12), kernel="7.0.0")]
    with pytest.raises(BaselineError) as error:
        record.record(halves, empty)
    assert "Only" not in str(error.value)


def test_the_mtu_is_reported_once():
    then = {"mtu": "eth0: 1500", "nic.eth0.mtu": "1500", "nic.eth0.speed": "10000"}
    now = {"mtu": "eth0: 576", "nic.eth0.mtu": "576", "nic.eth0.speed": "1000"}
    assert list(changed_facts(then, now)) == ["mtu", "nic.eth0.speed"]
    later = {"nic.eth0.qdisc": "tbf", "nic.eth0.firmware": "1", "tcp_congestion": "bbr"}
    assert changed_facts({"nic.eth0.driver": "veth"}, {"nic.eth0.driver": "veth", **later}) == {}
    another = changed_facts({"kernel": "6.1"}, {"kernel": "6.1", **later})
    assert set(another) == {"nic.eth0.qdisc", "nic.eth0.firmware"}  # another NIC
    assert changed_facts({"nodes": "n1"}, later) == {}  # nothing was recorded
    alone = changed_facts({"nic.eth0.mtu": "1500"}, {"nic.eth0.mtu": "576"})
    assert list(alone) == ["nic.eth0.mtu"]
