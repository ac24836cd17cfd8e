"""The wheel: installed into a new virtual environment, it works without the repository."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from nearmetal.checkout import CHECKOUT
from nearmetal.checks.measured import SCRIPTS
from tests.support.campaigns import campaign
from tests.support.recorded import store

#: What setuptools reads to build the wheel.
PARTS = (
    *("nearmetal", "reframe_checks/references", "reframe_checks/src"),
    *("pyproject.toml", "README.md", "LICENSE"),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    source = tmp_path_factory.mktemp("source")
    for name in PARTS:
        origin, target = CHECKOUT / name, source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(origin, target) if origin.is_dir() else shutil.copy(origin, target)
    code = 'from setuptools.build_meta import build_wheel; build_wheel(".")'
    done = subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return next(source.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Runs `nearmetal` of the installed wheel in an empty directory.

    The virtual environment is new. Its dependencies are those of this one, which requirements.lock
    pins; the editable installation of this checkout is not among them.
    """
    where = tmp_path_factory.mktemp("wheel")
    venv.create(where / "venv", symlinks=True)
    python = where / "venv" / "bin" / "python"
    words = ["--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel]
    subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    [packages] = (where / "venv" / "lib").glob("python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (where / "empty").mkdir()
    names = ("PYTHONPATH", "RFM_PREFIX", "RFM_SQLITE_DB_FILE", "RFM_REFERENCE_PREFIX")
    environment = {name: text for name, text in os.environ.items() if name not in names}

    def run(*words, code: int = 0, **settings) -> subprocess.CompletedProcess:
        done = subprocess.run(
            [where / "venv" / "bin" / "nearmetal", *map(str, words)],
            cwd=where / "empty",
            env=environment | settings,
            capture_output=True,
            text=True,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert str(CHECKOUT) not in done.stdout + done.stderr
        return done

    return run


@pytest.fixture(scope="module")
def database(tmp_path_factory) -> Path:
    """Twelve sessions and a newer one, in a directory of their own."""
    sessions = [*map(campaign, range(12)), campaign(12, launches=10)]
    return store(tmp_path_factory.mktemp("results") / "results.db", *sessions)


def test_every_module_and_data_file_is_in_it(wheel):
    tracked = subprocess.run(
        ["git", "-C", CHECKOUT, "ls-files", "nearmetal"], capture_output=True, text=True, check=True
    ).stdout.split()
    present = {name for name in tracked if (CHECKOUT / name).exists()}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert present <= names
    assert {f"nearmetal/src/{script}" for script in SCRIPTS} <= names


def test_it_has_its_version(installed, wheel):
    version = wheel.name.split("-")[1]
    assert installed("--version").stdout == f"nearmetal {version}\n"


def test_without_a_baseline_it_judges_by_the_session_before(installed, database, tmp_path):
    said = installed("gate", "--database", database).stdout
    assert "nothing got worse: 24 ok" in said and "no baseline: judged against session" in said
    assert "baseline record" in said
    said = installed("baseline", "check", "--database", database, code=2).stderr
    assert "lab.yaml" in said and "baseline record" in said and "RFM_REFERENCE_PREFIX" in said
    installed("report", "--database", database, "--output", tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 1e6


def test_its_commands_work_from_an_empty_directory(installed, database, tmp_path):
    where = "--database", database
    baselines = "--directory", tmp_path / "baselines"
    sessions = [f"--session={number:08}" for number in range(12)]
    assert "startup_latency" in installed("compare", *where).stdout
    assert "13 sessions" in installed("history", *where).stdout
    assert "12 sessions" in installed("baseline", "record", *where, *baselines, *sessions).stdout
    assert "startup_latency" in installed("baseline", "show", *where, *baselines).stdout
    assert "valid" in installed("baseline", "check", *where, *baselines).stdout
    judged = installed("gate", *where, RFM_REFERENCE_PREFIX=str(tmp_path / "baselines"))
    assert "nothing got worse: 40 ok" in judged.stdout


def test_without_the_packages_of_its_commands_it_says_what_to_install(wheel, tmp_path):
    """`pip install nearmetal` brings what ReFrame needs, and `nearmetal[report]` the rest."""
    subprocess.run([sys.executable, "-m", "zipfile", "-e", wheel, tmp_path], check=True)
    words = [sys.executable, "-S", "-m", "nearmetal"]
    for arguments in (["--help"], ["compare"]):
        done = subprocess.run(
            [*words, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 3 and "Traceback" not in done.stderr
        assert "orjson" in done.stderr and "pip install 'nearmetal[report]'" in done.stderr
