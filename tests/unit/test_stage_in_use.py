"""A run in a stage directory of another run is refused, and the other is named."""

import getpass
import os
import shutil
import socket
import subprocess
import sys

import pytest
from reframe.core.exceptions import ReframeError

from nearmetal.site import stage
from tests.support.said import lacking

MINE = "lab/native/mpich/tcp"


def begins(prefix, *directories: str, dry: bool = False) -> bool:
    with stage.claimed(str(prefix), set(directories), dry):
        return True


@pytest.mark.parametrize("dry", [False, True])
def test_a_shared_directory_is_refused_and_its_run_named(tmp_path, dry):
    with stage.claimed(str(tmp_path), {MINE, "other"}), pytest.raises(ReframeError) as refused:
        begins(tmp_path, "mine", MINE, dry=dry)
    who = f"process {os.getpid()} of {getpass.getuser()} on {socket.gethostname()}, since "
    assert not lacking(str(refused.value), str(tmp_path / MINE), who, "Fix: wait", "RFM_PREFIX")
    assert begins(tmp_path, MINE)


def test_runs_in_other_directories_go_on(tmp_path):
    with stage.claimed(str(tmp_path / "a"), {MINE}):
        assert begins(tmp_path / "a", "other") and begins(tmp_path / "b", MINE)
    assert [file.name for file in (tmp_path / "a" / stage.RUNS).iterdir()] == ["lock"]


def test_a_dry_run_holds_nothing(tmp_path):
    with stage.claimed(str(tmp_path), {MINE}, dry=True):
        assert not list(tmp_path.iterdir()) and begins(tmp_path, MINE)


def test_a_run_outlives_its_record(tmp_path):
    with stage.claimed(str(tmp_path), {MINE}):
        shutil.rmtree(tmp_path / stage.RUNS)


def test_a_killed_run_holds_nothing(tmp_path):
    lines = f"""
import os, signal
from nearmetal.site import stage
with stage.claimed({str(tmp_path)!r}, {{{MINE!r}}}):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", lines])
    assert len(list((tmp_path / stage.RUNS).glob("*.json"))) == 1
    assert begins(tmp_path, MINE) and not list((tmp_path / stage.RUNS).glob("*.json"))


def test_a_place_without_locks_is_a_warning(tmp_path, monkeypatch):
    warnings = []
    monkeypatch.setattr(stage, "getlogger", lambda: type("Log", (), {"warning": warnings.append}))
    (tmp_path / stage.RUNS).write_text("no directory")
    assert begins(tmp_path, MINE)
    assert not lacking(warnings[0], f"{tmp_path}/{stage.RUNS}: ", "File exists", "Fix: ")
