"""ReFrame's results database when something is wrong with it: what is skipped and named, and what
is not taken for new."""

import copy
import json
import os
import re
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest

from nearmetal import results
from nearmetal.cli import main
from nearmetal.judge import baseline, record
from nearmetal.judge.baseline import Baseline
from nearmetal.results import file as results_file
from tests.support.campaigns import campaign
from tests.support.foreign_sessions import recorded_sessions
from tests.support.recorded import session, store

DAY = 86400
#: What a session must not hold, as ReFrame writes it, and what is there instead of it in a whole
#: one.
SPOILT = {
    "lone surrogate": ('"descr": "whole"', '"descr": "\\ud800"'),
    "no number": ('"time_total": 1.5, "perfvalues"', '"time_total": 1.5, "perfvalues": 7, "other"'),
    "no object": ('{"session_info"', '[{"session_info"'),
    "cut off": ('"descr": "whole"', '"descr": "who'),
}


def at(number: int, when: float, system: str = "lab", **options) -> dict:
    """A campaign that started then."""
    data = campaign(number, **options)
    data["session_info"] |= {
        "time_start_unix": when,
        "time_start": datetime.fromtimestamp(when, UTC).strftime("%Y%m%dT%H%M%S%z"),
        "time_end_unix": when + 60,
    }
    for case in data["runs"][0]["testcases"]:
        case |= {"system": system, "descr": "whole"}
        case.pop("time_total", None)
        perfvalues = case.pop("perfvalues")
        case |= {"time_total": 1.5, "perfvalues": perfvalues}
    return data


def spoil(database, uuid: str, how: str) -> None:
    """Damage a stored session's text."""
    whole, broken = SPOILT[how]
    with sqlite3.connect(database) as connection:
        [(text,)] = connection.execute("SELECT json_blob FROM sessions WHERE uuid = ?", (uuid,))
        text = json.dumps(orjson.loads(text))
        changed = text.replace(whole, broken, 1)
        assert changed != text
        if how == "no object":
            changed += "]"
        connection.execute("UPDATE sessions SET json_blob = ? WHERE uuid = ?", (changed, uuid))


def report(database, data: dict, number: int) -> Path:
    """The report that ReFrame wrote of a session an hour ago, beside the database."""
    directory = database.parent / "reports"
    directory.mkdir(exist_ok=True)
    file = directory / f"run-report-{number}.json"
    file.write_text(json.dumps(data, indent=2))
    os.utime(file, (NOW - 3600, NOW - 3600))
    return file


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    where = tmp_path_factory.mktemp("baselines")
    sessions = [results.parse_session(campaign(number), "here") for number in range(12)]
    after, _ = record.record(sessions, Baseline("lab", where / "lab.yaml", {}))
    baseline.save(after)
    return where


@pytest.fixture
def run(monkeypatch, capsys, references):
    """Runs a command: (exit code, output, errors)."""
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(references))

    def command(*words):
        monkeypatch.setattr("sys.argv", ["nearmetal", *map(str, words)])
        code = main()
        return (code, *capsys.readouterr())

    return command


NOW = time.time()
OLD, NEW = at(1, NOW - 3 * DAY, launches=10), at(2, NOW - 2 * DAY, launches=10)


@pytest.mark.parametrize("how", SPOILT)
def test_a_bad_session_is_skipped_and_named_once(tmp_path, run, how):
    database = store(tmp_path / "results.db", OLD, NEW)
    spoil(database, OLD["session_info"]["uuid"], how)
    for command in ("compare", "gate", "history"):
        code, _, err = run(command, "--database", database, "--system", "lab")
        assert code == 0, (command, err)
        assert "not a results database" not in err
        if command != "compare":  # which reads the newest session alone
            assert err.count(OLD["session_info"]["uuid"] + " on lab: ") == 1, err
    assert OLD["session_info"]["uuid"] in run("gate", "--database", database)[1]


@pytest.mark.parametrize(
    "command, how",
    [
        *(("compare", how) for how in SPOILT),
        *((command, "cut off") for command in ("gate", "history", "report")),
    ],
)
def test_a_bad_newest_session_is_incomplete_and_no_older_one_stands_for_it(
    tmp_path, run, command, how
):
    database = store(tmp_path / "results.db", OLD, NEW)
    spoil(database, NEW["session_info"]["uuid"], how)
    output = ["--output", tmp_path / "report.html"] if command == "report" else []
    code, out, err = run(command, "--database", database, "--system", "lab", *output)
    assert code == 2 and NEW["session_info"]["uuid"] in err, err
    assert "Traceback" not in err
    if command in ("compare", "gate"):
        assert out == ""
        named = ["--session", OLD["session_info"]["uuid"]]
        assert run(command, "--database", database, *named)[0] == 0
    if command == "report":
        page = (tmp_path / "report.html").read_text()
        assert "newest session cannot" in page


#: A value that is no finite number, as it stands in ReFrame's text.
ODD = ('"12.5"', "true", "NaN", "-Infinity", "1e999")


def with_odd(database, key: str, word: str) -> None:
    """Replace the first number below a key of the newest session's first case."""
    with sqlite3.connect(database) as connection:
        [(row, text)] = connection.execute(
            "SELECT rowid, json_blob FROM sessions ORDER BY rowid DESC LIMIT 1"
        )
        changed = re.sub(rf'("{key}": ?\[+)[^,\]]+', rf"\g<1>{word}", text, count=1)
        assert changed != text
        connection.execute("UPDATE sessions SET json_blob = ? WHERE rowid = ?", (changed, row))


@pytest.mark.parametrize("word", ODD)
@pytest.mark.parametrize("key", ["lab:native:startup_latency", "startup_latency"])
def test_an_odd_value_fails_its_case_alone(tmp_path, run, key, word):
    """A value, or a sample of it."""
    database = store(tmp_path / "results.db", OLD, NEW)
    with_odd(database, key, word)
    code, _, err = run("gate", "--database", database, "--json", tmp_path / "gate.json")
    judged = json.loads((tmp_path / "gate.json").read_text())["judged"]
    [bad] = [one for one in judged if one["verdict"] == "incomplete"]
    assert code == 2 and "skipped" not in err and bad["partition"] == "native"
    assert re.search(rf"{key}\.0 is '?{word.strip(chr(34))}'?, not a finite", bad["reason"], re.I)
    assert "Fix: " in bad["reason"] and sum(one["verdict"] == "ok" for one in judged) > 20


@pytest.mark.parametrize("word", ODD)
def test_odd_evidence_fails_its_case_alone(tmp_path, run, word):
    data = copy.deepcopy(NEW)
    data["runs"][0]["testcases"][0]["evidence"] = {"stolen": [0.1, 0.2]}
    database = store(tmp_path / "results.db", OLD, data)
    with_odd(database, "stolen", word)
    code, _, err = run("gate", "--database", database, "--json", tmp_path / "gate.json")
    judged = json.loads((tmp_path / "gate.json").read_text())["judged"]
    [bad] = [one for one in judged if one["verdict"] == "incomplete"]
    assert code == 2 and "skipped" not in err and "evidence.stolen.0 is" in bad["reason"]


@pytest.mark.parametrize("word", ODD[2:])
def test_a_number_that_json_lacks_harms_nothing_where_nobody_reads_it(tmp_path, run, word):
    data = copy.deepcopy(NEW)
    data["runs"][0]["testcases"][0]["time_sanity"] = [1.5]
    database = store(tmp_path / "results.db", OLD, data)
    with_odd(database, "time_sanity", word)
    code, _, err = run("gate", "--database", database)
    assert code == 0 and "skipped" not in err


def test_a_bad_session_of_another_system_does_not_matter(tmp_path, run):
    database = store(tmp_path / "results.db", OLD, at(3, NOW - DAY, system="other"))
    spoil(database, "00000003-campaign", "no object")
    code, _, err = run("gate", "--database", database, "--system", "lab")
    assert code == 0 and "00000003-campaign on other" in err
    assert run("gate", "--database", database)[0] == 2


def changed_value(data):
    data["runs"][0]["testcases"][0]["perfvalues"]["lab:native:startup_latency"][0] *= 1.01


def lost_case(data):
    data["runs"][0]["testcases"].pop()


def renamed_case(data):
    data["runs"][0]["testcases"][0]["environ"] = "openmpi2"


def lost_variable(data):
    data["runs"][0]["testcases"][0]["perfvalues"].pop("lab:native:startup_latency")


def lost_samples(data):
    data["runs"][0]["testcases"][0]["samples"] = None


def other_time(data):
    data["session_info"]["time_start_unix"] += 1e6


def other_session(data):
    data["session_info"]["uuid"] = "1"


@pytest.mark.parametrize(
    "damage, named",
    [
        (changed_value, "startup_latency is"),
        (lost_case, "5 cases, but 6 are stored"),
        (renamed_case, "| native | openmpi"),
        (lost_variable, "lacks startup_latency"),
        (lost_samples, "samples"),
        (other_time, "time_start_unix"),
        (other_session, "session_info.uuid"),
    ],
)
def test_a_session_that_contradicts_itself_is_bad(tmp_path, run, damage, named):
    data = copy.deepcopy(NEW)
    damage(data)
    database = store(tmp_path / "results.db", NEW)
    with sqlite3.connect(database) as connection:
        connection.execute("UPDATE sessions SET json_blob = ?", (orjson.dumps(data).decode(),))
    code, _, err = run("compare", "--database", database)
    assert code == 2 and named in err and NEW["session_info"]["uuid"] in err


def test_a_strangers_session_may_have_variables_of_our_names(tmp_path):
    data = copy.deepcopy(NEW)
    for case in data["runs"][0]["testcases"]:
        case |= {"samples": 100, "facts": "none", "within": 1.5, "curves": "x"}
        # As ReFrame 4.7 stored them, without their verdict.
        case["perfvalues"] = {key: entry[:5] for key, entry in case["perfvalues"].items()}
    [session] = results.sessions(store(tmp_path / "results.db", data))
    first = session.values[0]
    assert len(session.values) == 24 and first.samples == (first.value,)


def test_sessions_are_ordered_by_their_storage_and_a_clock_ahead_is_named(tmp_path, run):
    ahead = at(5, NOW + 400 * DAY, launches=10)
    slower = at(6, NOW - DAY, launches=10, steps=[(("", "", "", "startup_latency"), 1.3)])
    database = store(tmp_path / "results.db", OLD, ahead, slower)
    code, out, err = run("gate", "--database", database, "--system", "lab")
    assert code == 1 and "session 00000006-campaign" in out
    assert "00000005-campaign" in err and "ahead of now" in err and "00000005-campaign" in out
    assert [one.uuid[:8] for one in results.sessions(database)] == [
        "00000001",
        "00000005",
        "00000006",
    ]


def test_a_session_ahead_of_now_does_not_pass_for_a_recent_one(tmp_path, run):
    database = store(tmp_path / "results.db", OLD, at(5, NOW + 400 * DAY, launches=10))
    code, out, err = run("gate", "--database", database, "--since", str(NOW - DAY))
    assert (code, out) == (2, "") and "00000005-campaign" in err and "ahead of now" in err
    assert run("gate", "--database", database)[0] == 0


def test_the_order_outlasts_deletion_and_vacuum(tmp_path):
    database = store(tmp_path / "results.db", OLD, at(5, NOW + 400 * DAY), NEW)
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM sessions WHERE uuid = '00000001-campaign'")
    with sqlite3.connect(database) as connection:
        connection.execute("VACUUM")
    assert [one.uuid[:8] for one in results.sessions(database)] == ["00000005", "00000002"]


@pytest.mark.parametrize("command", ["compare", "gate", "history", "report"])
def test_a_newer_run_that_was_not_stored_is_named(tmp_path, run, command):
    database = store(tmp_path / "results.db", OLD, NEW)
    for number, data in enumerate([OLD, NEW, at(7, NOW - DAY)]):
        report(database, data, number + 9)
    output = ["--output", tmp_path / "report.html"] if command == "report" else []
    code, out, err = run(command, "--database", database, "--system", "lab", *output)
    assert code == 2 and "00000007-campaign" in err and "run-report-11.json" in err
    if command in ("compare", "gate"):
        assert out == ""
        assert run(command, "--database", database, "--session", "00000002")[0] == 0


def test_a_session_that_another_run_stores_after_its_report_is_not_missing(tmp_path, monkeypatch):
    """A command reads the rows, a report that is written half, and then the database again."""
    file = store(tmp_path / "results.db", OLD)
    report(file, OLD, 0)
    newer = report(file, NEW, 1)
    whole = newer.read_text()
    newer.write_text(whole[: len(whole) // 2])

    def meanwhile(_):
        newer.write_text(whole)
        store(file, NEW)

    monkeypatch.setattr("nearmetal.results.run_reports.time.sleep", meanwhile)
    found = results.newest(file)
    assert found and found.uuid == OLD["session_info"]["uuid"]


@pytest.mark.parametrize("name", ["run-report-{}", "nightly-{}", "report-2026-12-0{}"])
def test_the_time_inside_a_report_decides_whatever_its_name_is(tmp_path, run, name):
    """A date in a name is no number, and one that sorts before others may be of the newest run."""
    database = store(tmp_path / "results.db", OLD, NEW)
    for number, data in ((9, OLD), (8, NEW), (1, at(7, NOW - DAY))):
        file = report(database, data, number)
        file.rename(file.with_name(f"{name.format(number)}.json"))
    code, _, err = run("gate", "--database", database)
    assert code == 2 and "00000007-campaign" in err and f"{name.format(1)}.json" in err


@pytest.mark.parametrize("where", ["other.db", "elsewhere/results.db"])
def test_a_later_run_that_another_database_holds_is_not_missing(tmp_path, run, where):
    """Two databases may share one directory of reports."""
    database, later = store(tmp_path / "results.db", OLD), at(7, NOW - DAY)
    other = tmp_path / where
    other.parent.mkdir(exist_ok=True)
    selection = {"system": "lab", "environs": [".*"], "paths": [], "database": str(other)}
    for case in later["runs"][0]["testcases"]:
        case["selection"] = selection
    report(database, later, 7)
    assert "00000007-campaign" in run("compare", "--database", database)[2]
    store(other, later)
    assert "00000007" not in run("compare", "--database", database)[2]


def test_a_later_run_of_another_suite_is_not_missing(tmp_path, run):
    [first, *_] = recorded_sessions("4.10.4")
    other = copy.deepcopy(first)
    info = other["session_info"]
    info |= {"uuid": "other-suite", "time_start_unix": info["time_start_unix"] + DAY}
    info["time_start"] = time.strftime("%Y%m%dT%H%M%S+0000", time.gmtime(info["time_start_unix"]))
    database = store(tmp_path / "results.db", first)
    report(database, other, 7)
    assert "other-suite" in run("compare", "--database", database)[2]
    info["cmdline"] = "reframe -c other_suite -r"
    report(database, other, 7)
    assert "other-suite" not in run("compare", "--database", database)[2]


def test_a_damaged_report_of_a_newer_run_is_named(tmp_path, run):
    database = store(tmp_path / "results.db", OLD)
    report(database, OLD, 0)
    damaged = report(database, NEW, 1)
    damaged.write_text("")
    code, _, err = run("gate", "--database", database)
    assert code == 2 and "run-report-1.json" in err


def test_reports_that_say_nothing_about_the_newest_session_are_passed_over(tmp_path, run):
    """Of a dry run, of another system, of a duet, of an older run, and of a session that is
    there."""
    database = store(tmp_path / "results.db", OLD, NEW)
    dry, older = at(7, NOW - DAY), at(8, NOW - 9 * DAY)
    dry["session_info"]["cmdline"] = "reframe -c reframe_checks --dry-run --system lab"
    duet = at(9, NOW - DAY)
    for case in duet["runs"][0]["testcases"]:
        case["facts"]["duet"] = "environs"
    reports = [older, OLD, NEW, dry, at(10, NOW - DAY, system="other"), duet]
    for number, data in enumerate(reports):
        report(database, data, number)
    code, _, err = run("gate", "--database", database, "--system", "lab")
    assert (code, err) == (0, "")


def test_without_a_report_of_the_session_the_times_decide(tmp_path, run):
    database = store(tmp_path / "results.db", NEW)
    report(database, OLD, 0)
    assert run("compare", "--database", database)[0] == 0
    report(database, at(7, NOW - DAY), 1)
    assert run("compare", "--database", database)[0] == 2


def locked(database):
    connection = sqlite3.connect(database)
    connection.execute("BEGIN EXCLUSIVE")
    return connection


def emptied(database):
    database.write_bytes(b"")


def cut(database):
    os.truncate(database, database.stat().st_size // 3)


def overwritten(database):
    database.write_text("this is no database, by far")


@pytest.mark.parametrize(
    "damage, named",
    [
        (locked, "is locked by"),
        (emptied, "0 bytes"),
        (cut, "damaged or truncated"),
        (overwritten, "not a results database"),
    ],
)
def test_a_database_that_cannot_be_read_is_called_what_it_is(tmp_path, run, damage, named):
    database = store(tmp_path / "results.db", OLD, NEW)
    kept = damage(database)
    code, _, err = run("compare", "--database", database)
    assert code == 3 and named in err and str(database) in err and len(err.splitlines()) == 1
    del kept


ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT {} FROM n"
COLUMNS = {
    "sessions": "i AS uuid, i AS session_start_unix, i AS json_blob, i AS report_file",
    "testcases": "i AS session_uuid, i AS name, i AS system, i AS partition, i AS environ",
}


def computing(path, table: str, how: str):
    """The database with a view, a virtual table or a generated column in place of a table."""
    made = {
        "view": f"CREATE VIEW {table} AS {ENDLESS.format(COLUMNS[table])}",
        "virtual": f"CREATE VIRTUAL TABLE {table} USING fts5(x)",
        "generated": f"CREATE TABLE {table} (x, uuid AS (x || x))",
    }
    with sqlite3.connect(path) as connection:
        connection.execute(f"DROP TABLE {table}")
        connection.execute(made[how])
    return path


@pytest.mark.parametrize("how", ["view", "virtual", "generated"])
@pytest.mark.parametrize("table", COLUMNS)
def test_a_database_that_computes_a_table_is_refused(tmp_path, run, table, how):
    database = computing(store(tmp_path / "results.db", OLD), table, how)
    code, _, err = run("compare", "--database", database)
    assert code == 3 and f"{database}: is not a results database" in err and table in err


def test_a_query_without_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(results_file, "PATIENCE", 0.1)
    file = results_file.ResultsFile(store(tmp_path / "results.db", OLD))
    with pytest.raises(results.ResultsError, match=r"answers no query .*Fix: "):
        file._rows(ENDLESS.format("count(*)"))


def test_a_session_that_is_too_large_is_named(tmp_path, run, monkeypatch):
    database = store(tmp_path / "results.db", OLD)
    monkeypatch.setattr(results_file, "MOST_BYTES", 10_000)
    code, _, err = run("compare", "--database", database)
    assert code == 2 and "has more than 10000 bytes" in err and OLD["session_info"]["uuid"] in err


@pytest.mark.parametrize(
    "change, named",
    [
        ({"selection": {"system": 1, "environs": [], "paths": []}}, "selection.system"),
        ({"selection": {"system": "lab", "environs": "x", "paths": []}}, "selection.environs"),
        ({"selection": {"system": "lab", "environs": [1], "paths": []}}, "selection.environs"),
        ({"selection": {"system": "lab", "environs": []}}, "selection.paths"),
        ({"selection": ["lab"]}, "selection"),
        ({"facts": {"nodes": 5}}, "facts.nodes"),
        ({"facts": {"nodes": ["n1", None]}}, "facts.nodes"),
        ({"facts": {"gpus": ["a"]}}, "facts.gpus"),
        ({"facts": {"cpus": 8}}, "facts.cpus"),
        ({"compiler": {"gcc": 14}}, "facts.compiler"),
    ],
)
def test_a_wrong_type_is_an_error_of_the_session(change, named):
    data = session("session_lab")
    for case in data["runs"][0]["testcases"]:
        case |= {"samples": {}, **change}
    with pytest.raises(results.ResultsError, match=rf"testcases\.\d+\..*{named} is .*, not a"):
        results.parse_session(data, "here")


def test_what_a_check_of_others_calls_by_our_names_is_its_own():
    data = session("session_lab")
    for case in data["runs"][0]["testcases"]:
        case |= {"selection": [1], "compiler": 14, "image": "x"}
        case.pop("facts")
        case.pop("samples", None)
    found = results.parse_session(data, "here")
    assert found.selection == {} and "compiler" not in found.cases[0].facts
    assert found.cases[0].facts["image"] == "x"


def test_a_failure_of_control_characters_alone_is_called_by_its_result():
    data = session("session_lab")
    data["runs"][0]["testcases"][0] |= {"result": "fail", "fail_reason": "\x1b[0m"}
    assert results.parse_session(data, "here").failures[0].failure == "fail"


def test_a_database_that_the_user_may_not_read_is_called_so(open_path):
    """As another user where these tests are root's, who may read everything."""
    database = store(open_path / "results.db", OLD)
    database.chmod(0)
    line = "import sys; from nearmetal.__main__ import main; sys.exit(main())"
    words = [sys.executable, "-c", line, "compare", "--database", database]
    if os.geteuid() == 0:
        words = ["setpriv", "--reuid=65534", "--clear-groups", *words]
    own = {name: text for name, text in os.environ.items() if not name.startswith("RFM_")}
    done = subprocess.run(words, capture_output=True, text=True, env=own)
    assert done.returncode == 3 and "cannot be opened" in done.stderr, done.stderr


@pytest.mark.parametrize("name", ["100%25", "a#b", "what?mode=rwc", "ein Wort", "é"])
def test_any_path_is_read_and_no_other_file_appears(tmp_path, run, name):
    (tmp_path / name).mkdir()
    database = store(tmp_path / name / f"{name}.db", OLD)
    before = sorted(tmp_path.rglob("*"))
    assert run("compare", "--database", database)[0] == 0
    assert sorted(tmp_path.rglob("*")) == before


def nothing(*_):
    raise KeyError("nobody\nforesaw this")


def interrupt(*_):
    raise KeyboardInterrupt


@pytest.mark.parametrize("options, lines", [([], 1), (["--debug"], 5)])
def test_an_unforeseen_error_ends_with_3_and_one_line(tmp_path, run, monkeypatch, options, lines):
    database = store(tmp_path / "results.db", OLD)
    monkeypatch.setattr("nearmetal.results.decode.Outcome.case", nothing)
    code, out, err = run("compare", "--database", database, *options)
    assert (code, out) == (3, "")
    assert "unforeseen KeyError" in err and "test_results.py" in err and "--debug" in err
    assert (len(err.splitlines()) == 1) == (lines == 1) and ("Traceback" in err) == (lines > 1)


def test_an_interruption_is_no_regression(tmp_path, run, monkeypatch):
    database = store(tmp_path / "results.db", OLD)
    monkeypatch.setattr("nearmetal.results.decode.Outcome.case", interrupt)
    assert run("compare", "--database", database)[0] == 130


def test_output_that_nobody_reads_is_no_regression_and_files_are_written(tmp_path, references):
    slower = at(6, NOW - DAY, launches=10, steps=[(("", "", "", "startup_latency"), 1.3)])
    database = store(tmp_path / "results.db", slower)
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", "nearmetal", "gate", "--database", database, "--all"]
    done = subprocess.run(
        [*words, "--json", tmp_path / "verdicts.json"],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RFM_REFERENCE_PREFIX": str(references)},
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")
    assert json.loads((tmp_path / "verdicts.json").read_text())["verdict"] == "regressed"


def test_a_case_that_failed_before_it_had_values_is_read_without_them():
    data = session("session_failed")
    [case] = [one for one in data["runs"][-1]["testcases"] if one["result"] == "fail"][:1]
    case["perfvalues"] = {"lab:native:startup_latency": [None, 0, None, None, "us", None]}
    read = results.parse_session(data, "here")
    assert read.failures and not read.failures[0].values
    case["result"] = "pass"
    with pytest.raises(results.ResultsError, match=r"startup_latency.0 is None"):
        results.parse_session(data, "here")


def test_a_variable_that_was_renamed_is_read_under_its_new_name():
    data = session("session_lab")
    case = data["runs"][0]["testcases"][0]
    case |= {"display_name": "hpcc %page_size=small", "name": "hpcc"}
    case["samples"] = {"hpl_share": [70.0, 71.0, 72.0]}
    case["within"] = {}
    case["perfvalues"] = {"lab:native:hpl_share": [71.0, 0, None, None, "% of peak", "pass"]}
    cases = results.parse_session(data, "here").cases
    [value] = next(case for case in cases if "hpcc" in case.check).values
    assert (value.variable, value.unit) == ("hpl_of_dgemm", "% of DGEMM")
    assert value.samples == (70.0, 71.0, 72.0)


def with_evidence(evidence) -> dict:
    data = session("session_lab")
    for case in data["runs"][0]["testcases"]:
        case["evidence"] = evidence
        case.setdefault("samples", {})
    return data


def test_evidence_of_the_repeats_that_have_it():
    parsed = results.parse_session(
        with_evidence({"stolen": [0.1, None, 0.2], "x": [None] * 3}), "here"
    )
    assert parsed.cases[0].quantities == {"stolen": (0.1, 0.2)}
    assert results.parse_session(session("session_lab"), "here").cases[0].quantities == {}


@pytest.mark.parametrize("evidence", [{"stolen": "much"}, {"stolen": [[1]]}, [1]])
def test_damaged_evidence_is_named(evidence):
    with pytest.raises(results.ResultsError, match="evidence"):
        results.parse_session(with_evidence(evidence), "here")


def test_evidence_of_a_check_of_others_is_its_own():
    data = with_evidence({"stolen": "much"})
    for case in data["runs"][0]["testcases"]:
        del case["facts"], case["samples"]
    assert results.parse_session(data, "here").cases[0].quantities == {}


def test_evidence_of_several_runs_is_that_of_all():
    data = with_evidence({"stolen": [0.1]})
    data["runs"].append(copy.deepcopy(data["runs"][0]))
    data["session_info"]["cmdline"] = "reframe -r --reruns=1"
    assert results.parse_session(data, "here").cases[0].quantities == {"stolen": (0.1, 0.1)}
