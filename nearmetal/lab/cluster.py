"""Builds the cluster of topology.toml inside a machine room: nodes, links (links.py), virtual machines (guests.py), daemons; and
heals one that is there."""

import hashlib
import os
import secrets
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from nearmetal.lab import guests, health, links, ownership
from nearmetal.lab.room import CHECKOUT, HERE, LabError, Room, wait_until
from nearmetal.lab.topology import Topology

USER = "nearmetal"
#: The lab user's number where the checkout belongs to root; else the lab's user is the checkout's owner.
FALLBACK_ID = 64770
EPILOG = HERE / "templates" / "epilog.sh"
#: How much of this host's memory the lab's file systems may take, all nodes together.
MEMORY_SHARE = 0.5
#: The machine room holds all nodes' /home, and the controller the database: so many times a node's part each.
LARGE_PART = 3
#: Below it not even the database's first files fit.
LEAST_PART_MB = 40
#: Of /scratch, which enter.sh mounts, and of the devices' file systems of all nodes.
OTHER_MEMORY_MB = 96


def owner(room: Room) -> tuple[int, int]:
    """Numbers of the lab's user: it owns what a run writes into the checkout."""
    stat = room.checkout.stat()
    return (stat.st_uid, stat.st_gid) if stat.st_uid else (FALLBACK_ID, FALLBACK_ID)


def files(topology: Topology, room: Room) -> dict[str, tuple[str, int]]:
    """Each node's own files, by path below the room's /lab."""
    facts = {
        "cpus": os.cpu_count(),
        "memory_mb": host_memory_mb(),
        "checkout": shlex.quote(str(room.checkout)),
    }
    munge_key = secrets.token_hex(64)
    result: dict[str, tuple[str, int]] = {}
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
            f"{etc}/slurm/epilog.sh": (EPILOG.read_text(), 0o755),
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


def host_memory_mb() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


def memory_kb(topology: Topology, host_mb: int) -> dict[str, tuple[int, int]]:
    """Sizes of the two file systems in memory of the machine room and of each node: the system's and its users' (see enter.sh).
    All together are MEMORY_SHARE of what the guests leave of this host's memory. Raises LabError where that is too little."""
    guests_mb = topology.vm.memory_mb * len(topology.guests) if topology.vm else 0
    budget_mb = int((host_mb - guests_mb) * MEMORY_SHARE) - OTHER_MEMORY_MB
    weights = {"machine-room": LARGE_PART} | {
        name: LARGE_PART if name == topology.controller else 1 for name in topology.spaces
    }
    part_mb = budget_mb // sum(weights.values())
    if part_mb < LEAST_PART_MB:
        raise LabError(
            f"this host has {host_mb} MB of memory, which is too little for the file systems of {len(topology.spaces)} nodes"
            + (f" beside {guests_mb} MB for its virtual machines" if guests_mb else "")
            + f": each node would get {max(0, part_mb)} MB of at least {LEAST_PART_MB} MB. Remove nodes from "
            "site-config/lab/topology.toml"
            + (" or start fewer or smaller guests" if guests_mb else "")
        )
    sizes = {}
    for name, weight in weights.items():
        whole = (part_mb * weight) << 10
        system = whole // 2 if name == topology.controller else whole // 4
        sizes[name] = (system, whole - system)
    return sizes


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
for node; do
    name=${node%%=*} sizes=${node#*=}
    mkdir -p /lab/base/$name
    setsid unshare --mount --uts --ipc --net --pid --fork --kill-child \
        "$checkout/nearmetal/lab/enter.sh" "$name" /lab/image "/lab/base/$name" "$checkout" \
        "${sizes%,*}" "${sizes#*,}" /lab/shared "/lab/files/$name" \
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
    sizes = memory_kb(topology, host_memory_mb())
    nodes = ["{}={},{}".format(name, *sizes[name]) for name in topology.spaces]
    room.run("sh", "-c", script, "start-nodes", str(room.checkout), *nodes)
    if topology.guests:
        room.run("sh", "-eu", stdin="\n".join(guests.keys(topology)))


def user_arguments(room: Room) -> tuple[str, ...]:
    """The arguments of daemons.sh that name the lab's user."""
    uid, gid = owner(room)
    return USER, str(uid), str(gid), str(room.checkout)


def start_daemons(topology: Topology, room: Room) -> None:
    """Start each daemon that does not answer, on all nodes at once, and wait until Slurm has every node."""
    arguments = user_arguments(room)
    script = str(HERE / "daemons.sh")

    def start(name: str) -> None:
        role = "login" if name == topology.controller else "node"
        room.run(script, role, "start", *arguments, node=name)

    with ThreadPoolExecutor() as pool:
        list(pool.map(start, node_names(topology)))
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
        return {n for n, s in states.items() if s in health.USABLE} == wanted

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
        "memory_kb": {
            name: list(sizes) for name, sizes in memory_kb(topology, host_memory_mb()).items()
        },
    }
    ownership.settle(room.checkout, *owner(room), say)
    why, found = _why_anew(room, facts), None
    try:
        if room.state and not why:
            found = _heal(topology, room, say)
            if found.curable:
                why = f"{'; '.join(found.curable)}: that could not be healed"
        if why:
            say(f"lab: {why}; starting it anew")
        fresh = found is None or bool(why)
        if found is None or why:
            _start(topology, room, facts, say)
            found = health.look_twice(topology, room, user_arguments(room))
        if found.curable:
            raise LabError(f"it is up, but has faults: {'; '.join(found.curable)}")
    except (LabError, subprocess.SubprocessError):
        say("lab: it did not come up whole; `make lab-down` removes what there is")
        raise
    room.record(whole=True)
    for job in found.jobs:
        say(
            f"lab: {job}: jobs run one at a time, so that others wait for it "
            f"(end it: make lab-exec CMD='scancel {job.id}')"
        )
    if found.faults:
        raise LabError(f"it is up, but {'; '.join(found.faults)}")
    say(f"lab: {'up' if fresh else 'healthy'} after {time.monotonic() - started:.1f} s")


def _start(topology: Topology, room: Room, facts: dict, say) -> None:
    """Start the lab, whatever was there before."""
    room.stop()
    room.start(facts)
    start_nodes(topology, room)
    links.start(topology, room)
    if topology.guests:
        guests.start(topology, room, say)
    start_daemons(topology, room)


def _heal(topology: Topology, room: Room, say) -> health.Health:
    """Heal what is found; returns what is found afterwards."""
    found = health.look_twice(topology, room, user_arguments(room))
    if found.gone or not found.curable:
        return found
    for fault in found.curable:
        say(f"lab: healing: {fault}")
    try:
        if found.links:
            links.start(topology, room, list(found.links))
        start_daemons(topology, room)
        # Whose the jobs are is seen only now where slurmctld was gone.
        orphans = [job for job in health.queue(topology, room) if job.orphan]
        for job in orphans:
            say(f"lab: ending the orphan {job}: {job.orphan}")
        _end_jobs(topology, room, [job.id for job in orphans])
    except LabError as error:
        say(f"lab: {error}")
    return health.look_twice(topology, room, user_arguments(room))


def _end_jobs(topology: Topology, room: Room, jobs: list[str]) -> None:
    """Cancel jobs and wait until they have left the queue; a node that does not let go of one is taken down and up again."""
    if not jobs:
        return
    login = topology.controller
    room.run("scancel", *jobs, node=login, check=False)

    def gone() -> bool:
        return not {job.id for job in health.queue(topology, room)} & set(jobs)

    try:
        wait_until(gone, 20, "ending orphan jobs")
    except LabError:
        for state in ("down reason=orphan", "resume"):
            for node in topology.nodes:
                room.run(
                    "scontrol", "update", f"nodename={node.name}", *f"state={state}".split(),
                    node=login, check=False,
                )  # fmt: skip
        wait_until(gone, 20, "ending orphan jobs")


def _definition() -> str:
    """A hash over this directory and that of the topology: what a lab was started by."""
    digest = hashlib.sha256()
    for path in sorted(
        path
        for top in (HERE, CHECKOUT / "site-config" / "lab")
        for path in top.rglob("*")
        if path.suffix != ".pyc" and path.is_file()
    ):
        digest.update(
            f"{path.relative_to(CHECKOUT)} {path.stat().st_size}\n".encode() + path.read_bytes()
        )
    return digest.hexdigest()


def _why_anew(room: Room, facts: dict) -> str | None:
    """Why the lab that is there can't be healed in place; None if it can, or if there is none."""
    if room.interrupted:
        return "its start was interrupted"
    state = room.state
    if state is None:
        return None
    if any(state.get(key) != value for key, value in facts.items()):
        return "the node image, nearmetal/lab, site-config/lab or what was asked of virtual machines changed since it started"
    return None if state.get("whole") else "it had not come up whole"
