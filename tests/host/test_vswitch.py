"""`vswitch` with each application: its job by a dry run, and what it reads of an output."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from reframe_checks.lammps import Liquid
from reframe_checks.vswitch import PROBLEMS, vswitch
from tests.support.paths import CHECKOUT
from tests.support.recorded import recorded
from tests.support.reframe import dry_run
from tests.support.said import lacking

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


#: Extras by partition.
OF_PARTITIONS = {
    "npb": {},
    "gromacs": {"vswitch_application": "gromacs"},
    "gromacs-c": {"vswitch_application": "gromacs", "vswitch_size": "C"},
    "namd": {"vswitch_application": "namd", "namd_input": str(CHECKOUT / "README.md")},
    "namd-alone": {"vswitch_application": "namd"},
}


class DryRun:
    """What ReFrame says, and the job scripts by partition and environment."""

    def __init__(self, directory: Path, partitions: dict, *options: str):
        [partition] = SITE["partitions"]
        made = [
            {**partition, "name": name, "extras": {**partition["extras"], **extras}}
            for name, extras in partitions.items()
        ]
        (directory / "systems").mkdir()
        (directory / "systems/here.yaml").write_text(yaml.safe_dump({**SITE, "partitions": made}))
        suite = ["-c", "reframe_checks/vswitch.py", "--system=here"]
        given = [word for option in options for word in ("-S", f"vswitch.{option}")]
        self.said = dry_run(directory / "systems", directory, *suite, *given)
        self.scripts = {
            path.parts[-4:-2]: path.read_text()
            for path in (directory / "stage").glob("here/*/*/*/rfm_job.sh")
        }

    def of(self, partition: str) -> dict[str, str]:
        """Job scripts of a partition by environment."""
        return {
            environ: script for (name, environ), script in self.scripts.items() if name == partition
        }


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A dry run where each partition's extras choose the application."""
    return DryRun(tmp_path_factory.mktemp("site"), OF_PARTITIONS)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """A dry run where the command line chooses it."""
    options = ("application=lammps", "size=W", "program=my lmp")
    return DryRun(tmp_path_factory.mktemp("asked"), {"npb": {}}, *options)


def steps(script: str, program: str) -> list[str]:
    """The guests of each launch of a program within a repeat."""
    return re.findall(rf"^    srun .*--nodes=(\d) .*{re.escape(program)}", script, re.M)


def test_a_kernel_of_npb_is_the_default(site):
    scripts = site.of("npb")
    assert sorted(scripts) == ["mpich", "openmpi"]
    for script in scripts.values():
        assert steps(script, "./vswitch B") == ["4", "2", "1"] and "guests_4.out" not in script


@pytest.mark.parametrize(
    "run, partition, launch",
    [
        ("asked", "npb", "'my lmp' -in apps/lj.lmp -log none -var cells 20"),
        ("site", "gromacs", "gmx_mpi -quiet mdrun -s water.tpr -g md.log -nsteps 100"),
        ("site", "namd", f"namd3 {CHECKOUT}/README.md"),
    ],
)
def test_an_application_runs_where_its_feature_is(request, run, partition, launch):
    [(environ, script)] = request.getfixturevalue(run).of(partition).items()
    assert environ == "openmpi" and steps(script, launch) == ["4", "2", "1"]
    first, _, _ = script.partition("launch() {")
    for count in (4, 2, 1):
        [line] = re.findall(rf"^srun .* sh task\.sh > guests_{count}.out$", first, re.M)
        assert f"--nodes={count} --ntasks=8 --ntasks-per-node={8 // count}" in line
        assert ("--nodelist=" in line) == (count < 4)
    if partition == "gromacs":
        assert re.search(r"^srun .*--ntasks=1 .*gmx_mpi -quiet grompp", first, re.M)
        assert script.count("\n    cat md.log\n") == 3


@pytest.mark.parametrize(
    "facts",
    [
        ["mpich has not the feature namd", "vswitch.application=npb"],
        ["no input for NAMD", "`namd_input`", "vswitch.input=..."],
        ["GROMACS has no size 'C'", "S, W, A, B"],
    ],
)
def test_what_cannot_run_is_named(site, facts):
    assert not lacking(site.said, *facts), site.said


def test_an_application_that_is_none_of_them_is_named(tmp_path):
    said = DryRun(tmp_path, {"npb": {}}, "application=nwchem").said
    facts = ["vswitch.application is 'nwchem'", "npb, lammps, gromacs, namd"]
    assert not lacking(said, *facts), said


# What it reads

#: A launch of LAMMPS on 2 processes, of size S.
TWO = "LAMMPS (" + recorded("lammps").split("LAMMPS (")[1]


def a_check(guests: dict, **further):
    """What `read_output` uses of a case that ran on these guests by count."""
    fake = SimpleNamespace(
        application="lammps",
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
    for name in ("_expect_guests", "payload_of", "payloads", "payload_bytes"):
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
    [runs] = fake.runs
    assert list(runs) == [2, 1]
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
