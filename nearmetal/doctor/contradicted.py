"""What a system's file says of a partition, and Slurm contradicts. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nearmetal.cluster.cluster import Cluster
from nearmetal.cluster.slurm import Partition
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


def findings(
    path: Path, partition: dict, reached: Sequence[Partition], cluster: Cluster
) -> Iterator[Finding]:
    """Each value of a partition that Slurm contradicts.

    :arg reached: the partitions of Slurm that it reaches.
    """
    name, extras = partition["name"], partition["extras"]
    for key, most, origin in most_of(extras, reached, cluster):
        if most and extras.get(key, 0) > most:
            what = f"{key} is {extras[key]:g}, but Slurm has {most:g} ({origin})"
            fix = f"correct `{key}` in the extras of {path}"
            yield Finding(what, fix, name, blocks=False)
    yield from time_limit(path, partition, reached)
    mine: dict[str, list[str]] = {"account": [], "qos": []}
    if cluster.enforces_accounts:
        mine = {"account": cluster.accounts, "qos": cluster.qos}
    for kind, names in mine.items():
        yield from identity(kind, names, path, partition, reached)


def most_of(
    extras: Mapping, reached: Sequence[Partition], cluster: Cluster
) -> Iterator[tuple[str, float, str]]:
    """Keys of the extras, the largest value that Slurm allows (0: unknown), and its origin."""
    nodes, cores, cpus, megabytes = 0, 0, 0, 0
    names = {partition.name for partition in reached}
    for partition in reached:
        number = len(cluster.nodes_of(partition.name))
        nodes += min(number, partition.limits.get("MaxNodes", number))
        for node in cluster.nodes:
            if names.isdisjoint(node.partitions):
                continue
            most = partition.limits.get("MaxCPUsPerNode", node.cores * node.threads)
            cores = max(cores, min(node.cores, most // node.cpus_of_core))
            cpus = max(cpus, min(node.cores * node.threads, most))
            megabytes = max(megabytes, node.memory_mb + node.kept_mb)
    yield "nodes", nodes, "the partition's nodes, MaxNodes"
    yield "cores_per_node", cores, "cores of a node, MaxCPUsPerNode"
    for key in RANKS:
        yield key, cpus, "CPUs of a node, MaxCPUsPerNode"
    # Slurm's default is 1 MB, where nobody configured it.
    known = megabytes if megabytes > 1 else 0
    key = "guest_memory_gb" if "guest_memory_gb" in extras else "memory_gb"
    origin = f"{MEMORY:g} times RealMemory, which is {known} MB"
    yield key, round(MEMORY * (known << 20) / 1e9), origin


def time_limit(path: Path, partition: dict, known: Sequence[Partition]) -> Iterator[Finding]:
    """A time limit that is above those of all partitions."""
    wanted = partition["extras"].get("max_time_limit", "")
    # A partition without a limit allows all, so nothing is contradicted.
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


def identity(
    kind: str, mine: list[str], path: Path, partition: dict, reached: Sequence[Partition]
) -> Iterator[Finding]:
    """An account or QOS that is not the user's, or that no partition of Slurm admits.

    :arg mine: the user's; []: unknown.
    """
    # Of an option that is given twice, the last one counts.
    named = OPTIONS[kind].findall(" ".join(partition.get("access", ())))[-1:]
    fix = f"correct --{kind} in `access` of {path}"
    if named and mine and named[0] not in mine:
        what = suggest.unknown_value(f"access: your {kind}", named[0], mine).rstrip(".")
        fix += "; `sacctmgr show assoc user=$USER` lists yours"
        yield Finding(what, fix, partition["name"])
        return
    # Without an option, Slurm takes one of the user's, which is not known here.
    candidates = named or mine
    if candidates and not any(admits(kind, one, candidates) for one in reached):
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
