"""Several databases as one history, and several systems in one command."""

import json
import math
import re
import sqlite3
from xml.etree import ElementTree

import jsonschema
import polars
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from nearmetal import results
from nearmetal.judge import baseline, rerun
from nearmetal.results import Database
from nearmetal.results.database import ascending
from tests.support import foreign_sessions
from tests.support.campaigns import campaign
from tests.support.command import run  # noqa: F401 (a fixture)
from tests.support.paths import CHECKOUT
from tests.support.recorded import store

SCHEMA = yaml.safe_load((CHECKOUT / "nearmetal/judge/gate-schema.yaml").read_text())
SLOWER = [(("", "emulated", "", "latency"), 2.0)]


@pytest.fixture(autouse=True)
def reports_are_old(monkeypatch):
    """No command waits for the session of a report that a test has just written."""
    monkeypatch.setattr("nearmetal.results.run_reports.STORES_WITHIN", 0)


def on(system: str, number: int, **options) -> dict:
    data = campaign(number, **options)
    for case in data["runs"][0]["testcases"]:
        case["system"] = system
    return data


def numbers(found) -> list[int]:
    return [int(one.uuid[:8]) for one in found]


def given(option: str, *values) -> list:
    return [word for value in values for word in (option, value)]


@pytest.fixture(scope="module")
def every():
    return [campaign(number, launches=10) for number in range(13)]


@pytest.fixture(scope="module")
def apart(every, tmp_path_factory):
    """Two databases: one has the sessions 0, 2, 4, ..., 12, the other one 1, 3, ..., 11."""
    place = tmp_path_factory.mktemp("apart")
    return [store(place / "even.db", *every[::2]), store(place / "odd.db", *every[1::2])]


@pytest.fixture(scope="module")
def whole(every, tmp_path_factory):
    """One database with all of these sessions."""
    return store(tmp_path_factory.mktemp("whole") / "whole.db", *every)


def test_sessions_of_several_files_are_one_history(apart):
    database = Database(apart)
    assert numbers(results.sessions(database)) == list(range(13))
    assert numbers(results.sessions(database, newest_first=True)) == list(range(13))[::-1]
    assert [one.order[0] for one in results.sessions(database)] == list(range(1, 14))
    assert not database.notes()


@pytest.mark.parametrize(
    "words", [["history"], ["gate", "--all"], ["explain"], ["baseline", "record"]], ids=" ".join
)
def test_several_databases_give_what_one_with_all_sessions_gives(run, apart, whole, words):
    """The newest session may be in any of them: no command takes the last one alone."""
    expected = run(*words, "--database", whole)
    assert (expected[0] in (0, 2) and "00000012" in expected[1]) or words[0] == "history"
    for files in (apart, apart[::-1]):
        assert run(*words, *given("--database", *files)) == expected


def test_a_baseline_and_references_are_recorded_from_several_databases(run, apart, tmp_path):
    databases = given("--database", *apart)
    assert run("baseline", "record", *databases, "--directory", tmp_path)[0] == 0
    found = baseline.load("lab", tmp_path)
    assert len(found.sessions) == 12 and "00000012-campaign" in found.sessions
    since = str(int(1.76e9 + 86400 * 2.5))
    words = ("--since", since, "--as", "reframe", "--output", tmp_path / "references.yaml")
    assert run("baseline", "record", *databases, *words)[0] == 0
    assert "of 10 sessions" in (tmp_path / "references.yaml").read_text()


def test_copies_of_a_session_count_once(run, tmp_path):
    one = store(tmp_path / "one.db", campaign(1), campaign(2))
    more = store(tmp_path / "more.db", *(campaign(number) for number in (1, 2, 3)))
    database = Database([more, one, tmp_path / "." / "more.db"])
    assert numbers(results.sessions(database)) == [1, 2, 3]
    assert not database.notes() and len(database.files) == 2
    csv = tmp_path / "out.csv"
    assert run("export", "--csv", csv, *given("--database", one, more, one))[0] == 0
    rows = polars.read_csv(csv).select("session", "partition", "environment", "check")
    assert rows.height == polars.read_csv(csv).unique().height


def test_a_copy_that_was_only_written_anew_is_the_same(tmp_path):
    files = [store(tmp_path / f"{name}.db", campaign(1)) for name in "ab"]
    with sqlite3.connect(files[1]) as connection:
        [(text,)] = connection.execute("SELECT json_blob FROM sessions")
        text = json.dumps(json.loads(text), indent=2)
        connection.execute("UPDATE sessions SET json_blob = ?", (text,))
    database = Database(files)
    assert numbers(results.sessions(database)) == [1] and not database.notes()


@pytest.mark.parametrize("first", [0, 1])
def test_copies_with_different_content_are_named_and_the_first_file_counts(run, tmp_path, first):
    other = campaign(1, steps=SLOWER)
    files = [store(tmp_path / "a.db", campaign(1)), store(tmp_path / "b.db", other)]
    counts, differs = files[first], files[not first]
    database = Database([counts, differs])
    [session] = results.sessions(database)
    [alone] = results.sessions(Database(counts))
    assert session.values == alone.values
    errors = run("history", *given("--database", counts, differs))[2]
    said = f"session 00000001-campaign has other content in {differs} than in {counts}"
    assert said in errors and "Fix: " in errors


def test_a_damaged_copy_is_named_and_the_readable_one_counts(tmp_path):
    files = [store(tmp_path / f"{name}.db", campaign(1)) for name in "ab"]
    with sqlite3.connect(files[0]) as connection:
        connection.execute("UPDATE sessions SET json_blob = '{'")
    database = Database(files)
    assert numbers(results.sessions(database)) == [1]
    [note] = database.notes()
    assert f"other content in {files[0]} than in {files[1]}, which counts" in note


def test_a_bad_session_is_named_with_its_file(run, tmp_path):
    files = [store(tmp_path / "a.db", campaign(1)), store(tmp_path / "b.db", campaign(2))]
    with sqlite3.connect(files[0]) as connection:
        connection.execute("UPDATE sessions SET json_blob = '{'")
    errors = run("history", *given("--database", *files))[2]
    assert f"skipped session 00000001-campaign on lab in {files[0]}: not valid JSON" in errors
    with sqlite3.connect(files[1]) as connection:
        connection.execute("UPDATE sessions SET json_blob = '{'")
    code, _, errors = run("gate", *given("--database", *files))
    assert code == 2 and f"00000002-campaign on lab in {files[1]}" in errors


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("command", ["history", "gate", "explain", "compare", "export"])
def test_one_database_that_is_not_there_is_an_error(run, tmp_path, command, which):
    files = [store(tmp_path / "a.db", campaign(1)), tmp_path / "b.db"]
    csv = ["--csv", tmp_path / "x.csv"] if command == "export" else []
    databases = given("--database", *(files if which else files[::-1]))
    code, _, errors = run(command, *databases, *csv)
    assert code == 3 and f"{files[1]}: no results database" in errors


@pytest.mark.parametrize("own", [0, 1])
def test_a_run_that_no_database_stores_is_missing_whichever_has_its_report(run, tmp_path, own):
    places = [tmp_path / "a", tmp_path / "b"]
    for number, place in enumerate(places, 1):
        (place / "reports").mkdir(parents=True)
        store(place / "results.db", campaign(number))
        report = place / "reports" / "run-report-1.json"
        report.write_text(json.dumps(campaign(number), indent=2))
    databases = given("--database", *(place / "results.db" for place in places))
    assert run("history", *databases)[0] == 0
    lost = places[own] / "reports" / "run-report-2.json"
    lost.write_text(json.dumps(campaign(9), indent=2))
    code, _, errors = run("history", *databases)
    assert code == 2 and "00000009-campaign" in errors and str(lost) in errors


def test_an_older_run_that_is_not_stored_is_not_the_newest(run, tmp_path):
    """In the first file it was the newest, but the second one has a newer session."""
    place = tmp_path / "a"
    (place / "reports").mkdir(parents=True)
    files = [store(place / "results.db", campaign(1)), store(tmp_path / "b.db", campaign(5))]
    for number in (1, 3):
        report = place / "reports" / f"run-report-{number}.json"
        report.write_text(json.dumps(campaign(number), indent=2))
    assert run("history", *given("--database", *files))[0] == 0
    assert run("history", "--database", files[0])[0] == 2


def test_reports_of_another_directory_have_numbers_of_their_own(run, tmp_path):
    """A confirmation's report is in a directory with older reports of another database."""
    place, elsewhere = tmp_path / "a", tmp_path / "b"
    for directory in (place, elsewhere):
        (directory / "reports").mkdir(parents=True)
    again = campaign(4)
    again["session_info"]["nearmetal_confirms"] = campaign(3)["session_info"]["uuid"]
    database = store(place / "results.db", campaign(3), again)
    with sqlite3.connect(database) as connection:
        newest = str(elsewhere / "reports" / "run-report-9.json")
        connection.execute("UPDATE sessions SET report_file = ?", (newest,))
    for directory, number, data in (
        (place, 1, campaign(3)),
        (elsewhere, 8, campaign(1)),
        (elsewhere, 9, again),
    ):
        report = directory / "reports" / f"run-report-{number}.json"
        report.write_text(json.dumps(data, indent=2))
    assert run("history", "--database", database)[0] == 0


def test_the_database_of_a_session_is_the_one_that_reframe_writes_again(tmp_path, monkeypatch):
    files = [store(tmp_path / "a.db", campaign(1)), store(tmp_path / "b.db", campaign(2))]
    database = Database(files)
    monkeypatch.setattr(rerun, "ran_in_lab", lambda session: True)
    for session, file in zip(results.sessions(database), files):
        assert f"RFM_SQLITE_DB_FILE={file}" in rerun.reframe_of(session, database)


def test_new_sessions_of_each_file_are_added(tmp_path):
    files = [store(tmp_path / "a.db", campaign(1)), store(tmp_path / "b.db", campaign(3))]
    database = Database(files)
    assert numbers(results.sessions(database)) == [1, 3]
    for file, number in zip(files, (4, 5)):
        store(file, campaign(number))
    database.refresh()
    assert numbers(results.sessions(database)) == [1, 3, 4, 5]
    assert [one.stored for one in results.sessions(database)] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "starts, times",
    [
        ([], []),
        ([1, 2, 2, 5], [1, 2, 2, 5]),
        ([1, 2, 99, 3, 4], [1, 2, 2, 3, 4]),  # the clock was ahead
        ([10, 11, 0, 12], [10, 11, 11, 12]),  # it was reset
        ([99, 1, 2], [1, 1, 2]),
        ([1, math.nan, 3], [1, 1, 3]),
        ([math.nan], [0]),
    ],
)
def test_a_wrong_clock_moves_no_other_session(starts, times):
    assert ascending(starts) == times


def test_several_systems_have_a_verdict_each_and_the_worst_exit_code(run, tmp_path):
    lab = [on("lab", number, launches=10) for number in (1, 2)]
    other = [on("other", 3, launches=10), on("other", 4, launches=10, steps=SLOWER)]
    files = [store(tmp_path / "lab.db", *lab), store(tmp_path / "other.db", *other)]
    outputs = {name: tmp_path / name for name in ("json", "junit", "markdown", "openmetrics")}
    words = [word for name, path in outputs.items() for word in (f"--{name}", path)]
    alone = {
        name: run("gate", "--system", name, "--database", file)
        for name, file in zip(("lab", "other"), files)
    }
    assert alone["other"][0] == 1 and alone["lab"][0] != 1
    databases, systems = given("--database", *files), given("--system", "lab", "other")
    code, said, _ = run("gate", *systems, *databases, *words)
    assert code == 1
    assert said == "\n".join(out for _, out, _ in alone.values())
    document = json.loads(outputs["json"].read_text())
    jsonschema.validate(document, SCHEMA)
    assert document["exit_code"] == 1
    assert [one["session"]["system"] for one in document["systems"]] == ["lab", "other"]
    suites = ElementTree.parse(outputs["junit"]).getroot()
    assert [one.get("name") for one in suites] == ["nearmetal gate lab", "nearmetal gate other"]
    assert outputs["markdown"].read_text().count("### Nearmetal: ") == 2
    families = text_string_to_metric_families(outputs["openmetrics"].read_text())
    found = {one.name: {sample.labels["system"] for sample in one.samples} for one in families}
    assert found["nearmetal_session_start_seconds"] == {"lab", "other"}
    assert found["nearmetal_session_info"] == found["nearmetal_verdict"] == {"lab", "other"}


def test_one_system_without_a_session_hides_no_verdict(run, tmp_path):
    """Neither that of the others, nor its own lack of one."""
    file = store(tmp_path / "a.db", campaign(1), campaign(2, steps=SLOWER))
    outputs = {name: tmp_path / name for name in ("json", "junit", "markdown", "openmetrics")}
    words = [word for name, path in outputs.items() for word in (f"--{name}", path)]
    systems = given("--system", "nosuch", "lab")
    code, said, errors = run("gate", *systems, "--database", file, *words)
    assert code == 1 and "session 00000002" in said
    assert "nosuch: " in errors and "no session on system nosuch" in errors
    document = json.loads(outputs["json"].read_text())
    jsonschema.validate(document, SCHEMA)
    assert [one["verdict"] for one in document["systems"]] == ["incomplete", "regressed"]
    assert "no session on nosuch can be judged" in outputs["markdown"].read_text()
    assert ElementTree.parse(outputs["junit"]).getroot()[0].get("errors") == "1"
    [verdict] = re.findall(
        r'nearmetal_session_info\{.*system="nosuch".*\}', outputs["openmetrics"].read_text()
    )
    assert 'verdict="incomplete"' in verdict
    assert run("explain", *systems, "--database", file)[0] == 1
    assert run("history", *systems, "--database", file)[0] == 3


def test_history_and_explain_print_each_system(run, tmp_path):
    file = store(tmp_path / "a.db", on("lab", 1), on("other", 2), on("other", 3))
    words = [*given("--system", "lab", "other"), "--database", file]
    assert re.findall(r"system (\w+):\n(\d)", run("history", *words)[1]) == [
        ("lab", "1"),
        ("other", "2"),
    ]
    causes = tmp_path / "causes.json"
    code, said, _ = run("explain", *words, "--json", causes)
    document = json.loads(causes.read_text())
    assert code == document["exit_code"] and said.count("session 0000000") >= 2
    assert [one["session"]["system"] for one in document["systems"]] == ["lab", "other"]


def test_pages_of_some_systems_and_several_databases(run, tmp_path):
    files = [
        store(tmp_path / "a.db", on("lab", 1), on("third", 2)),
        store(tmp_path / "b.db", on("lab", 3), on("other", 4)),
    ]
    databases, pages = given("--database", *files), tmp_path / "pages"
    words = given("--system", "lab", "other")
    assert run("report", "--all", pages, *words, *databases)[0] == 0
    assert {one.name for one in pages.iterdir()} == {"index.html", "lab.html", "other.html"}
    assert "2 sessions" in (pages / "index.html").read_text()
    code, _, errors = run("report", *words, *databases)
    assert code == 3 and "a page is of one system" in errors and "--all DIRECTORY" in errors


@pytest.mark.parametrize("option", ["--session=0000", "--confirm"])
def test_what_is_of_one_system_is_refused_with_several(run, tmp_path, option):
    file = store(tmp_path / "a.db", on("lab", 1), on("other", 2))
    words = given("--system", "lab", "other")
    code, said, errors = run("gate", *words, option, "--database", file)
    assert code == 3 and not said and "is of one system, but 2 are given. Fix: " in errors


@pytest.mark.parametrize(
    "words",
    [
        ["baseline", "record", *given("--system", "a", "b")],
        ["baseline", "check", *given("--system", "a", "b")],
        ["duet", *given("--system", "a", "b")],
        ["fleet", *given("--system", "a", "b")],
        ["progress", *given("--system", "a", "b")],
        ["gate", *given("--session", "a", "b")],
        ["expect", "lab", *given("--session", "a", "b")],
        ["report", *given("--output", "a", "b")],
    ],
    ids=" ".join,
)
def test_a_second_value_of_an_option_that_takes_one_is_refused(run, words):
    code, said, errors = run(*words)
    assert code == 3 and not said
    assert "a and b are given, but `nearmetal " in errors and "takes one. Fix: " in errors


def test_databases_of_other_suites_are_one_history(run, tmp_path):
    files = [
        store(tmp_path / f"{number}.db", foreign_sessions.campaign(number, runs=10))
        for number in (1, 2)
    ]
    databases = given("--database", *files)
    assert run("baseline", "record", *databases)[0] == 0  # 20 samples, of both together
    assert run("baseline", "record", "--database", files[0])[0] == 2  # 10 samples
    assert "2 sessions" in run("history", *databases)[1]
