"""Steps on fewer nodes than their job has: always on its first ones, with every check that has such
steps."""

import os
import re
import subprocess

import pytest
import yaml

from tests.support.paths import CHECKOUT
from tests.support.reframe import dry_run

SCRIPT = CHECKOUT / "reframe_checks" / "src" / "first_nodes.sh"


SITE = {
    "name": "here",
    "hostnames": [],
    "environments": [
        {"name": "openmpi", "modules": [], "features": ["mpi", "hpcc", "vswitch", "gromacs"]},
        {"name": "mpj", "modules": []},
    ],
}
EXTRAS = {
    "link_class": "native",
    "link_speed_gbps": 10,
    "hypervisor": "none",
    "no_baseline": "it is new",
    "cores_per_node": 4,
    "nodes": 4,
    "processes": "1,2,4,8,16",
    "ranks_per_node": 4,
    "java_heap_mb": 128,
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """The job scripts of a dry run of all checks on a site of two partitions."""
    directory = tmp_path_factory.mktemp("jobs")
    (directory / "systems").mkdir()
    partitions = [
        {
            "name": name,
            "scheduler": "slurm",
            "launcher": "srun",
            "access": ["-p", name],
            "environs": ["openmpi", "mpj"],
            "extras": EXTRAS,
        }
        for name in ("one", "two")
    ]
    (directory / "systems/here.yaml").write_text(yaml.safe_dump({**SITE, "partitions": partitions}))
    options = ["-n", "npb|vswitch|gromacs|collectives|launch|hpcc"]
    for setting in ("instances=2", "socket=1", "processes=4", "megabytes=100"):
        options += ["-S", f"hpcc.{setting}"]
    done = []
    all_checks = ["-c", "reframe_checks", "--system=here:one"]
    duets = ["-c", "reframe_checks/duet", "--system=here", "-p", "openmpi"]
    for suite in (all_checks, [*duets, "-S", "partitions=one,two"]):
        prefix = directory / suite[1].replace("/", "-")
        done.append(dry_run(directory / "systems", prefix, *suite, *options))
        prefix.mkdir(exist_ok=True)
    scripts = {
        path.parent.name: path.read_text()
        for path in directory.glob("*/stage/here/one/*/*/rfm_job.sh")
    }
    assert scripts, done
    return scripts


def steps_on_fewer_nodes(script):
    """The srun lines of a job script that ask for fewer nodes than the job, and the number that
    each asks for."""
    tasks, per_node = (
        int(re.search(rf"^#SBATCH --{name}=(\d+)$", script, re.MULTILINE)[1])
        for name in ("ntasks", "ntasks-per-node")
    )
    nodes = -(-tasks // per_node)
    asked = re.findall(r"^(?!#)(.*\bsrun\b.*--nodes=(\d+)\b.*)$", script, re.MULTILINE)
    return [(line, int(count)) for line, count in asked if int(count) < nodes]


def test_every_step_on_fewer_nodes_names_the_first_ones(jobs):
    found = set()
    for name, script in jobs.items():
        for line, count in steps_on_fewer_nodes(script):
            variable = re.search(r" --nodelist=\$(\w+)", line)
            assert variable, f"{name}: {line}"
            group = re.search(r"--het-group=(\d+)", line)
            call = f"{variable[1]}=$(sh first_nodes.sh {count}{f' {group[1]}' if group else ''})\n"
            assert call in script and script.index(call) < script.index(line), f"{name}: {line}"
            found.add(name.split("_")[0] + ("_duet" if "_duet" in name else ""))
    assert {"npb", "npb_duet", "collectives", "launch", "vswitch", "gromacs"} <= found


def test_instances_at_once_have_nodes_of_their_own(jobs):
    [script] = [text for name, text in jobs.items() if name.startswith("hpcc") and "large" in text]
    assert "#SBATCH --ntasks=8\n" in script and "    instances 2 1\n" in script
    [launch] = re.findall(r"srun .*held.sh.*", script)
    assert launch.endswith(" --nodelist=$nodes_1 sh held.sh 1 4 ./pages large hpcc")
    assert "--cpu-bind=none" in launch and "--ntasks=4" in launch
    # The results of a repeat that runs again are then left out with its output.
    assert re.search(r"held.sh.*\n +cat hpccoutf.txt\n +rm hpccoutf.txt\n", script)
    assert "sh hpccinf.sh 4 1 100 128 > hpccinf.txt" in script


def test_a_place_without_nodes_is_said():
    done = subprocess.run(
        ["sh", SCRIPT, "2"],
        check=False,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7"},
    )
    assert done.returncode == 2 and not done.stdout
    assert "job 7 has 0 nodes" in done.stderr and "instead of 2" in done.stderr
