"""Who owns what in results/, and that the lab's user can type every command there."""

import os
import subprocess
import sys

import pytest

from tests.support.campaigns import campaign
from tests.support.lab import give
from tests.support.paths import CHECKOUT
from tests.support.recorded import store

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes files of root's: run it as root")


def of_root(directory) -> list[str]:
    found = ["find", directory, "-user", "root"]
    return subprocess.run(found, capture_output=True, text=True, check=True).stdout.split()


@as_root
def test_lab_up_refuses_a_link_in_place_of_results(other_lab, tmp_path):
    results = other_lab.checkout / "results"
    results.symlink_to(tmp_path)
    done = other_lab("up", check=False, timeout=600)
    results.unlink()
    assert done.returncode == 1 and f"{results} is a link" in done.stdout
    assert tmp_path.stat().st_uid == 0 and not list(tmp_path.iterdir())


@as_root
def test_lab_up_hands_over_what_root_left_in_results(other_lab):
    """As a dry run of root's did, in which no case could be made any more."""
    results = other_lab.checkout / "results"
    for name in ("stage/lab/native/gnu/tcp", "output", "perflogs", "reports"):
        (results / name).mkdir(parents=True)
        (results / name / "file").touch()
    other_lab("up", "--vm", "none", timeout=600)
    done = other_lab.reframe(*("--dry-run", "--system", "lab:native", "-n", "^tcp"), prefix=results)
    assert "Ran 1/1 test case(s)" in done.stdout and done.returncode == 0, done.stdout
    assert of_root(results) == []


@as_root
def test_roots_commands_go_on_as_the_labs_user(lab, prefix, tmp_path):
    """Its outputs are that user's, and none goes where only root may write."""
    made = store(tmp_path / "results.db", *map(campaign, range(1, 13)))
    give(prefix / "results.db", made.read_bytes())

    def nearmetal(*words) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, "-m", "nearmetal", *words],
            env={**os.environ, "RFM_PREFIX": str(prefix), "RFM_REFERENCE_PREFIX": str(prefix)},
            cwd=CHECKOUT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    assert nearmetal("report").returncode == 0 and nearmetal("baseline", "record").returncode == 0
    assert (prefix / "report.html").stat().st_size and of_root(prefix) == []
    refused = nearmetal("gate", "--json", CHECKOUT / "gate.json")
    assert refused.returncode == 3 and not (CHECKOUT / "gate.json").exists()
    assert "Permission denied. Fix: name another place, or let" in refused.stdout


@pytest.mark.whole
@pytest.mark.ci
def test_readmes_gate_commands_can_be_typed_in_the_lab(lab, prefix, tmp_path):
    before = store(tmp_path / "results.db", *map(campaign, range(1, 13)))
    give(prefix / "results.db", before.read_bytes())

    def nearmetal(words: str) -> subprocess.CompletedProcess:
        places = f"RFM_PREFIX={prefix} RFM_REFERENCE_PREFIX={prefix}/baselines"
        return lab("exec", f"{places} nearmetal {words}", check=False)

    recorded = nearmetal("baseline record --system lab")
    assert recorded.returncode == 0, recorded.stdout
    assert f"{prefix}/baselines/lab.yaml" in recorded.stdout
    judged = nearmetal(f"gate --system lab --all --json {prefix}/gate.json")
    # Without --confirm, what five launches leave open stays so: exit code 2.
    assert judged.returncode in (0, 2), judged.stdout
    assert "session 00000012-campaign" in judged.stdout and (prefix / "gate.json").stat().st_size
    for words in ("baseline show --system lab", "history --system lab", "compare --system lab"):
        done = nearmetal(words)
        assert done.returncode == 0, done.stdout
    assert f"{prefix}/report.html" in nearmetal("report --system lab").stdout
    assert (prefix / "report.html").stat().st_size > 1e6
    assert of_root(prefix) == []


def test_the_labs_user_records_baselines_beside_its_results(lab):
    baselines = CHECKOUT / "results" / "baselines"
    said = lab.run('echo "$RFM_REFERENCE_PREFIX"; test -w "$RFM_REFERENCE_PREFIX" && echo writable')
    assert said.split() == [str(baselines), "writable"]
    code = "from nearmetal.judge import baseline; print(baseline.directory())"
    free = {name: value for name, value in os.environ.items() if not name.startswith("RFM_")}
    here = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=free)
    assert here.stdout.strip() == str(baselines)


def test_the_lab_has_the_checkouts_own_package(lab):
    where = (
        "import nearmetal; from nearmetal import results; "
        "print(nearmetal.__file__, results.default_database())"
    )
    said = lab.run(f'python -c "{where}"; command -v nearmetal').split()
    assert said[1] == f"{CHECKOUT}/results/results.db"
    assert os.path.basename(os.path.dirname(said[0])) == "nearmetal"
    assert said[2] == "/opt/nearmetal/bin/nearmetal"
