"""Another site's configuration with our checks, and ours with checks of others: a real ReFrame."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from nearmetal import results
from tests.support.paths import CHECKOUT

OURS = CHECKOUT / "reframe_checks"
SUPPORT = CHECKOUT / "tests" / "support"
#: In the manner of public suites, and with nothing of Nearmetal's.
THEIRS = SUPPORT / "sites" / "settings.py"
START = "from reframe.frontend.cli import main; main()"
#: STREAM for a second. One thread: the tests beside this one use the other core.
SHORT = (
    *("-S", "repeats=2", "-S", "stream.threads=1"),
    *("-S", "stream.elements=200000", "-S", "stream.ntimes=2"),
)


@pytest.fixture
def reframe(tmp_path):
    """Runs ReFrame in a directory of its own with a site's configuration."""
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "NEARMETAL_"))}
    own |= {
        "RFM_CONFIG_PATH": str(THEIRS.parent),
        "HOME": str(tmp_path),  # of ReFrame's topology
        "SCRATCH": str(tmp_path),
        "PYTHONPATH": str(CHECKOUT),
        "RFM_ENABLE_RESULTS_STORAGE": "1",
        "RFM_PREFIX": str(tmp_path / "results"),
        "RFM_REFERENCE_PREFIX": str(tmp_path / "baselines"),
        "RFM_RESOLVE_MODULE_CONFLICTS": "0",
        "RFM_SQLITE_DB_FILE": str(tmp_path / "results.db"),
    }

    def run(*words, checks=OURS, start=START, **environment):
        done = subprocess.run(
            [sys.executable, "-c", start, "--nocolor", "-c", str(checks), *words],
            env={**own, **environment},
            cwd=tmp_path,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        return done.returncode, done.stdout

    return run


def cases(text: str) -> set[tuple[str, str]]:
    """(check, environment) of each case that passed."""
    found = re.findall(r"^\[ +OK \] \([\d /]+\) (\S+)[^@]*@\S+?\+(\S+)$", text, re.MULTILINE)
    assert found, text
    return set(found)


# Another site's configuration, unchanged


def test_environments_are_chosen_by_the_sites_own_features_and_java_has_its_launcher(reframe):
    """128 cores a node by `processor`: two nodes hold 256 processes."""
    code, out = reframe("--dry-run", "--system=centre:normal")
    assert code == 0, out
    ran = cases(out)
    assert {("launch", "prg-gnu"), ("stream", "prg-gnu"), ("osnoise", "prg-gnu")} <= ran
    assert {("pingpong", "java"), ("collectives", "java"), ("npb", "java")} <= ran
    assert not [check for check, environ in ran if environ == "builtin"]
    assert "P: launch_256:" in out and "P: launch_512:" not in out
    told = [line for line in out.splitlines() if line.startswith("Another configuration: ")]
    assert len(told) == 2 and "describes it" in told[0] and "--exec-policy=serial" in told[1]


def test_environments_without_features_are_chosen_by_their_compilers(reframe):
    code, out = reframe("--dry-run", "--system=modules", "-n", "^(launch|osnoise|stream%|npb)")
    assert code == 0, out
    ran = cases(out)
    assert {("launch", "vendor20-mpi"), ("stream", "default"), ("osnoise", "default")} <= ran
    assert not {("launch", "default"), ("osnoise", "vendor20-mpi")} & ran
    assert "vendor20-mpi (mpi: its compiler is mpiicc)" in out and "P: launch_64:" in out


def test_a_partition_whose_cores_nobody_knows_fails_with_the_fix(reframe):
    code, out = reframe("--dry-run", "--system=centre:unknown", "-n", "launch")
    assert code == 1 and "nothing says how many cores a node of centre:unknown has" in out, out
    assert all(word in out for word in ("Fix: ", "`processor`", "remote_detect"))


def test_this_host_has_one_node_and_the_cores_that_reframe_finds(reframe, tmp_path):
    partition = {"name": "here", "scheduler": "local", "launcher": "mpirun", "environs": ["mpi"]}
    system = {"name": "host", "hostnames": [], "partitions": [partition]}
    environments = [{"name": "mpi", "cc": "mpicc"}]
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"systems": [system], "environments": environments}))
    words = ("--dry-run", "--system=host", "-n", "^(launch|pingpong)")
    code, out = reframe(*words, RFM_CONFIG_PATH=str(tmp_path))
    assert code == 0 and "P: launch_1:" in out, out
    assert "needs 2 nodes, but host:here has 1 (its scheduler is local)" in out


def test_the_launcher_local_starts_one_process(reframe):
    code, out = reframe("--dry-run", "--system=centre:login", "-n", "pingpong%placement=intranode")
    assert code == 0 and "has the launcher local, which starts one" in out, out


def test_a_run_passes_without_a_baseline_and_says_so_once(reframe, tmp_path):
    words = ("-r", "--system=laptop", "--exec-policy=serial", "-n", "^stream%", *SHORT)
    code, out = reframe(*words)
    assert code == 0 and out.count("a value passes without a baseline") == 1, out
    session = results.load_session(tmp_path / "results.db")
    assert {case.check.split()[0] for case in session.cases} == {"stream"}
    assert all(case.values and not case.unreferenced for case in session.cases)
    # Of a system with a baseline, as ever.
    baseline = tmp_path / "baselines" / "laptop.yaml"
    baseline.parent.mkdir()
    baseline.write_text("baseline: {format: 2}\n")
    code, out = reframe("--dry-run", "--system=laptop", "-n", "osnoise")
    assert code == 1 and f"{baseline} has no reference for " in out, out


def test_reframes_own_system_is_no_sites(reframe):
    """A host that no configuration knows gets ReFrame's `generic`: nothing runs there unasked."""
    code, out = reframe("-r", "--system=generic", "-n", "osnoise")
    assert code == 1 and "the system is ReFrame's own 'generic'" in out, out


# The checks without their package


@pytest.mark.parametrize("path", ["checks", "checks/tcp.py", "checks/duet"])
def test_a_copy_of_the_checks_alone_names_what_it_lacks(reframe, tmp_path, path):
    shutil.copytree(OURS, tmp_path / "checks")
    start = f"import sys; sys.modules['nearmetal'] = None; {START}"
    code, out = reframe("-r", "--system=laptop", checks=path, start=start)
    assert code == 1 and "does not find the package nearmetal" in out, out
    assert str(tmp_path / "checks") in out and "Fix: " in out and "PASSED" not in out


# Our configuration with checks of others, from any directory


@pytest.fixture
def ours(tmp_path):
    """Variables for our configuration with a system of this host."""
    extras = {"link_class": "native", "link_speed_gbps": 10, "hypervisor": "none"}
    system = {
        "name": "here",
        "hostnames": [],
        "modules_system": "nomod",
        "partitions": [
            {
                "name": "host",
                "scheduler": "local",
                "launcher": "local",
                "environs": ["gnu"],
                "features": ["cpu"],
                "extras": {**extras, "no_baseline": "it is new"},
            }
        ],
    }
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems" / "here.yaml").write_text(yaml.safe_dump(system))
    return {
        "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
        "NEARMETAL_SYSTEMS_PATH": str(tmp_path / "systems"),
    }


def test_checks_of_others_run_with_our_configuration(reframe, ours):
    code, out = reframe("-r", "--system=here", checks=SUPPORT / "foreign" / "omp.py", **ours)
    assert code == 0 and "P: count: 2 threads" in out and "@here:host+gnu" in out, out
    assert "Another configuration" not in out


@pytest.mark.parametrize("link", ["", "linked"])
def test_our_checks_are_found_from_any_directory(reframe, ours, tmp_path, link):
    """Beside checks of others, by a relative path and by a symbolic link."""
    if link:
        (tmp_path / link).symlink_to(OURS)
    path = link or os.path.relpath(OURS, tmp_path)
    others = os.path.relpath(SUPPORT / "foreign" / "omp.py", tmp_path)
    words = ("--dry-run", "--system=here", "-c", others, "-n", "^(stream%|osnoise|threads)")
    code, out = reframe(*words, checks=path, **ours)
    assert code == 0, out
    assert cases(out) == {("stream", "gnu"), ("osnoise", "gnu"), ("threads", "gnu")}
    assert not Path(tmp_path / "reframe_checks").exists()
