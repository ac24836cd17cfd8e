"""What the lab offers to checks of a user's own: features, counted resources, memory limits, and a
health check that drains."""

import time

import pytest

from nearmetal.util import files
from tests.support.said import lacking

#: Two checks that ask for resources of the lab's partitions.
CHECKS = """
import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class Asks(rfm.RunOnlyRegressionTest):
    valid_systems = ["lab:native"]
    valid_prog_environs = ["gnu"]
    executable = "python3"
    megabytes = parameter([10, 200])

    @run_before("setup")
    def ask(self):
        program = f"import os, time; a = bytearray({self.megabytes} << 20); time.sleep(2.5)"
        self.executable_opts = ["-c", f"'{program}; print(os.uname().nodename)'"]
        self.extra_resources = {
            "memory": {"size": "100M"}, "constraint": {"feature": "rack2"}, "slots": {"count": 4}
        }

    @sanity_function
    def ended(self):
        return sn.assert_found("^native2$", self.stdout)
"""


def test_a_check_gets_the_node_and_the_memory_that_it_asks_for(lab, prefix):
    files.write(prefix / "asks.py", CHECKS)
    said = lab.run(
        f"RFM_PREFIX={prefix} reframe --nocolor -c {prefix}/asks.py -r --system lab:native",
        check=False,
    )
    assert not lacking(said, "Ran 2/2", "1 failure")
    [failed] = [line for line in said.splitlines() if "[     FAIL ]" in line and "@" in line]
    assert "megabytes=200" in failed
    jobs = lab.run(
        "sacct -nXP -o jobname,state,nodelist,reqmem | grep ^rfm_Asks | cut -d '|' -f 2-"
    )
    assert {"COMPLETED|native2|100M", "FAILED|native2|100M"} <= set(jobs.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--mem=1000000G", "Memory specification can not be satisfied"),
        ("--constraint=rack9", "Invalid feature specification"),
        ("--gres=slot:5", "Requested node configuration is not available"),
        ("--gres=disk:1", "Invalid generic resource (gres) specification"),
    ],
)
def test_what_no_node_has_is_refused_at_submission(lab, options, words):
    assert words in lab.run(f"srun -p native {options} true", check=False)


def test_a_job_without_limits_gets_all_memory(lab):
    shown = "scontrol show job $SLURM_JOB_ID | grep -o AllocTRES.*; sinfo -ho %m -n native1"
    said = lab.run(f"srun --quiet -p native --exclusive sh -c '{shown}'").split()
    assert f"mem={said[1]}M" in said[0]


def test_the_health_check_drains_a_full_node_and_resumes_it(lab):
    def check(script: str) -> str:
        """State and reason of the node. A resumed node has `*` until slurmctld asked it."""
        lab.run(f"{script}; sh /etc/slurm/health.sh", node="native2", root=True, check=False)
        until = time.monotonic() + 30
        while "*" in (state := lab.run("sinfo -hN -n native2 -o '%t %E'").strip()):
            assert time.monotonic() < until, state
            time.sleep(0.2)
        return state

    asked = lab.run("scontrol show config | grep ^HealthCheckP")
    assert asked.split()[-1] == "/etc/slurm/health.sh"
    try:
        full = check("head -c 100G /dev/zero > /dev/shm/filler")
        assert full.startswith("drain health: ") and "/dev/shm is full: delete files" in full
        status = lab("status", check=False).stdout
        assert not lacking(status, "native2: the file system of /dev/shm is full", "not usable")
    finally:
        well = check("rm -f /dev/shm/filler")
    assert well == "idle none"
    # A drain of somebody else stays.
    lab.run("scontrol update nodename=native2 state=drain reason=mine", root=True)
    assert check("touch /run/nearmetal-drained") == "drain mine"
    lab.run("scontrol update nodename=native2 state=resume", root=True)


def test_an_own_prolog_runs_and_drains_its_node_if_it_fails(lab):
    """The files are those that `prolog` and `epilog` of topology.toml put there."""

    def own(name: str, script: str) -> None:
        path = f"/etc/slurm/own-{name}.sh"
        text = f"#!/bin/sh\\n{script}\\n"
        lab.run(f"printf '{text}' > {path}; chmod +x {path}", node="native2", root=True)

    run = "srun --quiet -p native -w native2"
    try:
        own("prolog", "touch /tmp/own-prolog.$SLURM_JOB_ID")
        own("epilog", "rm -f /tmp/own-prolog.$SLURM_JOB_ID")
        assert lab.run(f"{run} sh -c 'ls /tmp/own-prolog.$SLURM_JOB_ID'")
        own("prolog", "exit 1")
        assert "prolog failed" in lab.run(f"timeout 60 {run} true", check=False)
        assert "Prolog error" in lab.run("sinfo -R")
    finally:
        lab.run("rm -f /etc/slurm/own-*.sh", node="native2", root=True)
        lab.run("scontrol update nodename=native2 state=resume", root=True, check=False)
    until = time.monotonic() + 60
    while (state := lab.run("sinfo -hN -n native2 -o %t").strip()) != "idle":
        assert time.monotonic() < until, state
        time.sleep(0.2)
