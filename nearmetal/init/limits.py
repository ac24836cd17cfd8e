"""What a job can have of a node: its cores and memory within Slurm's limits. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nearmetal.cluster import slurm
from nearmetal.cluster.slurm import Node, Partition


def cores(partition: Partition, node: Node) -> int:
    """Physical cores of a node that a job of the partition can have."""
    number = node.cores
    if most := partition.limits.get("MaxCPUsPerNode"):
        number = min(number, most // node.cpus_of_core)
    if most := partition.limits.get("MaxCPUsPerSocket"):
        number = min(number, node.sockets * (most // node.cpus_of_core))
    return max(1, number)


def of_cores(partition: Partition) -> str:
    """The limits of a partition on cores, as Slurm writes them."""
    limits = partition.limits
    keys = ("MaxCPUsPerNode", "MaxCPUsPerSocket")
    return ", ".join(f"{key}={limits[key]}" for key in keys if key in limits)


def memory(
    partition: Partition, nodes: Sequence[Node], config: Mapping[str, str]
) -> tuple[int, str, str]:
    """MB of a node that a job gets, which limit says so, and the reason if it is a guess.

    (0, '', '') where no limit is below a node's memory. A job that asks for no memory gets the
    default, at most the maximum.
    """
    smallest = min(nodes, key=lambda node: node.memory_mb)
    cpus = cores(partition, smallest) * smallest.cpus_of_core
    # What Slurm keeps from jobs is in the node, and no job can have it.
    whole = smallest.memory_mb + smallest.kept_mb
    stated: list[tuple[int, str, str]] = []
    if smallest.kept_mb:
        stated.append((smallest.memory_mb, f"MemSpecLimit={smallest.kept_mb}", ""))
    for kind in ("Def", "Max"):
        key, number, origin = _stated(kind, partition, config)
        megabytes = number
        if key.endswith("PerCPU"):
            megabytes *= cpus
        if not 0 < megabytes < whole:
            continue
        guess = ""
        if kind == "Def":
            guess = f"a job gets {key}={number} by default; more with `--mem=0` in `access`"
        stated.append((megabytes, f"{origin}: {key}={number}", guess))
    return min(stated, default=(0, "", ""))


def _stated(kind: str, partition: Partition, config: Mapping[str, str]) -> tuple[str, int, str]:
    """The key and number of a kind of limit on memory, and where it stands; ('', 0, '') if none.

    A partition's limits replace those of slurm.conf, of each kind.
    """
    places = {
        partition.origin: partition.limits,
        "scontrol show config": slurm.limits(config),
    }
    for origin, limits in places.items():
        for key in (f"{kind}MemPerNode", f"{kind}MemPerCPU"):
            if key in limits:
                return key, limits[key], origin
    return "", 0, ""
