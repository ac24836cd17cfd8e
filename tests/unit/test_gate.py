"""`nearmetal gate` on campaigns with known noise and steps: its verdicts, what it takes for
incomplete, and its outputs."""

import json
import re
import shutil
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import numpy as np
import pytest
import yaml
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from nearmetal import results
from nearmetal.cli import main
from nearmetal.commands.common import seconds
from nearmetal.judge import baseline, native_ratio, record, rerun
from nearmetal.judge import campaign as campaigns
from nearmetal.judge import render as verdicts
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.verdict import VERDICT_NAMES, GateReport, Verdict
from nearmetal.site import system as site
from nearmetal.stats.plan import CONFIRMATION_ANALYSES
from tests.support.campaigns import campaign, only, with_medians
from tests.support.judging import judge_session
from tests.support.paths import CHECKOUT
from tests.support.recorded import store
from tests.support.said import lacking

CI = Path(verdicts.__file__).parent
SLOWER = ("", "emulated", "mpich", "startup_latency")


@pytest.fixture(scope="module")
def references(tmp_path_factory):
    """A directory with the baseline of twelve sessions of five launches at 2 %."""
    where = tmp_path_factory.mktemp("baselines")
    sessions = [results.parse_session(campaign(number), "here") for number in range(12)]
    after, _ = record.record(sessions, Baseline("lab", where / "lab.yaml", {}))
    baseline.save(after)
    return where


def changed(report: GateReport) -> list:
    """The regressed variables, but for ratios to native."""
    return [
        one
        for one in report.verdicts
        if one.name == "regressed" and not native_ratio.is_ratio(one.variable)
    ]


def judged(references, data: dict, **options) -> GateReport:
    return judge_session(
        results.parse_session(data, "here"), baseline.load("lab", references), **options
    )


def words(report: GateReport) -> dict[str, int]:
    """The number of each verdict, but for ratios to native."""
    own = [one.name for one in report.verdicts if not native_ratio.is_ratio(one.variable)]
    return {word: own.count(word) for word in VERDICT_NAMES if word in own}


def test_an_unchanged_campaign_is_clean(references):
    report = judged(references, campaign(100, launches=10))
    assert (report.verdict, report.exit_code, words(report)) == ("clean", 0, {"ok": 24})


@pytest.mark.parametrize(
    "variable, factor, word",
    [
        ("startup_latency", 1.1, "regressed"),
        ("startup_latency", 0.9, "improved"),
        ("peak_bandwidth", 0.9, "regressed"),
        ("peak_bandwidth", 1.1, "improved"),
    ],
)
def test_a_change_is_named_with_its_direction(references, variable, factor, word):
    report = judged(
        references,
        campaign(101, steps=[(("", "emulated", "mpich", variable), factor)], launches=10),
    )
    assert words(report) == {word: 1, "ok": 23}
    one, ratio = sorted(
        (one for one in report.verdicts if one.name == word), key=lambda one: one.variable
    )
    assert ratio.variable == f"{variable}_over_native"
    assert (one.partition, one.environ, one.variable) == ("emulated", "mpich", variable)
    assert (
        one.change == pytest.approx(factor - 1, abs=0.03)
        and one.interval[0] < one.change < one.interval[1]
    )
    assert report.exit_code == (1 if word == "regressed" else 0)


def test_too_few_launches_are_inconclusive_and_not_a_pass(references):
    report = judged(references, campaign(102, launches=2))
    assert (report.exit_code, words(report)) == (2, {"inconclusive": 24})
    assert all(one.wanted == 2 + CONFIRMATION_ANALYSES[0] for one in report.verdicts)


def test_three_launches_find_a_large_change(references):
    report = judged(references, campaign(102, steps=[(SLOWER, 3.0)], launches=3))
    assert words(report)["regressed"] == 1 and report.exit_code == 1


def shifted(data: dict, size: float, seed: int) -> dict:
    """The session of a day that shifts each variable by an amount of its own."""
    rng = np.random.default_rng(seed)
    for case in data["runs"][0]["testcases"]:
        for name, samples in case["samples"].items():
            factor = float(np.exp(size * rng.choice([-1, 1])))
            case["samples"][name] = [value * factor for value in samples]
    with_medians(data)
    return data


@pytest.fixture(scope="module")
def drifting():
    """A baseline whose days shift each variable by 2 %."""
    sessions = [
        results.parse_session(shifted(campaign(number), 0.02, number), "here")
        for number in range(12)
    ]
    return record.record(sessions, Baseline("lab", Path("lab.yaml"), {}))[0]


def of_night(known: Baseline, data: dict, earlier=()) -> GateReport:
    judged = Campaign(results.parse_session(data, "here"), known)
    vars(judged)["earlier"] = list(earlier)
    return judged.judge_against_baseline({})


def test_a_day_unlike_the_baselines_raises_no_alarm_and_asks_for_another(drifting):
    bad = shifted(campaign(109, launches=20), 0.13, 109)
    assert changed(judge_session(results.parse_session(bad, "here"), drifting))
    report = of_night(drifting, bad)
    alone = [one for one in report.verdicts if one.one_day]
    assert report.exit_code == 2 and "regressed" not in words(report)
    assert alone and all("run again on another day" in one.reason for one in alone)
    # A regression of all variables on an ordinary day is found.
    slower = [(("", "emulated", "", "startup_latency"), 1.5)]
    report = of_night(drifting, shifted(campaign(110, steps=slower, launches=20), 0.02, 110))
    assert report.exit_code == 1


def test_a_change_of_one_day_is_a_regression_once_a_second_day_shows_it():
    """Other variables went by 15 % on some days of the baseline."""
    odd = [(("", "native", "", "startup_latency"), 1.15)]
    sessions = [
        results.parse_session(campaign(number, steps=odd if number in (3, 5, 8) else ()), "here")
        for number in range(12)
    ]
    known = record.record(sessions, Baseline("lab", Path("lab.yaml"), {}))[0]
    slower = [(SLOWER, 1.25)]
    first, second = campaign(111, steps=slower, launches=10), campaign(112, steps=slower)
    earlier = [results.parse_session(first, "here")]
    report = of_night(known, first)
    assert (report.exit_code, words(report)["inconclusive"]) == (2, 1)
    assert of_night(known, second, earlier).exit_code == 1
    assert of_night(known, campaign(113), earlier).exit_code == 0
    # Far beyond all days of the baseline, one day is enough.
    assert of_night(known, campaign(114, steps=[(SLOWER, 1.6)], launches=10)).exit_code == 1


def broken(data: dict) -> dict:
    data["runs"][0]["testcases"][0] |= {
        "result": "fail",
        "fail_phase": "run",
        "fail_reason": "job blocked error",
        "perfvalues": {},
    }
    return data


def without_variable(data: dict) -> dict:
    case = data["runs"][0]["testcases"][0]
    case["perfvalues"] = {
        key: value
        for key, value in case["perfvalues"].items()
        if not key.endswith("peak_bandwidth")
    }
    del case["samples"]["peak_bandwidth"]
    return data


def without_samples(data: dict) -> dict:
    data["runs"][0]["testcases"][0]["samples"] = {}
    return data


@pytest.mark.parametrize(
    "data, reason",
    [
        (
            only(campaign(103, launches=10), lambda case: case["partition"] != "emulated"),
            "the session lacks it",
        ),
        (broken(campaign(103, launches=10)), "failed: job blocked error"),
        (without_variable(campaign(103, launches=10)), "baseline has"),
        (without_samples(campaign(103, launches=10)), "none of its samples"),
    ],
)
def test_what_is_missing_is_incomplete_never_ok(references, data, reason):
    report = judged(references, data)
    assert report.exit_code == 2
    assert any(one.name == "incomplete" and reason in one.reason for one in report.verdicts)


def test_fewer_cases_than_reframe_selected_are_named(references):
    data = only(campaign(103, launches=10), lambda case: case["environ"] == "mpich")
    data["session_info"]["cmdline"] += " -p mpich"
    report = judged(references, data)
    assert report.verdict == "incomplete"
    assert not lacking(verdicts.table(report), "lacks 3", "6 cases")


def test_a_selection_promises_only_what_it_selects(references):
    for options, chosen in (
        (" --system lab:native", lambda case: case["partition"] == "native"),
        (" -p ^mpich", lambda case: case["environ"] == "mpich"),
    ):
        data = only(campaign(104, launches=10), chosen)
        data["session_info"] |= {
            "cmdline": data["session_info"]["cmdline"] + options,
            "num_cases": len(data["runs"][0]["testcases"]),
        }
        assert judged(references, data).verdict == "clean"
    data["session_info"]["cmdline"] += " -t mpi"
    assert "only ReFrame can evaluate" in judged(references, data).notes[0]


def test_a_case_beyond_its_reference_is_judged_by_its_launches(references):
    data = campaign(105, steps=[(SLOWER, 3.0)], launches=10)
    for case in data["runs"][0]["testcases"]:
        if (case["partition"], case["environ"]) == ("emulated", "mpich"):
            case |= {
                "result": "fail",
                "fail_phase": "performance",
                "fail_reason": "performance error: startup_latency=...",
            }
    assert words(judged(references, data)) == {"regressed": 1, "ok": 23}


def with_new_partition(**fields) -> dict:
    """A campaign with a case on a partition that the baseline lacks."""
    data = campaign(106, launches=10)
    case = dict(data["runs"][0]["testcases"][0], partition="new", **fields)
    data["runs"][0]["testcases"].append(case)
    data["session_info"]["num_cases"] += 1
    return data


@pytest.mark.parametrize("given_by", [{}, {"no_baseline_of": "partition"}])
def test_a_partition_excuses_nothing_once_its_system_has_a_baseline(references, given_by):
    data = with_new_partition(no_baseline="nobody has recorded one yet", **given_by)
    report = judged(references, data)
    assert words(report) == {"incomplete": 4, "ok": 24} and report.exit_code == 2
    reasons = {one.reason for one in report.verdicts if one.name == "incomplete"}
    [reason] = reasons
    assert not lacking(reason, "baseline lacks", "case", "`nearmetal baseline record`")


def test_a_checks_own_reason_excuses_its_case(references):
    data = with_new_partition(no_baseline="arrived last week", no_baseline_of="check")
    report = judged(references, data)
    assert words(report) == {"not judged": 4, "ok": 24} and report.verdict == "clean"
    assert not lacking(verdicts.table(report), "not judged: ", "arrived last week")


def test_a_variable_that_the_baseline_lacks_is_incomplete(references):
    data = campaign(106, launches=10)
    case = data["runs"][0]["testcases"][0]
    case["perfvalues"]["lab:native:latency_2KiB"] = [1.0, 0, None, None, "us", "pass"]
    case |= {"no_baseline": "new", "no_baseline_of": "partition"}
    report = judged(references, data)
    assert words(report) == {"incomplete": 1, "ok": 24} and report.exit_code == 2


def test_a_case_that_failed_for_want_of_a_reference_is_incomplete_with_its_values(references):
    data = with_new_partition(
        result="fail",
        fail_phase="performance",
        fail_reason="performance error: lab.yaml has no reference for ...",
        unreferenced=["startup_latency"],
    )
    report = judged(references, data)
    found = [one for one in report.verdicts if one.partition == "new"]
    assert {one.name for one in found} == {"incomplete"} and all(one.value for one in found)


def test_a_unit_without_direction_is_not_judged_and_says_so(references):
    data = campaign(106, launches=10)
    for case in data["runs"][0]["testcases"]:
        for entry in case["perfvalues"].values():
            entry[4] = entry[4].replace("us", "furlongs")
    report = judged(references, data)
    assert words(report) == {"not judged": 12, "ok": 12}
    assert not lacking(verdicts.table(report), "not judged: ", "'furlongs'", "less is better")


def test_nothing_judged_is_not_clean(references):
    report = judge_session(
        results.parse_session(campaign(107), "here"), Baseline("lab", references / "lab.yaml", {})
    )
    assert (report.verdict, words(report)) == ("incomplete", {"incomplete": 24})


def test_facts_that_changed_stand_beside_the_deviation_they_may_explain(references):
    report = judged(references, campaign(108, steps=[(SLOWER, 1.2)], launches=10, kernel="7.0.0"))
    [line] = [one for one in verdicts.table(report).splitlines() if "changed since" in one]
    assert re.search(r"kernel: \S+ -> 7\.0\.0 \(.*emulated.*\)", line)


@pytest.mark.parametrize("fact, is_said", [("kernel", True), ("revision", False)])
def test_facts_that_changed_stay_as_a_note_where_all_is_ok(references, fact, is_said):
    """But for facts that may differ between the sessions of a baseline."""
    report = judged(references, campaign(108, launches=10, **{fact: "7.0.0"}))
    assert report.verdict == "clean"
    assert ("-> 7.0.0 (" in verdicts.table(report)) == is_said
    assert ("-> 7.0.0 (" in verdicts.markdown(report)) == is_said


@pytest.fixture
def outputs(references):
    data = campaign(
        109, steps=[(SLOWER, 1.2), (("", "native", "openmpi", "peak_bandwidth"), 1.2)], launches=10
    )
    data["runs"][0]["testcases"][0]["evidence"] = {"waited": [0.1, None, 0.3]}
    case = dict(data["runs"][0]["testcases"][0], partition="a|b<script>")
    data["runs"][0]["testcases"].append(case)
    return judged(references, data)


def test_json_is_by_its_schema(outputs):
    document = verdicts.document(outputs)
    jsonschema.validate(
        json.loads(json.dumps(document)), yaml.safe_load((CI / "gate-schema.yaml").read_text())
    )
    assert (document["verdict"], document["exit_code"], len(document["judged"])) == (
        "regressed",
        1,
        44,
    )
    first, second = document["evidence"]
    assert first["medians"] == {"waited": 0.2} and first["repeats"] == 3 and not first["unknown"]
    assert second["partition"] == "a|b<script>"


@pytest.mark.parametrize("every, tests, skipped", [(True, "44", "2"), (False, "43", "1")])
def test_junit(outputs, every, tests, skipped):
    """Without --all, one case counts the variables that are not judged."""
    suite = ElementTree.fromstring(verdicts.junit([outputs], every))
    assert {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": tests,
        "failures": "2",
        "errors": "4",
        "skipped": skipped,
    }
    for failure in suite.iter("failure"):
        assert failure.get("message").startswith("regressed: ")


def test_markdown_shows_what_is_not_ok_and_escapes_names(outputs):
    text = verdicts.markdown(outputs)
    counts = "2 regressed, 4 incomplete, 1 improved"
    assert text.startswith("### Nearmetal: ") and counts in text.splitlines()[0]
    assert "<script>" not in text and "a\\|b&lt;script>" in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {12}


def test_openmetrics_is_read_by_its_own_parser(outputs):
    families = {
        family.name: family
        for family in text_string_to_metric_families(verdicts.openmetrics([outputs]))
    }
    assert (
        len(families["nearmetal_verdict"].samples) == 44
        and len(families["nearmetal_change_ratio"].samples) == 40
    )
    assert any(
        sample.labels["verdict"] == "regressed" for sample in families["nearmetal_verdict"].samples
    )
    # node_exporter's textfile collector knows no type of OpenMetrics alone, such as `info`.
    assert {family.type for family in families.values()} == {"gauge"}


def run(monkeypatch, capsys, tmp_path, references, *arguments, sessions):
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(references))
    database = tmp_path / "results.db"
    if not database.exists():
        store(database, *sessions)
    monkeypatch.setattr("sys.argv", ["nearmetal", *arguments, "--database", str(database)])
    code = main()
    return (code, *capsys.readouterr())


def test_an_error_leaves_no_clean_files_and_is_alerted(monkeypatch, capsys, tmp_path, references):
    """Files of yesterday, and tonight ReFrame stored nothing since."""
    files = [tmp_path / name for name in ("gate.json", "gate.xml", "gate.md", "gate.prom")]
    forms = [f"--{form}" for form in ("json", "junit", "markdown", "openmetrics")]
    words = [word for pair in zip(forms, map(str, files)) for word in pair]
    told = tmp_path / "told.json"
    words += ["--alert", f"tee {told}", "--since", "2026-11-20T00:00"]
    for file in files:
        file.write_text("clean")
    for system in ((), ("--system", "lab")):
        code, _, err = run(
            monkeypatch,
            capsys,
            tmp_path,
            references,
            *("gate", *words, *system),
            sessions=[campaign(115, launches=10)],
        )
        assert code == 2 and "since 2026-11-20" in err, err
        assert all(file.read_text() != "clean" for file in files)
        [judged] = json.loads(told.read_text())["judged"]
        assert judged["verdict"] == "incomplete" and "since 2026" in judged["reason"]
        told.unlink()


def test_a_baseline_has_no_samples_that_a_confirmation_refuted(
    monkeypatch, capsys, tmp_path, references
):
    """A session at +30 % on a sick node, whose fresh repeats are as ever, is added."""
    bad = campaign(115, steps=[(SLOWER, 1.3)], launches=10)
    fresh = campaign(116, launches=10)
    fresh["session_info"]["nearmetal_confirms"] = bad["session_info"]["uuid"]
    shutil.copy(references / "lab.yaml", tmp_path)
    shutil.copy(references / "lab.launches.json", tmp_path)
    code, out, err = run(
        monkeypatch,
        capsys,
        tmp_path,
        tmp_path,
        *("baseline", "record", "--system", "lab", "--add"),
        sessions=[bad, fresh],
    )
    assert code == 0 and "added" in out, err
    known = baseline.load("lab", tmp_path)
    where = ("pingpong %placement=internode", "emulated", "mpich")
    *_, last = known.entries[where].samples["startup_latency"]
    before = known.entries[where].samples["startup_latency"][:-1]
    assert np.median(last) == pytest.approx(np.median(np.concatenate(before)), rel=0.05)


def test_the_command_writes_every_form_and_its_code_says_regressed(
    monkeypatch, capsys, tmp_path, references
):
    files = {kind: tmp_path / "out" / kind for kind in ("json", "junit", "markdown", "openmetrics")}
    options = [word for kind, path in files.items() for word in (f"--{kind}", str(path))]
    code, out, err = run(
        monkeypatch,
        capsys,
        tmp_path,
        references,
        "gate",
        *options,
        sessions=[campaign(110, steps=[(SLOWER, 1.2)], launches=10)],
    )
    assert (code, err) == (1, "")
    headline, session, *_ = out.splitlines()
    assert not lacking(headline, "regressed: ", "2 regressed, 38 ok")
    assert not lacking(session, "00000110-campaign", "lab")
    assert all(path.stat().st_size for path in files.values())
    assert " ok " not in out.split("\n", 1)[1]


def test_where_a_level_moved_since_the_baseline_is_told(monkeypatch, capsys, tmp_path, references):
    sessions = [
        campaign(
            number,
            steps=[(SLOWER, 1.03 if number >= 30 else 1)],
            **({"mtu": "eth0: 576"} if number >= 30 else {}),
        )
        for number in range(60)
    ]
    _, out, _ = run(monkeypatch, capsys, tmp_path, references, "gate", sessions=sessions)
    [line] = [line for line in out.splitlines() if line.startswith("history: startup_latency of")]
    assert not lacking(line, "emulated", "mpich", " +3.", "00000030", "-> eth0: 576")


@pytest.mark.parametrize(
    "arguments, code, message",
    [
        (["gate", "--since", "2030-01-01"], 2, "since 2030-01-01"),
        (["compare", "--since", "2030-01-01"], 2, "selection match nothing"),
        (["gate", "--since", "yesterday"], 3, "give seconds since 1970"),
        (["gate", "--session", "nope"], 3, "no session nope"),
        (["baseline", "record", "--system", "lab", "--session", "nope"], 3, "no session nope"),
        (["baseline", "show", "--system", "elsewhere"], 2, "elsewhere has no baseline"),
        (["baseline", "show", "--system", "lap"], 2, "did you mean lab?"),
        (["baseline", "record", "--system", "lap"], 3, "did you mean lab?"),
        (["history", "--system", "lap"], 3, "did you mean lab?"),
        (["report", "--system", "lap"], 3, "did you mean lab?"),
        (["gate", "--system", "lap"], 3, "did you mean lab?"),
        (["duet", "--system", "lab"], 3, "no duet"),
    ],
)
def test_errors_have_their_codes(
    monkeypatch, capsys, tmp_path, references, arguments, code, message
):
    found, _, err = run(
        monkeypatch, capsys, tmp_path, references, *arguments, sessions=[campaign(111)]
    )
    assert found == code and message in err


def described(directory: Path, text: str) -> None:
    """The lab's file as a site's own, with `text` in place of its bounds of expectations."""
    shipped = (CHECKOUT / "site-config/systems/lab.yaml").read_text()
    own = re.sub(r"      expected:\n(        .*\n)+", text, shipped)
    assert own != shipped
    directory.mkdir(exist_ok=True)
    (directory / "lab.yaml").write_text(own)


@pytest.fixture
def broken_gate(monkeypatch, capsys, tmp_path):
    """What the gate says where a text spoils the lab's file."""

    def gate(text: str, where: Path) -> str:
        described(tmp_path / "systems", text)
        monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", str(tmp_path / "systems"))
        calm = [campaign(111)]
        code, out, _ = run(monkeypatch, capsys, tmp_path, where, "gate", sessions=calm)
        assert code == 2
        return " ".join(out.split())

    return gate


@pytest.mark.parametrize(
    "text, message",
    [
        ("      expected: {link_rates: {most: 1, reason: x}}\n", "did you mean link_rate?"),
        ("      expected: {link_rate: {least: 2, most: 1, reason: x}}\n", "no possible value"),
        ("      expected: {link_rate: {most: 1 +, reason: x}}\n", "link_rate.most"),
        ("      expectd: {}\n", "did you mean expected?"),
    ],
)
def test_broken_expectations_leave_the_gate_incomplete(broken_gate, tmp_path, text, message):
    said = broken_gate(text, tmp_path)
    assert not lacking(said, "not held against expectations", "lab.yaml", message)


def test_broken_expectations_leave_other_commands_usable(
    monkeypatch, capsys, tmp_path, references, broken_gate
):
    said = broken_gate("  expected: [\n", references)
    assert not lacking(said, "not held against", "lab.yaml", "cannot be read as YAML")
    for command in (["compare"], ["report", "--output", str(tmp_path / "report.html")]):
        code, out, err = run(monkeypatch, capsys, tmp_path, references, *command, sessions=())
        assert code == 0, (out, err)


def test_a_system_without_a_file_is_judged_against_its_baseline(
    monkeypatch, capsys, tmp_path, references
):
    """As of another's ReFrame: no expectation is promised."""
    monkeypatch.setattr(site, "system_files", list)
    code, out, _ = run(
        monkeypatch, capsys, tmp_path, references, "gate", sessions=[campaign(100, launches=10)]
    )
    assert code == 0 and "no file describes the system" in " ".join(out.split())


def test_a_partition_that_the_file_lacks_is_said_not_to_be_held(monkeypatch, capsys, tmp_path):
    data = campaign(111)
    for case in data["runs"][0]["testcases"]:
        if case["partition"] == "native":
            case["partition"] = "bare"
    _, out, _ = run(monkeypatch, capsys, tmp_path, tmp_path, "gate", sessions=[data])
    words = "not held against expectations: bare with mpich, bare with openmpi, which the file"
    assert words in " ".join(out.split())


def test_a_first_session_is_held_against_expectations_alone(monkeypatch, capsys, tmp_path):
    code, out, _ = run(monkeypatch, capsys, tmp_path, tmp_path, "gate", sessions=[campaign(111)])
    assert not lacking(out, "no baseline", "no earlier session", "expectation")
    # The lab's links have no expectation, but its values bound each other.
    assert code == 0 and "24 ok" in out


def test_a_second_session_is_compared_with_the_first(monkeypatch, capsys, tmp_path):
    sessions = [campaign(111), campaign(112, steps=[(SLOWER, 2.0)])]
    report = tmp_path / "gate.json"
    code, out, _ = run(
        monkeypatch, capsys, tmp_path, tmp_path, "gate", "--json", str(report), sessions=sessions
    )
    judged = json.loads(report.read_text())["judged"]
    slower = [one for one in judged if one["verdict"] == "regressed"]
    assert code == 1 and slower and not lacking(out, "00000111-campaign", "no baseline", "25 %")
    assert {one["reference"] for one in slower} == {"session before"}
    assert all(one["change"] > 0.5 for one in slower)


def test_changes_are_not_confirmed_without_a_baseline(monkeypatch, capsys, tmp_path):
    """The exit code is that of the verdict all the same."""
    arguments = ["gate", "--confirm", "--json", str(tmp_path / "gate.json")]
    sessions = [campaign(111), campaign(112, steps=[(SLOWER, 2.0)])]
    code, out, err = run(monkeypatch, capsys, tmp_path, tmp_path, *arguments, sessions=sessions)
    assert code == 1 and not lacking(err, "lab", "no baseline", "nearmetal baseline record")
    assert "00000112-campaign" in out
    assert json.loads((tmp_path / "gate.json").read_text())["exit_code"] == 1


def test_a_baseline_grows_by_sessions_that_are_ok(monkeypatch, capsys, tmp_path):
    sessions = [campaign(1, launches=20)]
    record = ["baseline", "record", "--system", "lab"]
    code, out, err = run(monkeypatch, capsys, tmp_path, tmp_path, *record, sessions=sessions)
    assert code == 0 and not lacking(out, "1 session on one day", "--add"), err
    (tmp_path / "results.db").unlink()
    sessions += [campaign(2), campaign(3, steps=[(SLOWER, 2.0)])]
    code, out, err = run(
        monkeypatch, capsys, tmp_path, tmp_path, *record, "--add", sessions=sessions
    )
    assert code == 0, err
    assert not lacking(out, "00000003-campaign is left out", "regressed", "from 2 sessions")
    known = baseline.load("lab", tmp_path)
    samples = [one for entry in known.entries.values() for one in entry.samples.values()]
    assert {len(sessions) for sessions in samples} == {2}
    code, _, err = run(monkeypatch, capsys, tmp_path, tmp_path, *record, "--add", sessions=sessions)
    assert code == 2 and not lacking(err, "no session to add", "00000003-campaign")


def test_add_leaves_out_a_session_that_failed_and_is_ok_by_fresh_repeats(
    monkeypatch, capsys, tmp_path
):
    """ReFrame failed a case by its reference, and the gate's fresh repeats cleared it."""
    failed = campaign(2)
    failed["runs"][0]["testcases"][0] |= {
        "result": "fail",
        "fail_phase": "performance",
        "fail_reason": "performance error: \n    failed to meet reference(s): startup_latency=9 us",
    }
    sessions = [campaign(1, launches=20), failed, campaign(3)]
    record = ["baseline", "record", "--system", "lab"]
    recorded = [*record, "--session", "00000001"]
    assert run(monkeypatch, capsys, tmp_path, tmp_path, *recorded, sessions=sessions)[0] == 0
    added = [*record, "--add"]
    code, out, err = run(monkeypatch, capsys, tmp_path, tmp_path, *added, sessions=sessions)
    assert code == 0 and "from 2 sessions" in out, err
    said = "session 00000002-campaign is left out: it failed: pingpong %placement=internode on"
    assert not lacking(out, said, "startup_latency=9 us")


def test_baseline_commands_from_recording_to_a_changed_system(monkeypatch, capsys, tmp_path):
    sessions = [
        *(campaign(number) for number in range(13)),
        only(campaign(13), lambda case: case["environ"] == "mpich"),
    ]
    code, out, err = run(
        monkeypatch,
        capsys,
        tmp_path,
        tmp_path,
        "baseline",
        "record",
        "--system",
        "lab",
        sessions=sessions,
    )
    assert (
        code == 2 and "5 samples in 1 sessions" in err
    )  # the newest holds other cases than those before
    chosen = [word for number in range(1, 13) for word in ("--session", f"{number:08d}")]
    code, out, _ = run(
        monkeypatch,
        capsys,
        tmp_path,
        tmp_path,
        "baseline",
        "record",
        "--system",
        "lab",
        *chosen,
        sessions=(),
    )
    assert code == 0 and not lacking(out, "6 cases", "40 variables", "12 sessions")
    code, out, _ = run(
        monkeypatch, capsys, tmp_path, tmp_path, "baseline", "show", "--system", "lab", sessions=()
    )
    assert code == 0 and len(out.splitlines()) == 42
    code, out, _ = run(
        monkeypatch, capsys, tmp_path, tmp_path, "baseline", "check", "--system", "lab", sessions=()
    )
    assert code == 0 and "valid" in out
    (tmp_path / "results.db").unlink()
    code, out, _ = run(
        monkeypatch,
        capsys,
        tmp_path,
        tmp_path,
        "baseline",
        "check",
        "--system",
        "lab",
        "--days",
        "-1",
        sessions=[campaign(20, kernel="7.0.0")],
    )
    assert code == 2 and "and is 7.0.0" in out and "0 days ago" in out and "record it anew" in out


def test_an_alarm_that_does_not_come_again_is_none(references):
    data = campaign(113, steps=[(SLOWER, 1.2)], launches=5)
    report = judged(references, data)
    [one] = changed(report)
    calm = {(*one.key, one.variable): [one.baseline * (1 + 0.01 * (-1) ** n) for n in range(10)]}
    again = [
        verdict
        for verdict in judged(references, data, fresh=calm).verdicts
        if verdict.variable == one.variable and verdict.key == one.key
    ]
    assert again[0].name == "ok" and again[0].repeats == 15
    worse = {(*one.key, one.variable): [one.baseline * (1.2 + 0.01 * (-1) ** n) for n in range(10)]}
    [verdict] = changed(judged(references, data, fresh=worse))
    assert verdict.change == pytest.approx(0.2, abs=0.03)


def test_reframe_that_fails_again_is_incomplete(monkeypatch, capsys, tmp_path, references):
    code, _, err = run(
        monkeypatch,
        capsys,
        tmp_path,
        references,
        "gate",
        "--confirm",
        "--reframe",
        f'{sys.executable} -c "exit(1)"',
        sessions=[campaign(115, steps=[(SLOWER, 1.2)])],
    )
    assert code == 2 and "not be measured again" in err
    code, _, err = run(
        monkeypatch,
        capsys,
        tmp_path,
        references,
        "gate",
        "--confirm",
        "--reframe",
        "no-such-program",
        sessions=(),
    )
    assert code == 2 and "no-such-program cannot be started" in err


def test_a_confirmation_is_stored_where_its_session_is(monkeypatch, capsys, tmp_path, references):
    """Whatever the database of a run without settings is; the report is beside it."""
    words = ("gate", "--confirm", "--reframe", "sh -c 'env | grep ^RFM_; false'")
    slow = [campaign(115, steps=[(SLOWER, 1.2)])]
    code, _, err = run(monkeypatch, capsys, tmp_path, references, *words, sessions=slow)
    assert code == 2 and f"RFM_SQLITE_DB_FILE={tmp_path}/results.db\n" in err
    assert f"RFM_REPORT_FILE={tmp_path}/reports/run-report-{{sessionid}}.json" in err


def ran_on(host: str, **more) -> results.Session:
    data = campaign(116)
    data["session_info"] |= {"hostname": host, "workdir": "/srv/checkout", **more}
    return results.parse_session(data, "here")


@pytest.mark.skipif(shutil.which("sbatch") is not None, reason="this host is a login node itself")
def test_a_session_of_the_lab_is_confirmed_in_the_lab_without_being_told(monkeypatch, tmp_path):
    for name in rerun.PASSED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("RFM_PREFIX", "/srv/prefix")
    database = results.Database(tmp_path / "results.db")
    assert rerun.reframe_of(ran_on("login"), database) == [
        sys.executable,
        "-P",
        "-m",
        "nearmetal.lab",
        "exec",
        "env",
        "RFM_PREFIX=/srv/prefix",
        f"RFM_SQLITE_DB_FILE={database}",
        f"RFM_REPORT_FILE={tmp_path}/reports/run-report-{{sessionid}}.json",
        "reframe",
    ]
    assert rerun.reframe_of(ran_on("login17.cluster"), database) == ["reframe"]
    assert rerun.reframe_of(ran_on(""), database) == ["reframe"]


def test_confirm_says_how_it_starts_reframe_and_where_the_session_ran(
    monkeypatch, capsys, tmp_path, references
):
    slow = campaign(117, steps=[(SLOWER, 1.2)])
    slow["session_info"]["hostname"] = "login17"
    monkeypatch.setenv("PATH", str(tmp_path))
    words = ("gate", "--confirm")
    code, out, err = run(monkeypatch, capsys, tmp_path, references, *words, sessions=[slow])
    assert code == 2 and "started by `reframe`" in out and "--reframe" in out
    assert "login17" in err and "--reframe" in err


def test_help_of_every_command_teaches(monkeypatch, capsys):
    for words in (
        [],
        ["gate"],
        ["baseline"],
        ["baseline", "record"],
        ["baseline", "check"],
        ["baseline", "show"],
        ["compare"],
    ):
        monkeypatch.setattr("sys.argv", ["nearmetal", *words, "--help"])
        assert main() == 0 and "exit codes: 0 clean" in capsys.readouterr().out


def test_an_unforeseen_error_leaves_no_clean_file_either(monkeypatch, capsys, tmp_path, references):
    def unreadable(system):
        raise PermissionError("baselines: permission denied")

    monkeypatch.setattr(campaigns, "baseline_of", unreadable)
    file, told = tmp_path / "gate.json", tmp_path / "told.json"
    file.write_text("clean")
    words = ("gate", "--json", str(file), "--alert", f"tee {told}")
    code, _, err = run(monkeypatch, capsys, tmp_path, references, *words, sessions=[campaign(115)])
    assert code == 3 and "permission denied" in err
    document = json.loads(file.read_text())
    assert document["exit_code"] == 3 and "permission denied" in document["judged"][0]["reason"]
    assert json.loads(told.read_text()) == document


def test_one_session_by_two_names_is_recorded_once(monkeypatch, capsys, tmp_path):
    words = ["baseline", "record", "--session", "00000001", "--session", "00000001-campaign"]
    one = [campaign(1, launches=20)]
    code, out, err = run(monkeypatch, capsys, tmp_path, tmp_path, *words, sessions=one)
    assert code == 0 and "from 1 session" in out, err
    assert baseline.load("lab", tmp_path).sessions


@pytest.mark.parametrize(
    "words, said",
    [
        (["--session", "00000001", "--since", "2025-01-01"], "--session and --since"),
        (["--add", "--since", "2025-01-01"], "--add and --since"),
        (["--output", "x"], "--as reframe"),
        (["--only-bounds", "--session", "00000001"], "--only-bounds"),
        (["--as", "reframe", "--session", "nope", "--session", "00000001"], "nope"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_an_option_of_record_that_another_makes_void_is_refused(
    monkeypatch, capsys, tmp_path, words, said
):
    code, _, err = run(
        *(monkeypatch, capsys, tmp_path, tmp_path, "baseline", "record"),
        *words,
        sessions=[campaign(1, launches=20)],
    )
    assert code == 3 and said in err, err


def test_since_reads_a_date_without_hyphens():
    assert seconds("20261121") == datetime(2026, 11, 21).timestamp()
    assert seconds("1790000000.5") == 1790000000.5


@pytest.mark.parametrize(
    "words, said",
    [
        (["--most", "9"], "fewer than 10 repeats"),
        (["--rounds", "0"], "1 or more"),
        (["--within", "0m"], "no time"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, list) else "",
)
def test_a_bound_that_allows_nothing_is_refused(monkeypatch, capsys, tmp_path, words, said):
    code, _, err = run(
        *(monkeypatch, capsys, tmp_path, tmp_path, "gate", "--confirm"),
        *words,
        sessions=[campaign(1)],
    )
    assert code == 3 and said in err


@pytest.mark.parametrize(
    "interval, change",
    [
        ((0.031, 0.12), "at least +3.1 %"),
        ((-0.12, -0.031), "at least -3.1 %"),
        ((0.0, 0.12), "more than 0"),
    ],
)
def test_a_change_near_the_limit_is_shown_as_at_least_so_much(interval, change):
    verdict = Verdict(
        *("tcp", "native", "gnu", "latency", "us", "regressed"),
        change=0.08,
        interval=interval,
        selected=True,
    )
    assert change in verdicts.row(verdict)
    assert change not in verdicts.row(replace(verdict, selected=False))
