"""Whether the nodes of a partition can hold a case."""

from __future__ import annotations

from nearmetal.checks.settings import GUEST_MEMORY_GB, MEMORY_GB, NODES, nodes_of

#: Site files state memory in GB or in GiB. As GiB, nothing is skipped that would fit.
GIB = 1 << 30


def skip_reason(check) -> str:
    """Why the nodes of its partition cannot hold a check. '' if they can."""
    partition = check.current_partition
    # `.nid` is ReFrame's parameter: the node that --distribute chose.
    needed = check.num_nodes * check.num_components
    if getattr(check, ".nid", None) and needed > 1:
        return (
            f"{check.display_name} needs {needed} nodes, but --distribute gives each job one. "
            "Fix: run it without --distribute"
        )
    # A partition that does not tell its nodes is taken to have enough: Slurm refuses the job.
    nodes = nodes_of(partition, default=check.num_nodes)
    if nodes < check.num_nodes:
        origin = "`nodes` in its extras"
        if NODES.of(partition) is None:
            origin = "its scheduler is local"
        return (
            f"{check.display_name} needs {check.num_nodes} nodes, but {partition.fullname} has "
            f"{nodes} ({origin})"
        )
    if check.num_tasks > 1 and check.job.launcher.registered_name == "local":
        return (
            f"{check.display_name} needs {check.num_tasks} processes, but {partition.fullname} has "
            "the launcher local, which starts one"
        )
    for fact in (GUEST_MEMORY_GB, MEMORY_GB):
        if memory := fact.of(partition):
            return _lack_of_memory(check, memory, fact.key)
    return ""


def _lack_of_memory(check, memory: float, key: str) -> str:
    needed = check.bytes_of_node() / GIB
    if needed <= memory:
        return ""
    return (
        f"{check.display_name} needs {needed:.1f} GiB a node, but one of "
        f"{check.current_partition.fullname} has {memory:g} (`{key}` in its extras). Fix: choose "
        "a smaller problem, or more processes for the fewest"
    )
