"""Where ReFrame's results go where root starts it beside the results of another user."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.paths import CHECKOUT

STRANGER = 64771

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="needs root and another user: run it as root, as CI does"
)


def left_out(directory: str, names: list[str]) -> set[str]:
    """What is not copied: at the top, what is no source; images everywhere."""
    if Path(directory) == CHECKOUT:
        return {".venv", ".git", "results", "tests"}
    return {name for name in names if name.endswith(".sif")}


@pytest.fixture
def checkout(tmp_path):
    """A checkout whose results belong to another user, and a system that needs no modules."""
    copy = tmp_path / "checkout"
    shutil.copytree(CHECKOUT, copy, ignore=left_out)
    data = yaml.safe_load((CHECKOUT / "site-config" / "systems" / "lab.yaml").read_text())
    data |= {"name": "here", "hostnames": ["nowhere"], "modules_system": "nomod"}
    (tmp_path / "systems").mkdir()
    (tmp_path / "systems" / "here.yaml").write_text(yaml.safe_dump(data))
    (copy / "results").mkdir()
    os.chown(copy / "results", STRANGER, STRANGER)
    return copy


def dry_run(checkout: Path, *words: str, **settings: str) -> subprocess.CompletedProcess:
    reframe = Path(sys.executable).with_name("reframe")
    return subprocess.run(
        [reframe, "--nocolor", "-c", "reframe_checks/tcp.py", "--dry-run", *words],
        cwd=checkout,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        env={
            **os.environ,
            "RFM_CONFIG_PATH": str(checkout / "site-config"),
            "NEARMETAL_SYSTEMS_PATH": str(checkout.parent / "systems"),
            **settings,
        },
    )


def test_roots_dry_run_leaves_nothing_in_another_users_results(checkout):
    done = dry_run(checkout, "--system", "here:native")
    assert "Ran 1/1 test case(s)" in done.stdout and done.returncode == 0, done.stdout
    [said] = [line for line in done.stdout.splitlines() if line.startswith("nearmetal: ")]
    assert f"{checkout}/results belongs to user {STRANGER}" in said
    assert not list((checkout / "results").iterdir())
    own = Path(said.rpartition(" ")[2])
    assert (own / "stage").is_dir() and own.is_relative_to(Path("~root").expanduser())
    shutil.rmtree(own)


def test_roots_dry_run_follows_no_link_of_another_user(checkout, tmp_path):
    (tmp_path / "secret").mkdir()
    for name in ("stage", "output", "perflogs", "reports"):
        (checkout / "results" / name).symlink_to(tmp_path / "secret")
    said = dry_run(checkout, "--system", "here:native").stdout
    assert "Ran 1/1 test case(s)" in said and not list((tmp_path / "secret").iterdir())
    shutil.rmtree(said.partition("goes to ")[2].splitlines()[0])


@pytest.mark.parametrize("below", ["", "/not/there/yet"])
def test_a_prefix_of_another_user_is_refused_with_the_fix(checkout, below):
    prefix = f"{checkout}/results{below}"
    done = dry_run(checkout, "--system", "here:native", RFM_PREFIX=prefix)
    assert done.returncode == 1 and not list((checkout / "results").iterdir())
    assert f"RFM_PREFIX={prefix}" in done.stdout and str(STRANGER) in done.stdout
    assert "make lab-exec" in done.stdout


def test_root_writes_into_its_own_results_as_ever(checkout):
    os.chown(checkout / "results", 0, 0)
    done = dry_run(checkout, "--system", "here:native")
    assert done.returncode == 0 and (checkout / "results" / "stage").is_dir(), done.stdout


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o777])
def test_results_of_another_user_are_refused_before_the_run(open_path, mode):
    first, results = 12345, open_path / "results"
    results.mkdir()
    (results / "results.db").write_text("")
    for path in (results / "results.db", results):
        os.chown(path, first, first)
    results.chmod(mode)
    program = (
        "import os, pathlib, sys; from nearmetal.site import places; "
        f"os.setgroups([]); os.setgid({STRANGER}); os.setuid({STRANGER}); "
        "print(places.results(None, pathlib.Path(sys.argv[1])))"
    )
    words = [sys.executable, "-c", program, open_path]
    done = subprocess.run(words, cwd=CHECKOUT, text=True, capture_output=True)
    said = done.stderr.splitlines()[-1]
    what = "results/results.db" if mode == 0o777 else "results"
    assert f"{open_path}/{what} belongs to the user {first}, and {STRANGER} cannot write" in said
    assert "Fix: export RFM_PREFIX=" in said
