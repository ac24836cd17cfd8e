"""The lab is a Slurm cluster as a site has it, heals, and leaves nothing behind."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
import topology
from room import Room

from .conftest import CHECKOUT

pytestmark = pytest.mark.lab
PLAN = topology.load()
NODES = [node.name for node in PLAN.nodes]


def test_status_shows_every_node_idle_and_its_link(lab):
    said = lab("status").stdout
    for node in PLAN.nodes:
        assert re.search(
            rf"^{node.name} +{node.link_class.name} +{node.link_class.link} +{node.address} .* idle$",
            said,
            re.M,
        )


def test_slurm_has_the_partitions_and_cc_is_on_the_emulated_nodes(lab):
    nodes = dict(line.split() for line in lab.run('sinfo -ho "%R %N"').splitlines())
    assert nodes == {
        "native": "native[1-2]",
        "passthrough": "passthrough[1-2]",
        "emulated": "emulated[1-2]",
        "cc": "emulated[1-2]",
        "vswitch": "vswitch[1-4]",
        "vswitches": "vswitches[1-4]",
    }


def test_the_user_is_an_ordinary_one_with_reframes_configuration(lab):
    said = lab.run("id -un; id -u; echo $RFM_CONFIG_PATH; pwd; command -v reframe").split()
    assert said[0] == "nearmetal" and int(said[1]) != 0
    assert said[2:] == [f"{CHECKOUT}/site-config", str(CHECKOUT), "/opt/nearmetal/bin/reframe"]


def test_a_command_line_reaches_the_lab_as_typed(lab):
    done = subprocess.run(
        ["make", "--no-print-directory", "lab-exec", """CMD=echo "it's  $HOME" '*' """],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "it's  /home/nearmetal *\n", done.stderr


def test_the_exit_code_of_a_command_comes_back(lab):
    assert lab("exec", "exit 7", check=False).returncode == 7


def test_jobs_see_the_checkout_and_accounting_sees_the_jobs(lab):
    said = lab.run(
        f'srun --quiet -p cc -N2 -J counted sh -c "hostname; whoami; ls {CHECKOUT}/pyproject.toml"'
    )
    assert sorted(said.split()) == sorted(
        ["emulated1", "emulated2", *["nearmetal", f"{CHECKOUT}/pyproject.toml"] * 2]
    )
    for _ in range(50):
        accounts = lab.run("sacct -nXP --name counted -o state,partition,nodelist")
        if "COMPLETED" in accounts:
            break
    assert "COMPLETED|cc|emulated[1-2]" in accounts.splitlines()


def test_jobs_run_one_at_a_time_also_one_over_two_partitions(lab):
    """They share the host's cores. A heterogeneous job is the one that has two parts at once."""
    one = "#SBATCH -J alone -o /dev/null -N1 -p passthrough\n"
    two = "#SBATCH -J alone -o /dev/null -N1 -p native --qos=pair\n#SBATCH hetjob\n#SBATCH -N1 -p emulated --qos=pair\n"
    for options in (one, two, one, two):
        lab.run(f'printf "#!/bin/sh\n{options}sleep 2\n" | sbatch')
    lab.run('while [ -n "$(squeue -h -n alone)" ]; do sleep 0.5; done')
    for _ in range(50):
        lines = lab.run(
            "SLURM_TIME_FORMAT=%s sacct -nXP --name alone -o jobid,state,start,end"
        ).split()
        parts = [line.split("|") for line in lines]
        if [state for _, state, *_ in parts] == ["COMPLETED"] * 6:
            break
    times = {jobid.split("+")[0]: (int(start), int(end)) for jobid, _, start, end in parts}
    assert len(parts) == 6 and len(times) == 4
    ordered = sorted(times.values())
    assert all(earlier[1] <= later[0] for earlier, later in zip(ordered, ordered[1:])), ordered


@pytest.mark.parametrize("node", NODES)
def test_a_node_is_a_machine_of_its_own_behind_its_link(lab, node):
    """The driver is what the class says, and what reaches the other nodes of a class crosses it."""
    wanted = {"bridge": "veth", "macvlan": "macvlan passthru", "vde": "tap", "vde-each": "tap"}
    link = next(n.link_class.link for n in PLAN.nodes if n.name == node)
    facts = lab.run("hostname; sh reframe_checks/src/provenance.sh", node=node)
    assert facts.startswith(node)
    assert f"nic.eth0.driver={wanted[link]}" in facts


def test_mpi_modules_load_and_exclude_each_other(lab):
    for name, word in (("openmpi", "Open MPI"), ("mpich", "MPICH")):
        said = lab.run(
            f"module load {name} && mpicc --version | head -n 1 && mpirun --version | head -n 3",
            check=False,
        )
        assert "gcc" in said and (word in said or "HYDRA" in said)
    assert "conflict" in lab.run("module load openmpi mpich", check=False).lower()


def test_tools_of_the_image(lab):
    lab.run(
        "for tool in gcc gfortran javac hwloc-ls numactl qperf hpcc apptainer sacct; do "
        "command -v $tool > /dev/null || { echo $tool; exit 1; }; done; test -e /usr/share/java/mpj.jar"
    )


def test_apptainer_builds_and_runs_an_image_as_the_user_in_a_job(lab):
    # Whatever a program needs to run, as an image: no registry is asked.
    lab.run(
        "rm -rf ~/image && mkdir -p ~/image/root && cd ~/image && "
        'cp --parents --dereference /bin/hostname $(ldd /bin/hostname | grep -o "/[^ ]*") root && '
        "apptainer --silent build image.sif root"
    )
    said = lab.run(
        "srun --quiet -p native -N2 apptainer --silent exec ~/image/image.sif /bin/hostname"
    )
    assert sorted(said.split()) == ["native1", "native2"]


# A second checkout's lab: two at once, healing, and what is left after `down`.


def host_state() -> dict[str, set]:
    """Everything of a lab that could stay behind on the host. What else the host does meanwhile is not of a lab: its
    processes share the namespaces of this one."""
    ours = {os.readlink(space) for space in Path("/proc/self/ns").iterdir()}
    namespaces, processes = set(), set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            spaces = {os.readlink(space) for space in (directory / "ns").iterdir()} - ours
            command = (directory / "comm").read_text().strip()
        except OSError:
            continue
        namespaces |= spaces
        if spaces:
            processes.add((directory.name, command))
    links = subprocess.run(
        ["ip", "-o", "link"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    return {
        "processes": processes,
        "namespaces": namespaces,
        "links": {line.split(":")[1].strip() for line in links},
        "mounts": {
            line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        },
        "files": {
            str(path)
            for top in ("/run/nearmetal", "/run/netns", "/var/cache/nearmetal")
            for path in Path(top).glob("*")
        },
    }


@pytest.fixture(scope="module")
def before(lab, other_lab):
    return host_state()


def up(lab):
    """Its words; and a job runs after it. (A minute: a killed controller may remember a job that had ended.)"""
    said = lab("up").stdout
    assert sorted(lab.run("srun --quiet -p native -N2 hostname", timeout=120).split()) == [
        "native1",
        "native2",
    ]
    return said


def test_two_checkouts_run_a_lab_each_at_once(lab, other_lab, before):
    up(other_lab)
    done = other_lab(
        "exec",
        'reframe -c reframe_checks -r --system lab:native -n "pingpong%placement=internode" -p "^mpich$"',
    )
    assert "Ran 1/1" in done.stdout
    other_lab.run("touch ~/mine")
    assert "mine" not in lab.run("ls ~")
    assert lab("status").returncode == other_lab("status").returncode == 0


def test_up_again_is_quick_and_changes_nothing(other_lab):
    room = Room(other_lab.checkout)
    first, started = room.state, time.monotonic()
    assert "healthy" in other_lab("up").stdout
    assert room.state == first and time.monotonic() - started < 10


@pytest.mark.parametrize(
    "node, daemon",
    [
        ("login", "munged"),
        ("login", "slurmctld"),
        ("login", "slurmdbd"),
        ("login", "mariadbd"),
        ("native1", "slurmd"),
        ("native2", "munged"),
    ],
)
def test_up_heals_a_dead_daemon(other_lab, node, daemon):
    other_lab.run(f"pkill -9 -x {daemon}", node=node, root=True)
    up(other_lab)
    assert other_lab.run("sacctmgr -nP show cluster format=cluster").strip() == PLAN.cluster


def test_up_heals_a_drained_node_and_status_names_it_before(other_lab):
    other_lab.run("scontrol update nodename=native2 state=drain reason=test", root=True)
    sick = other_lab("status", check=False)
    assert sick.returncode == 1 and "not usable: native2 (heal with: make lab-up)" in sick.stdout
    up(other_lab)


def test_up_starts_anew_what_has_lost_a_node(other_lab):
    other_lab.run("pkill -9 -x tini", node="native1", root=True, check=False)
    Room(other_lab.checkout).run("sh", "-c", "kill -9 $(cat /lab/run/native1.pid)", check=False)
    assert "a node is gone" in up(other_lab)


def test_up_starts_anew_what_had_not_come_up_whole(other_lab):
    Room(other_lab.checkout).record(whole=False)
    assert "it had not come up whole; starting it anew" in up(other_lab)


def test_up_starts_anew_what_was_started_by_another_definition(other_lab):
    template = other_lab.checkout / "site-config/lab/templates/slurm.conf"
    template.write_text(template.read_text() + "# changed\n")
    assert (
        "the node image, site-config/lab or what was asked of virtual machines changed since it started; starting it anew"
        in up(other_lab)
    )


def test_up_heals_after_a_crash_of_all_of_it(other_lab):
    os.kill(Room(other_lab.checkout).state["pid"], signal.SIGKILL)
    said = other_lab("status", check=False)
    assert said.returncode == 1 and "lab: down (start it with: make lab-up)" in said.stdout
    up(other_lab)


def test_up_does_not_take_a_process_of_another_boot_for_its_own(other_lab):
    """After a reboot the recorded number may be anybody's."""
    room = Room(other_lab.checkout)
    pid = room.state["pid"]
    record = room.directory / "room.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"pid": os.getpid()}))
    assert room.state is None
    other_lab("status", check=False)
    os.kill(pid, signal.SIGKILL)
    up(other_lab)


def test_a_command_for_a_lab_that_is_down_says_how_to_start_it(other_lab):
    other_lab("down")
    done = other_lab("exec", "true", check=False)
    assert done.returncode == 1 and "make lab-up" in done.stdout


def test_down_leaves_nothing_behind(other_lab, before):
    up(other_lab)
    assert all(
        host_state()[kind] - before[kind] for kind in ("processes", "namespaces", "files")
    )  # the count does count
    other_lab("down")
    for _ in range(100):  # the kernel takes network namespaces away in the background
        after = host_state()
        left = {kind: after[kind] - before[kind] for kind in after}
        if not any(left.values()):
            break
        time.sleep(0.1)
    assert not any(left.values()), left
    assert set(other_lab.checkout.iterdir()) - {other_lab.checkout / "results"} == {
        other_lab.checkout / path.name
        for path in CHECKOUT.iterdir()
        if (other_lab.checkout / path.name).exists() and path.name != "results"
    }
