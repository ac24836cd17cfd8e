"""The drills of `nearmetal explain`: their causes are rules, and their answers are counted."""

import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from bench.drill import explain
from nearmetal import results
from nearmetal.judge.explain import rules
from nearmetal.judge.verdict import Likely
from nearmetal.stats import plan
from tests.support.campaigns import disturbed
from tests.support.layers import session
from tests.support.paths import CHECKOUT
from tests.support.recorded import store
from tests.support.said import lacking

DRILLS = explain.load()
NAMES = [one["name"] for one in DRILLS]
#: What a drill does; each does one.
DOES = {"lab", "patch", "environ", "site"}
KEYS = DOES | {"name", "what", "causes", "partition", "checks", "environs"}
KEYS |= {"needs", "lasts", "undo", "switches", "controller"}


def test_there_are_enough_causes_with_names_of_their_own():
    assert len(DRILLS) >= 24 and len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("drill", DRILLS, ids=lambda one: one["name"])
def test_a_drill_is_complete(drill):
    known = {rule.name for rule in rules.load().rules}
    assert set(drill) <= KEYS and drill["what"]
    assert set(drill["causes"]) <= known
    assert len(drill.keys() & DOES) == 1
    if "patch" in drill:
        name, old, _ = drill["patch"]
        assert old in (CHECKOUT / "reframe_checks" / name).read_text()


def test_checks_of_drills_exist():
    there = {path.stem for path in (CHECKOUT / "reframe_checks").glob("*.py")}
    named = {
        re.split("%", check)[0] for one in DRILLS for check in explain.selection(one)["checks"]
    }
    assert named <= there


def test_a_third_is_held_out_whatever_the_order():
    held = explain.held_out(NAMES)
    assert len(held) == len(NAMES) // 3 and set(held) < set(NAMES)
    assert held == explain.held_out(reversed(NAMES))


class Lab:
    """Stands in for the lab: a campaign is a made-up session with the drill that was introduced."""

    def __init__(self, where: Path):
        self.where, self.sessions, self.now, self.healed = where, [], {}, 0
        self.disturbed: set[int] = set()  #: numbers of campaigns

    def campaign(self, repeats: int, only: dict | None = None, settings=()) -> results.Session:
        data = session(len(self.sessions), repeats=repeats, **self.now)
        if len(self.sessions) in self.disturbed:
            disturbed(data["runs"][0]["testcases"][:1])
        database = self.where / "results.db"
        there = list(results.sessions(database)) if database.exists() else []
        self.sessions.append(data)
        kept = [
            one
            for one in self.sessions
            if one["session_info"]["uuid"] in {each.uuid for each in there}
        ]
        database.unlink(missing_ok=True)
        store(database, *kept, data)
        return results.load_session(database)

    def introduce(self, drill: dict) -> None:
        self.now = SHOWS[drill["name"]]

    def heal(self) -> None:
        self.now, self.healed = {}, self.healed + 1


TCP = [(("tcp", "", "bandwidth"), 0.6), (("internode", "", "bandwidth"), 0.6)]
SHOWS = {
    "socket buffers": {"steps": TCP, "facts": {"tcp_rmem": "4096 65536 65536"}},
    "loss": {"steps": TCP, "evidence": {"retransmitted": 0.01}},
    "offloads off": {},
}


def in_place_of_the_lab(monkeypatch, lab, wait=lambda until: None, say=lambda line: None):
    """Drills run their campaigns in this stand-in."""
    for name, stand_in in (
        *(("campaign", lab.campaign), ("wait", wait), ("say", say)),
        *(("PLACE", lab.where), ("SYSTEM", "lab")),
    ):
        monkeypatch.setattr(explain.drill, name, stand_in)


def test_the_bench_from_baseline_to_summary(tmp_path, monkeypatch):
    lab, said = Lab(tmp_path), []
    monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", "")
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", "")
    in_place_of_the_lab(monkeypatch, lab, say=said.append)
    for name in ("introduce", "heal"):
        monkeypatch.setattr(explain.drill, name, getattr(lab, name))
    assert explain.run(list(SHOWS), 2, 2, False, said.append) == 1
    text = "\n".join(said)
    assert not lacking(
        text,
        "held out of the making",
        "A/A: 0 of 2",
        "all: 4 right, 2 not found",
    )
    assert lab.healed == 6 and len(lab.sessions) == explain.SESSIONS + 2 + 6
    said.clear()
    assert explain.run_again(list(SHOWS), said.append) == 1
    assert "all: 2 right, 1 not found of 3" in said[-1] and lab.healed == 6


DECIDED, UNDECIDED = {"inconclusive": 9, "ok": 38, "watched": 2}, {"inconclusive": 49, "ok": 40}


@pytest.mark.parametrize(
    "campaigns, answer",
    [
        ([DECIDED], explain.SILENT),
        ([UNDECIDED, DECIDED], explain.SILENT),
        ([UNDECIDED, UNDECIDED], explain.MOVED),
        ([UNDECIDED, {"MTU": 2, **DECIDED}], explain.FIRST),
        ([{"MTU": 2, **UNDECIDED}], explain.FIRST),
        ([{"unknown": 2, **DECIDED}], explain.DONT_KNOW),
        ([{"unknown": 2, **UNDECIDED}, {"MTU": 2, **DECIDED}], explain.FIRST),
        ([{"unknown": 2, **UNDECIDED}] * 2, explain.MOVED),
        ([{"disturbed": 49, "ok": 40}], explain.SILENT),  # no excuse: a cause may disturb all
    ],
)
def test_a_campaign_on_another_machine_than_the_baselines_is_measured_once_more(
    campaigns, answer, monkeypatch
):
    left = list(campaigns)

    def report(drill):
        names = left.pop(0)
        verdicts = [SimpleNamespace(name=name) for name in names for _ in range(names[name])]
        causes = [one for name in ("MTU", "unknown") if name in names for one in named(name)]
        return SimpleNamespace(causes=causes, verdicts=verdicts)

    monkeypatch.setattr(explain.drill, "introduce", lambda drill: None)
    monkeypatch.setattr(explain.drill, "heal", lambda: None)
    monkeypatch.setattr(explain, "explained_now", report)
    monkeypatch.setattr(explain.render, "headline", lambda report: "")
    said = []
    drill = {"name": "MTU", "what": "a smaller MTU", "causes": ["MTU"], "lab": ""}
    outcomes = [explain.try_out(drill, False, said.append), outcome(explain.FIRST)]
    assert not left and outcomes[0].answer == answer
    assert explain.accepted(outcomes, []) == (answer == explain.FIRST)
    text = explain.summary(outcomes, [])
    moved = answer == explain.MOVED
    assert ("right first: 100 % of 1" in text) == moved == ("without --keep" in text)


@pytest.mark.parametrize("names, explained", [([], False), (["unknown"], False), (["MTU"], True)])
def test_an_unchanged_campaign_is_explained_by_a_named_cause_alone(names, explained, monkeypatch):
    report = SimpleNamespace(causes=named(*names))
    monkeypatch.setattr(explain, "explained_now", lambda drill: report)
    said = []
    assert explain.quiet(0, 1, said.append) == explained and len(said) == 1 + len(names)


def test_a_cause_that_was_gone_at_the_end_shows_nothing(tmp_path, monkeypatch):
    def run(*command, stdin):
        raise explain.LabError(f"`{stdin}` ended with 1")

    monkeypatch.setattr(explain.drill, "introduce", lambda drill: None)
    report = SimpleNamespace(causes=(), verdicts=())
    monkeypatch.setattr(explain, "explained_now", lambda drill: report)
    monkeypatch.setattr(explain.drill, "Namespaces", lambda: SimpleNamespace(run=run))
    said = []
    drill = {"name": "hog", "what": "a hog", "causes": ["other processes"], "lasts": "pgrep hog"}
    outcome = explain.try_out(drill, False, said.append)
    assert outcome.answer == explain.FAILED and "`pgrep hog` ended with 1" in said[-1]


def test_sessions_of_the_baseline_start_as_far_apart_as_wanted(tmp_path, monkeypatch):
    lab, until = Lab(tmp_path), []
    in_place_of_the_lab(monkeypatch, lab, wait=until.append)
    explain.drill.prepare(4, 5, [None], spread=600)
    starts = [one["session_info"]["time_start_unix"] for one in lab.sessions]
    assert until == [start + 600 for start in starts[:-1]]


def test_a_disturbed_session_of_the_baseline_is_measured_once_more(tmp_path, monkeypatch):
    lab, said = Lab(tmp_path), []
    lab.disturbed = {1}
    in_place_of_the_lab(monkeypatch, lab, say=said.append)
    explain.drill.prepare(4, 5, [None])
    assert len(lab.sessions) == 5 and "too few samples" in " ".join(said)
    explain.drill.prepare(4, 5, [None])
    assert len(lab.sessions) == 5


def test_a_note_on_the_baseline_is_said_once(tmp_path, monkeypatch):
    lab, said = Lab(tmp_path), []
    in_place_of_the_lab(monkeypatch, lab, say=said.append)
    recorded = explain.drill.record.record

    def noisy(*arguments, **options):
        known, notes = recorded(*arguments, **options)
        return known, [*notes, "tcp is too noisy"]

    monkeypatch.setattr(explain.drill.record, "record", noisy)
    explain.drill.prepare(4, 5, [None, None])
    assert said.count("baseline: tcp is too noisy") == 1


@pytest.mark.parametrize(
    "changed, kept",
    [
        ({}, True),
        ({"partition": "emulated"}, False),
        ({"environs": "^(openmpi|openmpi-sif|gnu)$"}, False),  # it has MPICH
        ({"checks": ("tcp", "hpcc")}, False),
    ],
)
def test_a_kept_session_is_of_the_selection_that_it_measured(changed, kept):
    only = {"checks": ("tcp", "npb%benchmark=ep"), "partition": "native"}
    only |= {"environs": "^(openmpi|mpich|gnu)$", **changed}
    assert explain.drill.measures(results.parse_session(session(1), "here"), only) == kept


@pytest.mark.parametrize("sessions", [1, 3, 4, 12])
def test_a_baseline_of_any_number_of_sessions_has_enough_samples(sessions):
    repeats = explain.drill.baseline_repeats(sessions)
    assert repeats >= explain.drill.REPEATS and sessions * repeats >= plan.LEAST_BASELINE


def test_the_drill_waits_only_as_long_as_is_left(monkeypatch):
    slept, said = [], []
    monkeypatch.setattr(explain.drill, "say", said.append)
    monkeypatch.setattr(explain.drill.time, "sleep", slept.append)
    explain.drill.wait(time.time() - 1)
    assert not slept and not said
    explain.drill.wait(time.time() + 90)
    assert slept == [pytest.approx(90, abs=5)] and "in 1.5 minutes" in said[0]


@pytest.mark.parametrize(
    "words, said",
    [
        (["--first", "--spread", "10"], "--spread is of a baseline"),
        (["--baseline", "0"], "--baseline: give a number of at least 1"),
    ],
)
def test_a_spread_without_a_baseline_is_refused_and_a_baseline_of_nothing(
    monkeypatch, capsys, words, said
):
    monkeypatch.setattr("sys.argv", ["drill", *words])
    with pytest.raises(SystemExit):
        explain.drill.main()
    assert said in capsys.readouterr().err


def test_without_a_kept_campaign_nothing_is_explained_again(tmp_path, monkeypatch):
    for name in ("NEARMETAL_SYSTEMS_PATH", "RFM_REFERENCE_PREFIX"):
        monkeypatch.setenv(name, "")
    monkeypatch.setattr(explain.drill, "PLACE", tmp_path)
    with pytest.raises(SystemExit, match="run it first"):
        explain.run_again(None, print)


def named(*names: str) -> list[Likely]:
    return [Likely(name, "", ("native",), 1.0, ()) for name in names]


@pytest.mark.parametrize(
    "names, word",
    [
        (["MTU"], explain.FIRST),
        (["loss", "MTU"], explain.THIRD),
        (["loss", "kernel", "memory", "MTU"], explain.LATER),
        (["loss"], explain.WRONG),
        ([rules.UNKNOWN], explain.DONT_KNOW),
        ([], explain.SILENT),
    ],
)
def test_answers(names, word):
    assert explain.answer(["MTU"], named(*names)) == word


def outcome(answer: str, held: bool = False) -> explain.Outcome:
    return explain.Outcome("MTU", held, answer, ("MTU",), 60.0)


@pytest.mark.parametrize(
    "answers, explained, good",
    [
        ([explain.FIRST] * 9 + [explain.THIRD], [False] * 10, True),
        ([explain.FIRST] * 9 + [explain.DONT_KNOW], [False], True),
        ([explain.FIRST] * 8 + [explain.THIRD] * 2, [False], False),
        ([explain.FIRST] * 20 + [explain.WRONG], [False], False),
        ([explain.FIRST] * 20 + [explain.SILENT], [False], False),
        ([explain.FIRST] * 10, [False, True], False),
    ],
)
def test_the_promise(answers, explained, good):
    outcomes = [outcome(answer) for answer in answers]
    assert explain.accepted(outcomes, explained) is good


def test_the_promise_holds_for_what_is_held_out_too():
    outcomes = [outcome(explain.FIRST)] * 20 + [outcome(explain.DONT_KNOW, held=True)]
    assert not explain.accepted(outcomes, [])


def test_the_summary_counts_all_and_what_is_held_out():
    text = explain.summary([outcome(explain.FIRST), outcome(explain.WRONG, held=True)], [False])
    assert "A/A: 0 of 1" in text
    assert "all: 1 right, 1 wrong of 2; right first: 50 %" in text
    assert "held out: 1 wrong of 1; right first: 0 %" in text


def test_one_selection_holds_the_checks_of_all_drills_of_a_partition():
    found = explain.selections(DRILLS)
    keys = [(one["partition"], one["environs"]) for one in found]
    assert len(set(keys)) == len(keys)
    wanted = {check for one in DRILLS for check in explain.selection(one)["checks"]}
    assert {check for one in found for check in one["checks"]} == wanted
