"""The gate on results databases that checks of others wrote, with ReFrame 4.7, 4.9 and 4.10."""

import json
import re
import sqlite3
from dataclasses import replace

import pytest

from nearmetal import results
from nearmetal.cli import main
from nearmetal.judge import baseline, record, rerun
from nearmetal.model.remeasure import Remeasure
from nearmetal.results.directions import Directions, DirectionsError
from tests.support.foreign_sessions import (
    VERSIONS,
    by_command,
    campaign,
    expected,
    recorded_sessions,
    suites,
)
from tests.support.recorded import store

#: Variables that a sabotage of one check made worse: bench/results/foreign.md has both sabotages.
SABOTAGED = {"eessi": {"inv"}, "here": {"copy_bw", "triad_bw"}}


def said(text: str) -> str:
    """A text without its line breaks."""
    return " ".join(text.split())


def parsed(data: dict) -> results.Session:
    return results.parse_session(data, "here")


def only_case(data: dict) -> results.Case:
    [case] = parsed(data).cases
    return case


def named(case: results.Case) -> dict[str, results.Value]:
    return {value.variable: value for value in case.values}


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a command with its baselines below tmp_path; returns exit code, output and errors."""
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path / "baselines"))
    (tmp_path / "baselines").mkdir()

    def command(*words) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["nearmetal", *map(str, words)])
        code = main()
        return code, *capsys.readouterr()

    return command


@pytest.mark.parametrize("version", VERSIONS)
def test_the_runs_of_repeat_are_repeats_of_one_case(version):
    case = only_case(by_command(version, "--repeat=3"))
    assert case.check == "stream_like" and case.runs == 3
    assert {len(value.samples) for value in case.values} == {3}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_failure_among_reruns_fails_the_case_and_names_the_run(version):
    case = only_case(by_command(version, "--reruns=4"))
    assert case.failure.startswith("run 2 of 5: sanity error") and not case.measured


def test_a_failure_among_reruns_is_not_taken_for_a_retry_where_the_command_may_hold_options():
    """A mode may hold --max-retries. Every run holds the one case, so the failure counts."""
    data = by_command("4.10.4", "--reruns=4")
    data["runs"] = copy_with_first_run_failed(data)
    for line in ("reframe -r --mode=nightly", "reframe -r --an-option-of-another-version"):
        data["session_info"]["cmdline"] = line
        assert only_case(data).runs == 5


def copy_with_first_run_failed(data: dict) -> list[dict]:
    """The runs, with the failed second run first."""
    first, second, *others = data["runs"]
    return [second, first, *others]


@pytest.mark.parametrize("version", ["4.7.4", "4.10.4"])
def test_a_value_of_one_launch_is_one_sample_and_distribute_gives_the_node(version):
    case = only_case(by_command(version, "--distribute"))
    assert case.node == "vm" and case.place == "default@vm"
    assert {len(value.samples) for value in case.values} == {1}
    assert case.foreign and case.facts == {"nodes": ["vm"], "settings": "none"}


def test_variables_with_colons_are_variables_of_their_own():
    values = named(only_case(by_command("4.10.4", "--repeat=3")))
    assert values["a:bw"].value != values["b:bw"].value and "bw" not in values
    assert {len(values[name].samples) for name in ("a:bw", "b:bw")} == {3}


@pytest.mark.parametrize("version", ["4.7.4", "4.10.4"])
def test_two_tests_of_one_display_name_fail_and_neither_value_hides_the_other(version):
    session = parsed(by_command(version, "one_name"))
    [case] = session.cases
    assert "2 tests have this display name" in case.failure and "fmt" in case.failure
    assert case.values == () and not case.measured
    assert session.promised == 1  # neither counts as missing beside it


@pytest.mark.parametrize("version", VERSIONS)
def test_the_direction_comes_from_the_stored_bounds_where_the_unit_lacks_it(version):
    values = named(only_case(by_command(version, "--repeat=3")))
    assert values["copy_bw"].lower_is_better is False  # its unit
    assert values["score"].lower_is_better is False  # a lower bound alone
    assert values["marks"].lower_is_better is None  # no bound


def test_one_line_of_configuration_gives_the_direction_where_unit_and_bounds_do_not():
    case = only_case(by_command("4.10.4", "--repeat=3"))
    by_unit = Directions((("marks", "more"), ("MB/s", "less"), ("score", "less")))
    values = {value.variable: by_unit.of(value) for value in case.values}
    assert values["marks"].lower_is_better is False
    assert values["copy_bw"].lower_is_better is False  # the unit says it
    assert values["score"].lower_is_better is False  # the bounds say it
    of_variable = Directions((("stream*:marks", "less"),))
    assert of_variable.of(named(case)["marks"]).lower_is_better is True


@pytest.mark.parametrize(
    "text, named",
    [
        ("marks: most", "marks is 'most'"),
        ("- marks", "a mapping"),
        ("marks: less\nmarks: more", "marks"),
        ("12: less", "12"),
    ],
)
def test_a_damaged_file_of_directions_is_named_with_its_key(tmp_path, text, named):
    path = tmp_path / "better.yaml"
    path.write_text(text)
    with pytest.raises(DirectionsError, match=re.escape(named)) as caught:
        Directions.read(path)
    assert str(path) in str(caught.value) and "Fix: " in str(caught.value)


def test_without_a_file_there_are_no_directions(tmp_path):
    assert Directions.read(tmp_path / "better.yaml") == Directions()


def test_the_baseline_keeps_a_direction_and_bounds_its_side(run, tmp_path):
    database = store(tmp_path / "results.db", campaign(0))
    (tmp_path / "baselines" / "better.yaml").write_text("marks: less\n")
    code, out, err = run("baseline", "record", "--database", database)
    assert code == 0, out + err
    known = baseline.load("generic", tmp_path / "baselines")
    [entry] = known.entries.values()
    assert entry.better == {"score": "more", "marks": "less"}
    text = (tmp_path / "baselines" / "generic.yaml").read_text()
    assert re.search(r"marks: \[.*, null, .*, marks\]", text)
    assert re.search(r"score: \[.*, -.*, null, score\]", text)
    assert all(noise.finds for noise in entry.noise.values())


def test_a_value_of_zero_is_recorded_and_not_judged(run, tmp_path):
    database = store(tmp_path / "results.db", campaign(0, marks=0.0), campaign(1, marks=0.0))
    (tmp_path / "baselines" / "better.yaml").write_text("marks: less\n")
    code, out, err = run("baseline", "record", "--session", "00000000", "--database", database)
    assert code == 0 and "marks of" in out + err and "0 or less" in out + err, out + err
    code, out, _ = run("gate", "--session", "00000001", "--all", "--database", database)
    assert code == 0 and "holds a value of 0 or less" in out, out


@pytest.mark.parametrize("version", ["4.7.4", "4.10.4"])
def test_a_regression_of_any_variable_is_found_and_an_unchanged_session_is_clean(
    run, tmp_path, version
):
    """The direction of `marks` is in no stored session: it is the baseline's."""
    database = store(
        tmp_path / "results.db", campaign(0, version), campaign(1, version, marks=1.5, score=0.6)
    )
    (tmp_path / "baselines" / "better.yaml").write_text("marks: less\n")
    assert run("baseline", "record", "--session", "00000000", "--database", database)[0] == 0
    (tmp_path / "baselines" / "better.yaml").unlink()
    code, out, _ = run("gate", "--session", "00000000", "--database", database)
    assert code == 0, out
    code, out, _ = run("gate", "--database", database, "--json", tmp_path / "gate.json")
    assert code == 1
    verdicts = json.loads((tmp_path / "gate.json").read_text())["judged"]
    worse = {one["variable"] for one in verdicts if one["verdict"] == "regressed"}
    assert worse == {"marks", "score"}


@pytest.mark.parametrize("factor", [0.1, 10.0])
@pytest.mark.parametrize("recorded", [True, False], ids=["baseline", "session before"])
def test_a_change_without_direction_is_not_clean_and_names_the_fix(run, tmp_path, factor, recorded):
    """Nobody knows whether `marks` should grow or fall."""
    database = store(tmp_path / "results.db", campaign(0), campaign(1, marks=factor))
    if recorded:
        code, out, _ = run("baseline", "record", "--session", "00000000", "--database", database)
        assert code == 0 and "`marks: less` or `marks: more`" in said(out)
    code, out, _ = run("gate", "--database", database, "--json", tmp_path / "gate.json")
    judged = json.loads((tmp_path / "gate.json").read_text())["judged"]
    [one] = [one for one in judged if one["variable"] == "marks"]
    assert code == 2 and one["verdict"] == "incomplete"
    assert one["change"] == pytest.approx(factor - 1, rel=0.1)
    assert "`marks: less` or `marks: more` into" in one["reason"]
    assert f"{tmp_path / 'baselines' / 'better.yaml'}" in one["reason"]


def test_a_baseline_without_directions_hides_no_change(run, tmp_path):
    """A unit may have got its direction since the baseline was recorded."""
    database = store(tmp_path / "results.db", campaign(0), campaign(1), campaign(2, marks=10.0))
    run("baseline", "record", "--session", "00000000", "--database", database)
    (tmp_path / "baselines" / "better.yaml").write_text("marks: less\n")
    assert run("gate", "--session", "00000001", "--database", database)[0] == 0
    code, out, _ = run("gate", "--database", database)
    assert code == 2 and "it changed, and its direction was not known" in said(out)


def test_a_baseline_that_did_not_know_a_unit_hides_no_change(references_of_copy_bw, run):
    code, out, _ = run("gate", "--database", references_of_copy_bw)
    assert code == 2 and "it changed, and its direction was not known" in said(out)


@pytest.fixture
def references_of_copy_bw(run, tmp_path):
    """A database with a slow session, and a baseline that does not judge its variable."""
    database = store(tmp_path / "results.db", campaign(0), campaign(1, copy_bw=0.1))
    run("baseline", "record", "--session", "00000000", "--database", database)
    known = baseline.load("generic", tmp_path / "baselines")
    [(key, entry)] = known.entries.items()
    noise = {name: replace(one, finds=None) for name, one in entry.noise.items()}
    baseline.save(replace(known, entries={key: replace(entry, noise=noise)}))
    return database


def test_a_direction_that_contradicts_the_baselines_is_incomplete(run, tmp_path):
    later = campaign(1)
    for one in later["runs"]:
        one["testcases"][0]["perfvalues"]["generic:default:score"][2:4] = [None, 0.5]
    database = store(tmp_path / "results.db", campaign(0), later)
    run("baseline", "record", "--session", "00000000", "--database", database)
    code, out, _ = run("gate", "--database", database)
    assert code == 2 and "less is better, but more in the baseline" in said(out)


@pytest.mark.parametrize("command", ["gate", "explain"])
def test_what_checks_of_others_lack_is_reported_once(run, tmp_path, command):
    database = store(tmp_path / "results.db", campaign(0), campaign(1))
    _, out, _ = run(command, "--database", database)
    assert said(out).count("no facts of the nodes and no evidence: stream_like") == 1
    code, out, _ = run("baseline", "record", "--session", "00000000", "--database", database)
    assert code == 0 and said(out).count("no facts of the nodes and no evidence") == 1


def with_settings(data: dict, *words: str) -> dict:
    """The session with further words in its command."""
    data["session_info"]["cmdline"] += "".join(f" {word}" for word in words)
    return data


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("", "none"),
        ("-S stream_like.size=9 -S other.size=8 --setvar=unit=kB", "size=9 unit=kB"),
        ("-S stream_like.binary.flags='-O1 -g'", "binary.flags=-O1 -g"),
        ("-S repeats=20 -S stream_like.valid_systems='*'", "none"),
        ("--mode=nightly", None),
        ("--an-option-of-another-version", "none"),
        ("-S size=9 --an-option-of-another-version", None),
    ],
)
def test_what_a_command_sets_in_a_check_of_others_is_a_fact(words, told):
    assert only_case(with_settings(campaign(0), words)).facts.get("settings") == told


def test_a_changed_workload_is_named_beside_the_regression(run, tmp_path):
    later = with_settings(campaign(1, copy_bw=0.5), "-S stream_like.size=9")
    database = store(tmp_path / "results.db", campaign(0), later)
    assert run("baseline", "record", "--session", "00000000", "--database", database)[0] == 0
    code, out, _ = run("gate", "--database", database)
    assert code == 1 and "settings: none -> size=9" in said(out)
    _, out, _ = run("explain", "--database", database)
    assert "another workload" in said(out)


def test_a_baseline_takes_sessions_of_one_workload(run, tmp_path):
    sessions = [campaign(0, runs=10), with_settings(campaign(1, runs=10), "-S size=9")]
    database = store(tmp_path / "results.db", *sessions)
    code, _, err = run("baseline", "record", "--database", database)
    assert code == 2 and "settings is not the same" in said(err) and "size=9" in err


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("command", ["history", "compare", "report", "explain", "gate"])
def test_every_command_reads_a_database_as_reframe_wrote_it(run, tmp_path, version, command):
    """Where cases failed, or no baseline is there, the exit code says so; nothing else is wrong."""
    database = store(tmp_path / "results.db", *recorded_sessions(version))
    words = ["--output", tmp_path / "report.html"] if command == "report" else []
    code, _, err = run(command, "--database", database, *words)
    assert code in (0, 1, 2) and "skipped" not in err and "Traceback" not in err


def test_single_launches_of_many_nights_are_a_baseline(run, tmp_path):
    """A suite that runs each check once a night has one sample a session."""
    nights = [campaign(number, runs=1) for number in range(24)]
    database = store(tmp_path / "results.db", *nights)
    code, out, err = run("baseline", "record", "--database", database)
    assert code == 0, out + err
    [entry] = baseline.load("generic", tmp_path / "baselines").entries.values()
    assert len(entry.sessions) == record.plan.LEAST_BASELINE


def test_too_few_samples_name_the_option_that_gives_more(run, tmp_path):
    database = store(tmp_path / "results.db", campaign(0, runs=3))
    code, _, err = run("baseline", "record", "--database", database)
    assert code == 2 and "--reruns=19" in err and "-S repeats" not in err


#: What `--reframe` says of a suite that is not in this checkout.
OWN_CHECKS = ["reframe", "-c", "checks.py"]


def test_foreign_cases_are_measured_again_by_reruns():
    session = parsed(campaign(1))
    wanted = {case.where: Remeasure(7) for case in session.cases}
    words = rerun.arguments(session, wanted, reframe=OWN_CHECKS)
    assert "--reruns=6" in words and not any(word.startswith("again=") for word in words)
    assert words[words.index("-n") + 1] == "^stream_like$"
    assert f"{results.CONFIRMS}={session.uuid}" in words
    assert not any(word.startswith("--reruns=19") for word in words)


def test_foreign_cases_of_one_repeat_need_no_reruns():
    session = parsed(campaign(1))
    wanted = {case.where: Remeasure(1) for case in session.cases}
    words = rerun.arguments(session, wanted, reframe=OWN_CHECKS)
    assert not any(word.startswith("--reruns") for word in words)


def test_the_stored_cases_of_reframe_4_7_agree_with_its_sessions(tmp_path):
    """The second table has other columns in no version."""
    path = store(tmp_path / "results.db", *recorded_sessions("4.7.4"))
    with sqlite3.connect(path) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM testcases")
    assert count == sum(
        len(run["testcases"]) for one in recorded_sessions("4.7.4") for run in one["runs"]
    )
    assert len(list(results.sessions(path))) == len(recorded_sessions("4.7.4"))


@pytest.mark.parametrize("system", sorted(SABOTAGED))
def test_a_sabotage_is_found_in_checks_of_three_suites_and_nowhere_else(run, tmp_path, system):
    """Recorded runs of ReFrame's tutorial, CSCS and EESSI, unchanged: docs/foreign.md."""
    normal, healthy, sabotaged = suites(system)
    database = store(tmp_path / "results.db", normal, healthy)
    code, out, err = run(
        "baseline",
        "record",
        "--leave-out-noisy",
        "--database",
        database,
        "--session",
        normal["session_info"]["uuid"],
    )
    assert code == 0, out + err
    assert found(run, database, tmp_path) == set()
    database = store(tmp_path / "later.db", normal, healthy, sabotaged)
    assert found(run, database, tmp_path) == SABOTAGED[system]


def found(run, database, directory) -> set[str]:
    """Variables that the gate calls regressed in the newest session of a database."""
    run("gate", "--database", database, "--json", directory / "gate.json")
    verdicts = json.loads((directory / "gate.json").read_text())["judged"]
    return {one["variable"] for one in verdicts if one["verdict"] == "regressed"}


AS_EXPECTED = ("slow_as_expected", "broken_as_expected")
AFTER_ALL = ("quick_after_all", "mended_after_all")


def judged(run, database, tmp_path) -> tuple[int, str, dict[tuple[str, str], dict]]:
    """Exit code, output, and verdicts by check and variable."""
    code, out, err = run("gate", "--database", database, "--json", tmp_path / "gate.json")
    found = json.loads((tmp_path / "gate.json").read_text())["judged"]
    return code, out + err, {(one["check"], one["variable"]): one for one in found}


def test_an_expected_failure_blocks_neither_the_baseline_nor_the_verdict_of_the_rest(run, tmp_path):
    sessions = [expected(number, *AS_EXPECTED) for number in range(2)]
    database = store(tmp_path / "results.db", *sessions)
    record = ("baseline", "record", "--database", database)
    code, out, err = run(*record, "--session", "00000000")
    assert code == 0, err
    assert "xfail: copy_bw of slow_as_expected | default | builtin is left out: it failed" in out
    assert "xfail: broken_as_expected | default | builtin is left out: it failed" in out
    [(key, entry)] = baseline.load("generic", tmp_path / "baselines").entries.items()
    assert key[0] == "slow_as_expected" and set(entry.samples) == {"part_bw"}
    code, out, verdicts = judged(run, database, tmp_path)
    assert code == 0 and said(out).startswith("nothing got worse: 2 xfail, 1 ok"), out
    slow, broken = verdicts["slow_as_expected", "copy_bw"], verdicts["broken_as_expected", ""]
    assert slow["verdict"] == broken["verdict"] == "xfail" and slow["value"] > 0
    assert "see the xfail of broken_as_expected in checks/expected.py" in broken["reason"]
    assert verdicts["slow_as_expected", "part_bw"]["verdict"] == "ok"
    assert run(*record, "--add")[0] == 0


def test_a_regression_beside_an_expected_failure_is_one(run, tmp_path):
    worse = expected(1, *AS_EXPECTED, part_bw=0.5)
    database = store(tmp_path / "results.db", expected(0, *AS_EXPECTED), worse)
    run("baseline", "record", "--session", "00000000", "--database", database)
    code, _, verdicts = judged(run, database, tmp_path)
    assert code == 1 and verdicts["slow_as_expected", "part_bw"]["verdict"] == "regressed"


def test_a_reason_that_is_stored_is_shown(run, tmp_path):
    data = expected(0, *AS_EXPECTED)
    for one in data["runs"]:
        for case in one["testcases"]:
            case["fail_reason"] = "ticket 17"
    session = parsed(data)
    assert {case.xfail for case in session.cases} == {"ticket 17"} and not session.failures
    _, out, _ = judged(run, store(tmp_path / "results.db", data), tmp_path)
    assert "xfail: ticket 17 (broken_as_expected" in said(out)


@pytest.mark.parametrize("recorded", [True, False], ids=["baseline", "none"])
def test_an_unexpected_pass_is_a_failure_as_reframe_means_it(run, tmp_path, recorded):
    database = store(tmp_path / "results.db", expected(0, AS_EXPECTED[0]), expected(1, *AFTER_ALL))
    if recorded:
        run("baseline", "record", "--session", "00000000", "--database", database)
    code, _, verdicts = judged(run, database, tmp_path)
    quick, mended = verdicts["quick_after_all", "copy_bw"], verdicts["mended_after_all", ""]
    assert code == 2 and quick["verdict"] == mended["verdict"] == "incomplete"
    assert "ticket 20: no memory is left" in mended["reason"]
    assert quick["reason"].startswith("xpass: ") and "Fix: end its xfail" in quick["reason"]
    code, _, err = run("baseline", "record", "--session", "00000001", "--database", database)
    assert code == 2 and "xpass: it passed, though it is expected to fail" in said(err)


def test_one_unexpected_pass_among_expected_failures_fails_the_case():
    data = expected(0, AS_EXPECTED[0], runs=3)
    passed = expected(0, AFTER_ALL[0], runs=1)["runs"][0]["testcases"][0]
    name = dict.fromkeys(("name", "display_name", "unique_name"), AS_EXPECTED[0])
    data["runs"][1]["testcases"] = [{**passed, **name}]
    case = only_case(data)
    assert case.failure.startswith("run 2 of 3: xpass: ") and case.measured
    assert {one.variable: one.expected for one in case.values} == {
        "copy_bw": "xpass",
        "part_bw": "",
    }


def test_an_expected_failure_is_no_missing_value_of_compare(run, tmp_path):
    database = store(tmp_path / "results.db", expected(0, *AS_EXPECTED))
    code, out, err = run("compare", "--database", database)
    assert code == 0 and "xfail: broken_as_expected on default with builtin: it failed" in out, err


def test_compare_calls_an_unexpected_pass_by_its_name(run, tmp_path):
    database = store(tmp_path / "results.db", expected(0, AFTER_ALL[0]))
    code, _, err = run("compare", "--database", database)
    assert code == 1 and "xpass: it passed, though" in err and "beyond its reference" not in err


def test_a_session_gives_its_case_and_a_case_its_value():
    session = parsed(by_command("4.10.4", "--repeat=3"))
    [case] = session.cases
    assert session.case(case.where) is case and session.case(("", "", "")) is None
    assert case.value("a:bw") is named(case)["a:bw"] and case.value("bw") is None
