"""What a system's file says of a partition, and Slurm contradicts. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nearmetal.cluster.slurm import Node, Partition
from nearmetal.doctor.finding import Finding
from nearmetal.util import suggest

SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
#: Keys of the extras that are processes on a node.
RANKS = ("ranks_per_node", "affinity_ranks_per_node", "npb_mz_ranks_per_node")
#: A memory above this many times Slurm's is contradicted. Sites state less than a node has.
MEMORY = 1.5
#: What a user's job has -> the option of `access` that names it.
OPTIONS = {
    "account": re.compile(r"(?<!\S)(?:-A\s*|--account[=\s]\s*)(\S+)"),
    "qos": re.compile(r"(?<!\S)(?:-q\s*|--qos[=\s]\s*)(\S+)"),
}


@dataclass
class Slurms:
    """What Slurm says of the partitions that a partition of the file reaches."""

    partitions: Sequence[Partition]
    nodes: Sequence[Node]
    mine: Mapping[str, Sequence[str]] = field(default_factory=dict)  #: the user's, as OPTIONS

    def nodes_of(self, one: Partition) -> int:
        """Nodes that a job of one of the partitions can have."""
        number = sum(one.name in node.partitions for node in self.nodes)
        return min(number, one.limits.get("MaxNodes", number))


def findings(path: str, partition: dict, slurms: Slurms) -> Iterator[Finding]:
    """Each value of a partition that Slurm contradicts."""
    name, extras = partition["name"], partition["extras"]
    for key, most, origin in most_of(extras, slurms):
        if most and extras.get(key, 0) > most:
            what = f"{key} is {extras[key]:g}, but Slurm has {most:g} ({origin})"
            fix = f"correct `{key}` in the extras of {path}"
            yield Finding(what, fix, name, blocks=False)
    yield from time_limit(path, partition, slurms.partitions)
    for kind in OPTIONS:
        yield from identity(kind, path, partition, slurms)


def most_of(extras: Mapping, slurms: Slurms) -> Iterator[tuple[str, float, str]]:
    """Keys of the extras, the largest value that Slurm allows (0: unknown), and its origin."""
    yield "nodes", sum(map(slurms.nodes_of, slurms.partitions)), "the partition's nodes, MaxNodes"
    cores, cpus, megabytes = [0], [0], [0]
    for one in slurms.partitions:
        for node in slurms.nodes:
            most = one.limits.get("MaxCPUsPerNode", node.cores * node.threads)
            cores.append(min(node.cores, most // node.cpus_of_core))
            cpus.append(min(node.cores * node.threads, most))
            megabytes.append(node.memory_mb + node.kept_mb)
    yield "cores_per_node", max(cores), "cores of a node, MaxCPUsPerNode"
    for key in RANKS:
        yield key, max(cpus), "CPUs of a node, MaxCPUsPerNode"
    # Slurm's default is 1 MB, where nobody configured it.
    known = max(megabytes) if max(megabytes) > 1 else 0
    key = "guest_memory_gb" if "guest_memory_gb" in extras else "memory_gb"
    origin = f"{MEMORY:g} times RealMemory, which is {known} MB"
    yield key, round(MEMORY * (known << 20) / 1e9), origin


def time_limit(path: str, partition: dict, known: Sequence[Partition]) -> Iterator[Finding]:
    """A time limit that is above those of all partitions."""
    wanted = partition["extras"].get("max_time_limit", "")
    limits = [one.time_limit for one in known]
    if not wanted or not all(limits):
        return
    longest = max(limits, key=seconds)
    if seconds(wanted) > seconds(longest):
        yield Finding(
            f"max_time_limit is {wanted}, but Slurm's partition allows {longest} (MaxTime)",
            f"write `max_time_limit: {longest}` in the extras of {path}",
            partition["name"],
            blocks=False,
        )


def seconds(text: str) -> int:
    """The seconds of a time as ReFrame writes it, `1d12h`."""
    return sum(int(number) * SECONDS[unit] for number, unit in re.findall(r"(\d+)([dhms])", text))


def identity(kind: str, path: str, partition: dict, slurms: Slurms) -> Iterator[Finding]:
    """An account or QOS that is not the user's, or that the partition does not admit."""
    named = OPTIONS[kind].findall(" ".join(partition.get("access", ())))[-1:]
    mine = list(slurms.mine.get(kind, ()))
    fix = f"correct --{kind} in `access` of {path}"
    if named and mine and named[0] not in mine:
        what = suggest.unknown_value(f"access: your {kind}", named[0], mine).rstrip(".")
        fix += "; `sacctmgr show assoc user=$USER` lists yours"
        yield Finding(what, fix, partition["name"])
        return
    candidates = named or mine
    if candidates and not any(admits(kind, one, candidates) for one in slurms.partitions):
        yield Finding(
            f"Slurm's partition admits no {kind} of yours ({', '.join(candidates)})",
            f"{fix}; `scontrol show partition` lists those that it admits",
            partition["name"],
            blocks=False,
        )


def admits(kind: str, one: Partition, names: Sequence[str]) -> bool:
    """Whether a partition admits one of the names. Slurm ignores what is denied beside a list."""
    allowed, denied = one.accounts, one.denied_accounts
    if kind == "qos":
        allowed, denied = one.qos, one.denied_qos
    return any(name in allowed if allowed else name not in denied for name in names)
