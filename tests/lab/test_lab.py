"""The lab is a Slurm cluster as a site has it, heals, and leaves nothing behind."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nearmetal.lab import cluster, topology
from nearmetal.lab import namespaces as namespaces_module
from nearmetal.lab.links import CONGESTION_CONTROLS
from nearmetal.lab.namespaces import LabError, Namespaces, images_in_use, wait_until
from tests.support.paths import CHECKOUT
from tests.support.said import lacking

#: Linux keeps processors from sleeping while a process holds 0 in it.
AWAKE = Path("/dev/cpu_dma_latency")

PLAN = topology.load()
NODES = [node.name for node in PLAN.nodes]


def test_status_shows_every_node_idle_and_its_link(lab):
    said = lab("status").stdout
    for node in PLAN.nodes:
        assert re.search(
            rf"^{node.name} +{node.link_class.name} +{node.link_class.link} +{node.address} .* idle$",  # noqa: E501
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
    two = (
        "#SBATCH -J alone -o /dev/null -N1 -p native --qos=pair\n"
        "#SBATCH hetjob\n"
        "#SBATCH -N1 -p emulated --qos=pair\n"
    )
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
    assert all(earlier[1] <= later[0] for earlier, later in itertools.pairwise(ordered)), ordered


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
        "for tool in gcc gfortran javac hwloc-ls numactl qperf hpcc apptainer sacct; do command "
        "-v $tool > /dev/null || { echo $tool; exit 1; }; done; test -e /usr/share/java/mpj.jar"
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


def processes_of(checkout: Path) -> set[str]:
    """Processes of a checkout's lab: they see the checkout mounted, or are about to make that so.
    Other labs of this host do not count."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mounted = [line.split()[4] for line in (process / "mountinfo").read_text().splitlines()]
            command = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(checkout) in mounted or str(Namespaces(checkout).directory) in command:
            found.add(f"{process.name} {command}")
    return found


def state_of(checkout: Path) -> dict[str, set]:
    """Everything of a checkout's lab that could stay behind on the host. Other labs do not
    count."""
    shared = {os.readlink(space) for space in Path("/proc/self/ns").iterdir()}
    processes, namespaces = set(), set()
    for number in processes_of(checkout):
        processes.add(number)
        try:
            spaces = Path("/proc", number.split()[0], "ns").iterdir()
            namespaces |= {os.readlink(space) for space in spaces}
        except OSError:
            continue  # it has ended meanwhile
    mounts = {line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    run = Namespaces(checkout).directory
    return {
        "processes": processes,
        "namespaces": namespaces - shared,
        "mounts": {path for path in mounts if path.startswith((str(checkout), str(run)))},
        "files": {str(path) for path in run.parent.glob(f"{run.name}*")},
    }


def alive(namespaces: set[str]) -> set[str]:
    """Those of these namespaces that a process of the host is in."""
    found = set()
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            found |= {os.readlink(space) for space in (directory / "ns").iterdir()}
        except OSError:
            continue
    return found & namespaces


def links() -> set[str]:
    """Network links in the host's own namespace, where no lab makes any."""
    listed = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
    return {line.split(":")[1].strip() for line in listed.stdout.splitlines()}


@pytest.fixture(scope="module")
def links_before(other_lab):
    """Network links of the host before the second lab starts."""
    return links()


@pytest.fixture
def running_lab(other_lab, links_before):
    """The second checkout's lab, up."""
    if not Namespaces(other_lab.checkout).state:
        other_lab("up")
    return other_lab


def up(lab):
    """Its words; and a job runs after it. (A minute: a killed controller may remember a job that
    had ended.)"""
    said = lab("up").stdout
    assert sorted(lab.run("srun --quiet -p native -N2 hostname", timeout=120).split()) == [
        "native1",
        "native2",
    ]
    return said


@pytest.mark.whole
@pytest.mark.ci
def test_two_checkouts_run_a_lab_each_at_once(lab, other_lab):
    up(other_lab)
    done = other_lab(
        "exec",
        'reframe -c reframe_checks -r --system lab:native -n "pingpong%placement=internode" -p '
        '"^mpich$"',
    )
    assert "Ran 1/1" in done.stdout
    other_lab.run("touch ~/mine")
    assert "mine" not in lab.run("ls ~")
    assert lab("status").returncode == other_lab("status").returncode == 0


@pytest.mark.whole
def test_down_ends_a_start_that_was_interrupted_at_any_moment(other_lab):
    """From the first file of the start on, every few milliseconds, until its first second is
    over."""
    namespaces, lived = Namespaces(other_lab.checkout), 0
    for moment in range(16):
        other_lab("down")
        start = subprocess.Popen(
            [sys.executable, "-m", "nearmetal.lab", "up"],
            cwd=other_lab.checkout,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        while not namespaces.directory.exists():
            assert start.poll() is None, start.communicate()
            time.sleep(0.001)
        time.sleep(0.004 * moment**2)
        os.kill(start.pid, signal.SIGTERM if moment % 2 else signal.SIGKILL)
        start.wait(timeout=60)
        lived += bool(processes_of(other_lab.checkout))
        other_lab("down")
        assert not processes_of(other_lab.checkout) and not namespaces.directory.exists(), moment
    assert lived > 8  # there was something to find


@pytest.mark.whole
def test_a_start_that_was_interrupted_is_named_and_up_starts_again(other_lab):
    other_lab("down")
    namespaces = Namespaces(other_lab.checkout)
    up(other_lab)
    record = json.loads((namespaces.directory / "state.json").read_text())
    (namespaces.directory / "state.json").write_text(json.dumps(record | {"pid": None}))
    assert record["image"] in images_in_use()
    said = other_lab("status", check=False)
    assert said.returncode == 1 and "interrupted" in said.stdout and "make lab-up" in said.stdout
    assert not lacking(up(other_lab), "interrupted", "starting it again")
    assert not Path(f"/proc/{record['pid']}").exists()


def test_the_lock_holds_whoever_removes_its_file(tmp_path, monkeypatch):
    """`down` removes the file while others wait for it: of all that come, one at a time gets in."""
    monkeypatch.setattr(namespaces_module, "STATE", tmp_path)
    inside, met = [], []

    def enter(number):
        namespaces = Namespaces(tmp_path / "checkout")
        for _ in range(50):
            with namespaces.locked(say=lambda text: None):
                met.append(len(inside))
                inside.append(number)
                time.sleep(0.0005)
                inside.remove(number)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(enter, range(6)))
    assert met == [0] * 300 and not list(tmp_path.iterdir())


def test_up_again_changes_nothing(running_lab):
    namespaces = Namespaces(running_lab.checkout)
    first = namespaces.state
    assert "healthy" in running_lab("up").stdout
    assert namespaces.state == first


@pytest.mark.whole
@pytest.mark.ci
def test_up_heals_dead_daemons(running_lab):
    for node, daemon in (("login", "munged"), ("login", "slurmdbd"), ("native1", "slurmd")):
        running_lab.end(daemon, node=node, signal="KILL")
    up(running_lab)
    assert running_lab.run("sacctmgr -nP show cluster format=cluster").strip() == PLAN.cluster


#: Where a fault is introduced by which script (None: in the namespaces of the lab), and what status
#: says of it.
FAULTS = {
    "a switch is gone": (None, "kill -9 $(pgrep -f '^vde_switch --sock /lab/vde2 ')", "emulated1"),
    "a switch is stopped": (
        None,
        "kill -STOP $(pgrep -f '^vde_switch --sock /lab/vde4x2 ')",
        "vswitches2: no answer over its link",
    ),
    "a plug is gone": (
        None,
        "kill -9 $(pgrep -n -f '^vde_plug2tap --sock /lab/vde3 ')",
        "vswitch4: no answer over its link",
    ),
    "a switch has no priority": (
        None,
        "chrt --other --pid 0 $(pgrep -f '^vde_switch --sock /lab/vde2 ')",
        "link class emulated: its switch does not go before the ranks",
    ),
    "a bridge is down": (None, "ip link set br0 down", "native1: no answer over its link"),
    "a bridge has lost a port": (None, "ip link set p1x1 nomaster", "passthrough1: no answer"),
    "a macvlan is down": ("passthrough2", "ip link set eth0 down", "passthrough2: no answer"),
    "a node has lost its address": ("native2", "ip address flush dev eth0", "native2: no answer"),
    "a node has lost its route": ("emulated1", "ip route del default", "emulated1: no route to"),
    "the controller has lost a leg": ("login", "ip link del emulated", "emulated lacks 10.77.2.1"),
    "classes are apart": ("login", "echo 0 > /proc/sys/net/ipv4/ip_forward", "forwards nothing"),
    "the database is gone": ("login", "pkill -9 -x mariadbd", "mariadbd is gone"),
    "the database is stopped": ("login", "pkill -STOP -x mariadbd", "mariadbd is stopped"),
    "the database keeps nothing": (
        "login",
        "mariadb -e 'SET GLOBAL read_only=1'",
        "mariadbd does not answer",
    ),
    "slurmdbd is stopped": ("login", "pkill -STOP -x slurmdbd", "slurmdbd is stopped"),
    "slurmctld is gone": ("login", "pkill -9 -x slurmctld", "slurmctld is gone"),
    "munged is stopped": ("native1", "pkill -STOP -x munged", "munged is stopped"),
    "slurmd is stopped": ("native2", "pkill -STOP -x slurmd", "slurmd is stopped"),
    "a user's process is left over": (
        "native1",
        (
            "runuser -u nearmetal -- setsid sh -c 'sleep 1000 & sleep 0.1' < /dev/null > /dev/null "
            "2>&1"
        ),
        "left-over processes of nearmetal: sleep",
    ),
    "a left-over process has slurmstepd's name": (
        "native1",
        (
            "cp /bin/sleep /tmp/slurmstepd; runuser -u nearmetal -- setsid bash -c "
            "'exec -a \"slurmstepd: [99999.0]\" /tmp/slurmstepd 1000' < /dev/null > /dev/null 2>&1 "
            "& until pgrep -x slurmstepd; do sleep 0.05; done"
        ),
        "left-over processes of nearmetal: slurmstepd",
    ),
    "the slurmstepd of a running step is gone": (
        "native1",
        (
            "runuser -u nearmetal -- sbatch -D /tmp -o /dev/null -p native -N 2 "
            "--wrap 'srun sleep 300'; until pgrep -x sleep -u nearmetal; do sleep 0.05; done; "
            "pkill -KILL -f '^slurmstepd: .[0-9]+[.]0.'"
        ),
        "running on native[1-2]: its slurmstepd on native1 is gone",
    ),
}


def test_nodes_have_a_congestion_control_of_their_own(running_lab):
    namespaces = Namespaces(running_lab.checkout)
    for node in ("login", "native1", "emulated2", "vswitches4"):
        name = namespaces.run("cat", "/proc/sys/net/ipv4/tcp_congestion_control", node=node)
        assert name.strip() in CONGESTION_CONTROLS


#: Those at a time that do not hide each other.
AT_ONCE = [
    ("a switch is gone", "a bridge is down", "a macvlan is down", "a plug is gone"),
    ("a switch is stopped", "a bridge has lost a port", "a node has lost its address"),
    (
        "the controller has lost a leg",
        "the database is gone",
        "munged is stopped",
        "slurmd is stopped",
    ),
    (
        "classes are apart",
        "the database is stopped",
        "a left-over process has slurmstepd's name",
    ),
    # Routes are asked for where all links answer.
    (
        "a node has lost its route",
        "slurmctld is gone",
        "the database keeps nothing",
        "a user's process is left over",
    ),
    (
        "slurmdbd is stopped",
        "the slurmstepd of a running step is gone",
        "a switch has no priority",
    ),
]


def test_each_fault_is_introduced():
    assert sorted(fault for faults in AT_ONCE for fault in faults) == sorted(FAULTS)


@pytest.mark.whole
@pytest.mark.ci
@pytest.mark.parametrize("faults", AT_ONCE, ids=" and ".join)
def test_status_names_faults_and_up_heals_them(running_lab, faults):
    namespaces = Namespaces(running_lab.checkout)
    running_lab("up")
    first = namespaces.state
    for node, script, _ in map(FAULTS.get, faults):
        namespaces.run("sh", "-c", script, node=node, check=False)
    status = running_lab("status", check=False, timeout=200)
    said = [FAULTS[fault][2] for fault in faults]
    assert status.returncode == 1 and not lacking(status.stdout, *said, "make lab-up")
    healed = up(running_lab)
    assert not lacking(healed, "lab: healing: ", *said) and "again" not in healed
    assert namespaces.state == first and running_lab("status").returncode == 0


@pytest.mark.whole
def test_up_heals_a_lost_database(running_lab):
    running_lab.run("mariadb -e 'DROP DATABASE slurm_acct_db'", root=True)
    assert "slurmdbd does not answer" in running_lab("status", check=False).stdout
    up(running_lab)
    assert running_lab.run("sacctmgr -nP show user format=user").split() == ["nearmetal", "root"]


@pytest.mark.whole
def test_a_full_file_system_is_named_and_takes_no_memory_of_others(running_lab):
    running_lab.run("head -c 100G /dev/zero > /tmp/filler", node="native1", check=False)
    running_lab.run("echo fits > /tmp/mine", node="native2")
    said = running_lab("up", check=False)
    assert said.returncode == 1
    assert not lacking(said.stdout, "native1: ", "/tmp is full", "delete files")
    running_lab.run("rm /tmp/filler", node="native1")
    assert "healthy" in up(running_lab)


BATCH = "printf '#!/bin/sh\\nsleep 300\\n' | sbatch --parsable -p native -N2 -o /dev/null -J"


@pytest.mark.whole
@pytest.mark.ci
def test_up_ends_the_job_of_a_killed_reframe_and_names_one_of_a_person(running_lab):
    orphan = running_lab.run(f"{BATCH} rfm_job").strip()
    assert f"fault: orphan job {orphan}" in running_lab("status", check=False).stdout
    assert f"ending the orphan job {orphan} (rfm_job) of nearmetal" in up(running_lab)
    mine = running_lab.run(f"{BATCH} mine").strip()
    assert f"job {mine} (mine) of nearmetal" in running_lab("status").stdout
    assert f"scancel {mine}" in running_lab("up").stdout
    assert mine in running_lab.run("squeue --noheader")
    running_lab.run(f"scancel {mine}")


@pytest.mark.whole
@pytest.mark.ci
def test_up_leaves_the_job_of_a_running_reframe(running_lab):
    """A process of that name is what stands for it."""
    running_lab.run("ln -sf /bin/sleep ~/reframe")
    reframe = subprocess.Popen(
        [*Namespaces(running_lab.checkout).enter("login"), "/home/nearmetal/reframe", "600"],
        stdin=subprocess.DEVNULL,
    )
    time.sleep(1)
    job = running_lab.run(f"{BATCH} rfm_job").strip()
    assert running_lab("status").returncode == 0
    running_lab("up")
    assert job in running_lab.run("squeue --noheader")
    reframe.kill()
    reframe.wait()
    running_lab.run("pkill -x reframe", root=True, check=False)
    assert f"ending the orphan job {job}" in up(running_lab)


@pytest.mark.whole
@pytest.mark.parametrize("seconds", (0, 1))
def test_a_slurmctld_killed_early_in_a_job_leaves_no_job_that_blocks_the_next(running_lab, seconds):
    """It forgets the job that had begun, or remembers one that had ended."""
    running_lab.run("srun --quiet -p native -N2 hostname")
    running_lab.run(f"{BATCH} rfm_job")
    time.sleep(seconds)
    running_lab.end("slurmctld", signal="KILL")
    up(running_lab)
    assert running_lab.run("squeue --noheader") == ""
    for node in ("native1", "native2"):
        assert running_lab.run("pgrep -x sleep -u nearmetal", node=node, check=False) == ""


def test_a_job_leaves_no_process_and_no_shared_memory(running_lab):
    """The epilog ends what the job's user left over, on each of its nodes, and spares a person's
    shell there."""
    namespaces = Namespaces(running_lab.checkout)
    mine = [*namespaces.enter("native1"), "runuser", "-u", "nearmetal", "--", "sleep", "987"]
    person = subprocess.Popen(mine, stdin=subprocess.DEVNULL)
    running_lab.run(
        "srun --quiet -p native -N2 sh -c 'head -c 1000 /dev/zero > /dev/shm/left-$SLURM_PROCID; "
        "setsid sleep 986 < /dev/null > /dev/null 2>&1 & sleep 0.2'"
    )
    running_lab.run("while squeue --noheader | grep -q .; do sleep 0.1; done")
    for node in ("native1", "native2"):
        left = running_lab.run("pgrep -f 'sleep 98[6]'; ls /dev/shm", node=node, check=False)
        assert left == "", node
    assert person.poll() is None
    running_lab.run("pkill -f 'sleep 98[7]'", node="native1", root=True)
    person.wait(timeout=10)
    assert running_lab.run("sinfo -h -t drain,drng,down -o %N").strip() == ""


#: What lasts until the processors may sleep, or may not.
MAY_SLEEP = f"[ $(od -An -td4 -N4 {AWAKE}) != 0 ]"
UNTIL_ASLEEP = f"timeout 30 sh -c 'until {MAY_SLEEP}; do sleep 0.1; done'"
UNTIL_AWAKE = f"timeout 30 sh -c 'while {MAY_SLEEP}; do sleep 0.1; done'"


@pytest.fixture
def sleeper(running_lab):
    """A job of 60 s on two nodes, which has begun. Before it, the processors might sleep."""
    running_lab.run(UNTIL_ASLEEP, root=True)
    wrap = "srun sleep 60"
    running_lab.run(f"sbatch -D /tmp -o /dev/null -p native -N 2 --wrap '{wrap}'")
    begun = "timeout 30 sh -c 'until pgrep -x sleep -u nearmetal; do sleep 0.1; done'"
    running_lab.run(begun, node="native2", root=True)
    yield
    running_lab.run("scancel -u $USER; while squeue -h | grep -q .; do sleep 0.1; done")


@pytest.mark.skipif(not AWAKE.exists(), reason=f"this kernel has no {AWAKE}")
def test_processors_are_kept_awake_while_a_job_runs(running_lab, sleeper):
    running_lab.run(UNTIL_AWAKE, root=True)
    running_lab.run("scancel -u nearmetal")
    running_lab.run(UNTIL_ASLEEP, root=True)


def test_the_lab_is_well_after_slurm_read_its_configuration_again(running_lab):
    running_lab.run("scontrol reconfigure", root=True)
    wait_until(lambda: running_lab("status", check=False).returncode == 0, 20, "a lab that is well")
    running_lab.run("pkill -STOP -x 'slurmd(-wlm)?'", node="native1", root=True)
    assert "fault: native1: slurmd is stopped" in running_lab("status", check=False).stdout
    up(running_lab)


def test_the_memory_of_all_file_systems_is_less_than_half_of_the_hosts(running_lab):
    """Of each node those that are memory, a file system that is seen at several places being
    one."""
    namespaces, found = Namespaces(running_lab.checkout), {}
    for node in (None, "login", *NODES):
        for line in namespaces.run("cat", "/proc/self/mountinfo", node=node).splitlines():
            fields, kind = line.split(" - ")
            if kind.startswith("tmpfs "):
                size = re.search(r"\bsize=(\d+)k", kind)
                assert size, f"{node}: without a limit: {line}"
                found[fields.split()[2]] = int(size[1])
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 10
    assert len(found) > 3 * len(NODES) and sum(found.values()) <= total / 2
    # What Slurm says of the nodes' memory stays what it is.
    assert set(running_lab.run("sinfo -h -N -o %m").split()) == {str(total >> 10)}


def test_up_heals_a_drained_node_and_status_names_it_before(running_lab):
    running_lab.run("scontrol update nodename=native2 state=drain reason=test", root=True)
    sick = running_lab("status", check=False)
    assert sick.returncode == 1 and not lacking(sick.stdout, "not usable: native2", "make lab-up")
    up(running_lab)


@pytest.mark.whole
@pytest.mark.ci
def test_up_starts_again_what_has_lost_a_node(running_lab):
    Namespaces(running_lab.checkout).run(
        "sh", "-c", "kill -9 $(cat /lab/run/native1.pid)", check=False
    )
    assert "fault: native1 is gone" in running_lab("status", check=False).stdout
    assert not lacking(up(running_lab), "native1 is gone", "starting it again")


@pytest.mark.whole
def test_up_starts_again_what_had_not_come_up_whole(running_lab):
    Namespaces(running_lab.checkout).record(whole=False)
    assert not lacking(up(running_lab), "did not complete", "starting it again")


@pytest.mark.whole
@pytest.mark.ci
def test_up_starts_again_what_was_started_by_another_definition(other_lab):
    template = other_lab.checkout / "nearmetal/lab/templates/slurm.conf"
    template.write_text(template.read_text() + "# changed\n")
    assert not lacking(up(other_lab), "changed since it started", "starting it again")


@pytest.mark.whole
@pytest.mark.ci
def test_up_heals_after_a_crash_of_all_of_it(running_lab):
    os.kill(Namespaces(running_lab.checkout).state["pid"], signal.SIGKILL)
    said = running_lab("status", check=False)
    assert said.returncode == 1 and not lacking(said.stdout, "lab: down", "make lab-up")
    up(running_lab)


@pytest.mark.whole
def test_up_does_not_take_a_process_of_another_boot_for_its_own(running_lab):
    """After a reboot the recorded number may be anybody's."""
    namespaces = Namespaces(running_lab.checkout)
    pid = namespaces.state["pid"]
    record = namespaces.directory / "state.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"pid": os.getpid()}))
    assert namespaces.state is None
    running_lab("status", check=False)
    os.kill(pid, signal.SIGKILL)
    up(running_lab)


def test_down_leaves_nothing_behind(running_lab, links_before):
    """Of this lab; namespaces go with the last process in them, network ones a moment later."""
    checkout = running_lab.checkout
    running = state_of(checkout)
    assert running["processes"] and running["namespaces"] and running["files"]
    running_lab("down")
    left = state_of(checkout)
    assert left == {"processes": set(), "namespaces": set(), "mounts": set(), "files": set()}
    wait_until(lambda: not alive(running["namespaces"]), 10, "the lab's namespaces are gone")
    assert links() <= links_before
    assert set(checkout.iterdir()) - {checkout / "results"} == {
        checkout / path.name
        for path in CHECKOUT.iterdir()
        if (checkout / path.name).exists() and path.name != "results"
    }


def test_a_command_for_a_lab_that_is_down_says_how_to_start_it(other_lab):
    other_lab("down")
    done = other_lab("exec", "true", check=False)
    assert done.returncode == 1 and "make lab-up" in done.stdout


def test_a_host_with_too_little_memory_is_refused():
    sizes = cluster.memory_kb(PLAN, 8192)
    assert sum(map(sum, sizes.values())) <= 4096 << 10 and sizes.keys() == {
        "nearmetal-lab",
        *PLAN.spaces,
    }
    with pytest.raises(LabError, match=r"1024 MB of memory.*topology\.toml"):
        cluster.memory_kb(PLAN, 1024)
