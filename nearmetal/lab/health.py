"""Find the faults of a running lab: nodes, links, daemons, and Slurm's states of nodes and jobs.

This module changes nothing.
"""

import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from nearmetal.lab import links
from nearmetal.lab.namespaces import HERE, LabError, Namespaces
from nearmetal.lab.topology import LinkClass, Topology

#: States in Slurm of a node that takes jobs.
USABLE = ("idle", "mix", "alloc", "comp")
#: In the state of a node that health.sh drained.
DRAINED_BY_HEALTH = "(health: "
#: Seconds within which a node has to report its faults.
PATIENCE = 90


@dataclass(frozen=True)
class Job:
    """A job in Slurm's queue."""

    id: str
    name: str
    user: str
    state: str
    nodes: str
    orphan: str  #: why the job cannot end well; empty if it may

    def __str__(self) -> str:
        where = f" on {self.nodes}" if self.nodes else ""
        return f"job {self.id} ({self.name}) of {self.user}, {self.state.lower()}{where}"


@dataclass
class Health:
    """The faults and jobs that a check of the lab found."""

    gone: list[str] = field(default_factory=list)  #: nodes that cannot be entered
    links: dict[LinkClass, list[str]] = field(default_factory=dict)
    nodes: dict[str, list[str]] = field(default_factory=dict)  #: by node, also its state in Slurm
    jobs: list[Job] = field(default_factory=list)  #: all jobs, orphans or not

    @property
    def faults(self) -> list[str]:
        """A sentence for each fault."""
        return [*self.curable, *self.full]

    @property
    def curable(self) -> list[str]:
        """A sentence for each fault that `lab-up` heals."""
        sentences = [f"{node} is gone" for node in self.gone]
        for link_class, faults in self.links.items():
            sentences += [f"link class {link_class.name}: {fault}" for fault in faults]
        for node, faults in self.nodes.items():
            sentences += [f"{node}: {fault}" for fault in faults if not _is_full(fault)]
        for job in self.jobs:
            if job.orphan:
                sentences.append(f"orphan {job}: {job.orphan}")
        return sentences

    @property
    def full(self) -> list[str]:
        """A sentence for each full file system, where a person has to delete files."""
        sentences = []
        for node, faults in self.nodes.items():
            sentences += [f"{node}: {fault}" for fault in faults if _is_full(fault)]
        return sentences


def _is_full(fault: str) -> bool:
    """Whether a fault, as daemons.sh prints it, is a full file system."""
    return fault.startswith("the file system of ")


def check_twice(topology: Topology, namespaces: Namespaces, arguments: tuple[str, ...]) -> Health:
    """The present faults; if there are none, those that a second check finds."""
    first = check(topology, namespaces, arguments)
    if first.faults:
        return first
    # Daemons may end soon after their start, and Slurm may notice something late.
    return check(topology, namespaces, arguments)


def check(topology: Topology, namespaces: Namespaces, arguments: tuple[str, ...]) -> Health:
    """The present faults.

    :arg arguments: arguments of daemons.sh that name the lab's user and the checkout.
    """
    names = topology.names
    with ThreadPoolExecutor() as pool:
        answers = pool.map(lambda name: _answers(namespaces, name), names)
        gone = [name for name, answer in zip(names, answers) if not answer]
        # Nothing else can be asked of a node that cannot be entered.
        if gone:
            return Health(gone)
        checked_links = pool.submit(links.check, topology, namespaces)
        checked_nodes = pool.map(
            lambda name: _daemons(topology, namespaces, name, arguments), names
        )
        nodes = {name: faults for name, faults in zip(names, checked_nodes) if faults}
        link_faults = checked_links.result()
    jobs = []
    # Without these two, Slurm's commands wait in vain.
    needed = ("slurmctld ", "munged ")
    if not any(fault.startswith(needed) for fault in nodes.get(topology.controller, ())):
        for name, fault in slurm_states(topology, namespaces).items():
            # The fault by which health.sh drained the node is named already.
            if not (DRAINED_BY_HEALTH in fault and any(map(_is_full, nodes.get(name, ())))):
                nodes.setdefault(name, []).append(fault)
        jobs = queue(topology, namespaces)
    return Health([], link_faults, nodes, jobs)


def _answers(namespaces: Namespaces, name: str) -> bool:
    """Whether the node can be entered and has the expected host name."""
    done = subprocess.run(
        [*namespaces.enter(name), "hostname"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode == 0 and done.stdout.strip().partition(".")[0] == name


def _daemons(
    topology: Topology, namespaces: Namespaces, name: str, arguments: tuple[str, ...]
) -> list[str]:
    """Faults of a node's daemons and file systems, as daemons.sh prints them."""
    command = [str(HERE / "daemons.sh"), topology.role(name), "check", *arguments]
    try:
        return namespaces.run(*command, node=name, timeout=PATIENCE).splitlines()
    except LabError as error:
        return [str(error)]


def slurm_states(topology: Topology, namespaces: Namespaces) -> dict[str, str]:
    """State and reason in Slurm of each node that takes no jobs."""
    out = namespaces.run(
        "timeout", "20", "sinfo", "--noheader", "--Node", "--format=%N|%t|%E",
        node=topology.controller, check=False,
    )  # fmt: skip
    states = dict(line.split("|", 1) for line in out.splitlines() if line.count("|") >= 2)
    if not states:
        return {topology.controller: "slurmctld reports no nodes"}
    unusable = {}
    for node in topology.nodes:
        state, _, reason = states.get(node.name, "unknown|none").partition("|")
        if state not in USABLE:
            why = "" if reason.strip() in ("", "none") else f" ({reason.strip()})"
            unusable[node.name] = f"its state in Slurm is {state}{why}"
    return unusable


#: Prints the time (`now SECONDS`), the start of each process that may wait for a job
#: (`reframe SECONDS` or `srun SECONDS`), and then Slurm's queue, one job a line.
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
fields='JobID:|,UserName:|,State:|,NodeList:|,SubmitTime:|,StartTime:|'
fields=$fields,'BatchHost:|,BatchFlag:|,Name:'
SLURM_TIME_FORMAT=%s timeout 20 squeue --noheader --Format="$fields"
"""
#: Tolerance of the times in Slurm: a submission may be earlier, and a script's start later.
TOLERANCE_SECONDS = 5


def queue(topology: Topology, namespaces: Namespaces) -> list[Job]:
    """All jobs in Slurm's queue, with the reason for each that is an orphan."""
    out = namespaces.run("sh", stdin=QUEUE, node=topology.controller, check=False).splitlines()
    starts: dict[str, list[int]] = {"reframe": [], "srun": [], "now": []}
    jobs = []
    for line in out:
        fields = line.split("|", 8)
        if len(fields) == 9:
            jobs.append(_job(topology, namespaces, fields, starts))
        elif line.count(" ") == 1:
            name, when = line.split()
            starts[name].append(int(when))
    return jobs


def _job(
    topology: Topology, namespaces: Namespaces, fields: list[str], starts: dict[str, list[int]]
) -> Job:
    """A line of the queue as a job.

    :arg starts: the times that QUEUE prints before the queue, by the name before each.
    """
    number, user, state, nodes, submitted, begun, host, batch, name = fields
    client = "reframe" if name.startswith("rfm_") else "srun"
    orphan = ""
    # Nobody waits for a batch script of a person. An allocation of srun or salloc has none.
    if client == "reframe" or batch == "0":
        if not any(start <= int(submitted) + TOLERANCE_SECONDS for start in starts[client]):
            orphan = f"the {client} that waited for it is gone"
    elif state == "RUNNING" and starts["now"][0] - int(begun) > TOLERANCE_SECONDS:
        orphan = _lost_script(namespaces, number, host)
    # Such a job stays in the queue until its time limit.
    if state == "RUNNING" and not orphan:
        orphan = _lost_daemon(topology, namespaces, number, nodes)
    return Job(number, name.strip(), user, state, nodes, orphan)


def _lost_script(namespaces: Namespaces, job: str, host: str) -> str:
    """Why a running job is an orphan; empty if its batch script runs."""
    # A user can give a process any name, but not root as its owner.
    daemons = namespaces.run("pgrep", "-U", "0", "-a", "-x", "slurmstepd", node=host, check=False)
    if f"[{job}." in daemons:
        return ""
    return f"its script no longer runs on {host}"


#: Prints the steps of job $1 whose slurmstepd was killed on this node: one that ends by itself
#: removes its socket. Each step is looked at twice, as one may be ending.
LOST_DAEMONS = r"""
lost() { # SOCKET
    [ -S "$1" ] && ! grep -q " $1\$" /proc/net/unix
}
host=$(hostname)
for socket in /var/lib/slurm/slurmd/"${host%%.*}_$1".*; do
    lost "$socket" && sleep 1 && lost "$socket" && echo "$socket"
done
"""


def _lost_daemon(topology: Topology, namespaces: Namespaces, job: str, nodes: str) -> str:
    """Why a running job hangs; empty if no slurmstepd of its steps was killed."""
    expand = ("scontrol", "show", "hostnames", nodes)
    for node in namespaces.run(*expand, node=topology.controller, check=False).split():
        if namespaces.run("sh", "-s", job, node=node, stdin=LOST_DAEMONS, check=False):
            return f"its slurmstepd on {node} is gone"
    return ""
