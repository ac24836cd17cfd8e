"""A fleet in a second checkout's lab: who is named after a fault, and who is not.

NEARMETAL_TEST_NODES is the number of its nodes: 8, or up to 16.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from nearmetal.results import load_session

#: Sweeps of eight nodes, one beside traffic, and the start of a lab: minutes.
pytestmark = pytest.mark.whole
NODES = int(os.environ.get("NEARMETAL_TEST_NODES", "8"))
CHECK = ["-r", "--system", "lab:fleet", "-p", "mpich", "-n", "^fleet_links%traffic=alone$"]
CHECK_NODES = ["-r", "--system", "lab:fleet", "-p", "mpich", "-n", "^fleet_nodes$"]
CONGESTION = [
    "-r",
    "--system",
    "lab:fleet",
    "-p",
    "mpich",
    "-n",
    "^fleet_congestion%traffic=incast$",
]
REPEATS = ["-S", "repeats=3", "-S", "spare_repeats=0"]
QUICK_NODES = ["-S", "fleet_nodes.megabytes=2", *REPEATS, "-S", "fleet_nodes.seconds=0.6"]
#: Seconds of a sweep of the links: eight nodes have 28 pairs, 16 have 120.
SECONDS = 3 * NODES * (NODES - 1) / 56
QUICK = ["-S", f"fleet_links.seconds={SECONDS:g}", *REPEATS]
#: A sweep that judges nobody.
BRIEF = [*CHECK, "-S", "repeats=1", "-S", "spare_repeats=0", "-S", "fleet_links.seconds=4"]
#: Runs a script where the lab's switches are.
ON_SWITCHES = (
    "import sys; from nearmetal.lab.namespaces import Namespaces; "
    "Namespaces().run('sh', '-eu', stdin=sys.stdin.read())"
)
#: Moves fleet7 and fleet8 to a switch of their own, behind a link of 1 Gb/s.
SLOW_SWITCH = """
port=$(ip -o link | grep -oE 'p[0-9]+x8' | head -1)
bridge=$(ip -o link show "$port" | sed 's/.* master \\([^ ]*\\).*/\\1/')
ip link add further type bridge forward_delay 0
ip link set further up
ip link add near type veth peer name far
ip link set near master "$bridge" up
ip link set far master further up
for end in near far; do tc qdisc add dev $end root tbf rate 1gbit burst 256kb latency 20ms; done
for node in 7 8; do ip link set "${port%8}$node" master further; done
"""
#: Moves fleet8 to a switch of its own.
FURTHER_SWITCH = re.sub(r"for end in.*\n", "", SLOW_SWITCH).replace("in 7 8", "in 8")
ONE_SWITCH = """
port=$(ip -o link | grep -oE 'p[0-9]+x8' | head -1)
bridge=$(ip -o link show near | sed 's/.* master \\([^ ]*\\).*/\\1/')
for node in 7 8; do ip link set "${port%8}$node" master "$bridge"; done
ip link delete near
ip link delete further
"""
#: Six programs of others share the processors of fleet5 with its own.
NEIGHBOUR = """
mkdir -p /run/drill
mount -t cgroup -o cpu drill /run/drill || mount -t cgroup2 drill /run/drill
mkdir /run/drill/nearmetal-drill
for one in $(pgrep slurmd); do echo $one > /run/drill/nearmetal-drill/cgroup.procs; done
for number in 1 2 3 4 5 6; do
    setsid sh -c 'echo $$ > /run/drill/nearmetal-drill/cgroup.procs; while :; do :; done' \\
        > /dev/null 2>&1 < /dev/null &
    echo $! >> /run/drill-hogs
done
"""
NO_NEIGHBOUR = """
kill $(cat /run/drill-hogs)
rm /run/drill-hogs
for one in $(pgrep slurmd); do echo $one > /run/drill/cgroup.procs; done
until rmdir /run/drill/nearmetal-drill; do sleep 0.1; done
umount /run/drill
"""
NO_OFFLOADS = "ethtool -K eth0 tso off gso off"
OFFLOADS = "ethtool -K eth0 tso on gso on"

#: Drills whose fault is little beside the noise of a machine with other work.
needs_an_idle_machine = pytest.mark.skipif(
    os.environ.get("NEARMETAL_TEST_IDLE") != "yes",
    reason="it needs the machine for itself; NEARMETAL_TEST_IDLE=yes runs it",
)


@pytest.fixture(scope="module")
def fleet(other_lab):
    other_lab("up", "--nodes", str(NODES), timeout=300)
    return other_lab


def swept(fleet, name: str, *words: str):
    """ReFrame's run of a sweep, its session, and what `nearmetal fleet` says of it.

    :arg words: options of ReFrame; without any, of a sweep of the links.
    """
    prefix = fleet.checkout / "results" / name
    done = fleet.reframe(*(words or [*CHECK, *QUICK]), prefix=prefix, timeout=600)
    session = load_session(prefix / "results.db")
    return done, session, said_of(fleet, name)


def said_of(fleet, name: str, options: str = ""):
    prefix = fleet.checkout / "results" / name
    command = f"RFM_PREFIX={prefix} nearmetal fleet --database {prefix}/results.db {options}"
    return fleet("exec", command, check=False, timeout=600)


def named(said: str) -> set[str]:
    """The nodes that the lines of findings name."""
    lines = [line for line in said.splitlines() if line.startswith(("node ", "link ", "a path"))]
    return {name for line in lines for name in re.findall(r"fleet\d+", line)}


@pytest.mark.ci
def test_a_healthy_fleet_is_measured_and_nobody_is_named(fleet):
    done, session, said = swept(fleet, "healthy")
    assert done.returncode == 0, done.stdout
    [case] = session.cases
    values = {value.variable: value.value for value in case.values}
    assert values["latency"] <= values["worst_latency"]
    assert values["bandwidth"] >= values["worst_bandwidth"]
    assert case.links["nodes"] == [f"fleet{number}" for number in range(1, NODES + 1)]
    assert case.facts["left_out"] == "none"
    # The noise of a shared machine has a heavy tail on the slow side: one sweep may name a link.
    if said.returncode:
        said = said_of(fleet, "healthy", "--confirm")
    assert said.returncode == 0 and "no node or link is slower" in said.stdout, said.stdout


@pytest.mark.ci
def test_a_node_with_small_frames_is_named_and_no_other(fleet):
    fleet.run(f"ip link set eth0 mtu 576; {NO_OFFLOADS}", node="fleet3", root=True)
    try:
        _, _, said = swept(fleet, "small-frames")
        again = said_of(fleet, "small-frames", "--confirm")
    finally:
        fleet.run(
            f"ip link set eth0 mtu 1500; {OFFLOADS}",
            node="fleet3",
            root=True,
        )
    # What both sweeps show is the finding; the first alone may name more.
    assert named(again.stdout) == {"fleet3"}, again.stdout
    for one in (said, again):
        assert one.returncode == 1 and "node fleet3" in one.stdout, one.stdout
        assert f"{NODES - 1} of {NODES} nodes have nic.eth0.mtu 1500, fleet3 has 576" in one.stdout
        assert "scontrol update nodename=fleet3 state=drain" in one.stdout


def test_a_fault_that_is_gone_is_not_confirmed(fleet):
    """After the test before: the node is well again."""
    said = said_of(fleet, "small-frames", "--confirm")
    assert said.returncode == 0, said.stdout
    assert "not confirmed by the second sweep: node fleet3" in said.stdout, said.stdout


def test_a_link_that_drops_frames_is_named_and_no_node(fleet):
    address = fleet.run("ip -brief -4 address show dev eth0", node="fleet6").split()[2]
    rule = f"ip saddr {address.split('/')[0]} numgen random mod 100 < 1 drop"
    table = "add table inet drill; add chain inet drill in { type filter hook input priority 0; }"
    fleet.run(f"nft '{table}; add rule inet drill in {rule}'", node="fleet2", root=True)
    try:
        swept(fleet, "drops")
        said = said_of(fleet, "drops", "--confirm")
    finally:
        fleet.run("nft delete table inet drill", node="fleet2", root=True)
    assert said.returncode == 1 and "link fleet" in said.stdout, said.stdout
    assert named(said.stdout) == {"fleet2", "fleet6"}, said.stdout


def on_switches(fleet, script: str) -> None:
    line = [sys.executable, "-c", ON_SWITCHES]
    subprocess.run(line, cwd=fleet.checkout, input=script, text=True, check=True, timeout=60)


def said_behind(fleet, script: str, name: str, seconds: float = SECONDS):
    """What two sweeps say while the nodes of the script are behind a switch of their own."""
    on_switches(fleet, script)
    try:
        swept(fleet, name, *CHECK, *REPEATS, "-S", f"fleet_links.seconds={seconds:g}")
        return said_of(fleet, name, "--confirm")
    finally:
        on_switches(fleet, ONE_SWITCH)


def test_two_nodes_behind_a_slow_switch_share_a_path(fleet):
    said = said_behind(fleet, SLOW_SWITCH, "slow-switch")
    assert said.returncode == 1 and "a path that fleet7, fleet8 share" in said.stdout, said.stdout
    assert not named(said.stdout) - {"fleet7", "fleet8"} and "scontrol" not in said.stdout


@needs_an_idle_machine
def test_a_node_behind_a_further_switch_is_named_and_no_other(fleet):
    # It adds a twentieth of a round trip: longer slots show it.
    said = said_behind(fleet, FURTHER_SWITCH, "further-switch", 4 * SECONDS)
    assert said.returncode == 1 and named(said.stdout) == {"fleet8"}, said.stdout


@pytest.fixture(params=["the job's directory", "a library"])
def lacking_on_fleet4(request, fleet):
    """fleet4 lacks something that the program needs. The value is what must be said of it."""
    prefix = fleet.checkout / "results" / "refuses"
    fleet.run(f"mkdir -p {prefix}")
    if request.param == "a library":
        library = fleet.run("ls /usr/lib/*/libmpich.so.12", node="fleet4").strip()
        hide, show, why = f"mount --bind /dev/null {library}", f"umount {library}", "libmpich.so.12"
    else:
        hide, show, why = f"mount -t tmpfs none {prefix}", f"umount {prefix}", "starts.sh"
    fleet.run(hide, node="fleet4", root=True)
    yield why
    fleet.run(show, node="fleet4", root=True)


def test_a_node_that_does_not_start_the_program_is_named_and_no_other(fleet, lacking_on_fleet4):
    done, session, said = swept(fleet, "refuses")
    again = said_of(fleet, "refuses", "--confirm")
    assert done.returncode == 1
    [case] = session.failures
    assert "fleet4 (" in case.failure and lacking_on_fleet4 in case.failure, case.failure
    [case] = session.cases
    assert len(case.links["nodes"]) == NODES - 1 and not case.links["dead"]
    assert "fleet4 (does not start the program)" in case.facts["left_out"]
    for one in (said, again):
        assert one.returncode == 1, one.stdout
        assert re.search("(?m)^node fleet4 +does not start the program: ", one.stdout), one.stdout
    assert named(again.stdout) == {"fleet4"}, again.stdout
    assert "scontrol update nodename=fleet4 state=drain" in again.stdout


def test_a_node_that_is_drained_is_left_out_and_named(fleet):
    drained = "scontrol update nodename=fleet5 state=drain reason=test"
    fleet.run(drained, root=True)
    try:
        done, session, _ = swept(fleet, "drained", *BRIEF)
    finally:
        fleet.run("scontrol update nodename=fleet5 state=resume", root=True)
    assert done.returncode == 0 and "leaves out fleet5 (" in done.stdout, done.stdout
    [case] = session.cases
    assert "fleet5" not in case.links["nodes"] and len(case.links["nodes"]) == NODES - 1
    assert case.facts["left_out"].startswith("fleet5 (")


def test_a_reservation_and_the_nodes_in_a_state_are_what_a_sweep_takes(fleet):
    who = f"users=root,{fleet.run('id -un').strip()} nodes=fleet[1-4]"
    when = "starttime=now duration=60"
    fleet.run(f"scontrol create reservation=night {who} {when}", root=True)
    try:
        _, reserved, _ = swept(fleet, "reserved", *BRIEF, "-J", "reservation=night")
        idle = ["-S", "fleet_links.num_tasks=0", "--flex-alloc-nodes=3"]
        _, others, _ = swept(fleet, "idle", *BRIEF, *idle)
    finally:
        fleet.run("scontrol delete reservation=night", root=True)
    [case] = reserved.cases
    assert case.links["nodes"] == ["fleet1", "fleet2", "fleet3", "fleet4"]
    [case] = others.cases
    assert case.links["nodes"] == ["fleet5", "fleet6", "fleet7"]
    assert case.facts["left_out"].count("another reservation has it") == 4
    assert "fleet8 (beyond --flex-alloc-nodes)" in case.facts["left_out"]


def while_it_hangs(fleet, seconds: int, run):
    """What `run` returns while the program on fleet2 stops so many seconds after its start."""
    # The first rank has printed the method when MPI has started.
    output = (
        fleet.checkout / "results" / "hangs" / "stage/lab/fleet/mpich/fleet_links_*/rfm_job.out"
    )
    begun = f"pgrep fleet_links && grep -qs 'nearmetal method' {output}"
    stop = f"until {begun}; do sleep 0.1; done; sleep {seconds}; pkill -STOP fleet_links"
    with ThreadPoolExecutor(1) as beside:
        stopped = beside.submit(fleet.run, stop, node="fleet2", root=True)
        found = run()
        stopped.result()
    return found


def test_a_node_that_hangs_is_named_and_no_other(fleet):
    links = ["-S", "repeats=1", "-S", "spare_repeats=0"]
    links += ["-S", f"fleet_links.seconds={4 * SECONDS:g}"]
    # The commands that stop it disturb what is measured at that moment: it must be another link
    # each time.
    done, session, said = while_it_hangs(fleet, 3, lambda: swept(fleet, "hangs", *CHECK, *links))
    again = while_it_hangs(fleet, 5, lambda: said_of(fleet, "hangs", "--confirm"))
    assert done.returncode == 1
    [case] = session.failures
    assert "fleet2" in case.failure and "nearmetal fleet" in case.failure, case.failure
    assert said.returncode == 1 and "node fleet2" in said.stdout, said.stdout
    # A repeat of one slot a link says little of speed: who is slow is no matter here.
    for one in (said, again):
        failed = [line for line in one.stdout.splitlines() if "links failed" in line]
        assert named("\n".join(failed)) == {"fleet2"}, one.stdout
    assert again.returncode == 1


@needs_an_idle_machine
def test_a_node_with_a_busy_neighbour_is_named_and_no_other(fleet):
    fleet.run(NEIGHBOUR, node="fleet5", root=True)
    try:
        done, _, _ = swept(fleet, "neighbour", *CHECK_NODES, *QUICK_NODES)
        said = said_of(fleet, "neighbour", "--confirm")
    finally:
        fleet.run(NO_NEIGHBOUR, node="fleet5", root=True)
    assert named(said.stdout) == {"fleet5"}, (said.stdout, done.stdout)


def test_nodes_beside_traffic_are_measured(fleet):
    quick = ["-S", "repeats=1", "-S", "spare_repeats=0", "-S", "fleet_congestion.seconds=12"]
    done, session, said = swept(fleet, "beside-traffic", *CONGESTION, *quick)
    assert done.returncode == 0, done.stdout
    [case] = session.cases
    values = {value.variable: value.value for value in case.values}
    # The traffic takes processors from the victims here: how much says nothing of links.
    assert values["latency_ratio"] <= values["worst_node_latency_ratio"]
    assert min(values.values()) > 0 and values["traffic_rate"] > 0
    victims = max(2, NODES // 5)
    assert len(case.congestion["victims"]) == victims and len(case.congestion["nodes"]) == NODES
    beside = f"{victims} nodes beside incast traffic of {NODES - victims}"
    assert said.returncode == 0 and beside in said.stdout, said.stdout
