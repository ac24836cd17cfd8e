"""ReFrame's own options in the lab: what they run, how their results are stored and judged, and
that a run of nothing fails."""

import json
import os
import re
import sqlite3
import subprocess
import sys

import pytest
import yaml

from nearmetal.judge import rerun
from nearmetal.model.remeasure import Remeasure
from nearmetal.results import Database, confirmations, load_session, sessions
from tests.support.lab import fresh_prefix
from tests.support.paths import CHECKOUT
from tests.support.said import lacking

#: The shortest check that runs on one node.
OSNOISE = ["--system", "lab:native", "-n", "^osnoise$"]
#: ... and a repeat that is short.
QUICK = ["-S", "osnoise.seconds=0.2"]


def run(lab, prefix, *options, **environment):
    """A run that is measured on a busy host too, which takes the processors' time from osnoise."""
    described = (CHECKOUT / "site-config" / "systems" / "lab.yaml").read_text()
    key = "      expected:\n"
    assert described.count(key) == 1
    lifted = f"{key}        time_lost: {{most: 100, reason: a test runs on any host}}\n"
    (prefix / "systems").mkdir(exist_ok=True)
    (prefix / "systems" / "lab.yaml").write_text(described.replace(key, lifted))
    done = lab.reframe(
        "-r",
        *QUICK,
        *options,
        prefix=prefix,
        NEARMETAL_SYSTEMS_PATH=str(prefix / "systems"),
        **environment,
    )
    # Beside other work, a case may lie beyond the references of its baseline. It is measured then.
    failed = set(re.findall("Failing phase: (.*)", done.stdout))
    allowed = {"performance"} if "RFM_REFERENCE_PREFIX" in environment else set()
    assert failed <= allowed and bool(done.returncode) == bool(failed), done.stdout
    return load_session(prefix / "results.db")


def nearmetal(prefix, *words):
    return subprocess.run(
        [sys.executable, "-m", "nearmetal", *words, "--database", prefix / "results.db"],
        env={**os.environ, "RFM_REFERENCE_PREFIX": str(prefix)},
        capture_output=True,
        check=False,
        text=True,
        cwd=CHECKOUT,
    )


@pytest.fixture(scope="module")
def recorded(lab):
    """A prefix with a baseline of twenty launches, all of one session: four in each of five clones
    of `--repeat`."""
    prefix = fresh_prefix(lab, "reframe_options")
    session = run(lab, prefix, *OSNOISE, "-S", "osnoise.repeats=4", "--repeat=5")
    [case] = session.cases
    assert (case.key, case.runs) == (("osnoise", "native", "gnu"), 5)
    assert {len(value.samples) for value in case.values} == {20}
    done = nearmetal(prefix, "baseline", "record", "--system", "lab", "--leave-out-noisy")
    assert done.returncode == 0, done.stderr
    return prefix


def stored_references(prefix) -> set[tuple]:
    """Variable and reference of each case of the newest session, as ReFrame judged it."""
    with sqlite3.connect(prefix / "results.db") as connection:
        order = "SELECT json_blob FROM sessions ORDER BY session_start_unix DESC LIMIT 1"
        [blob] = connection.execute(order).fetchone()
    return {
        (key.rsplit(":", 1)[-1], entry[1])
        for reframes_run in json.loads(blob)["runs"]
        for case in reframes_run["testcases"]
        for key, entry in case["perfvalues"].items()
    }


@pytest.mark.whole
@pytest.mark.ci
def test_clones_and_reruns_are_judged_as_one_case_with_its_baselines_references(lab, recorded):
    baseline = yaml.safe_load((recorded / "lab.yaml").read_text())["osnoise"]["lab:native"]["gnu"]
    expected = {(name, entry[0]) for name, entry in baseline.items()}
    for options in (["--repeat=2"], ["--reruns=1"]):
        session = run(
            lab,
            recorded,
            *OSNOISE,
            *options,
            "-S",
            "repeats=3",
            RFM_REFERENCE_PREFIX=str(recorded),
        )
        [case] = session.cases
        assert (case.key, case.runs) == (("osnoise", "native", "gnu"), 2)
        assert {len(value.samples) for value in case.values} == {6}
        assert stored_references(recorded) == expected
        judged = nearmetal(recorded, "gate", "--all")
        assert judged.returncode in (0, 1, 2) and "incomplete" not in judged.stdout, judged.stdout


@pytest.mark.whole
@pytest.mark.ci
def test_distribute_gives_a_case_a_node_which_every_command_shows(lab, recorded):
    session = run(
        lab,
        recorded,
        *OSNOISE,
        "-n",
        "^tcp$",
        "--distribute",
        RFM_REFERENCE_PREFIX=str(recorded),
    )
    assert {(case.place, *case.facts["nodes"]) for case in session.cases} == {
        ("native@native1", "native1"),
        ("native@native2", "native2"),
    }
    # A job of two nodes is none of one node.
    assert {place for _, place, _ in session.skipped} == {"native@native1", "native@native2"}
    compared = nearmetal(recorded, "compare", "--columns", "native")
    # Beside other work a node may lie beyond the baseline's reference. Then `compare` says so.
    assert compared.returncode == ("beyond its reference" in compared.stderr), compared.stderr
    judged = nearmetal(recorded, "gate", "--all")
    page = recorded / "report.html"
    reported = nearmetal(recorded, "report", "--output", str(page))
    assert reported.returncode == 0, reported.stderr
    for text in (compared.stdout, judged.stdout, page.read_text()):
        assert "native@native1" in text and "native@native2" in text
    assert "no baseline" not in judged.stdout
    # One node's case, measured again: on that node, and no other.
    words = [sys.executable, "-m", "nearmetal.lab", "exec", "env"]
    words += [f"RFM_PREFIX={recorded}", f"RFM_REFERENCE_PREFIX={recorded}", "reframe"]
    where = "osnoise", "native@native2", "gnu"
    database = Database(recorded / "results.db")
    again = rerun.measure(session, {where: Remeasure(2)}, database, words)
    assert {len(value.samples) for value in again[where].values} == {2}
    [fresh] = sessions(recorded / "results.db", kinds=("confirmation",))
    assert [case.where for case in fresh.cases] == [where]


@pytest.mark.whole
@pytest.mark.ci
def test_one_run_measures_cases_again_each_on_its_nodes(lab, prefix):
    session = run(lab, prefix, "--system", "lab", "-n", "^osnoise$", "-S", "repeats=1")
    nodes = {case.where: tuple(case.facts["nodes"]) for case in session.cases}
    database = Database(prefix / "results.db")
    words = [sys.executable, "-m", "nearmetal.lab", "exec", "env", f"RFM_PREFIX={prefix}"]
    native, emulated = (("osnoise", partition, "gnu") for partition in ("native", "emulated"))
    wanted = {native: Remeasure(1, nodes[native]), emulated: Remeasure(2, (), nodes[emulated])}
    found = rerun.measure(session, wanted, database, [*words, "reframe"], other_nodes=True)
    assert set(found) == set(wanted) and confirmations(database, session) == []
    assert [len(found[where].values[0].samples) for where in wanted] == [1, 2]
    assert tuple(found[native].facts["nodes"]) == nodes[native]
    assert not set(found[emulated].facts["nodes"]) & set(nodes[emulated])


@pytest.mark.whole
def test_p_runs_a_case_for_each_value(lab, prefix):
    session = run(lab, prefix, *OSNOISE, "-P", "repeats=1,2")
    assert {case.check: len(case.values[0].samples) for case in session.cases} == {
        "osnoise %.repeats=1": 1,
        "osnoise %.repeats=2": 2,
    }


def test_p_reaches_what_a_check_derives_from_its_variables(lab, prefix):
    """The launches of a duet are the pairs that `-P` asks for."""
    done = lab(
        "exec",
        f"RFM_PREFIX={prefix} reframe --nocolor -c reframe_checks/duet --dry-run --system "
        "lab:native -n ^launch_duet -P pairs=2,4 -S environs=openmpi,mpich --keep-stage-files",
    )
    assert "Ran 2/2 test case(s)" in done.stdout, done.stdout
    scripts = [path.read_text() for path in (prefix / "stage").rglob("rfm_job.sh")]
    calls = sorted(
        sum(line.startswith("launch ") for line in text.splitlines()) for text in scripts
    )
    assert calls == [4, 8], scripts[0]


@pytest.mark.parametrize("options", [["--repeat=2"], ["--distribute=all"], ["-P", "repeats=1,2"]])
def test_a_dry_run_knows_the_options_too(lab, prefix, options):
    done = lab.reframe("--dry-run", *OSNOISE, *options, prefix=prefix)
    assert done.returncode == 0 and "Ran 2/2 test case(s)" in done.stdout, done.stdout
    assert "WARNING" not in done.stdout


@pytest.mark.parametrize(
    "options, environment, fix",
    [
        (["-r", "--system", "lab:native", "-n", "^pingpongg$"], {}, "correct the options"),
        (
            ["--dry-run", "--system", "lab:native", "-n", "^tcp$", "-x", "tcp"],
            {},
            "correct the options",
        ),
        (["-r", "--system", "lab:native", "-p", "mpick"], {}, "correct -p"),
        (["--dry-run", "--system", "generic"], {}, "with --system"),
        (["-r"], {"RFM_CONFIG_PATH": ""}, "set RFM_CONFIG_PATH"),
        (["-r", *OSNOISE, "--distribute=draining"], {}, "--distribute"),
    ],
    ids=["name", "excluded", "environment", "generic", "no configuration", "no node"],
)
def test_a_run_of_nothing_fails_and_says_what_to_do(lab, prefix, options, environment, fix):
    done = lab.reframe(*options, prefix=prefix, **environment)
    assert done.returncode == 1, done.stdout
    [line] = [line for line in done.stdout.splitlines() if line.startswith("ERROR")]
    assert not lacking(line, "no test case", fix)
    assert "PASSED" not in done.stdout and "Traceback" not in done.stdout


@pytest.mark.parametrize("others", ["", "reframe_checks"])
def test_checks_that_are_not_there_fail_the_run_and_are_named(lab, others):
    paths = f"-c {others} -c no_checks" if others else "-c no_checks"
    done = lab(
        "exec", f"reframe --nocolor {paths} --dry-run --system lab:native -n ^tcp", check=False
    )
    [line] = [line for line in done.stdout.splitlines() if line.startswith("ERROR")]
    assert done.returncode == 1 and "no_checks" in line and "correct -c" in line


def test_an_environment_without_features_fails_and_is_named(lab, prefix):
    system = yaml.safe_load((CHECKOUT / "site-config" / "systems" / "lab.yaml").read_text())
    system |= {"name": "site", "environments": [{"name": "bare", "features": []}]}
    system["partitions"] = [system["partitions"][0] | {"environs": ["bare"]}]
    path = prefix / "systems" / "site.yaml"
    path.parent.mkdir()
    path.write_text(yaml.safe_dump(system))
    for mine in (path, path.parent):
        os.chown(mine, prefix.stat().st_uid, prefix.stat().st_gid)
    done = lab.reframe(
        "-r", "--system", "site", prefix=prefix, NEARMETAL_SYSTEMS_PATH=str(path.parent)
    )
    assert done.returncode == 1, done.stdout
    assert "site (bare) has features" in done.stdout and "give it `features`" in done.stdout


def test_a_list_of_nothing_is_no_failure(lab, prefix):
    done = lab.reframe("-l", "--system", "lab:native", "-n", "^pingpongg$", prefix=prefix)
    assert done.returncode == 0 and "Found 0 check(s)" in done.stdout
