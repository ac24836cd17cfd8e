"""Without a baseline, a session is judged against expectations and the session before."""

import json

import pytest

from nearmetal import results
from nearmetal.cli import main
from nearmetal.judge.expected import Expectations
from nearmetal.judge.without_baseline import judge_without_baseline
from tests.support.campaigns import campaign, disturbed, only
from tests.support.recorded import session, store
from tests.support.said import lacking


@pytest.fixture
def gate(tmp_path, monkeypatch, capsys):
    """Runs the gate without a baseline: (exit code, output, verdicts by name)."""
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path / "none"))

    def run(*sessions):
        database = store(tmp_path / f"{len(list(tmp_path.iterdir()))}.db", *sessions)
        words = ["gate", "--database", str(database), "--json", str(tmp_path / "gate.json")]
        monkeypatch.setattr("sys.argv", ["nearmetal", *words])
        code = main()
        judged = json.loads((tmp_path / "gate.json").read_text())["judged"]
        names: dict[str, list] = {}
        for one in judged:
            names.setdefault(one["verdict"], []).append(one)
        return code, capsys.readouterr().out, names

    return run


def slow_native(data):
    """The session with a native start-up latency a thousand times as long."""
    for case in data["runs"][0]["testcases"]:
        if case["partition"] == "native":
            samples = case["samples"]["startup_latency"]
            case["samples"]["startup_latency"] = [1000 * one for one in samples]
            [entry] = [v for k, v in case["perfvalues"].items() if k.endswith("startup_latency")]
            entry[0] *= 1000
    return data


def test_a_first_session_beyond_an_expectation_deviates(gate):
    code, out, names = gate(slow_native(session("session_lab")))
    assert code == 1 and out.startswith("not what one may expect: ")
    assert {one["reference"] for one in names["deviates"]} == {"expectation"}
    reasons = [one["reason"] for one in names["deviates"] if one["partition"] == "native"]
    assert any("passthrough_beside_native" in reason for reason in reasons)
    assert not lacking(out, "no baseline", "nearmetal expect", "nearmetal baseline record")
    assert "sessions on eight days also show how much days differ" in " ".join(out.split())


def test_a_deviation_is_one_also_beside_the_session_before(gate):
    code, _, names = gate(session("session_lab"), slow_native(renamed(session("session_lab"))))
    assert code == 1 and names["deviates"] and names["regressed"]
    assert {one["reference"] for one in names["regressed"]} == {"session before"}


SLOW = [(("", "native", "mpich", "startup_latency"), 1.6)]


def test_a_change_needs_a_second_day(gate):
    one = campaign(2, steps=SLOW)
    code, _, names = gate(campaign(1), one)
    assert code == 2 and "regressed" not in names
    pending = [verdict for verdict in names["inconclusive"] if "second day" in verdict["reason"]]
    assert pending and all(not lacking(each["reason"], "90 %", "Fix:") for each in pending)
    same_day = campaign(2, steps=SLOW)
    same_day["session_info"] |= {"uuid": "00000022-campaign"}
    code, _, names = gate(campaign(1), one, same_day)
    assert code == 2 and "regressed" not in names
    code, _, names = gate(campaign(1), one, campaign(3, steps=SLOW))
    assert code == 1 and len(names["regressed"]) == len(pending)
    code, _, names = gate(campaign(1), one, campaign(3))
    assert "regressed" not in names


def renamed(data):
    info = data["session_info"]
    info["uuid"] = "later" + info["uuid"][5:]
    return data


def test_cases_that_the_session_before_had_are_named(gate):
    fewer = only(campaign(2), lambda case: case["partition"] != "emulated")
    _, out, _ = gate(campaign(1), fewer)
    said = " ".join(out.split())
    assert not lacking(said, "cases of session 00000001-campaign are not in this one", "emulated")


def test_the_session_before_is_the_newest_with_most_of_the_cases(gate):
    one = only(campaign(2), lambda case: case["partition"] == "emulated")
    _, out, names = gate(campaign(1), one, campaign(3))
    assert "00000001-campaign" in out and "not judged" not in names


def test_a_disturbed_case_is_neither_ok_nor_regressed(gate):
    later = campaign(2)
    disturbed(later["runs"][0]["testcases"][:1])
    code, out, names = gate(campaign(1), later)
    assert code == 2 and len(names["disturbed"]) == 4 and "waited 40 % on n1" in out
    assert not lacking(names["disturbed"][0]["reason"], "waited 40 %", "n1")


def test_a_disturbed_case_is_disturbed_though_nothing_bounds_its_variables(gate):
    first = campaign(1)
    disturbed(first["runs"][0]["testcases"][:1])
    code, _, names = gate(first)
    assert code == 2 and len(names["disturbed"]) == 4 and len(names["ok"]) == 20


def test_what_deviates_in_a_disturbed_case_is_disturbed_with_the_deviation_in_its_reason(gate):
    data = session("session_lab")
    disturbed(data["runs"][0]["testcases"])
    code, _, names = gate(slow_native(data))
    assert code == 2 and "deviates" not in names
    reasons = [one["reason"] for one in names["disturbed"] if one["partition"] == "native"]
    found = [text for text in reasons if "passthrough_beside_native" in text]
    assert found and {text.count("the ranks waited 40 % on n1") for text in found} == {1}


def test_what_no_disturbance_explains_deviates_in_a_disturbed_case_too():
    data = session("session_lab")
    disturbed(data["runs"][0]["testcases"])
    for case in data["runs"][0]["testcases"]:
        case["compiler"] = "gcc 14.2.0 -O0"
    parsed = results.parse_session(data, "here")
    judged = Expectations.of("lab").apply(judge_without_baseline(parsed, None, {}))
    [reason] = {one.reason for one in judged.verdicts if one.name == "deviates"}
    assert reason.startswith("the program was compiled without optimization: compiler is gcc")


def test_a_repeat_that_ran_again_disturbs_nothing(gate):
    later = campaign(2)
    disturbed(later["runs"][0]["testcases"][:1], again=True)
    code, _, names = gate(campaign(1), later)
    assert code == 0 and "disturbed" not in names


def test_evidence_that_was_lost_is_said_at_the_top_and_is_no_good_value(gate):
    later = campaign(2)
    [case, *_] = later["runs"][0]["testcases"]
    case["unknown_evidence"] = ["whether something disturbed repeat 1 on n1 is not known: ..."]
    code, out, _ = gate(campaign(1), later)
    top = out.split("\n\n", 1)[0]
    assert code == 0 and not lacking(top, "evidence unknown: whether something", "repeat 1 on n1")


def test_a_failed_case_has_its_reason_without_the_rules_around_output(gate):
    later = campaign(2)
    later["runs"][0]["testcases"][0] |= {
        "result": "fail",
        "fail_phase": "compile",
        "fail_reason": "build error: exit code: 1\n--- rfm_build.err ---\n-----\nno compiler\n",
        "perfvalues": {},
    }
    code, _, names = gate(campaign(1), later)
    reasons = {one["reason"] for one in names["incomplete"]}
    assert code == 2 and "failed: build error: exit code: 1 / no compiler" in reasons


def skipping(data: dict, count: int, reason) -> dict:
    """The session with its first cases skipped for a reason."""
    for case in data["runs"][0]["testcases"][:count]:
        case.update(result="skip", perfvalues={}, samples={}, skip_reason=reason)
    return data


def test_the_gate_names_each_skipped_case_and_each_reason_once(gate):
    _, out, _ = gate(skipping(campaign(1), 2, "apps-spack is not\ninstalled\x1b[31m. Fix: run X"))
    said = " ".join(out.split())
    keys = [
        " | ".join(case[name] for name in ("display_name", "partition", "environ"))
        for case in campaign(1)["runs"][0]["testcases"][:2]
    ]
    assert f"skipped by its check: {'; '.join(keys)}: apps-spack is not installed. Fix:" in said
    assert said.count("Fix: run X") == 1


@pytest.mark.parametrize("reason", ["", "<undefined>", None])
def test_a_skipped_case_of_an_older_session_is_named_without_a_reason(reason):
    session = results.parse_session(skipping(campaign(1), 1, reason), "here")
    assert session.reasons == {} and len(session.skipped) == 1
    assert session.skipped_notes == [f"skipped by its check: {' | '.join(session.skipped[0])}"]
