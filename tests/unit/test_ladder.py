"""The rungs below a baseline: a session is judged against expectations and the session before."""

import json

import pytest

from nearmetal.cli import main
from tests.support.campaigns import campaign
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
            names.setdefault(one["word"], []).append(one)
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
    assert {one["rung"] for one in names["deviates"]} == {"expectation"}
    reasons = [one["reason"] for one in names["deviates"] if one["partition"] == "passthrough"]
    assert any("passthrough_beside_native" in reason for reason in reasons)
    assert not lacking(out, "no baseline", "nearmetal expect", "nearmetal baseline record")


def test_a_deviation_is_one_also_beside_the_session_before(gate):
    code, _, names = gate(session("session_lab"), slow_native(renamed(session("session_lab"))))
    assert code == 1 and names["deviates"] and names["regressed"]
    assert {one["rung"] for one in names["regressed"]} == {"session before"}


def renamed(data):
    info = data["session_info"]
    info["uuid"] = "later" + info["uuid"][5:]
    return data


def test_a_disturbed_case_is_neither_ok_nor_regressed(gate):
    later = campaign(2)
    [case, *_] = later["runs"][0]["testcases"]
    case["disturbed"] = [[1, False, ["waited", 0.4, "the ranks waited 40 % on n1"]]]
    code, out, names = gate(campaign(1), later)
    assert code == 2 and len(names["disturbed"]) == 4 and "waited 40 % on n1" in out
    assert not lacking(names["disturbed"][0]["reason"], "waited 40 %", "n1")


def test_a_disturbed_case_is_disturbed_though_nothing_bounds_its_variables(gate):
    first = campaign(1)
    [case, *_] = first["runs"][0]["testcases"]
    case["disturbed"] = [[1, False, ["waited", 0.4, "the ranks waited 40 % on n1"]]]
    code, _, names = gate(first)
    assert code == 2 and len(names["disturbed"]) == 4 and names["not judged"]


def test_a_repeat_that_ran_again_disturbs_nothing(gate):
    later = campaign(2)
    [case, *_] = later["runs"][0]["testcases"]
    case["disturbed"] = [[1, True, ["waited", 0.4, "the ranks waited 40 % on n1"]]]
    code, _, names = gate(campaign(1), later)
    assert code == 0 and "disturbed" not in names
