"""`vswitch` with each application: its job by a dry run, and what it reads of an output."""

import os
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from reframe_checks.lammps import Liquid
from reframe_checks.vswitch import PROBLEMS, vswitch
from tests.support.paths import CHECKOUT
from tests.support.recorded import recorded

SITE = {
    "name": "here",
    "hostnames": [],
    "environments": [
        {"name": "openmpi", "modules": [], "features": ["vswitch", "lammps", "gromacs", "namd"]},
        {"name": "mpich", "modules": [], "features": ["vswitch"]},
    ],
    "partitions": [
        {
            "name": "guests",
            "scheduler": "slurm",
            "launcher": "srun",
            "access": ["-p", "guests"],
            "environs": ["openmpi", "mpich"],
            "extras": {
                "link_class": "emulated",
                "link_speed_gbps": 10,
                "hypervisor": "qemu",
                "no_baseline": "it is new",
                "nodes": 4,
                "vswitch_processes": 8,
                "vswitch_size": "S",
            },
        }
    ],
}


def dry_run(directory, *options, **extras):
    """What ReFrame says, and the job scripts by environment."""
    [partition] = SITE["partitions"]
    partition = {**partition, "extras": {**partition["extras"], **extras}}
    (directory / "systems").mkdir()
    (directory / "systems/here.yaml").write_text(
        yaml.safe_dump({**SITE, "partitions": [partition]})
    )
    settings = {
        "RFM_CONFIG_PATH": "site-config",
        "NEARMETAL_SYSTEMS_PATH": str(directory / "systems"),
        "RFM_PREFIX": str(directory),
        "RFM_RESOLVE_MODULE_CONFLICTS": "0",
    }
    command = [sys.executable, "-c", "from reframe.frontend.cli import main; main()", "--nocolor"]
    suite = ["-c", "reframe_checks/vswitch.py", "--dry-run", "--system=here"]
    done = subprocess.run(
        [*command, *suite, *(word for option in options for word in ("-S", f"vswitch.{option}"))],
        cwd=CHECKOUT,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **settings},
    )
    paths = (directory / "stage").glob("here/guests/*/*/rfm_job.sh")
    return done.stdout, {path.parent.parent.name: path.read_text() for path in paths}


def steps(script: str, program: str) -> list[str]:
    """The guests of each launch of a program within a repeat."""
    return re.findall(rf"^    srun .*--nodes=(\d) .*{re.escape(program)}", script, re.M)


def test_a_kernel_of_npb_is_the_default(tmp_path):
    _, scripts = dry_run(tmp_path)
    assert sorted(scripts) == ["mpich", "openmpi"]
    for script in scripts.values():
        assert steps(script, "./vswitch B") == ["4", "2", "1"] and "guests_4.out" not in script


@pytest.mark.parametrize(
    "application, options, launch",
    [
        (
            "lammps",
            ["size=W", "program=my lmp"],
            "'my lmp' -in apps/lj.lmp -log none -var cells 20",
        ),
        ("gromacs", [], "gmx_mpi -quiet mdrun -s water.tpr -g md.log -nsteps 100"),
        ("namd", [f"input={CHECKOUT}/README.md"], f"namd3 {CHECKOUT}/README.md"),
    ],
)
def test_an_application_runs_where_its_feature_is(tmp_path, application, options, launch):
    _, scripts = dry_run(tmp_path, f"application={application}", *options)
    [(environ, script)] = scripts.items()
    assert environ == "openmpi" and steps(script, launch) == ["4", "2", "1"]
    first, _, _ = script.partition("launch() {")
    for count in (4, 2, 1):
        [line] = re.findall(rf"^srun .* sh task\.sh > guests_{count}.out$", first, re.M)
        assert f"--nodes={count} --ntasks=8 --ntasks-per-node={8 // count}" in line
        assert ("--nodelist=" in line) == (count < 4)
    if application == "gromacs":
        assert re.search(r"^srun .*--ntasks=1 .*gmx_mpi -quiet grompp", first, re.M)
        assert script.count("\n    cat md.log\n") == 3


def test_a_site_chooses_the_application_for_good(tmp_path):
    said, scripts = dry_run(
        tmp_path, vswitch_application="namd", namd_input=str(CHECKOUT / "README.md")
    )
    assert "namd3" in scripts["openmpi"]
    assert "mpich has not the feature namd" in said and "vswitch.application=npb" in said


@pytest.mark.parametrize(
    "options, facts",
    [
        (["application=namd"], ["no input for NAMD", "`namd_input`", "vswitch.input=..."]),
        (["application=gromacs", "size=C"], ["GROMACS has no size 'C'", "S, W, A, B"]),
        (["application=nwchem"], ["vswitch.application is 'nwchem'", "npb, lammps, gromacs, namd"]),
    ],
)
def test_what_cannot_run_is_named(tmp_path, options, facts):
    said, _ = dry_run(tmp_path, *options)
    assert all(fact in said for fact in facts), said


# What it reads

#: A launch of LAMMPS on 2 processes, of size S.
TWO = "LAMMPS (" + recorded("lammps").split("LAMMPS (")[1]


def a_check(guests: dict, **further):
    """What `read_output` uses of a case that ran on these guests by count."""
    fake = SimpleNamespace(
        problem=Liquid("S"),
        processes=2,
        counts=[2, 1],
        repeats=1,
        facts={},
        no_transport="",
        _read=lambda name: guests[int(name[len("guests_") : -len(".out")])],
        record_program=lambda facts, title: None,
        **further,
    )
    for name in ("rounds",):
        setattr(fake, name, getattr(NearmetalCheck, name).__get__(fake))
    for name in ("_expect_guests", "payload_of", "payloads", "_rate_of", "payload_bytes"):
        setattr(fake, name, getattr(vswitch, name).__get__(fake))
    return fake


def on(*guests: str) -> str:
    """What `task.sh` prints of tasks on these guests, between lines of the site."""
    lines = [f"# nearmetal task: {task} {guest} 20001" for task, guest in enumerate(guests)]
    return "\n".join(["=====", *lines, "Job ID=4711", ""])


RIGHT = {2: on("vm1", "vm2"), 1: on("vm1", "vm1")}


def test_launches_of_an_application_are_grouped_by_guests():
    fake = a_check(RIGHT)
    vswitch.read_output(fake, TWO + TWO)
    [runs] = fake.launches
    assert list(runs) == [2, 1] and fake._rate_of(runs[2]) == runs[2].rate
    assert fake.facts["application"].startswith("LAMMPS ")
    assert fake.payload_bytes() == runs[2].payload_bytes


@pytest.mark.parametrize(
    "guests", [{2: on("vm1", "vm1")}, {2: on("vm1", "vm2", "vm2")}, {1: on("vm1", "vm2")}]
)
def test_other_guests_than_asked_for_are_refused(guests):
    with pytest.raises(SanityError, match=r"2 processes on [12] guests ran on vm1"):
        vswitch.read_output(a_check({**RIGHT, **guests}), TWO + TWO)


def test_a_launch_that_is_missing_is_refused():
    with pytest.raises(SanityError, match="1 launches instead of 2"):
        vswitch.read_output(a_check(RIGHT), TWO)


def test_each_application_is_one_of_the_setting():
    allowed = vswitch.settings()["application"].allowed_in(vswitch)
    assert allowed.choices == ("npb", *PROBLEMS)
