"""`nearmetal doctor` with its smoke cases: a real ReFrame, also with a stand-in for Slurm."""

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

    run.directory, run.environment = open_path, environment
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


#: Stands in for Slurm without accounting. A job waits if there is a reason, else it runs at once.
SLURM = """#!/bin/sh
name=${0##*/}
case $name in
    sbatch)
        if [ -n "$REFUSED" ]; then
            echo "sbatch: error: Batch job submission failed: $REFUSED" >&2; exit 1
        fi
        echo 'Submitted batch job 7'
        [ -n "$REASON" ] || bash "$1" > rfm_job.out 2> rfm_job.err || true ;;
    squeue)
        [ ! -e "$CANCELLED" ] || exit 0
        case "$*" in
            *%T*) [ -z "$REASON" ] || echo "7|PENDING||$REASON" ;;
            *) echo "$REASON" ;;
        esac ;;
    scancel) echo "$*" >> "$CANCELLED" ;;
    scontrol) echo here ;;
    srun)
        while [ "${1#-}" != "$1" ]; do shift; done
        [ "$1" = sh ] && exec "$@"
        echo "$1: error while loading shared libraries: libx.so: cannot open" >&2; exit 127 ;;
esac
"""


@pytest.fixture
def with_slurm(doctor):
    """Runs the command on a system of Slurm with these variables of the stand-in."""
    path = doctor.directory / "systems" / "here.yaml"
    system = yaml.safe_load(path.read_text())
    [partition] = system["partitions"]
    del system["environments"][1]
    partition |= {"scheduler": "squeue", "launcher": "srun", "environs": ["gnu"]}
    path.write_text(yaml.safe_dump(system))
    commands = doctor.directory / "bin"
    commands.mkdir()
    for name in ("sbatch", "squeue", "scancel", "scontrol", "srun"):
        (commands / name).write_text(SLURM)
        (commands / name).chmod(0o755)
    cancelled = doctor.directory / "cancelled"
    doctor.environment["PATH"] = f"{commands}:{doctor.environment['PATH']}"

    def run(*words, **variables):
        doctor.environment |= {"CANCELLED": str(cancelled), **variables}
        done = doctor(*words)
        assert done.returncode == 2, done.stdout + done.stderr
        lines = [one for one in done.stdout.splitlines() if one.startswith("missing: local: gnu")]
        assert len(lines) == 1, done.stdout + done.stderr
        done.cancelled = cancelled.exists()
        return lines[0], done

    return run


def test_a_refusal_of_sbatch_names_the_key(with_slurm):
    line, _ = with_slurm(REFUSED="Invalid qos specification")
    assert "(Invalid qos specification)" in line and "--qos=NAME" in line


def test_a_job_that_never_starts_ends_at_once_with_slurms_reason(with_slurm):
    line, done = with_slurm("--wait=10m", REASON="AccountNotAllowed")
    assert "Slurm's reason is AccountNotAllowed" in line and "--account=NAME" in line
    assert done.cancelled and "somebody" not in done.stdout


def test_a_case_that_waits_says_so_once_and_is_given_up(with_slurm):
    line, done = with_slurm("--wait=10s", REASON="Resources")
    assert done.stderr.count("Waiting: ") == 1 and "the nodes are busy" in done.stderr
    assert "longer than max_pending_time, 10 s" in line and "Slurm's reason is Resources" in line
    assert "somebody" not in done.stdout


def test_without_accounting_the_jobs_stderr_names_the_cause(with_slurm):
    line, done = with_slurm()
    assert "library libx.so" in line and "Fix: list the module" in line
    assert "stderr of osnoise on local with gnu:\n    " in done.stdout
    assert "provenance.after" not in done.stdout
