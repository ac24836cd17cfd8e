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
        "MaxCount: 2  #",
        "MaxCount: 16  #",
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


#: ParallelCluster wants the architecture of the head node on all others; hpc7g is in few zones.
ARM = (("m5.large", "m7g.large"), ("us-east-2", "us-east-1"))
TYPE = re.compile(r"# +(\S+\d[a-z]+\.\d+xlarge) +(\d+) +(\d+) +(\d+) +(\S.*)")
SYSTEM = (CHECKOUT / "site-config" / "systems" / "ec2.yaml").read_text()


def other_type(directory, row: tuple[str, ...]) -> tuple[str, ...]:
    """Options for copies of both files with the queue `efa` alone, of another instance type.

    :arg row: of the comment in ec2.yaml.
    """
    name, gbps, cores, memory, cpu = row
    document, system = yaml.safe_load(TEXT), yaml.safe_load(SYSTEM)
    queues, partitions = document["Scheduling"]["SlurmQueues"], system["partitions"]
    document["Scheduling"]["SlurmQueues"] = [queue for queue in queues if queue["Name"] == "efa"]
    system["partitions"] = [one for one in partitions if one["name"] == "efa"]
    system["partitions"][0]["extras"] |= {
        "instance_type": name,
        "link_speed_gbps": int(gbps),
        "cores_per_node": int(cores),
        "memory_gb": int(memory),
    }
    text = yaml.safe_dump(document).replace("hpc7a.96xlarge", name)
    if "Graviton" in cpu:
        for old, new in ARM:
            text = text.replace(old, new)
    (directory / f"{name}.yaml").write_text(text)
    (directory / f"{name}-system.yaml").write_text(yaml.safe_dump(system))
    return ("--system", directory / f"{name}-system.yaml", directory / f"{name}.yaml")


@pytest.mark.whole
def test_the_other_instance_types_are_as_ec2_describes_them(tmp_path):
    rows = [
        match.groups()
        for match in map(TYPE.fullmatch, map(str.strip, SYSTEM.splitlines()))
        if match
    ]
    assert {row[0].partition(".")[0] for row in rows} == {"hpc8a", "hpc6a", "hpc7g", "c7gn"}
    for row in rows:
        done = check(*other_type(tmp_path, row))
        assert done.returncode == 0, done.stdout


@pytest.mark.whole
def test_every_system_of_node_sh_is_one_of_parallelclusters(tmp_path):
    files = []
    for system in DISTRIBUTIONS:
        files.append(tmp_path / system)
        image = "\n  CustomAmi: ami-0youramiwithoutvf" if system.startswith("rocky") else ""
        files[-1].write_text(TEXT.replace("Os: ubuntu2404", f"Os: {system}{image}"))
    done = check(*files)
    assert done.returncode == 0, done.stdout
    files[0].write_text(TEXT.replace("Os: ubuntu2404", "Os: alinux2"))
    done = check(files[0])
    known = set(re.search("Must be one of: ([^.]*)", done.stdout)[1].split(", "))
    assert done.returncode == 1 and known == DISTRIBUTIONS.keys()
    assert all(f"`{system}`" in README for system in DISTRIBUTIONS)


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
    assert len(volumes) == 6 and all(volume["Encrypted"] is True for volume in volumes)
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
    } == {(0, 2), (0, 16)}


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
    assert len(prices) == len(queues) and ("16", "1.591", "25.46") in prices
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


TOOLS = ["mpicc", "mpicxx", "mpifort", "mpirun", "mpiexec"]
APT = "gcc g++ gfortran make git python3-venv environment-modules ethtool hwloc-nox numactl pkgconf"
APT += " software-properties-common openjdk-25-jdk-headless qperf apptainer mpich libmpich-dev"
APT += " libmpj-java"
DNF = "gcc gcc-c++ gcc-gfortran make git environment-modules ethtool hwloc numactl python3.12 qperf"
DNF += " pkgconf-pkg-config"
RED_HAT = f"{DNF} apptainer mpich mpich-devel java-25-openjdk-devel gcc-toolset-14-gcc"
RED_HAT += " gcc-toolset-14-gcc-c++ gcc-toolset-14-gcc-gfortran"
EPEL = "https://dl.fedoraproject.org/pub/epel/epel-release-latest-{}.noarch.rpm"
GCC14 = "gcc-14 g++-14 gfortran-14"
AMAZON = f"{DNF} gcc14 gcc14-c++ gcc14-gfortran java-25-amazon-corretto-devel spal-release"
#: Os of ParallelCluster -> VERSION_ID, packages that the stand-in of its package manager has, and
#: what it lacks. Amazon's has as little as it may, so that nothing lacking ends a node.
DISTRIBUTIONS = {
    "ubuntu2404": ("24.04", f"{APT} {GCC14}", []),
    "ubuntu2204": ("22.04", APT, ["GCC 14"]),
    "rocky8": ("8.10", f"{RED_HAT} epel-release", ["MPJ Express"]),
    "rocky9": ("9.6", f"{RED_HAT} epel-release", ["MPJ Express"]),
    "rhel8": ("8.10", f"{RED_HAT} {EPEL.format(8)}", ["MPJ Express"]),
    "rhel9": ("9.6", f"{RED_HAT} {EPEL.format(9)}", ["MPJ Express"]),
    "alinux2023": ("2023", AMAZON, ["Apptainer", "MPICH", "MPJ Express"]),
}
#: Refuses unknown packages as dnf does, and writes down its words.
MANAGER = """#!/bin/sh
echo "${{0##*/}} $*" >> {log}
for word; do
    case $word in -* | DPkg* | install | update) continue ;; esac
    case " {packages} " in *" $word "*) continue ;; esac
    echo "Error: Unable to find a match: $word"
    exit 1
done
"""


def run_node_sh(tmp_path, system: str, lacking: str = "") -> subprocess.CompletedProcess:
    """node.sh with a stand-in of a distribution's package manager.

    :arg lacking: a package or a tool of MPICH that this mirror lacks.
    """
    version, packages, _ = DISTRIBUTIONS[system]
    packages = " ".join(name for name in packages.split() if name != lacking)
    commands, log = tmp_path / "bin", tmp_path / "log"
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "os-release").write_text(f'VERSION_ID="{version}"\n')
    scripts = {}
    manager = MANAGER.format(log=log, packages=packages)
    if system.startswith("ubuntu"):
        directory, suffix, scripts[commands / "apt-get"] = "usr/bin", ".mpich", manager
        scripts[commands / "add-apt-repository"] = f'#!/bin/sh\necho "add $*" >> {log}\n'
    else:
        directory, suffix, scripts[commands / "dnf"] = "usr/lib64/mpich/bin", "", manager
    for tool in TOOLS:
        if tool != lacking:
            scripts[tmp_path / directory / f"{tool}{suffix}"] = "#!/bin/sh\n"
    for path, text in scripts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(stat.S_IRWXU)
    # And nothing else of this machine, which may have an MPICH of its own.
    for name in ("mkdir", "ln"):
        (commands / name).symlink_to(shutil.which(name))
    return subprocess.run(
        [shutil.which("bash"), AWS / "node.sh"],
        env={"PATH": str(commands), "NODE_ROOT": str(tmp_path)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


@pytest.mark.parametrize("system", DISTRIBUTIONS)
def test_a_node_gets_the_modules_of_the_environments(tmp_path, system):
    done = run_node_sh(tmp_path, system)
    assert done.returncode == 0, done.stdout
    lacks = re.findall("node.sh: lacks ([^(]+) \\(", done.stdout)
    assert lacks == DISTRIBUTIONS[system][2], done.stdout
    environments = yaml.safe_load((CHECKOUT / "site-config" / "environments.yaml").read_text())
    wanted = {module for environment in environments for module in environment.get("modules", [])}
    wanted -= {"openmpi"}  # which the image has
    for what, module in (("MPICH", "mpich"), ("MPJ Express", "mpj")):
        if what in lacks:
            wanted.remove(module)
    modules = {path.name: path for path in (tmp_path / "usr/share").glob("?odules/modulefiles/*")}
    assert modules.keys() == wanted
    if "mpich" in wanted:
        assert modules["mpich"].read_text().startswith("#%Module1.0\n")
        bin = tmp_path / "opt/modules/mpich/bin"
        assert {path.name for path in bin.iterdir() if path.exists()} == set(TOOLS)


@pytest.mark.parametrize(
    ("system", "lacking", "sentence"),
    [
        ("ubuntu2404", "mpifort", "mpifort.mpich is missing. Fix: "),
        ("rocky9", "mpifort", "mpifort is missing. Fix: "),
        ("ubuntu2404", "gfortran", "cannot install all of gcc g"),
        ("rhel8", "gcc-gfortran", "cannot install all of gcc gcc-c++"),
    ],
)
def test_a_node_that_lacks_what_all_checks_need_fails_and_names_it(
    tmp_path, system, lacking, sentence
):
    done = run_node_sh(tmp_path, system, lacking)
    assert done.returncode == 1 and sentence in done.stdout


def run_spack_sh(tmp_path, system: str, *names, **settings) -> subprocess.CompletedProcess:
    """spack.sh, where git, Spack and Nearmetal's Python only write down what they were told."""
    commands, told, checkout = tmp_path / "bin", tmp_path / "told", tmp_path / "checkout"
    commands.mkdir()
    shutil.copytree(CHECKOUT / "spack-env", checkout / "spack-env")
    script = checkout / "site-config" / "aws" / "spack.sh"
    script.parent.mkdir(parents=True)
    shutil.copy(AWS / "spack.sh", script)
    spack = f'[ "$1" = arch ] && echo {system} || echo "spack $*" >> {told}'
    clone = (
        f'echo "git $*" >> {told}; mkdir -p {tmp_path}/spack/bin; '
        f"cp {commands}/spack {tmp_path}/spack/bin/"
    )
    lock = "debian13-x86_64_v3.lock"
    copied = f"for place in spack-env/*/locks; do cp $place/{lock} $place/{system}-x86_64_v3.lock"
    python = f'echo "python $*" >> {told}; {copied}; done'
    for name, does in (("spack", spack), ("git", clone), ("python-of-nearmetal", python)):
        (commands / name).write_text(f"#!/bin/sh\n{does}\n")
        (commands / name).chmod(stat.S_IRWXU)
    return subprocess.run(
        ["bash", script, *names],
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
            f"spack -e {tmp_path}/checkout/spack-env/{name} install --only-concrete {how}"
            for name in ("mpich", "apps")
            for how in ("--cache-only", "--fail-fast")
        ),
    ]


def test_another_system_than_that_of_the_locks_gets_its_own(tmp_path):
    done = run_spack_sh(tmp_path, "ubuntu24.04")
    assert done.returncode == 0 and "no lock ubuntu24.04-x86_64_v3.lock" in done.stdout
    told = (tmp_path / "told").read_text().splitlines()
    assert told[1] == f"python -m nearmetal.locks.spack --write --spack {tmp_path}/spack/bin/spack"
    assert [line.split("/")[-1].split()[0] for line in told[2:]] == [
        *("openmpi", "mpich", "mpj-native", "fastmpj", "apps"),
    ]
    assert (tmp_path / "checkout" / "spack-env" / "apps" / "spack.lock").is_file()
    assert not any("mirror" in line for line in told)


def test_an_environment_that_is_not_there_is_named_before_anything_is_done(tmp_path):
    done = run_spack_sh(tmp_path, "debian13", "opnmpi")
    assert done.returncode == 1 and "spack-env/opnmpi has no locks. Fix: " in done.stdout
    assert not (tmp_path / "told").exists()
