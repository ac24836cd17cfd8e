"""The recipe for EC2 is a cluster that AWS ParallelCluster takes, as far as it can be known without
an account.

`python -m nearmetal.aws` is run as people run it, in its own virtual environment, on the committed
configuration and on copies with one thing wrong each. What it asks AWS about is answered by Moto's
copy of AWS's answers; no cluster is created.
"""

import os
import re
import shutil
import stat
import subprocess

import pytest
import yaml

from tests.support.paths import CHECKOUT

AWS = CHECKOUT / "site-config" / "aws"
TEXT = (AWS / "cluster.yaml").read_text()
README = (AWS / "README.md").read_text()

#: By name: what is replaced by what, the line's text where it is wrong then, and what is said of
#: it.
WRONG = {
    "key": (
        "MinCount: 0  # none",
        "MinCont: 0  # none",
        "MinCont",
        "MinCont: unknown key. Fix: write MinCount",
    ),
    "value": ("v2.0", "v3.0", "ImdsSupport", "ImdsSupport: Must be one of: v1.0, v2.0. Fix: "),
    "shape": (
        "[subnet-your",
        "[subnot-your",
        "subnot",
        "SubnetIds: String does not match expected pattern. Fix: ",
    ),
    "section": ("\nImage:", "\nImmage:", "Immage", "Immage: unknown key. Fix: write Image,"),
    "cut off": (
        TEXT[TEXT.index("    ComputeSettings: *disk\n") :],
        "",
        "- Name: cc-sriov",
        "SlurmQueues: lacks ComputeResources. Fix: add it",
    ),
    "no YAML": ("Scheduler: slurm", "Scheduler: [slurm", None, "cannot be read as YAML"),
    "no region": (
        "Region: us-east-2",
        "Region: us-east-22",
        "Region:",
        "Region is us-east-22. Fix: give one of af-south-1,",
    ),
    "other region": (
        "Region: us-east-2",
        "Region: us-east-1",
        "hpc7a.96",
        "hpc7a.96xlarge is offered in no zone of us-east-1. Fix: ",
    ),
    "type": (
        "InstanceType: c4.8xlarge",
        "InstanceType: cc1.4xlarge",
        "InstanceType: cc1",
        "cc1.4xlarge is not an instance type that AWS offers. Fix: ",
    ),
    "no EFA": (
        "hpc7a.96xlarge",
        "m5.large",
        "m5.large",
        "EfaValidator: Instance type 'm5.large' does not support EFA. Fix: ",
    ),
    "other type": (
        "c5n.18xlarge",
        "c5.18xlarge",
        "Name: cc-sriov",
        "queue cc-sriov: link_speed_gbps is 100 in ec2.yaml, but c5.18xlarge has 25.0. Fix: ",
    ),
    "name": (
        "Name: efa",
        "Name: fast",
        "SlurmQueues:",
        "no queue efa, which ec2.yaml has. Fix: add it",
    ),
    "other nodes": (
        "MaxCount: 2  # the paper",
        "MaxCount: 16  # the paper",
        "Name: cc",
        "queue cc: MaxCount is 16, but ec2.yaml has 2 nodes. Fix: write the same number to both",
    ),
    "EFA off": (
        "Efa: {Enabled: true}",
        "Efa: {Enabled: false}",
        "Name: efa",
        "queue efa: Efa is off, but link_type is efa",
    ),
    "SMT": (
        "DisableSimultaneousMultithreading: true  #",
        "DisableSimultaneousMultithreading: false  #",
        "Name: cc\n",
        "queue cc: two threads on each core, but ec2.yaml counts cores. Fix: ",
    ),
    "no group": (
        "PlacementGroup: {Enabled: true}",
        "PlacementGroup: {Enabled: false}",
        "Name: cc\n",
        "queue cc: no placement group. Fix: ",
    ),
    "no image": (
        "Image: {CustomAmi: ami-0youramiwithoutvf}\n",
        "\n",
        "Name: cc\n",
        "queue cc: link_class is emulated in ec2.yaml, which needs an instance type on Xen",
    ),
}


def check(*files) -> subprocess.CompletedProcess:
    python = CHECKOUT / ".venv" / "aws" / "bin" / "python"
    assert python.exists(), f"{python} is missing. Fix: make .venv/aws/ready"
    return subprocess.run(
        [python, "-m", "nearmetal.aws", *files],
        cwd=CHECKOUT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.fixture(scope="module")
def said(tmp_path_factory) -> dict[str, str]:
    """What the check says of each configuration that has something wrong."""
    directory = tmp_path_factory.mktemp("aws")
    for name, (old, new, *_) in WRONG.items():
        assert old in TEXT
        (directory / name).write_text(TEXT.replace(old, new))
    done = check(*(directory / name for name in WRONG))
    assert done.returncode == 1 and "Traceback" not in done.stdout, done.stdout
    lines = done.stdout.splitlines()
    return {
        name: "\n".join(line for line in lines if line.startswith(f"{directory / name}:"))
        for name in WRONG
    }


@pytest.mark.whole
def test_the_configuration_is_what_parallelcluster_takes_and_the_system_says():
    done = check()
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (0, f"{AWS / 'cluster.yaml'}: right"), done.stdout
    notes = [line.split(": ", 2)[2] for line in lines[:-1]]
    assert all(line.startswith("note: ") for line in lines[:-1])
    assert [note for note in notes if not note.startswith("yours to fill in: ")] == [
        note
        for note in notes
        if note.startswith("EfaValidator: The EC2 instance selected (c5n.18xlarge) supports")
    ]
    placeholders = {
        "subnet-0yourpublicsubnet",
        "subnet-yourprivatesubnet",
        "your-key-pair",
        "192.0.2.1/32",
        "your-bucket",
        "s3://your-bucket/nearmetal/node.sh",
        "ami-0youramiwithoutvf",
    }
    assert {
        note.removeprefix("yours to fill in: ") for note in notes if note.startswith("yours")
    } == placeholders


@pytest.mark.whole
def test_a_systems_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "mine.yaml").write_text("name: mine\npartitions: [{name: a}]\n")
    done = check("--system", tmp_path / "mine.yaml")
    assert done.returncode == 1 and "mine.yaml: " in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.whole
@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_with_its_line_and_the_fix(said, name):
    old, new, where, message = WRONG[name]
    line = "" if where is None else f":{TEXT.replace(old, new).split(where)[0].count(chr(10)) + 1}"
    assert re.search(rf"/{name}{line}: {re.escape(message)}", said[name]), said[name]
    assert said[name].endswith("to correct")


def walk(value, key=None):
    """Every pair of a key and its value; an item of a list has the list's key."""
    yield key, value
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from walk(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner, key)


def test_the_cluster_is_closed_encrypted_and_costs_nothing_while_it_idles():
    document = yaml.safe_load(TEXT)
    pairs = list(walk(document))
    volumes = [value for key, value in pairs if key in ("RootVolume", "EbsSettings")]
    assert len(volumes) == 5 and all(volume["Encrypted"] is True for volume in volumes)
    assert document["Imds"] == {"ImdsSupport": "v2.0"} and document["HeadNode"]["Imds"] == {
        "Secured": True
    }
    assert document["HeadNode"]["Ssh"]["AllowedIps"].endswith("/32")
    assert {value for key, value in pairs if key == "EnableWriteAccess"} == {False}
    assert not {key for key, _ in pairs} & {
        "AdditionalIamPolicies",
        "InstanceRole",
        "InstanceProfile",
    }
    assert {
        (resource["MinCount"], resource["MaxCount"])
        for queue in document["Scheduling"]["SlurmQueues"]
        for resource in queue["ComputeResources"]
    } == {(0, 2)}


def test_no_file_holds_what_is_an_accounts_own():
    for path in AWS.iterdir():
        if path.is_file() and path.suffix != ".lock":
            text = path.read_text()
            assert not re.search(r"\b\d{12}\b|AKIA|arn:aws:[^:]*:[^:]*:\d", text), path
            assert all(
                "your" in name for name in re.findall(r"\b(?:subnet|ami|sg|vpc|snap)-\w+", text)
            ), path


def test_the_readme_says_what_the_files_are():
    queues = yaml.safe_load(TEXT)["Scheduling"]["SlurmQueues"]
    for queue in queues:
        resource = queue["ComputeResources"][0]
        assert (
            f"| `{queue['Name']}` | {resource['MaxCount']} {resource['InstanceType']} (" in README
        )
    prices = re.findall(r"(\d+) x ([\d.]+) = ([\d.]+)", README)
    # And the paper's sixteen nodes, as an option.
    assert len(prices) == len(queues) + 1 and ("16", "1.591", "25.46") in prices
    assert all(f"{int(nodes) * float(price):.2f}" == total for nodes, price, total in prices)
    assert yaml.safe_load(TEXT)["HeadNode"]["CustomActions"]["OnNodeConfigured"]["Script"] in README
    minutes = yaml.safe_load(TEXT)["Scheduling"]["SlurmSettings"]["ScaledownIdletime"]
    assert f"{minutes} minutes (`ScaledownIdletime`)" in README.replace("\n", " ")
    pinned = re.search(
        r"^aws-parallelcluster==([\d.]+)", (AWS / "requirements.lock").read_text(), re.MULTILINE
    )[1]
    assert {pinned} == set(
        re.findall(r"aws-parallelcluster==([\d.]+)", README + (AWS / "requirements.in").read_text())
    )
    assert len(README.splitlines()) <= 80


def run_node_sh(tmp_path, tools) -> subprocess.CompletedProcess:
    """node.sh where packages are installed by stand-ins that only write down what they were
    told."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ["apt-get", "add-apt-repository", *tools]:
        (commands / name).write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/told\n')
        (commands / name).chmod(stat.S_IRWXU)
    for name in (
        "mkdir",
        "ln",
    ):  # and nothing else of this machine, which may have an MPICH of its own
        (commands / name).symlink_to(shutil.which(name))
    return subprocess.run(
        [shutil.which("bash"), AWS / "node.sh"],
        env={"PATH": str(commands), "NODE_ROOT": str(tmp_path)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_a_node_gets_the_modules_of_the_environments(tmp_path):
    tools = ["mpicc", "mpicxx", "mpifort", "mpirun", "mpiexec"]
    done = run_node_sh(tmp_path, [f"{tool}.mpich" for tool in tools])
    assert done.returncode == 0, done.stdout
    environments = yaml.safe_load((CHECKOUT / "site-config" / "environments.yaml").read_text())
    wanted = {module for environment in environments for module in environment.get("modules", [])}
    modules = tmp_path / "usr" / "share" / "modules" / "modulefiles"
    assert {path.name for path in modules.iterdir()} == wanted - {"openmpi"}  # which the image has
    assert (modules / "mpich").read_text().startswith("#%Module1.0\n")
    assert sorted(path.name for path in (tmp_path / "opt/modules/mpich/bin").iterdir()) == sorted(
        tools
    )
    told = (tmp_path / "told").read_text()
    assert all(
        re.search(rf"apt-get .*install.* {name}\b", told)
        for name in ("mpich", "qperf", "apptainer", "libmpj-java", "openjdk-25-jdk-headless")
    )


def test_a_node_that_lacks_a_tool_fails_and_names_it(tmp_path):
    done = run_node_sh(tmp_path, ["mpicc.mpich", "mpicxx.mpich"])
    assert done.returncode == 1 and "mpifort.mpich is missing. Fix: " in done.stdout


def run_spack_sh(tmp_path, system: str, *names, **settings) -> subprocess.CompletedProcess:
    """spack.sh, where git, Spack and Nearmetal's Python only write down what they were told."""
    commands, told = tmp_path / "bin", tmp_path / "told"
    commands.mkdir()
    spack = f'[ "$1" = arch ] && echo {system} || echo "spack $*" >> {told}'
    clone = (
        f'echo "git $*" >> {told}; mkdir -p {tmp_path}/spack/bin; '
        f"cp {commands}/spack {tmp_path}/spack/bin/"
    )
    python = f'echo "python $*" >> {told}'
    for name, does in (("spack", spack), ("git", clone), ("python-of-nearmetal", python)):
        (commands / name).write_text(f"#!/bin/sh\n{does}\n")
        (commands / name).chmod(stat.S_IRWXU)
    return subprocess.run(
        ["bash", AWS / "spack.sh", *names],
        env={
            "PATH": f"{commands}:{os.environ['PATH']}",
            "SPACK_DIR": str(tmp_path / "spack"),
            "PYTHON": str(commands / "python-of-nearmetal"),
            **settings,
        },
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def test_the_head_node_installs_by_the_locks_from_a_cache(tmp_path):
    done = run_spack_sh(tmp_path, "debian13", "mpich", "apps", SPACK_CACHE="s3://your-bucket/spack")
    assert done.returncode == 0 and "share/spack/setup-env.sh" in done.stdout, done.stdout
    told = (tmp_path / "told").read_text().splitlines()
    assert "--branch v1.1.0 " in told[0] and told[0].startswith("git clone")
    assert told[1:] == [
        "spack mirror remove --scope site nearmetal",
        "spack mirror add --scope site --unsigned nearmetal s3://your-bucket/spack",
        *(
            f"spack -e {CHECKOUT}/spack-env/{name} install --only-concrete {how}"
            for name in ("mpich", "apps")
            for how in ("--cache-only", "--fail-fast")
        ),
    ]


def test_another_system_than_that_of_the_locks_gets_its_own(tmp_path):
    done = run_spack_sh(tmp_path, "ubuntu24.04")
    assert done.returncode == 0 and "locks are for debian13, and this is ubuntu24.04" in done.stdout
    told = (tmp_path / "told").read_text().splitlines()
    assert told[1] == f"python -m nearmetal.locks.spack --write --spack {tmp_path}/spack/bin/spack"
    assert [line.split("/")[-1].split()[0] for line in told[2:]] == [
        *("openmpi", "mpich", "mpj-native", "fastmpj", "apps"),
    ]
    assert not any("mirror" in line for line in told)


def test_an_environment_that_is_not_there_is_named_before_anything_is_done(tmp_path):
    done = run_spack_sh(tmp_path, "debian13", "opnmpi")
    assert done.returncode == 1 and "spack-env/opnmpi has no spack.lock. Fix: " in done.stdout
    assert not (tmp_path / "told").exists()
