"""Which nodes of a partition a sweep takes, and which it leaves out.

Pure functions but for `listed` and `in_state`, which ask ReFrame's scheduler.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from reframe.core import schedulers

from nearmetal.cluster import access
from nearmetal.cluster.slurm import Node

#: Options of Slurm that keep a job to some nodes of its partition.
NARROWING = ("reservation", "nodelist", "exclude", "constraint")


@dataclass(frozen=True)
class Chosen:
    """The nodes of a partition, as a sweep sees them."""

    nodes: tuple[Node, ...]  #: that it measures
    left_out: tuple[str, ...]  #: names, with why

    @property
    def busy(self) -> list[str]:
        """Nodes whose jobs it waits for."""
        return [f"{node.name} ({node.state})" for node in self.nodes if node.busy]


def asked_for(options: Iterable[str]) -> dict[str, str]:
    """The partition and the nodes that a job's options name, by the long names of the options."""
    kept = ("partition", *NARROWING)
    return {name: value for name, value in access.named(options).items() if name in kept}


def choose(
    nodes: Sequence[Node],
    asked: dict[str, str],
    allowed: Collection[str] | None = None,
    in_state: Collection[str] | None = None,
    most: int | None = None,
) -> Chosen:
    """The nodes of a partition that a sweep takes. All others of it are left out.

    :arg asked: options of the job (`asked_for`).
    :arg allowed: names that NARROWING options leave; None: there is no such option.
    :arg in_state: names in the state of --flex-alloc-nodes; None: every state that jobs can use.
    :arg most: number of --flex-alloc-nodes; nodes without jobs come first.
    """
    partition, reserved = asked.get("partition", ""), "reservation" in asked
    here = [node for node in nodes if not partition or partition in node.partitions]
    taken, left_out = [], {}
    for node in here:
        # A node in maintenance is usable for who reserved it.
        usable = node.usable
        if reserved:
            usable = node.usable_within_a_reservation
        if allowed is not None and node.name not in allowed:
            left_out[node.name] = "not among the nodes that the job's options name"
        elif not usable:
            left_out[node.name] = node.state
        elif not reserved and node.reserved:
            left_out[node.name] = f"{node.state}: another reservation has it"
        elif in_state is not None and node.name not in in_state:
            left_out[node.name] = node.state
        else:
            taken.append(node)
    # Idle nodes first, so that the job starts sooner.
    if most is not None and most < len(taken):
        for node in sorted(taken, key=lambda node: node.busy)[most:]:
            left_out[node.name] = "beyond --flex-alloc-nodes"
            taken.remove(node)
    reasons = [f"{node.name} ({left_out[node.name]})" for node in here if node.name in left_out]
    return Chosen(tuple(taken), tuple(reasons))


def listed(job) -> set:
    """The nodes that the options of a job leave, as ReFrame's scheduler knows them.

    Raises NotImplementedError if the scheduler cannot list nodes.
    """
    return job.scheduler.filternodes(job, job.scheduler.allnodes())


def in_state(job, state: str) -> set[str]:
    """Names of the nodes in a state of --flex-alloc-nodes. Raises as `listed`."""
    nodes = listed(job)
    if hasattr(job.scheduler, "filternodes_by_state"):
        nodes = job.scheduler.filternodes_by_state(nodes, state.lower())
    else:  # before ReFrame 4.10
        nodes = schedulers.filter_nodes_by_state(nodes, state.lower())
    return {node.name for node in nodes}
