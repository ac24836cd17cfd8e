"""Checks of others, run by ReFrame on this machine, and gated."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from nearmetal import results
from nearmetal.checks.recorded import Recorded
from nearmetal.model import remeasure
from tests.support.evidence import USAGE, WHOLE, cpu, judged, snapshot
from tests.support.marked import marked
from tests.support.paths import CHECKOUT
from tests.support.reframe import REFRAME

CHECKS = CHECKOUT / "tests" / "support" / "foreign" / "checks.py"
MEASURED = CHECKS.with_name("measured.py")
EXPECTED = CHECKS.with_name("expected.py")


def site_in(directory: Path):
    """Runs programs whose results and baselines are in a directory, with ReFrame's own system."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "NEARMETAL_"))}
    own |= {
        "RFM_ENABLE_RESULTS_STORAGE": "1",
        "RFM_PREFIX": str(directory),
        "RFM_SQLITE_DB_FILE": str(directory / "results.db"),
        "RFM_REPORT_FILE": str(directory / "reports" / "run-report-{sessionid}.json"),
        "RFM_REFERENCE_PREFIX": str(directory / "baselines"),
    }

    def run(*words, **environment) -> subprocess.CompletedProcess:
        return subprocess.run(
            list(map(str, words)),
            env={**own, **environment},
            cwd=directory,
            text=True,
            capture_output=True,
        )

    return run


@pytest.fixture
def site(tmp_path):
    return site_in(tmp_path)


def reframe(*words, checks=CHECKS) -> list:
    return [*REFRAME, "-c", checks, "-r", *words]


def nearmetal(*words) -> list:
    return [sys.executable, "-m", "nearmetal", *words]


@pytest.mark.whole
def test_a_sabotage_of_a_check_of_others_is_found_and_confirmed_by_reruns(site, tmp_path):
    """Fresh launches do not show what is over by then, and show again what is not."""
    done = site(*reframe("-n", "loops", "--reruns=19"))
    assert done.returncode == 0, done.stdout
    recorded = site(*nearmetal("baseline", "record", "--leave-out-noisy"))
    assert recorded.returncode == 0, recorded.stderr
    again = shlex.join([*map(str, REFRAME), "-c", str(CHECKS)])
    gate = nearmetal("gate", "--confirm", "--reframe", again, "--json", tmp_path / "gate.json")
    site(*reframe("-n", "loops", "--reruns=6"), SLOWER="6")
    well = site(*gate)
    assert well.returncode != 1 and "vanished: loops" in well.stdout, well.stdout + well.stderr
    site(*reframe("-n", "loops", "--reruns=6"), SLOWER="6")
    slow = site(*gate, SLOWER="6")
    assert slow.returncode == 1, slow.stdout + slow.stderr
    [one] = json.loads((tmp_path / "gate.json").read_text())["judged"]
    assert (one["variable"], one["verdict"]) == ("speed", "regressed") and one["repeats"] > 7
    assert slow.stdout.count("no facts of the nodes and no evidence: loops") == 1


def test_expected_failures_leave_the_rest_to_the_baseline_and_the_gate(site):
    """ReFrame passes, so the gate does; it fails for an unexpected pass, so the gate does too."""
    failing = reframe("-n", "as_expected", "--reruns=19", checks=EXPECTED)
    assert site(*failing).returncode == 0
    recorded = site(*nearmetal("baseline", "record", "--leave-out-noisy"))
    assert recorded.returncode == 0, recorded.stderr
    words = ["gate", "--only", "slow_as_expected*", "--all"]
    assert "xfail" in site(*nearmetal(*words)).stdout
    assert site(*reframe("-n", "after_all", checks=EXPECTED)).returncode == 1
    passed = site(*nearmetal("gate", "--all"))
    assert passed.returncode == 2 and "xpass" in passed.stdout, passed.stdout


def only_case(database) -> results.Case:
    [case] = results.load_session(database).cases
    return case


#: Each awk that a node may have.
AWKS = {"mawk": ("mawk",), "gawk": ("gawk",), "busybox": ("busybox", "awk")}


def in_german(directory: Path, awk: str) -> dict[str, str]:
    """Variables of a user whose language has a decimal comma, and whose awk is this one."""
    command = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(directory / "de_DE.UTF-8")]
    subprocess.run(command, check=True)
    (directory / "awk").write_text(f'#!/bin/sh\nexec {" ".join(AWKS[awk])} "$@"\n')
    (directory / "awk").chmod(0o755)
    path = f"{directory}:{os.environ['PATH']}"
    return {"LOCPATH": str(directory), "LC_ALL": "de_DE.UTF-8", "PATH": path}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """Cases by check after a run of checks with the mixin, in German."""
    directory = tmp_path_factory.mktemp("mixed")
    settings = ["-S", "repeats=4", "-S", "loops.failing=0"]
    words = reframe("-n", "^loops$|older", *settings, checks=MEASURED)
    done = site_in(directory)(*words, **in_german(directory, "mawk"))
    assert done.returncode == 0, done.stdout
    return {case.check: case for case in results.load_session(directory / "results.db").cases}


def test_the_mixin_gives_a_check_of_others_fresh_launches_facts_and_evidence(mixed):
    """Its sanity function allows one line of output, and a launch finds no other one's file."""
    case = mixed["loops"]
    values = {value.variable: value for value in case.values}
    assert len(values["speed"].samples) == 4 and values["turns"].samples == (3, 3, 3, 3)
    assert not case.foreign and len(case.evidence) >= 4 and case.evidence[0]
    assert case.facts["kernel"] and case.facts["nodes"]
    assert case.facts["settings"] == "failing=0"


def test_no_locale_changes_what_a_job_records(mixed):
    for case in mixed.values():
        assert case.evidence[0] and not case.unknown_evidence


@pytest.mark.whole
@pytest.mark.parametrize("awk", ["gawk", "busybox"])
def test_no_locale_changes_what_a_job_records_by_another_awk(site, tmp_path, awk):
    words = reframe("-n", "^loops$", "-S", "repeats=2", checks=MEASURED)
    done = site(*words, **in_german(tmp_path, awk))
    assert done.returncode == 0, done.stdout
    case = only_case(tmp_path / "results.db")
    assert case.evidence[0] and not case.unknown_evidence


def test_the_mixin_reads_variables_and_sanity_in_the_older_way(mixed):
    [case] = [case for name, case in mixed.items() if "older" in name]
    [speed] = case.values
    assert speed.unit == "loops/ms" and len(speed.samples) == 4


def test_one_launch_that_fails_fails_the_case(site, tmp_path):
    done = site(
        *reframe(
            "-n",
            "^loops$",
            "-S",
            "repeats=3",
            "-S",
            "spare_repeats=0",
            "-S",
            "failing=2",
            checks=MEASURED,
        )
    )
    assert done.returncode == 1 and "'^2$'" in done.stdout, done.stdout
    assert only_case(tmp_path / "results.db").failure


def test_the_mixin_measures_again_what_the_gate_asks_for(site, tmp_path):
    key = "loops", "default", "builtin", ""
    asked = f"again={remeasure.write({key: remeasure.Remeasure(2)})}"
    site(*reframe("-n", "^loops$", "-S", asked, checks=MEASURED))
    case = only_case(tmp_path / "results.db")
    assert {len(value.samples) for value in case.values} == {2}
    other = remeasure.write({("others", *key[1:]): remeasure.Remeasure(2)})
    skipped = site(*reframe("-n", "^loops$", "-S", f"again={other}", checks=MEASURED))
    assert "it is not measured again" in skipped.stdout


def test_reframe_judges_by_references_from_history(site, tmp_path):
    site(*reframe("-n", "loops", "--reruns=9"))
    written = site(*nearmetal("baseline", "record", "--since", "2026-01-01", "--as", "reframe"))
    assert written.returncode == 0, written.stderr
    path = tmp_path / "baselines" / "generic.references.yaml"
    own = 'reference = {"*": {"speed": (1000, -0.999, None, "loops/ms")}}'
    changed = CHECKS.read_text().replace(own, f"reference = {{'$ref': '{path}'}}")
    assert str(path) in changed
    (tmp_path / "src").symlink_to(CHECKS.with_name("src"))
    (tmp_path / "checks.py").write_text(changed)
    again = reframe("-n", "loops", checks=tmp_path / "checks.py")
    slow = site(*again, SLOWER="30")
    assert slow.returncode == 1 and "speed=" in slow.stdout, slow.stdout


def test_the_mixin_asks_for_no_more_time_than_the_partition_allows(tmp_path):
    """Such a job waits without end in Slurm: EESSI's LAMMPS asks for 30 minutes a launch."""
    system = yaml.safe_load((CHECKOUT / "site-config/lab/systems/suites.yaml").read_text())
    node = system["partitions"][0]
    node["extras"] |= {"max_time_limit": "4m", "max_pending_time": "2m"}
    (tmp_path / "suites.yaml").write_text(yaml.safe_dump(system))
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "NEARMETAL_"))}
    own |= {
        "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
        "RFM_PREFIX": str(tmp_path),
        "RFM_RESOLVE_MODULE_CONFLICTS": "0",
        "NEARMETAL_SYSTEMS_PATH": str(tmp_path),
    }
    words = ["-c", MEASURED, "--dry-run", "-n", "^loops$", "--system", "suites:native"]
    done = subprocess.run(
        [*REFRAME, *map(str, words)], env=own, cwd=tmp_path, text=True, capture_output=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    [script] = tmp_path.glob("stage/**/rfm_job.sh")
    assert "#SBATCH --time=0:4:0\n" in script.read_text()


@pytest.mark.parametrize(
    "asked, lines",
    [
        ({}, []),
        ({"LC_ALL": "de_DE.UTF-8", "OTHER": "1"}, ["export LC_ALL=de_DE.UTF-8"]),
        ({"LANG": "de_DE.UTF-8"}, ["unset LC_ALL"]),
    ],
)
def test_a_launch_keeps_the_locale_that_its_check_asks_for(asked, lines):
    check = SimpleNamespace(env_vars=dict(asked))
    assert Recorded.use_the_c_locale(check) == lines
    assert check.env_vars == {**asked, "LC_ALL": "C"}


@pytest.mark.parametrize("awk", AWKS)
def test_each_awk_decides_alike(tmp_path, awk):
    used = cpu(busy=320, steal=80, idle=200)
    parts = {
        "facts": marked(WHOLE),
        "before": marked(snapshot(1.25, **cpu(idle=0))),
        "after": marked(snapshot(3.75, **used)),
        "output": "# nearmetal repeat: 1\n" + USAGE.format("n1", 1.5, 1.5, 0.5),
    }
    found = judged(tmp_path, "waited=0.1 stolen=0.1", AWKS[awk], **parts)
    assert found == judged(tmp_path, "waited=0.1 stolen=0.1", **parts)
    assert found[0] == 1 and "disturbed 1 n1 waited 0.25 0.1\n" in found[1]
