"""`nearmetal gate --confirm`: which cases it measures again, on which nodes, and how it ends."""

import shlex
import subprocess
import sys
from dataclasses import replace

import pytest

from nearmetal import results
from nearmetal.judge import confirm, record, rerun
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.confirm import Bounds, Remeasured
from nearmetal.lab.namespaces import wait_until
from nearmetal.model import remeasure
from nearmetal.model.remeasure import Remeasure
from nearmetal.util import command
from tests.support.campaigns import campaign, disturbed
from tests.support.judging import judge_session
from tests.support.paths import CHECKOUT
from tests.support.recorded import store
from tests.support.said import lacking

SLOWER = ("", "emulated", "mpich", "startup_latency")
CASE = ("pingpong %placement=internode", "emulated", "mpich")
OTHER = ("pingpong %placement=internode", "native", "mpich")
NODES = ["n1", "n2"]


@pytest.fixture(scope="module")
def known():
    """The baseline of twelve sessions of five repeats at 2 %."""
    sessions = [results.parse_session(campaign(number), "here") for number in range(12)]
    return record.record(sessions, Baseline("lab", "lab.yaml", {}))[0]


def parsed(data: dict, nodes=NODES) -> results.Session:
    for case in data["runs"][0]["testcases"]:
        case["facts"] = {**(case.get("facts") or {}), "nodes": nodes}
    return results.parse_session(data, "here")


class Cluster:
    """Stands in for ReFrame: measures the wanted cases on a system, and keeps what was asked."""

    def __init__(self, monkeypatch, known, nodes=NODES, **system):
        self.known, self.nodes, self.system, self.asked = known, nodes, system, []
        self.failing: dict = {}
        self.lacking: set = set()
        monkeypatch.setattr(rerun, "measure", self.measure)

    def measure(self, session, wanted, database, reframe, seconds):
        self.asked.append(wanted)
        found = {}
        for where, one in wanted.items():
            data = campaign(900 + len(self.asked), launches=one.repeats, **self.system)
            cases = {case.where: case for case in parsed(data, self.nodes).cases}
            case = cases[where]
            case = replace(
                case, values=tuple(v for v in case.values if v.variable not in self.lacking)
            )
            found[where] = self.failing.get(where, case)
        return found

    def confirm(self, data: dict, bounds=None, **options):
        said, partial = [], []
        report = confirm.measure_again(
            Campaign(parsed(data), self.known).judge_alone,
            {},
            "results.db",
            ["reframe"],
            bounds or Bounds(),
            said.append,
            partial.append,
            **options,
        )
        return report, said, partial


def verdict(report, where, variable):
    return next(one for one in report.verdicts if (one.where, one.variable) == (where, variable))


def test_one_run_of_reframe_measures_all_open_cases(monkeypatch, known):
    cluster = Cluster(monkeypatch, known)
    report, said, partial = cluster.confirm(campaign(112, launches=3))
    assert 1 <= len(cluster.asked) <= 4 and len(cluster.asked[0]) > 1
    assert len(partial) == len(cluster.asked)
    assert f"round 1 of at most 4: {len(cluster.asked[0])} cases" in said[1]
    assert "--reframe" in said[0]
    assert report.verdict == "clean"


def test_a_change_is_measured_again_on_its_nodes_and_confirmed(monkeypatch, known):
    cluster = Cluster(monkeypatch, known, steps=[(SLOWER, 1.2)])
    report, _, _ = cluster.confirm(campaign(113, steps=[(SLOWER, 1.2)], launches=10))
    assert cluster.asked[0][CASE].nodes == ("n1", "n2")
    assert verdict(report, CASE, "startup_latency").name == "regressed"
    assert not any("vanished" in note for note in report.notes)


def test_a_change_that_vanished_is_reported_with_the_nodes(monkeypatch, known):
    cluster = Cluster(monkeypatch, known, nodes=["n3", "n4"])
    report, _, _ = cluster.confirm(campaign(114, steps=[(SLOWER, 1.3)], launches=10))
    assert verdict(report, CASE, "startup_latency").name == "ok"
    [note] = [note for note in report.notes if note.startswith("vanished: pingpong")]
    assert not lacking(note, "startup_latency +2", "on n3, n4 instead of n1, n2", "do not show it")


def test_a_case_that_fails_is_incomplete_and_the_others_go_on(monkeypatch, known):
    cluster = Cluster(monkeypatch, known, steps=[(SLOWER, 1.2)])
    cluster.failing = {CASE: "the job was lost"}
    report, _, _ = cluster.confirm(campaign(115, steps=[(SLOWER, 1.2)], launches=3))
    lost = verdict(report, CASE, "startup_latency")
    assert (lost.name, lost.reason) == (
        "incomplete",
        "could not be measured again: the job was lost",
    )
    assert verdict(report, OTHER, "startup_latency").name == "ok"
    assert all(CASE not in wanted for wanted in cluster.asked[1:])


def stored(tmp_path, *sessions: dict) -> results.Database:
    return results.Database(store(tmp_path / "results.db", *sessions))


def test_fresh_repeats_that_something_disturbed_neither_confirm_nor_clear(tmp_path, monkeypatch):
    data, later = campaign(130), campaign(131)
    later["session_info"]["nearmetal_confirms"] = data["session_info"]["uuid"]
    disturbed(later["runs"][0]["testcases"])
    database = stored(tmp_path, data)
    session = results.load_session(database)

    def start(*_):
        stored(tmp_path, later)
        return 0, ""

    monkeypatch.setattr(rerun, "_start", start)
    found = rerun.measure(session, {CASE: Remeasure(3)}, database, ["reframe"])
    assert found == {CASE: "something else used the nodes: the ranks waited 40 % on n1"}
    assert Campaign(session, history=database).stored().samples == {}


def test_a_later_round_that_stores_nothing_loses_no_verdict(monkeypatch, known):
    cluster = Cluster(monkeypatch, known, steps=[(SLOWER, 1.2)], cv=0.08)
    measure = cluster.measure

    def once(*arguments):
        if cluster.asked:
            raise rerun.ConfirmError("the database is locked")
        return measure(*arguments)

    monkeypatch.setattr(rerun, "measure", once)
    noisy = campaign(117, launches=3, cv=0.08, steps=[(SLOWER, 1.06)])
    report, _, partial = cluster.confirm(noisy, Bounds(most=40))
    lost = [one for one in report.verdicts if "the database is locked" in one.reason]
    assert lost and {one.name for one in lost} == {"incomplete"} and len(partial) == 2
    cluster.asked.append({})
    with pytest.raises(rerun.ConfirmError, match="locked"):
        cluster.confirm(noisy)


def test_a_part_of_a_round_that_stores_nothing_leaves_the_others(monkeypatch, known):
    session = parsed(campaign(123))
    first, second, *_ = session.cases
    session = replace(session, cases=(first, replace(second, foreign=True)))

    def measured(session, part, *_):
        if second.where in part:
            raise rerun.ConfirmError("nothing was stored")
        return dict.fromkeys(part, first)

    monkeypatch.setattr(rerun, "_measured", measured)
    wanted = {first.where: Remeasure(3), second.where: Remeasure(3)}
    database = results.Database.of("none.db")
    found = rerun.measure(session, wanted, database, ["reframe"])
    assert found == {first.where: first, second.where: "nothing was stored"}
    with pytest.raises(rerun.ConfirmError):
        rerun.measure(session, {second.where: Remeasure(3)}, database, ["reframe"])


def test_a_variable_that_is_missing_does_not_loop(monkeypatch, known):
    cluster = Cluster(monkeypatch, known)
    cluster.lacking = {"startup_latency"}
    report, _, _ = cluster.confirm(campaign(116, steps=[(SLOWER, 1.2)], launches=10))
    assert len(cluster.asked) == 1
    lost = verdict(report, CASE, "startup_latency")
    assert lost.name == "incomplete" and "without a value of startup_latency" in lost.reason


def test_a_confirmed_change_stays_though_its_case_fails_later(monkeypatch, known):
    """One variable is confirmed in the first round, another one is open when the case is lost."""
    cluster = Cluster(monkeypatch, known, steps=[(SLOWER, 1.2)])
    data = campaign(121, steps=[(SLOWER, 1.2)], launches=10)
    report, _, _ = cluster.confirm(data)
    fresh = {(*CASE, "startup_latency"): list(verdict_samples(report))}
    lost = {CASE: "the job was lost"}
    lost_report = confirm._with_lost(report, Remeasured(fresh, lost=lost), Bounds())
    assert verdict(lost_report, CASE, "startup_latency").name == "regressed"
    lost_report = confirm._with_lost(report, Remeasured(lost=lost), Bounds())
    assert verdict(lost_report, CASE, "startup_latency").name == "incomplete"


def verdict_samples(report):
    [case] = [case for case in report.session.cases if case.where == CASE]
    return next(one.samples for one in case.values if one.variable == "startup_latency")


def test_a_variable_that_is_missing_does_not_harm_the_others(monkeypatch, known):
    cluster = Cluster(monkeypatch, known, steps=[(SLOWER, 1.2)])
    cluster.lacking = {"peak_bandwidth"}
    slower = [(SLOWER, 1.2), (("", "emulated", "mpich", "peak_bandwidth"), 0.8)]
    report, _, _ = cluster.confirm(campaign(122, steps=slower, launches=10))
    assert verdict(report, CASE, "startup_latency").name == "regressed"
    assert verdict(report, CASE, "peak_bandwidth").name == "incomplete"


@pytest.mark.parametrize(
    "bounds, said",
    [
        (Bounds(rounds=1), "after 1 rounds (--rounds)"),
        (Bounds(within=0), "after 0 minutes (--within)"),
    ],
)
def test_a_bound_ends_it_and_what_is_left_is_named(monkeypatch, known, bounds, said):
    noisy = {"cv": 0.08}
    cluster = Cluster(monkeypatch, known, **noisy)
    # More rounds are wanted than allowed: the last one may use three repeats alone.
    report, _, _ = cluster.confirm(
        campaign(117, launches=3, **noisy, steps=[(SLOWER, 1.06)]), replace(bounds, most=40)
    )
    notes = [note for note in report.notes if "still open" in note]
    left = [one for one in report.verdicts if one.name == "inconclusive"]
    assert len(cluster.asked) <= bounds.rounds
    assert (
        not left or any(said in note for note in notes) or any("--most" in n for n in report.notes)
    )


def test_only_numbers_of_repeats_with_an_analysis_are_asked_for(known):
    report = judge_session(parsed(campaign(118, launches=5, cv=0.08)), known)
    for most, rounds, repeats in ((9, 0, set()), (10, 0, {10}), (32, 0, {10}), (31, 3, {20})):
        wanted = confirm.suspicious(report, Remeasured(), Bounds(most, which="all"), rounds)
        assert {one.repeats for one in wanted.values()} == repeats


def test_a_change_that_fresh_repeats_leave_open_gets_those_that_an_analysis_of_them_lacks(known):
    """Its own repeats do not count, even those that its verdict did not need."""
    session = parsed(campaign(113, steps=[(SLOWER, 1.2)], launches=9))
    usual = known.entries[CASE].values["startup_latency"]
    fresh = {(*CASE, "startup_latency"): [0.95 * usual, 1.3 * usual, 1.1 * usual]}
    report = judge_session(session, known, fresh)
    one = verdict(report, CASE, "startup_latency")
    assert (one.name, one.repeats, one.wanted) == ("inconclusive", 9 + 3, 9 + 3 + 7)
    report = replace(report, verdicts=(one,))
    for rounds, repeats in ((0, 7), (3, 17)):
        [again] = confirm.suspicious(report, Remeasured(fresh), Bounds(20), rounds).values()
        assert again.repeats == repeats
    assert confirm.suspicious(report, Remeasured(fresh), Bounds(4)) == {}


def test_only_what_changed_is_measured_where_that_is_asked(known):
    report = judge_session(parsed(campaign(112, steps=[(SLOWER, 1.2)], launches=5)), known)
    assert set(confirm.suspicious(report, Remeasured(), Bounds(which="changed"))) == {CASE}
    assert set(confirm.suspicious(report, Remeasured(), Bounds())) == {
        one.key for one in report.verdicts if one.name == "inconclusive" or one.screened
    }
    lost = Remeasured(lost={CASE: "it failed"})
    assert confirm.suspicious(report, lost, Bounds(which="changed")) == {}


def chosen(words: list[str]) -> dict:
    """The options that ReFrame's parser reads from these words."""
    found = vars(command.parse(shlex.join(["reframe", *words])).options)
    return {name: value for name, value in found.items() if value is not None}


def test_reframe_is_called_with_the_sessions_own_options_but_for_its_selection():
    data = campaign(114)
    data["session_info"]["cmdline"] = (
        "/opt/reframe -c reframe_checks -r --system lab -p mpich -x tcp -S repeats=5 "
        "-S pingpong.suite=imb -n pingpong"
    )
    session = results.parse_session(data, "here")
    wanted = {CASE: Remeasure(7, ("n1", "n2"))}
    found = chosen(rerun.arguments(session, wanted))
    text = found["vars"].pop().removeprefix("again=")
    assert remeasure.read(text) == {(*CASE, ""): wanted[CASE]}
    assert found == {
        "checkpath": [str(CHECKOUT / "reframe_checks")],
        "run": True,
        "vars": ["pingpong.suite=imb"],
        "system": "lab:emulated",
        "prgenv": ["^mpich$"],
        "names": ["^pingpong%placement=internode$"],
        "session_extras": ["nearmetal_confirms=00000114-campaign"],
    }
    both = chosen(rerun.arguments(session, {CASE: Remeasure(7), OTHER: Remeasure(3)}))
    assert both["system"] == "lab" and both["prgenv"] == ["^mpich$"] and len(both["names"]) == 1


@pytest.mark.parametrize(
    "options",
    [
        "-rp mpich",
        "-r --prg mpich --repeat=3",
        "-r -nping -xtcp --distribute --reruns=2",
        "-r --duration 10m -P sizes=1,2 -Srepeats=5 -Spingpong.repeats=5",
        "-r --job-option=nodelist=other -J--nodelist=other --distribute=all",
    ],
)
def test_a_case_is_measured_again_on_its_node_whatever_its_session_ran(options):
    data = campaign(116)
    data["session_info"]["cmdline"] = f"reframe -c reframe_checks {options} -vv"
    for case in data["runs"][0]["testcases"]:
        case["display_name"] = case["display_name"].replace(" ", " %.part=lab:x %.nid=n7 ", 1)
    session = results.parse_session(data, "here")
    where = "pingpong %placement=internode", "emulated@n7", "mpich"
    found = chosen(rerun.arguments(session, {where: Remeasure(7)}))
    assert remeasure.read(found.pop("vars")[-1].removeprefix("again=")) == {
        ("pingpong %placement=internode", "emulated", "mpich", "n7"): Remeasure(7)
    }
    assert found == {
        "checkpath": [str(CHECKOUT / "reframe_checks")],
        "run": True,
        "verbose": 2,
        "system": "lab:emulated",
        "prgenv": ["^mpich$"],
        "names": ["^pingpong%placement=internode$"],
        "distribute": "all",
        "job_options": ["nodelist=n7"],
        "session_extras": ["nearmetal_confirms=00000116-campaign"],
    }


def test_a_reframe_that_takes_too_long_is_interrupted():
    session = results.parse_session(campaign(120), "here")
    script = "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: exit('stopped')"
    code, said = rerun._start(session, [sys.executable, "-c", script], 1, {})
    assert (code, said.strip()) == (1, "stopped")


def test_ctrl_c_ends_a_reframe_that_has_a_session_of_its_own(tmp_path, monkeypatch):
    """The terminal does not reach it, and its jobs would stay."""
    session, noted = results.parse_session(campaign(120), "here"), tmp_path / "noted"
    script = (
        f"import pathlib, time; noted = pathlib.Path({str(noted)!r})\n"
        "try: noted.touch(); time.sleep(60)\n"
        "except KeyboardInterrupt: noted.write_text('cancelled')"
    )
    communicate = subprocess.Popen.communicate
    calls = []

    def interrupted(process, timeout=None):
        calls.append(timeout)
        if len(calls) > 1:
            return communicate(process, timeout=timeout)
        wait_until(noted.exists, 20, "the program's start")
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rerun._start(session, [sys.executable, "-c", script], 60, {})
    assert noted.read_text() == "cancelled"


def test_parts_of_a_round_share_its_time(monkeypatch, known):
    data = campaign(123)
    session = parsed(data)
    first, second, *_ = session.cases
    session = replace(session, cases=(first, replace(second, foreign=True)))
    given, clock = [], [100.0]

    def slow(session, part, database, reframe, seconds, other_nodes):
        given.append(seconds)
        clock[0] += 0.3
        return dict.fromkeys(part, "measured")

    monkeypatch.setattr(rerun, "_measured", slow)
    monkeypatch.setattr(rerun.time, "monotonic", lambda: clock[0])
    wanted = {first.where: Remeasure(3), second.where: Remeasure(3)}
    found = rerun.measure(session, wanted, results.Database.of("none.db"), ["reframe"], 0.2)
    assert len(given) == 1 and "no time was left (--within)" in found.values()
