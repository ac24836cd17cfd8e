"""Start or heal the cluster of topology.toml inside a lab's namespaces.

It consists of nodes, links (links.py), virtual machines (guests.py) and daemons (daemons.sh).
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

from nearmetal.lab import guests, health, links, ownership
from nearmetal.lab.namespaces import CHECKOUT, HERE, LabError, Namespaces, wait_until
from nearmetal.lab.topology import Topology

USER = "nearmetal"
#: UID and GID of the lab's user if the checkout belongs to root; else its owner is the user.
FALLBACK_ID = 64770
CGROUPS = "# A lab node is a container without a cgroup of its own.\nCgroupPlugin=disabled\n"
#: Programs that Slurm runs on nodes.
PROGRAMS = [HERE / "templates" / name for name in ("prolog.sh", "epilog.sh", "health.sh")]
#: Part of this host's memory that the file systems of all nodes together may take.
MEMORY_PART = 0.5
#: States of a node in Slurm from which it is resumed.
RESUMABLE = ("down", "drain", "drng")
#: The lab's namespaces hold all nodes' /home, and the controller holds the database.
#: Each of the two gets this many times the part of a node.
LARGE_PART = 3
#: The database's first files need this much.
LEAST_PART_MB = 40
#: For /scratch, which enter.sh mounts, and for the file systems below /dev of all nodes.
OTHER_MEMORY_MB = 96


def owner(namespaces: Namespaces) -> tuple[int, int]:
    """UID and GID of the lab's user, who owns the files that a run writes into the checkout."""
    stat = namespaces.checkout.stat()
    if stat.st_uid:
        return (stat.st_uid, stat.st_gid)
    return (FALLBACK_ID, FALLBACK_ID)


def files(topology: Topology, namespaces: Namespaces) -> dict[str, tuple[str, int]]:
    """Configuration files of every node, by their path below /lab."""
    facts = {
        "cpus": os.cpu_count(),
        "memory_mb": host_memory_mb(),
        "checkout": shlex.quote(str(namespaces.checkout)),
    }
    same = {
        "slurm/slurm.conf": (topology.render("slurm.conf", **facts), 0o644),
        "slurm/cgroup.conf": (CGROUPS, 0o644),
        "slurm/gres.conf": (topology.render("gres.conf", **facts), 0o644),
        # One key for all nodes: munge refuses what was signed by another one.
        "munge/munge.key": (secrets.token_hex(64), 0o400),
        "profile.d/nearmetal.sh": (topology.render("profile.sh", **facts), 0o644),
    }
    for name, text in (*((path.name, path.read_text()) for path in PROGRAMS), *topology.scripts):
        same[f"slurm/{name}"] = (text, 0o755)
    result: dict[str, tuple[str, int]] = {}

    def place(node: str, own: dict[str, tuple[str, int]]) -> None:
        for path, file in own.items():
            result[f"files/{node}/etc/{path}"] = file

    for node in (None, *topology.nodes):
        name, host = topology.controller, topology.controller
        if node:
            name, host = node.name, node.host
        hosts = topology.render("hosts", hosts=topology.hosts(node))
        place(name, {**same, "hostname": (f"{host}\n", 0o644), "hosts": (hosts, 0o644)})
    for node in topology.guests:
        text = guests.node_facts(topology, node, namespaces.checkout)
        place(node.name, {"nearmetal/guest": (text, 0o644)})
    if machine := topology.machine:
        text = guests.machine_facts(topology, namespaces.checkout)
        place(machine, {"hostname": (f"{machine}\n", 0o644), "nearmetal/guest": (text, 0o644)})
    database = topology.render("slurmdbd.conf", **facts)
    place(topology.controller, {"slurm/slurmdbd.conf": (database, 0o600)})
    return result


def host_memory_mb() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


def memory_kb(topology: Topology, host_mb: int) -> dict[str, tuple[int, int]]:
    """Sizes of the two file systems in memory (system, users: enter.sh) of the lab and each node.

    Their sum is MEMORY_PART of the host's memory without the guests' memory. Raises LabError if the
    host has too little.
    """
    # Guests take their memory beside the file systems of the nodes.
    guests_mb = 0
    if topology.machine:
        guests_mb = topology.hardware.total_mb
    elif topology.vm:
        guests_mb = topology.vm.memory_mb * len(topology.guests)
    budget_mb = int((host_mb - guests_mb) * MEMORY_PART) - OTHER_MEMORY_MB
    weights = {"nearmetal-lab": LARGE_PART, **dict.fromkeys(topology.spaces, 1)}
    weights[topology.controller] = LARGE_PART
    part_mb = budget_mb // sum(weights.values())
    if part_mb < LEAST_PART_MB:
        beside, other_fix = "", ""
        if guests_mb:
            beside = f" beside {guests_mb} MB for its virtual machines"
            other_fix = " or start fewer or smaller guests"
        raise LabError(
            f"this host has {host_mb} MB of memory, which is too little for the file systems of "
            f"{len(topology.spaces)} nodes{beside}: each node would get {max(0, part_mb)} MB of at "
            f"least {LEAST_PART_MB} MB. Remove nodes from site-config/lab/topology.toml{other_fix}"
        )
    sizes = {}
    for name, weight in weights.items():
        whole = (part_mb * weight) << 10
        system = whole // 2 if name == topology.controller else whole // 4
        sizes[name] = (system, whole - system)
    return sizes


def start_nodes(topology: Topology, namespaces: Namespaces) -> None:
    """Write the files of every node; make the namespaces and file systems of those without a VM."""
    namespaces.put(files(topology, namespaces))
    # Only the image's own user database knows the users munge and slurm.
    script = """
set -eu
checkout=$1; shift
mkdir -p /lab/run
for f in /lab/files/*/etc; do
    [ -e $f/munge ] || continue
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
    while
        child=$(tr -d ' ' < /proc/$parent/task/$parent/children)
        [ "$(cat /proc/$child/comm 2>/dev/null)" != tini ]
    do
        tries=$((tries - 1))
        if [ $tries -eq 0 ] || [ ! -e /proc/$parent ]; then
            echo "node $name did not start:" >&2
            cat /lab/run/$name.log >&2
            exit 1
        fi
        sleep 0.02
    done
    echo $child > /lab/run/$name.pid
done
"""
    sizes = memory_kb(topology, host_memory_mb())
    nodes = ["{}={},{}".format(name, *sizes[name]) for name in topology.spaces]
    namespaces.run("sh", "-c", script, "start-nodes", str(namespaces.checkout), *nodes)
    if topology.guests:
        namespaces.run("sh", "-eu", stdin="\n".join(guests.keys(topology)))


def user_arguments(namespaces: Namespaces) -> tuple[str, ...]:
    """Arguments of daemons.sh: the lab's user, its UID and GID, and the checkout."""
    uid, gid = owner(namespaces)
    return USER, str(uid), str(gid), str(namespaces.checkout)


def start_daemons(topology: Topology, namespaces: Namespaces) -> None:
    """Start each daemon that does not answer; wait until Slurm can use every node."""
    arguments = user_arguments(namespaces)
    script = str(HERE / "daemons.sh")

    def start(name: str) -> None:
        namespaces.run(script, topology.role(name), "start", *arguments, node=name)

    # At once, since each node waits for its own daemons.
    with ThreadPoolExecutor() as pool:
        list(pool.map(start, topology.names))
    wanted = {node.name for node in topology.nodes}

    def ready():
        states = node_states(topology, namespaces)
        unusable = [node for node, state in states.items() if state.rstrip("*") in RESUMABLE]
        if unusable:
            set_state(topology, namespaces, unusable, "state=resume")
        return {node for node, state in states.items() if state in health.USABLE} == wanted

    try:
        wait_until(ready, guests.start_seconds(topology), "waiting for Slurm's nodes")
    except LabError as error:
        tail = ("tail", "-n", "5", "/var/log/slurm/slurmctld.log")
        logs = namespaces.run(*tail, node=topology.controller, check=False)
        raise LabError(
            f"{error}; states: {node_states(topology, namespaces)}; "
            f"the end of slurmctld's log:\n{logs}"
        ) from error


def set_state(topology: Topology, namespaces: Namespaces, nodes: list[str], *change: str) -> None:
    """Change the state that Slurm has for some nodes, as far as Slurm allows it."""
    update = ("scontrol", "update", f"nodename={','.join(nodes)}", *change)
    namespaces.run(*update, node=topology.controller, check=False)


def node_states(topology: Topology, namespaces: Namespaces) -> dict[str, str]:
    """The state of each node in Slurm (`idle`, `alloc`, `down*`, ...).

    Empty without the daemons that know it, for which `sinfo` would wait.
    """
    there = "pgrep -x munged > /dev/null && pgrep -x 'slurmctld(-wlm)?' > /dev/null"
    sinfo = "sinfo --noheader --Node --format='%N %t'"
    out = namespaces.run("sh", "-c", f"{there} && {sinfo}", node=topology.controller, check=False)
    return dict(line.split() for line in out.splitlines() if line.strip())


def up(
    topology: Topology, namespaces: Namespaces, image, layer, vm: dict | None, fleet: int, say
) -> None:
    """Start the lab, or heal the one that runs. Raises LabError.

    :arg image: directory of the node image.
    :arg layer: directory of the layer for virtual machines; None without them.
    :arg vm: options of virtual machines, as the command line gave them; None without them.
    :arg fleet: number of nodes on demand.
    """
    started = time.monotonic()
    if len(str(namespaces.checkout).split()) > 1:
        raise LabError(
            f"{namespaces.checkout}: ReFrame cannot build below a path with a space; "
            "move the checkout"
        )
    facts = {
        "image": str(image),
        "layer": layer and str(layer),
        "definition": _definition(),
        "vm": vm,
        "fleet": fleet,
        "guests": [name for name, _ in topology.entered_by_ssh],
        # Lists, as the record of the running lab has them.
        "memory_kb": {name: [*kb] for name, kb in memory_kb(topology, host_memory_mb()).items()},
    }
    ownership.settle(namespaces.checkout, *owner(namespaces))
    why, state = _why_restart(namespaces, facts), None
    try:
        if namespaces.state and not why:
            state = _heal(topology, namespaces, say)
            if state.curable:
                why = f"{'; '.join(state.curable)}: this could not be healed"
        if why:
            say(f"lab: {why}; starting it again")
        verb = "healthy"
        if state is None or why:
            verb = "up"
            _start(topology, namespaces, facts, say)
            state = health.check_twice(topology, namespaces, user_arguments(namespaces))
        if state.curable:
            raise LabError(f"it is up, but has faults: {'; '.join(state.curable)}")
    except (LabError, subprocess.SubprocessError):
        say("lab: its start failed; `make lab-down` removes the rest")
        raise
    namespaces.record(whole=True)
    for job in state.jobs:
        say(
            f"lab: {job}: jobs run one at a time, so others wait for it "
            f"(end it: make lab-exec CMD='scancel {job.id}')"
        )
    if state.faults:
        raise LabError(f"it is up, but {'; '.join(state.faults)}")
    say(f"lab: {verb} after {time.monotonic() - started:.1f} s")


def _start(topology: Topology, namespaces: Namespaces, facts: dict, say) -> None:
    """Start the lab; end one that runs first."""
    # What an interrupted start left is ended, too.
    namespaces.stop()
    namespaces.start(facts)
    start_nodes(topology, namespaces)
    links.start(topology, namespaces)
    if topology.guests:
        guests.start(topology, namespaces, say)
    start_daemons(topology, namespaces)


def _heal(topology: Topology, namespaces: Namespaces, say) -> health.Health:
    """Heal the faults of the lab; return those that are left."""
    state = health.check_twice(topology, namespaces, user_arguments(namespaces))
    if state.gone or not state.curable:
        return state
    for fault in state.curable:
        say(f"lab: healing: {fault}")
    try:
        if state.links:
            links.start(topology, namespaces, list(state.links))
        start_daemons(topology, namespaces)
        # Without slurmctld the queue could not be read before.
        orphans = [job for job in health.queue(topology, namespaces) if job.orphan]
        for job in orphans:
            say(f"lab: ending the orphan {job}: {job.orphan}")
        _end_jobs(topology, namespaces, [job.id for job in orphans])
    except LabError as error:
        say(f"lab: {error}")
    return health.check_twice(topology, namespaces, user_arguments(namespaces))


def _end_jobs(topology: Topology, namespaces: Namespaces, jobs: list[str]) -> None:
    """Cancel jobs and wait until they have left the queue.

    If one stays, set all nodes down and resume them, which ends every job.
    """
    if not jobs:
        return
    login = topology.controller
    namespaces.run("scancel", *jobs, node=login, check=False)

    def gone() -> bool:
        return not {job.id for job in health.queue(topology, namespaces)} & set(jobs)

    try:
        wait_until(gone, 20, "ending orphan jobs")
    except LabError:
        nodes = [node.name for node in topology.nodes]
        set_state(topology, namespaces, nodes, "state=down", "reason=orphan")
        set_state(topology, namespaces, nodes, "state=resume")
        wait_until(gone, 20, "ending orphan jobs")


def _definition() -> str:
    """A digest of nearmetal/lab and site-config/lab; if it changes, the lab is started again."""
    digest = hashlib.sha256()
    # The order of a directory varies.
    for path in sorted([*HERE.rglob("*"), *(CHECKOUT / "site-config" / "lab").rglob("*")]):
        if path.suffix != ".pyc" and path.is_file():
            heading = f"{path.relative_to(CHECKOUT)} {path.stat().st_size}\n"
            digest.update(heading.encode() + path.read_bytes())
    return digest.hexdigest()


def _why_restart(namespaces: Namespaces, facts: dict) -> str | None:
    """Why the lab that runs has to be started again; None if it has not, or if none runs."""
    if namespaces.interrupted:
        return "its start was interrupted"
    state = namespaces.state
    if state is None:
        return None
    if any(state.get(key) != value for key, value in facts.items()):
        return (
            "the node image, nearmetal/lab, site-config/lab, the nodes or the options of virtual "
            "machines changed since it started"
        )
    if state.get("whole"):
        return None
    return "its start did not complete"
