"""`nearmetal doctor` with its smoke cases: a real ReFrame, on a system without a scheduler."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.paths import CHECKOUT


@pytest.fixture
def doctor(open_path):
    """Runs the command on a system of two environments."""
    system = {
        "name": "here",
        "hostnames": [".*"],
        "modules_system": "nomod",
        "stagedir": str(open_path / "scratch"),
        "environments": [
            {"name": "gnu", "features": ["serial"]},
            {"name": "wrong", "cc": "no-such-cc", "features": ["serial"]},
        ],
        "partitions": [
            {
                "name": "local",
                "scheduler": "local",
                "launcher": "local",
                "environs": ["gnu", "wrong"],
                "extras": {"link_class": "native", "link_speed_gbps": 10, "hypervisor": "none"},
            }
        ],
    }
    (open_path / "systems").mkdir()
    (open_path / "systems" / "here.yaml").write_text(yaml.safe_dump(system))
    beside = Path(sys.executable).parent
    own = {k: v for k, v in os.environ.items() if not k.startswith(("RFM_", "NEARMETAL_"))}
    environment = {
        **own,
        "NEARMETAL_SYSTEMS_PATH": str(open_path / "systems"),
        "RFM_CONFIG_PATH": str(CHECKOUT / "site-config"),
        "RFM_PREFIX": str(open_path / "results"),
        "PATH": f"{beside}:{os.environ['PATH']}",
    }

    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "nearmetal", "doctor", *words],
            cwd=open_path,
            env=environment,
            text=True,
            capture_output=True,
        )

    run.directory = open_path
    return run


def test_each_environment_is_tried_and_a_missing_compiler_is_named(doctor):
    done = doctor()
    assert done.returncode == 2, done.stdout + done.stderr
    assert "ok: local, gnu: osnoise ran" in done.stdout
    [missing] = [line for line in done.stdout.splitlines() if line.startswith("missing")]
    assert "local: wrong: " in missing and "no-such-cc" in missing and "Fix: " in missing
    assert not (doctor.directory / "results" / "results.db").exists()
    assert (doctor.directory / "results" / "doctor" / "results.db").exists()
    assert not (doctor.directory / "scratch").exists()


def test_without_jobs_nothing_runs(doctor):
    done = doctor("here:local", "--no-jobs")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "--no-jobs" in done.stdout and not (doctor.directory / "results").exists()
