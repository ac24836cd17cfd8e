"""What a system's file says of a partition, and Slurm contradicts. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nearmetal.cluster import slurm
from nearmetal.cluster.access import named
from nearmetal.cluster.cluster import Cluster
from nearmetal.cluster.slurm import Partition
from nearmetal.doctor.finding import Finding
from nearmetal.util import suggest

#: End of the keys of extras that are processes on a node: of all checks, and of single ones.
RANKS = "ranks_per_node"
#: A memory above this many times Slurm's is contradicted. Sites state less than a node has.
MEMORY = 1.5


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
    for kind, mine in cluster.identities.items():
        if not cluster.enforces_accounts:
            mine = []
        yield from identity(kind, mine, path, partition, reached)


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
    for key in extras:
        if key.endswith(RANKS):
            yield key, cpus, "CPUs of a node, MaxCPUsPerNode"
    # Slurm's default is 1 MB, where nobody configured it.
    if megabytes <= 1:
        return
    origin = f"{MEMORY:g} times RealMemory, which is {megabytes} MB"
    most = round(MEMORY * (megabytes << 20) / 1e9)
    for key in ("guest_memory_gb", "memory_gb"):
        if key in extras:
            yield key, most, origin
            break


def time_limit(path: Path, described: dict, reached: Sequence[Partition]) -> Iterator[Finding]:
    """A time limit that is above those of all partitions."""
    wanted = described["extras"].get("max_time_limit", "")
    # A partition without a limit allows all, so nothing is contradicted.
    limits = [partition.time_limit for partition in reached]
    if not wanted or not all(limits):
        return
    longest = max(limits, key=slurm.seconds)
    if slurm.seconds(wanted) > slurm.seconds(longest):
        yield Finding(
            f"max_time_limit is {wanted}, but Slurm's partition allows {longest} (MaxTime)",
            f"write `max_time_limit: {longest}` in the extras of {path}",
            described["name"],
            blocks=False,
        )


def identity(
    kind: str, mine: list[str], path: Path, partition: dict, reached: Sequence[Partition]
) -> Iterator[Finding]:
    """An account or QOS that is not the user's, or that no partition of Slurm admits.

    :arg mine: the user's; []: unknown.
    """
    name = named(partition.get("access", ())).get(kind, "")
    fix = f"correct --{kind} in `access` of {path}"
    if name and mine and name not in mine:
        what = suggest.unknown_value(f"access: your {kind}", name, mine)
        fix += "; `sacctmgr show assoc user=$USER` lists yours"
        yield Finding(what, fix, partition["name"])
        return
    # Without an option, Slurm takes one of the user's, which is not known here.
    candidates = mine
    if name:
        candidates = [name]
    if candidates and not any(each.admitted(kind, candidates) for each in reached):
        yield Finding(
            f"Slurm's partition admits no {kind} of yours ({', '.join(candidates)})",
            f"{fix}; `scontrol show partition` lists those that it admits",
            partition["name"],
            blocks=False,
        )
