"""`nearmetal history` names what vanished when it was measured again, and on which nodes."""

import pytest

from nearmetal import results
from nearmetal.cli import main
from nearmetal.judge import baseline, record
from nearmetal.judge.baseline import Baseline
from tests.support.campaigns import campaign, only
from tests.support.recorded import store
from tests.support.said import lacking

SLOWER = ("", "emulated", "mpich", "startup_latency")


def on(nodes: list[str], number: int, confirms: str = "", **options) -> dict:
    """Session `number` on these nodes; one that confirms another has the emulated mpich alone."""
    data = campaign(number, **options)
    for case in data["runs"][0]["testcases"]:
        case["facts"] = {**(case.get("facts") or {}), "nodes": nodes}
    if not confirms:
        return data
    data["session_info"][results.CONFIRMS] = confirms
    return only(data, lambda case: (case["partition"], case["environ"]) == ("emulated", "mpich"))


def uuid(data: dict) -> str:
    return data["session_info"]["uuid"]


@pytest.fixture
def history(tmp_path, monkeypatch, capsys):
    """Runs `nearmetal history` on sessions after the baseline's: its output."""
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    first = [on(["n1", "n2"], number) for number in range(12)]

    def run(*sessions: dict, recorded: bool = True) -> str:
        if recorded:
            parsed = [results.parse_session(one, "here") for one in first]
            empty = Baseline("lab", tmp_path / "lab.yaml", {})
            baseline.save(record.record(parsed, empty)[0])
        database = store(tmp_path / f"{len(sessions)}.db", *first, *sessions)
        monkeypatch.setattr("sys.argv", ["nearmetal", "history", "--database", str(database)])
        assert main() == 0
        return capsys.readouterr().out

    return run


def test_history_names_what_vanished_and_the_nodes_on_which_it_was_seen(history):
    sick = [on(["n3", "n4"], number, steps=[(SLOWER, 1.3)]) for number in (13, 16)]
    once = on(["n3", "n1"], 20, steps=[(SLOWER, 1.3)])
    out = history(
        sick[0],
        on(["n3", "n4"], 14, uuid(sick[0]), launches=7),
        sick[1],
        on(["n3", "n4"], 17, uuid(sick[1]), launches=7),
        once,
        on(["n1", "n2"], 21, uuid(once), launches=5),
    )
    lines = [line for line in out.splitlines() if line.startswith("vanished: ")]
    assert len(lines) == 3
    assert not lacking(lines[0], "session 00000013", "2025-10-22", "emulated", "mpich")
    assert not lacking(lines[0], "startup_latency +", "7 fresh repeats", "same nodes (n3, n4)")
    assert "5 fresh repeats on n1, n2 instead of n3, n1" in lines[2]
    assert "on these nodes: n3 (3 sessions), n4 (2 sessions), n1 (1 session)" in out


def test_what_was_confirmed_or_never_changed_has_not_vanished(history):
    slow = on(["n1", "n2"], 13, steps=[(SLOWER, 1.3)])
    well = on(["n1", "n2"], 15)
    out = history(
        slow,
        on(["n1", "n2"], 14, uuid(slow), launches=7, steps=[(SLOWER, 1.3)]),
        well,
        on(["n1", "n2"], 16, uuid(well), launches=7),
    )
    assert "vanished" not in out


def test_without_a_baseline_what_vanished_is_unknown(history):
    slow = on(["n1", "n2"], 13, steps=[(SLOWER, 1.3)])
    again = on(["n1", "n2"], 14, uuid(slow), launches=7)
    out = history(slow, again, recorded=False)
    assert not lacking(out, "1 session was measured again", "vanished", "lab has no baseline")
    assert "measured again" not in history(recorded=False)


def test_a_case_that_failed_again_has_not_vanished(history):
    slow = on(["n1", "n2"], 13, steps=[(SLOWER, 1.3)])
    again = on(["n1", "n2"], 14, uuid(slow), launches=7)
    for case in again["runs"][0]["testcases"]:
        case |= {"result": "fail", "fail_phase": "sanity", "fail_reason": "cut off"}
    assert "vanished" not in history(slow, again)


def test_what_fresh_repeats_do_not_decide_has_not_vanished(history):
    slow = on(["n1", "n2"], 13, steps=[(SLOWER, 1.3)])
    again = on(["n1", "n2"], 14, uuid(slow), launches=2, steps=[(SLOWER, 1.3)])
    assert "vanished" not in history(slow, again)
