"""A regressed case measured on other nodes: is a node or the system the cause?"""

import pytest

from nearmetal import results
from nearmetal.errors import NearmetalError
from nearmetal.judge import confirm, record, rerun
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.campaign import Campaign
from nearmetal.model.remeasure import Remeasure
from tests.support.campaigns import campaign, disturbed
from tests.support.recorded import store

SLOWER = ("", "emulated", "mpich", "startup_latency")
CASE = ("pingpong %placement=internode", "emulated", "mpich")


@pytest.fixture(scope="module")
def known():
    sessions = [results.parse_session(campaign(number), "here") for number in range(12)]
    return record.record(sessions, Baseline("lab", "lab.yaml", {}))[0]


def on(nodes: list[str], number: int, confirms: str = "", **options) -> dict:
    data = campaign(number, **options)
    for case in data["runs"][0]["testcases"]:
        case["facts"] = {**(case.get("facts") or {}), "nodes": nodes}
    if confirms:
        data["session_info"]["nearmetal_confirms"] = confirms
    return data


def reported(tmp_path, known, *others: dict):
    """The report on a regressed session of n1 and n2, its database and its campaign."""
    first = on(["n1", "n2"], 100, steps=[(SLOWER, 1.3)], launches=10)
    database = results.Database(store(tmp_path / "results.db", first, *others))
    found = Campaign(results.load_session(database, uuid="00000100"), known, database)
    return found.judge_alone({}), database, found


@pytest.mark.parametrize(
    "factor, said",
    [
        (1.3, "n3, n4 show it too, so n1, n2 are not its cause: startup_latency +2"),
        (1.0, "n3, n4 do not show it, so look at n1, n2: startup_latency "),
    ],
)
def test_other_nodes_tell_a_node_from_the_system(tmp_path, known, factor, said):
    other = on(["n3", "n4"], 101, "00000100-campaign/elsewhere", steps=[(SLOWER, factor)])
    report, database, found = reported(tmp_path, known, other)
    notes = confirm.notes(found.on_other_nodes(report))
    assert any(said in note for note in notes), notes
    assert results.confirmations(database, report.session) == []


def test_other_nodes_that_were_disturbed_tell_nothing(tmp_path, known):
    other = on(["n3", "n4"], 101, "00000100-campaign/elsewhere", steps=[(SLOWER, 1.3)])
    disturbed(other["runs"][0]["testcases"], "n3")
    report, _, found = reported(tmp_path, known, other)
    assert found.on_other_nodes(report) == []


def test_regressed_cases_are_measured_where_there_are_other_nodes(tmp_path, known, monkeypatch):
    asked = []
    monkeypatch.setattr(
        rerun,
        "measure",
        lambda session, wanted, *_, other_nodes: asked.append((wanted, other_nodes)),
    )
    report, database, _ = reported(tmp_path, known)
    said = []
    confirm.measure_on_other_nodes(report, database, ["reframe"], {"emulated": 3}, said.append)
    assert not asked and not said
    confirm.measure_on_other_nodes(report, database, ["reframe"], {"emulated": 4}, said.append)
    assert asked == [({CASE: Remeasure(5, (), ("n1", "n2"))}, True)] and "emulated" in said[0]


def test_a_run_on_other_nodes_that_fails_loses_no_verdict(tmp_path, known, monkeypatch):
    def failing(*_, **__):
        raise rerun.ConfirmError("no node is free")

    monkeypatch.setattr(rerun, "measure", failing)
    report, database, _ = reported(tmp_path, known)
    said: list[str] = []
    confirm.measure_on_other_nodes(report, database, ["reframe"], {"emulated": 4}, said.append)
    assert "not measured on other nodes: no node is free" in said[-1]
    assert issubclass(rerun.ConfirmError, NearmetalError)
