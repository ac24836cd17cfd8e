"""Faults of a lab that runs: its nodes, links, daemons, and Slurm's view of nodes and jobs. Nothing is changed here."""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from nearmetal.lab import links
from nearmetal.lab.room import HERE, LabError, Room
from nearmetal.lab.topology import LinkClass, Topology

#: Slurm's words for a node that takes jobs.
USABLE = ("idle", "mix", "alloc", "comp")
#: Seconds after which a node that has not said how it is counts as hanging.
PATIENCE = 90


@dataclass(frozen=True)
class Job:
    """A job in Slurm's queue."""

    id: str
    name: str
    user: str
    state: str
    nodes: str
    orphan: str  #: why nobody waits for it any more; empty: somebody may

    def __str__(self) -> str:
        where = f" on {self.nodes}" if self.nodes else ""
        return f"job {self.id} ({self.name}) of {self.user}, {self.state.lower()}{where}"


@dataclass
class Health:
    """The faults that a look found."""

    gone: list[str] = field(default_factory=list)  #: nodes that can't be entered
    links: dict[LinkClass, list[str]] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=dict)  #: by node, also Slurm's view of it
    jobs: list[Job] = field(default_factory=list)  #: all jobs, orphans or not

    @property
    def orphans(self) -> list[Job]:
        return [job for job in self.jobs if job.orphan]

    @property
    def faults(self) -> list[str]:
        """A sentence for each."""
        return [*self.curable, *self.full]

    @property
    def curable(self) -> list[str]:
        """A sentence for each fault that `lab-up` heals."""
        return [
            *(f"{node} is gone" for node in self.gone),
            *(
                f"link class {link_class.name}: {fault}"
                for link_class, faults in self.links.items()
                for fault in faults
            ),
            *(f"{node}: {fault}" for node, fault in self._of_nodes() if not _full(fault)),
            *(f"orphan {job}: {job.orphan}" for job in self.orphans),
        ]

    @property
    def full(self) -> list[str]:
        """A sentence for each full file system: whose files are to go, a person has to say."""
        return [f"{node}: {fault}" for node, fault in self._of_nodes() if _full(fault)]

    def _of_nodes(self):
        return [(node, fault) for node, faults in self.nodes.items() for fault in faults]


def _full(fault: str) -> bool:
    return " is full" in fault


def look_twice(topology: Topology, room: Room, arguments: tuple[str, ...]) -> Health:
    """The faults at this moment. A second look follows one that found none: it sees what ended
    soon after its start, and what Slurm noticed late."""
    first = look(topology, room, arguments)
    return first if first.faults else look(topology, room, arguments)


def look(topology: Topology, room: Room, arguments: tuple[str, ...]) -> Health:
    """The faults at this moment. `arguments` are those of daemons.sh that name the lab's user."""
    names = [topology.controller, *(node.name for node in topology.nodes)]
    with ThreadPoolExecutor() as pool:
        gone = [
            name
            for name, lives in zip(names, pool.map(lambda n: _lives(room, n), names))
            if not lives
        ]
        if gone:
            return Health(gone)
        wires = pool.submit(links.look, topology, room)
        said = dict(zip(names, pool.map(lambda name: _ask(topology, room, name, arguments), names)))
        found = wires.result()
    nodes = {name: lines for name, lines in said.items() if lines}
    jobs = []
    if not any(line.startswith("slurmctld ") for line in said[topology.controller]):
        for name, fault in slurms_view(topology, room).items():
            nodes.setdefault(name, []).append(fault)
        jobs = queue(topology, room)
    return Health([], found, nodes, jobs)


def _lives(room: Room, name: str) -> bool:
    """Whether the node can be entered and is the one that was meant."""
    done = subprocess.run(
        [*room.enter(name), "hostname"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    return done.returncode == 0 and done.stdout.strip() == name


def _ask(topology: Topology, room: Room, name: str, arguments: tuple[str, ...]) -> list[str]:
    role = "login" if name == topology.controller else "node"
    command = [str(HERE / "daemons.sh"), role, "look", *arguments]
    try:
        return room.run(*command, node=name, timeout=PATIENCE).splitlines()
    except LabError as error:
        return [str(error)]


def slurms_view(topology: Topology, room: Room) -> dict[str, str]:
    """Slurm's word on each node that takes no jobs."""
    out = room.run(
        "timeout", "20", "sinfo", "--noheader", "--Node", "--format=%N|%t|%E",
        node=topology.controller, check=False,
    )  # fmt: skip
    states = dict(line.split("|", 1) for line in out.splitlines() if line.count("|") >= 2)
    if not states:
        return {topology.controller: "slurmctld says nothing of its nodes"}
    found = {}
    for node in topology.nodes:
        state, _, reason = states.get(node.name, "unknown|none").partition("|")
        if state not in USABLE:
            found[node.name] = f"Slurm has it as {state}" + (
                f" ({reason.strip()})" if reason.strip() not in ("", "none") else ""
            )
    return found


#: Slurm's queue, a job in a line, after the start of each process that may wait for one: `PROCESS START`, both in seconds
#: of the epoch, and the time now.
QUEUE = r"""
now=$(date +%s)
echo "now $now"
clients() { # NAME PROCESS...
    name=$1
    shift
    for pid; do
        age=$(ps -o etimes= -p "$pid" | tr -d ' ') && echo "$name $((now - age))"
    done
}
clients reframe $(pgrep -x reframe; pgrep -f '^[^ ]*python[^ ]* (-[^ ]+ )*([^ ]*/)?reframe( |$)')
clients srun $(pgrep -x 'srun|salloc')
SLURM_TIME_FORMAT=%s timeout 20 squeue --noheader --Format='JobID:|,UserName:|,State:|,NodeList:|,SubmitTime:|,StartTime:|,BatchHost:|,BatchFlag:|,Name:'
"""
#: A job may be so much older than Slurm says, and its script start so much later.
SECONDS = 5


def queue(topology: Topology, room: Room) -> list[Job]:
    """All jobs in Slurm's queue, orphans among them: they would block the next run."""
    out = room.run("sh", stdin=QUEUE, node=topology.controller, check=False).splitlines()
    clients: dict[str, list[int]] = {"reframe": [], "srun": [], "now": [0]}
    jobs = []
    for line in out:
        fields = line.split("|", 8)
        if len(fields) == 9:
            number, user, state, nodes, submitted, begun, host, batch, name = fields
            orphan, waiting = "", "reframe" if name.startswith("rfm_") else "srun"
            # A person's script is waited for by nobody; an allocation of srun or salloc has none.
            if waiting == "reframe" or batch == "0":
                if not any(start <= int(submitted) + SECONDS for start in clients[waiting]):
                    orphan = f"the {waiting} that waited for it is gone"
            elif state == "RUNNING" and clients["now"][0] - int(begun) > SECONDS:
                orphan = _lost_script(room, number, host)
            jobs.append(Job(number, name.strip(), user, state, nodes, orphan))
        elif line.count(" ") == 1:
            name, when = line.split()
            clients[name] = [int(when)] if name == "now" else [*clients[name], int(when)]
    return jobs


def _lost_script(room: Room, job: str, host: str) -> str:
    """Why the batch script of a running job is none; empty if it runs."""
    lives = room.run("pgrep", "-a", "-x", "slurmstepd", node=host, check=False)
    return "" if f"[{job}." in lives else f"its script no longer runs on {host}"
