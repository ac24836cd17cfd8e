"""What a job can have of a node: its cores and memory within Slurm's limits. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nearmetal.cluster import slurm
from nearmetal.cluster.slurm import Node, Partition


def cores(one: Partition, node: Node) -> int:
    """Physical cores of a node that a job of the partition can have."""
    found = node.cores
    if most := one.limits.get("MaxCPUsPerNode"):
        found = min(found, most // node.cpus_of_core)
    if most := one.limits.get("MaxCPUsPerSocket"):
        found = min(found, node.sockets * (most // node.cpus_of_core))
    return max(1, found)


def of_cores(one: Partition) -> str:
    """The limits of a partition on cores, as Slurm writes them."""
    keys = ("MaxCPUsPerNode", "MaxCPUsPerSocket")
    return ", ".join(f"{key}={one.limits[key]}" for key in keys if key in one.limits)


def memory(
    one: Partition, nodes: Sequence[Node], config: Mapping[str, str]
) -> tuple[int, str, str]:
    """MB of a node that a job gets, which limit says so, and the reason if it is a guess.

    (0, '', '') where no limit is below a node's memory. A partition's limits replace those of
    slurm.conf, of each kind. A job that asks for no memory gets the default, at most the maximum.
    """
    smallest = min(nodes, key=lambda node: node.memory_mb)
    cpus = cores(one, smallest) * smallest.cpus_of_core
    whole = smallest.memory_mb + smallest.kept_mb
    found: list[tuple[int, str, str]] = []
    if smallest.kept_mb:
        found.append((smallest.memory_mb, f"MemSpecLimit={smallest.kept_mb}", ""))
    for kind in ("Def", "Max"):
        key, number, origin = _stated(kind, one, config)
        if not key:
            continue
        each = number * (cpus if key.endswith("PerCPU") else 1)
        guess = ""
        if kind == "Def":
            guess = f"a job gets {key}={number} by default; more with `--mem=0` in `access`"
        found.append((each, f"{origin}: {key}={number}", guess))
    found = [one for one in found if 0 < one[0] < whole]
    return min(found, default=(0, "", ""))


def _stated(kind: str, one: Partition, config: Mapping[str, str]) -> tuple[str, int, str]:
    """The key and number of a kind of limit on memory, and where it stands; ('', 0, '') if none."""
    places = ((one.limits, one.origin), (slurm.limits(config), "scontrol show config"))
    for limits, origin in places:
        for key in (f"{kind}MemPerNode", f"{kind}MemPerCPU"):
            if key in limits:
                return key, limits[key], origin
    return "", 0, ""
