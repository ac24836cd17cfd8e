"""`nearmetal export`: tables and series of stored sessions; the dashboard; the gate's alert."""

import json
import re

import polars
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from nearmetal import results
from nearmetal.commands import gate
from nearmetal.results import export, parse_session
from tests.support import foreign_sessions
from tests.support.campaigns import campaign
from tests.support.command import run  # noqa: F401 (a fixture)
from tests.support.paths import CHECKOUT
from tests.support.recorded import store

DASHBOARD = json.loads((CHECKOUT / "ci" / "grafana.json").read_text())


def series(text: str) -> dict[str, list]:
    """Samples of each family; raises ValueError where the text is not OpenMetrics."""
    return {one.name: one.samples for one in text_string_to_metric_families(text)}


def table(sessions, facts=()) -> polars.DataFrame:
    return polars.concat(export.parts(sessions, facts))


def csv(tables) -> bytes:
    return b"".join(export.csv(tables))


def failed(number: int) -> dict:
    """A campaign whose first case failed without values."""
    data = campaign(number)
    case = data["runs"][0]["testcases"][0]
    case |= {"result": "fail", "fail_phase": "sanity", "fail_reason": 'said "no",\nand ended'}
    case |= {"perfvalues": {}, "samples": {}}
    return data


def test_every_sample_is_a_row_of_both_tables(run, tmp_path):
    database = store(tmp_path / "results.db", campaign(1), campaign(2))
    files = tmp_path / "samples.csv", tmp_path / "samples.parquet"
    done = run("export", "--database", database, "--csv", files[0], "--parquet", files[1])
    assert done == (0, "", "")
    parquet = polars.read_parquet(files[1])
    assert list(parquet.columns) == list(export.COLUMNS)
    text = polars.read_csv(files[0], infer_schema=False)
    assert text.height == parquet.height
    assert text["value"].cast(float).to_list() == parquet["value"].to_list()
    expected = [
        (session.uuid, case.check, value.variable, number, sample)
        for session in results.sessions(database)
        for case in session.cases
        for value in case.values
        for number, sample in enumerate(value.samples, 1)
    ]
    names = ("session", "check", "variable", "repeat", "value")
    assert parquet.select(names).rows() == expected and len(expected) > 100


def test_a_failed_case_is_a_row_with_its_reason():
    frame = table([parse_session(failed(1), "here")])
    [row] = frame.filter(polars.col("variable").is_null()).rows(named=True)
    assert row["failure"] and row["value"] is None and row["check"]
    again = polars.read_csv(csv([frame]), infer_schema=False)
    assert again["failure"].to_list() == frame["failure"].to_list()


def test_a_table_of_many_parts_is_that_of_one(monkeypatch):
    sessions = [parse_session(campaign(number), "here") for number in range(3)]
    whole = table(sessions, ["kernel"])
    monkeypatch.setattr(export, "ROWS", 1)
    parts = list(export.parts(sessions, ["kernel"]))
    assert len(parts) == 4 and polars.concat(parts).equals(whole)
    assert csv(parts) == csv([whole])
    again = polars.read_parquet(export.parquet(parts))
    assert again.schema == whole.schema and again.equals(whole)


def test_a_table_without_rows_has_its_columns():
    parts = list(export.parts([]))
    assert csv(parts).decode().strip().split(",") == list(export.COLUMNS)
    assert polars.read_parquet(export.parquet(parts)).columns == list(export.COLUMNS)


@pytest.mark.parametrize("text", ["=1+1", "+cmd", "-cmd|' /C calc'!A1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_text_is_no_formula_of_a_spreadsheet(text):
    frame = table([parse_session(campaign(1), "here")]).with_columns(failure=polars.lit(text))
    [read] = set(polars.read_csv(csv([frame]), infer_schema=False)["failure"])
    assert read == f"'{text}"
    assert set(polars.read_parquet(export.parquet([frame]))["failure"]) == {text}


@pytest.mark.parametrize("text", ["-1.5e-3", "+2", "a=b", "", "'=1"])
def test_other_texts_of_a_table_stay(text):
    frame = table([parse_session(campaign(1), "here")]).with_columns(failure=polars.lit(text))
    values = frame.with_columns(value=-frame["value"])
    read = polars.read_csv(csv([values]), schema_overrides={"failure": polars.String})
    assert set(read["failure"]) == {text} and (read["value"] < 0).all()


def test_facts_become_columns():
    frame = table([parse_session(campaign(1), "here")], ["kernel", "no_such", "kernel"])
    assert frame.columns[-2:] == ["fact_kernel", "fact_no_such"]
    assert frame["fact_kernel"].null_count() == 0
    assert frame["fact_no_such"].null_count() == frame.height


def test_facts_that_are_no_text_become_text(run, tmp_path):
    """Nodes are a list, and what differs between them is a table."""
    data = campaign(1)
    differs = {"mtu": {"n2": "9000", "n1": "1500"}}
    for case in data["runs"][0]["testcases"]:
        case["facts"] = {**case["facts"], "nodes": ["n1", "n2"], "differs_between_nodes": differs}
    database, csv = store(tmp_path / "results.db", data), tmp_path / "out.csv"
    facts = [
        word for name in ("nodes", "differs_between_nodes", "typo") for word in ("--fact", name)
    ]
    code, _, errors = run("export", "--database", database, "--csv", csv, *facts)
    assert code == 0 and "no case has the fact typo" in errors
    row = polars.read_csv(csv).row(0, named=True)
    assert (
        row["fact_nodes"] == "n1, n2" and json.loads(row["fact_differs_between_nodes"]) == differs
    )


def test_series_have_all_values_with_their_times():
    sessions = [parse_session(campaign(number), "here") for number in (2, 1)]
    found = series(export.openmetrics(sessions))
    values = [value for session in sessions for case in session.cases for value in case.values]
    for name in ("nearmetal_value", "nearmetal_value_least", "nearmetal_value_most"):
        assert len(found[name]) == len(values)
    first, second = found["nearmetal_value"][:2]
    assert first.labels == second.labels and first.timestamp < second.timestamp
    assert {one.value for one in found["nearmetal_case_failed"]} == {0}
    labelled = [tuple(sorted(one.labels.items())) for one in found["nearmetal_value"]]
    assert labelled == sorted(labelled, key=labelled.index)  # the points of a series stand together


def test_sessions_of_one_second_are_one_point():
    one = parse_session(campaign(1), "here")
    found = series(export.openmetrics([one, one]))
    assert len(found["nearmetal_value"]) == sum(len(case.values) for case in one.cases)


def test_a_failed_case_is_seen_in_the_series():
    found = series(export.openmetrics([parse_session(failed(1), "here")]))
    assert sum(one.value for one in found["nearmetal_case_failed"]) == 1


@pytest.mark.parametrize("version", foreign_sessions.VERSIONS)
def test_sessions_of_other_suites_are_exported(version):
    sessions = [parse_session(one, "here") for one in foreign_sessions.recorded_sessions(version)]
    frame = table(sessions)
    assert frame.filter(polars.col("value").is_not_null()).height
    assert series(export.openmetrics(sessions))["nearmetal_value"]


def test_several_databases_and_a_beginning(run, tmp_path):
    one = store(tmp_path / "one.db", campaign(1), campaign(3))
    other = store(tmp_path / "other.db", campaign(2))
    csv = tmp_path / "out.csv"
    words = ("export", "--csv", csv, "--database", one, "--database", other)
    assert run(*words)[0] == 0
    assert polars.read_csv(csv)["session"].n_unique() == 3
    assert run(*words, "--since", str(int(1.76e9 + 86400 * 1.5)))[0] == 0
    assert polars.read_csv(csv)["session"].n_unique() == 2


@pytest.mark.parametrize(
    "words, says",
    [
        ((), "give --csv, --parquet or --openmetrics"),
        (("--csv", "x.csv", "--system", "nosuch"), "no session on system nosuch"),
        (("--csv", "x.csv", "--since", "2999-01-01"), "give an earlier --since"),
        (("--csv", "x.csv", "--since", "soon"), "--since soon: give seconds"),
        (("--csv", "x.csv", "--parquet", "x.csv"), "give each a file of its own"),
    ],
)
def test_what_cannot_be_exported_is_said(run, tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    database = store(tmp_path / "results.db", campaign(1))
    code, _, errors = run("export", "--database", database, *words)
    assert code == 3 and says in errors and "Traceback" not in errors
    assert not (tmp_path / "x.csv").exists()


def test_a_dashboard_shows_series_that_exist():
    known = set(
        re.findall(
            r'"(nearmetal_\w+)"',
            (CHECKOUT / "nearmetal" / "results" / "export.py").read_text()
            + (CHECKOUT / "nearmetal" / "judge" / "render.py").read_text(),
        )
    )
    asked = set(re.findall(r"nearmetal_\w+", json.dumps(DASHBOARD["panels"])))
    assert asked and asked <= known, asked - known


def test_a_dashboards_queries_use_labels_and_variables_that_exist():
    names = {one["name"] for one in DASHBOARD["templating"]["list"]}
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            variables = set(re.findall(r"\$(\w+)", target["expr"])) - {"__range"}
            assert variables <= names
            assert set(re.findall(r"(\w+)[=!]~?\"", target["expr"])) <= {
                *export.LABELS,
                "verdict",
            }


def test_a_dashboard_has_what_grafanas_schema_requires():
    """What its own types found missing (tests/support/grafana), so that it does not come back."""
    required = {
        "stat": {"wideLayout", "showPercentChange", "percentChangeColorMode"},
        "bargauge": {"namePlacement", "sizing", "minVizWidth", "minVizHeight", "maxVizHeight"},
        "table": {"frameIndex"},
    }
    for panel in DASHBOARD["panels"]:
        assert required.get(panel["type"], set()) <= panel["options"].keys(), panel["title"]
    for variable in DASHBOARD["templating"]["list"]:
        assert variable.get("current", {"text": "", "value": ""}).keys() >= {"text", "value"}


def test_an_alert_reads_the_document_unless_all_is_clean(run, tmp_path):
    database = store(tmp_path / "results.db", failed(1))
    heard = tmp_path / "heard.json"
    code, _, errors = run("gate", "--database", database, "--alert", f"tee {heard}")
    assert code == 2 and not errors
    assert json.loads(heard.read_text())["exit_code"] == 2


def test_a_clean_session_raises_no_alert(tmp_path):
    gate._alert(["touch", str(tmp_path / "heard")], [], 0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["false", "/no/such/program"])
def test_an_alert_that_fails_is_told_and_changes_no_exit_code(run, tmp_path, command):
    database = store(tmp_path / "results.db", failed(1))
    code, _, errors = run("gate", "--database", database, "--alert", command)
    assert code == 2 and "the command of --alert failed" in errors
