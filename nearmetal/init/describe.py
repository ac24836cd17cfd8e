"""The lines of a system's file, from what its cluster says. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nearmetal.cluster import node
from nearmetal.cluster.cluster import Cluster, Inspected
from nearmetal.cluster.slurm import Partition
from nearmetal.init import admitted, limits
from nearmetal.init.environments import (
    MPI_TYPES,
    NOWHERE,
    Environment,
    environments_of,
    srun_starts,
)
from nearmetal.init.lines import Lines
from nearmetal.util import suggest

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*")
#: Most patterns of host names.
MOST_PATTERNS = 8
#: Most modules of a kind that the file's head lists.
MOST_MODULES = 6
#: Time in the queue after which a case is given up.
PENDING = "1h"
NO_BASELINE = "the system is new; delete this key after `nearmetal baseline record`"
#: What is said of a processor -> its fact.
SETTINGS = {"NUMA nodes": "numa_nodes", "SMT": "smt", "governor": "governor"}
#: Features of a partition -> how the names of environments begin that need them.
FEATURES = {"mpi": tuple(MPI_TYPES), "java": ("mpj", "fastmpj")}


def name_of(text: str) -> str:
    """A name that a system's file may have, made of another one."""
    plain = re.sub(r"[^a-zA-Z0-9_-]+", "-", text).strip("-") or "cluster"
    if NAME.fullmatch(plain):
        return plain
    return f"_{plain}"


def patterns(names: Sequence[str]) -> list[str]:
    """Patterns that match these host names, with or without a domain; the most common first."""
    shapes: Counter[str] = Counter()
    for name in names:
        # Nodes are numbered: cn1 and cn002 have one pattern.
        shape = re.sub(r"\d+", r"\\d+", re.escape(name.split(".")[0]))
        shapes[shape.replace(r"\-", "-")] += 1
    return [rf"^{shape}(\.|$)" for shape, _ in shapes.most_common()]


def chosen_partitions(
    cluster: Cluster, wanted: Sequence[str], access: Sequence[str] = ()
) -> tuple[list[Partition], list[str]]:
    """The partitions to describe, and a sentence on each that is left out.

    :arg wanted: names of the only ones to describe, also where Slurm may refuse the user there.
    :arg access: further options of srun and sbatch, such as an account.
    """
    kept, left_out = [], []
    for partition in cluster.partitions:
        if wanted and partition.name not in wanted:
            continue
        why = ""
        if not wanted:
            why = admitted.refusal(cluster, partition, access)
        if not why and not cluster.nodes_of(partition.name):
            why = "it has no node"
        if not why and not partition.up:
            why = f"its state is {partition.state}"
        if why:
            left_out.append(f"the partition {partition.name} is left out: {why}")
        else:
            kept.append(partition)
    return kept, left_out


def listed_modules(cluster: Cluster) -> list[str]:
    """Sentences on the software that the modules system lists, by kind."""
    sentences = []
    for kind, modules in cluster.software.items():
        names = [module.name for module in modules]
        sentences.append(f"{kind.replace('_', ' ')}: {suggest.shorten(names, MOST_MODULES)}")
    return sentences


def describe(
    cluster: Cluster,
    name: str,
    wanted: Sequence[Partition],
    access: Sequence[str],
    common: Mapping[str, dict],
    images: Sequence[str],
) -> Lines:
    """The lines of the system's file.

    :arg wanted: the partitions.
    :arg access: further options of srun and sbatch, such as an account.
    :arg common: the environments of all systems by name (environments.yaml).
    :arg images: names of the environments whose image is there.
    """
    origin = "nearmetal init's argument"
    if name == name_of(cluster.config.get("ClusterName", "")):
        origin = "scontrol show config: ClusterName"
    lines = Lines()
    lines.add(0, "name", name, origin)
    lines.add(0, "descr", f"Slurm cluster {name}", "nearmetal init; write what it is")
    _hostnames(lines, cluster)
    lines.add(0, "modules_system", cluster.modules.kind, cluster.modules.origin)
    somewhere = next(iter(cluster.inspected.values()), cluster.login)
    environments = environments_of(cluster, common, somewhere)
    _environments(lines, environments)
    lines.open(0, "partitions", wanted[0].origin)
    taken: set[str] = set()
    for partition in wanted:
        plain = name_of(partition.name)
        # Two of Slurm's names may differ in a character that ours cannot have.
        while plain in taken:
            plain += "_"
        taken.add(plain)
        inspected = cluster.inspected.get(partition.name)
        _Description(lines, cluster, partition, inspected).write(
            plain, access, environments, images
        )
    return lines


def _hostnames(lines: Lines, cluster: Cluster) -> None:
    lines.open(0, "hostnames", "patterns; without --system, ReFrame chooses a system by them")
    # The login node first: there ReFrame looks for its system.
    login, *_ = patterns([cluster.host])
    guess = f"hostname ({cluster.host}); are other login nodes named like it?"
    lines.item(2, login, "", guess)
    others = patterns([node.name for node in cluster.nodes])
    # Nodes may be named like the login node.
    if login in others:
        others.remove(login)
    for pattern in others[:MOST_PATTERNS]:
        lines.item(2, pattern, cluster.nodes_origin)


def _environments(lines: Lines, environments: Sequence[Environment]) -> None:
    differing = [environment for environment in environments if environment.differs]
    if differing:
        lines.open(0, "environments", "what differs from site-config/environments.yaml")
    for environment in differing:
        lines.add(2, "- name", environment.name, environment.origin, environment.guess)
        for key, entry in environment.differs.items():
            lines.add(4, key, *entry)


@dataclass
class _Description:
    """Writes the lines of a partition."""

    lines: Lines
    cluster: Cluster
    partition: Partition
    inspected: Inspected | None  #: one of its nodes

    def __post_init__(self):
        self.source = self.inspected or self.cluster.login or NOWHERE
        self.facts = self.source.facts
        self.nodes = self.cluster.nodes_of(self.partition.name)
        #: Why the facts may be those of another kind of node.
        self.doubt = ""
        if self.source is NOWHERE:
            self.doubt = "no node was inspected"
        elif not self.inspected:
            self.doubt = "no node of the partition was inspected; this is the login node's"

    def write(
        self,
        name: str,
        access: Sequence[str],
        environments: Sequence[Environment],
        images: Sequence[str],
    ) -> None:
        """Write the partition.

        :arg access: as of `describe`; so are images.
        :arg environments: of the system.
        """
        self.lines.add(2, "- name", name, f"{self.partition.origin}: its name")
        self._scheduler()
        self._launcher(environments)
        self._access(access)
        platform, modules, origin = self._platform()
        names = [environment.name for environment in environments]
        if platform:
            names += images
        origins = [f"{each.name}: {each.origin or each.guess}" for each in environments]
        # A partition has at least one environment: without a compiler none of ours can be used.
        guess = ""
        if not names:
            guess = "neither an MPI library nor gcc was found"
        self.lines.add(4, "environs", names or ["gnu"], "; ".join(origins), guess)
        features = []
        for feature, beginnings in FEATURES.items():
            if any(name.startswith(beginnings) for name in names):
                features.append(feature)
        if features:
            self.lines.add(4, "features", features, "follows from environs")
        if platform:
            value: dict = {"type": platform}
            if modules:
                value["modules"] = modules
            self.lines.add(4, "container_platforms", [value], origin)
        self._extras()

    def _scheduler(self) -> None:
        kind = self.cluster.config.get("AccountingStorageType", "")
        origin = f"scontrol show config: AccountingStorageType is {kind}"
        scheduler, guess = "squeue", ""
        if self.cluster.has_accounting:
            scheduler = "slurm"
        elif self.cluster.has_accounting is None:
            guess = "scontrol show config could not be read"
        self.lines.add(4, "scheduler", scheduler, origin, guess)

    def _launcher(self, environments: Sequence[Environment]) -> None:
        types = self.cluster.mpi_types
        origin = f"srun --mpi=list: {', '.join(types)}"
        launcher, guess = "srun", ""
        if not types:
            guess = "srun --mpi=list could not be read"
        # A partition has one launcher, so one library that srun cannot start decides.
        alone = [each.name for each in environments if not srun_starts(self.cluster, each)]
        if alone:
            launcher = "mpirun"
            # That of Intel MPI binds by options of its own.
            if alone == [each.name for each in environments if each.name != "gnu"] == ["intelmpi"]:
                launcher = "mpirun-intelmpi"
            guess = f"{origin}: srun has no type that starts {', '.join(alone)}"
        self.lines.add(4, "launcher", launcher, origin, guess)

    def _access(self, access: Sequence[str]) -> None:
        origin = self.partition.origin
        if access:
            origin += "; --access"
        # Slurm takes the default account, which may not be the one that is meant.
        if len(self.cluster.accounts) > 1:
            origin += f"; sacctmgr: your accounts are {', '.join(self.cluster.accounts)}"
        further, doubt = admitted.options(self.cluster, self.partition, access)
        options = [f"-p {self.partition.name}", *access, *further]
        self.lines.add(4, "access", options, origin, doubt)

    def _platform(self) -> tuple[str, list[str], str]:
        """Container platform, the modules that load it, and the origin; '' if there is none."""
        if self.inspected:
            for command in ("apptainer", "singularity"):
                path = self.facts.get(f"command.{command}", "none")
                if path not in node.NONE:
                    return command.capitalize(), [], f"{path} ({self.source.origin})"
        if "apptainer" not in self.cluster.software:
            return "", [], ""
        preferred = self.cluster.software["apptainer"][0].name
        modules = self.cluster.loads.get("apptainer", [preferred])
        kind = "Apptainer"
        if "singularity" in modules[-1].lower():
            kind = "Singularity"
        return kind, list(modules), "module -t avail"

    def _extra(self, key: str, value, origin: str, guess: str = "") -> None:
        """A line of the extras."""
        self.lines.add(6, key, value, origin, guess)

    def _fact(self, key: str, value, fact: str, guess: str = "") -> None:
        """A line of the extras by a fact of the node."""
        self._extra(key, value, f"{self.source.origin}: {fact}", self.doubt or guess)

    def _extras(self) -> None:
        self.lines.open(4, "extras", "facts of the nodes and their link")
        self._link()
        # Of a VM that hides its hypervisor this is a guess.
        hypervisor, guess = node.hypervisor(self.facts)
        self._fact("hypervisor", hypervisor, "hypervisor", guess)
        self._processor()
        self._nodes()
        self._cores_per_node()
        self._memory()
        if limit := self.partition.time_limit:
            self._extra("max_time_limit", limit, f"{self.partition.origin}: its time limit")
        origin = "nearmetal init; a case that waits longer fails"
        self._extra("max_pending_time", PENDING, origin)
        self._extra("no_baseline", NO_BASELINE, "nearmetal init")
        source = self.source.origin or "no node was inspected"
        self._extra("source", f"{self.cluster.nodes_origin}; {source}", "nearmetal init")

    def _link(self) -> None:
        link = node.link_of(self.facts)
        about = f"{link.nic or 'no interface'}, driver {link.driver}"
        rate = f"rate of {link.nic}"
        lines = {
            "link_class": (link.link_class, about),
            "link_type": (link.link_type, about),
            "link_speed_gbps": (link.speed_gbps, rate),
            "link_signalling_gbps": (link.signalling_gbps, rate),
            "nics": (link.nics > 1 and link.nics, f"active ones like {link.nic}"),
            "nic_model": (link.model, about),
            "rdma": (link.rdma, "an active port in /sys/class/infiniband"),
        }
        guessed = dict(link.guessed)
        for key, (value, fact) in lines.items():
            if value:  # a link without RDMA, or of one NIC, has no key for it
                self._fact(key, value, fact, guessed.get(key, ""))

    def _processor(self) -> None:
        model = self.facts.get("cpu_model", "unknown")
        if model not in node.NONE:
            settings = []
            for label, key in SETTINGS.items():
                settings.append(f"{label} {self.facts.get(key, 'unknown')}")
            self._fact("cpu", model, ", ".join(settings))
        # Amazon writes it into the firmware of each instance.
        instance = re.fullmatch(r"Amazon EC2 (\w+\.[\w-]+)", self.facts.get("dmi", ""))
        if instance and not self.doubt:
            self._fact("instance_type", instance[1], "dmi")

    def _nodes(self) -> None:
        """The nodes that a job can have. The partition's least number of them has no key."""
        number, origin = len(self.nodes), self.cluster.nodes_origin
        most = self.partition.limits.get("MaxNodes", number)
        least = self.partition.limits.get("MinNodes", 1)
        if most < number:
            number, origin = most, f"{self.partition.origin}: MaxNodes"
        guess = ""
        if least > 1:
            guess = f"jobs have at least {least} nodes (MinNodes): checks of fewer do not start"
        self._extra("nodes", number, origin, guess)

    def _cores_per_node(self) -> None:
        """The cores of a node that a job can have."""
        cores = {each: limits.cores(self.partition, each) for each in self.nodes}
        # A check asks for the same of each node, so the smallest one decides.
        smallest = min(self.nodes, key=cores.__getitem__)
        origin = f"{self.cluster.nodes_origin}: CoresPerSocket"
        if smallest.kept_cores:
            origin += f", less {smallest.kept_cores} that Slurm keeps (CoreSpecCount)"
        if cores[smallest] < smallest.cores:
            origin = f"{self.partition.origin}: {limits.of_cores(self.partition)}"
        guess = _differing(cores.values(), "cores")
        physical, seen = smallest.cores + smallest.kept_cores, self._seen_cores()
        if not guess and seen not in (0, physical):
            guess = f"Slurm says {physical} cores, and the node {seen}"
        self._extra("cores_per_node", cores[smallest], origin, guess)

    def _seen_cores(self) -> int:
        """Physical cores of a node by its own facts; 0 if they are not known."""
        processors = self.facts.get("cpus", "")
        threads = self.facts.get("threads_per_core", "1")
        if self.doubt or not (processors.isdecimal() and threads.isdecimal()):
            return 0
        return int(processors) // max(1, int(threads))

    def _memory(self) -> None:
        key = "memory_gb"
        if node.is_guest(self.facts):
            key = "guest_memory_gb"
        seen = self.facts.get("mem_total_kb", "")
        guess = _differing([each.memory_mb for each in self.nodes], "MB of memory")
        limited, limit, why = limits.memory(self.partition, self.nodes, self.cluster.config)
        smallest = min(each.memory_mb for each in self.nodes)
        if limit:
            doubts = "; ".join(filter(None, [guess, why]))
            self._extra(key, _gb(limited << 20), limit, doubts)
        elif seen.isdecimal() and not self.doubt and not guess:
            self._fact(key, _gb(int(seen) * 1024), "MemTotal")
        elif smallest > 1:  # Slurm's default, where nobody configured it
            origin = f"{self.cluster.nodes_origin}: RealMemory"
            self._extra(key, _gb(smallest << 20), origin, guess)


def _gb(count: int) -> float:
    """Bytes as GB: whole ones, or a tenth where there are few."""
    value = count / 1e9
    if value >= 16:
        return round(value)
    return max(0.1, round(value, 1))


def _differing(numbers, what: str) -> str:
    """The guess where nodes differ; '' where they do not."""
    different = sorted(set(numbers))
    if len(different) < 2:
        return ""
    return f"nodes have {different[0]} to {different[-1]} {what}; this is the least"
