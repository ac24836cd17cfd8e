"""Builds the cluster of topology.toml inside a machine room: nodes, links (links.py), virtual machines (guests.py), daemons; and
heals one that is there."""

import hashlib
import os
import secrets
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import guests
import links
import ownership
from room import HERE, LabError, Room, wait_until
from topology import Topology

USER = "nearmetal"
#: The lab user's number where the checkout belongs to root; else the lab's user is the checkout's owner.
FALLBACK_ID = 64770


def owner(room: Room) -> tuple[int, int]:
    """Numbers of the lab's user: it owns what a run writes into the checkout."""
    stat = room.checkout.stat()
    return (stat.st_uid, stat.st_gid) if stat.st_uid else (FALLBACK_ID, FALLBACK_ID)


def files(topology: Topology, room: Room) -> dict[str, tuple[str, int]]:
    """Each node's own files, by path below the room's /lab."""
    facts = {
        "cpus": os.cpu_count(),
        "memory_mb": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        "checkout": shlex.quote(str(room.checkout)),
    }
    munge_key = secrets.token_hex(64)
    result = {}
    for name, node in [
        (topology.controller, None),
        *((node.name, node) for node in topology.nodes),
    ]:
        etc = f"files/{name}/etc"
        result |= {
            f"{etc}/hostname": (f"{name}\n", 0o644),
            f"{etc}/hosts": (topology.render("hosts", hosts=topology.hosts(node)), 0o644),
            f"{etc}/slurm/slurm.conf": (topology.render("slurm.conf", **facts), 0o644),
            f"{etc}/slurm/cgroup.conf": (
                "# A lab node is a container without a cgroup of its own.\nCgroupPlugin=disabled\n",
                0o644,
            ),
            f"{etc}/munge/munge.key": (munge_key, 0o400),
            f"{etc}/profile.d/nearmetal.sh": (topology.render("profile.sh", **facts), 0o644),
        }
    for node in topology.guests:
        result |= {
            f"files/{node.name}/{path}": (text, 0o644)
            for path, text in guests.files(topology, node, room.checkout).items()
        }
    etc = f"files/{topology.controller}/etc"
    result[f"{etc}/slurm/slurmdbd.conf"] = (topology.render("slurmdbd.conf", **facts), 0o600)
    return result


def node_names(topology: Topology) -> list[str]:
    return [topology.controller, *(node.name for node in topology.nodes)]


def start_nodes(topology: Topology, room: Room) -> None:
    """Give every node its files, and those that are namespaces these and a file system."""
    room.put(files(topology, room))
    # The owners of secrets and configuration are known only to the image.
    script = """
set -eu
checkout=$1; shift
mkdir -p /lab/run
for f in /lab/files/*/etc; do
    chown munge:munge $f/munge $f/munge/munge.key; chmod 700 $f/munge
    [ ! -e $f/slurm/slurmdbd.conf ] || chown slurm:slurm $f/slurm/slurmdbd.conf
done
for name; do
    mkdir -p /lab/base/$name
    setsid unshare --mount --uts --ipc --net --pid --fork --kill-child \
        "$checkout/site-config/lab/enter.sh" "$name" /lab/image "/lab/base/$name" "$checkout" /lab/shared "/lab/files/$name" \
        > "/lab/run/$name.log" 2>&1 < /dev/null &
    parents="${parents:-} $name=$!"
done
for pair in $parents; do
    name=${pair%%=*} parent=${pair#*=} tries=500
    while child=$(tr -d ' ' < /proc/$parent/task/$parent/children); [ "$(cat /proc/$child/comm 2>/dev/null)" != tini ]; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] && [ -e /proc/$parent ] || { echo "node $name did not start:" >&2; cat /lab/run/$name.log >&2; exit 1; }
        sleep 0.02
    done
    echo $child > /lab/run/$name.pid
done
"""
    room.run("sh", "-c", script, "start-nodes", str(room.checkout), *topology.spaces)
    if topology.guests:
        room.run("sh", "-eu", stdin="\n".join(guests.keys(topology)))


def start_daemons(topology: Topology, room: Room) -> None:
    """Start whatever daemon is not running, on all nodes at once, and wait until Slurm has every node."""
    uid, gid = owner(room)
    arguments = (USER, str(uid), str(gid), str(room.checkout))
    script = str(HERE / "daemons.sh")
    with ThreadPoolExecutor() as pool:
        list(
            pool.map(
                lambda name: room.run(
                    script,
                    "login" if name == topology.controller else "node",
                    *arguments,
                    node=name,
                ),
                node_names(topology),
            )
        )
    wanted = {node.name for node in topology.nodes}

    def ready():
        states = node_states(topology, room)
        if lame := [n for n, s in states.items() if s.rstrip("*") in ("down", "drain", "drng")]:
            room.run(
                "scontrol",
                "update",
                f"nodename={','.join(lame)}",
                "state=resume",
                node=topology.controller,
                check=False,
            )
        return {n for n, s in states.items() if s in ("idle", "mix", "alloc", "comp")} == wanted

    try:
        wait_until(
            ready, guests.START_SECONDS if topology.guests else 20, "waiting for Slurm's nodes"
        )
    except LabError as error:
        logs = room.run(
            "sh",
            "-c",
            "tail -n 5 /var/log/slurm/slurmctld.log",
            node=topology.controller,
            check=False,
        )
        raise LabError(
            f"{error}; states: {node_states(topology, room)}; slurmctld says:\n{logs}"
        ) from error


def node_states(topology: Topology, room: Room) -> dict[str, str]:
    """Slurm's word for each node (`idle`, `alloc`, `down*`, ...)."""
    out = room.run(
        "sinfo", "--noheader", "--Node", "--format=%N %t", node=topology.controller, check=False
    )
    return dict(line.split() for line in out.splitlines() if line.strip())


def up(topology: Topology, room: Room, image, layer, vm: dict | None, say) -> None:
    """Start the lab over an image, with the virtual machines that were asked for over the layer; or heal the one that is there.
    Raises LabError."""
    started = time.monotonic()
    if len(str(room.checkout).split()) > 1:
        raise LabError(
            f"{room.checkout}: ReFrame cannot build below a path with a space; move the checkout"
        )
    facts = {
        "image": str(image),
        "layer": layer and str(layer),
        "definition": _definition(),
        "vm": vm,
        "guests": [node.name for node in topology.guests],
    }
    healed = room.state is not None
    if healed and (why := _why_anew(topology, room, facts)):
        say(f"lab: {why}; starting it anew")
        healed = False
    ownership.settle(room.checkout, *owner(room), say)
    try:
        if not healed:
            room.stop()
            room.start(facts)
            start_nodes(topology, room)
            links.start(topology, room)
            if topology.guests:
                guests.start(topology, room, say)
        start_daemons(topology, room)
    except (LabError, subprocess.SubprocessError):
        say("lab: it did not come up whole; `make lab-down` removes what there is")
        raise
    room.record(whole=True)
    say(f"lab: {'healthy' if healed else 'up'} after {time.monotonic() - started:.1f} s")


def _definition() -> str:
    """A hash over this directory: what a lab was started by."""
    digest = hashlib.sha256()
    for path in sorted(
        path for path in HERE.rglob("*") if path.suffix != ".pyc" and path.is_file()
    ):
        digest.update(
            f"{path.relative_to(HERE)} {path.stat().st_size}\n".encode() + path.read_bytes()
        )
    return digest.hexdigest()


def _why_anew(topology: Topology, room: Room, facts: dict) -> str | None:
    """Why the lab that is there can't be healed in place; None if it can."""
    state = room.state
    if any(state.get(key) != value for key, value in facts.items()):
        return "the node image, site-config/lab or what was asked of virtual machines changed since it started"
    if not state.get("whole"):
        return "it had not come up whole"
    return None if _nodes_live(topology, room) else "a node is gone"


def _nodes_live(topology: Topology, room: Room) -> bool:
    return all(
        subprocess.run(
            [*room.enter(name), "true"], capture_output=True, stdin=subprocess.DEVNULL
        ).returncode
        == 0
        for name in node_names(topology)
    )
