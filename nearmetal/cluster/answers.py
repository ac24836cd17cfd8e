"""What Slurm's commands answer on this login node. Each is empty where Slurm does not tell."""

from collections.abc import Sequence
from dataclasses import replace

from nearmetal.cluster import slurm
from nearmetal.cluster.ask import Answer, Asker
from nearmetal.cluster.slurm import Node, Partition


def partitions_and_nodes(asker: Asker) -> tuple[list[Partition], list[Node], str]:
    """Partitions, nodes, and the command that named the nodes."""
    partitions, nodes = [], []
    if answer := asker.ask(["scontrol", "--oneliner", "show", "partition"]):
        partitions = slurm.partitions(answer.output)
    hidden = _hidden(asker, partitions)
    partitions += hidden
    every = ["--all"] if hidden else []
    if answer := asker.ask(["scontrol", *every, "--oneliner", "show", "node"]):
        nodes = slurm.nodes(answer.output)
    if partitions and any(node.partitions for node in nodes):
        return partitions, nodes, "scontrol show node"
    # Some sites let only administrators use scontrol.
    words = ["sinfo", *every, "--noheader", "--Node", f"--format={slurm.SINFO}"]
    if answer := asker.ask(words):
        of_sinfo, nodes = slurm.of_sinfo(answer.output)
        partitions = partitions or of_sinfo
    return partitions, nodes, "sinfo --Node"


def _hidden(asker: Asker, known: Sequence[Partition]) -> list[Partition]:
    """Partitions that are hidden, or of groups that this user is not in."""
    answer = asker.run(["scontrol", "--all", "--oneliner", "show", "partition"]) if known else ""
    if not isinstance(answer, Answer) or answer.code != 0:
        return []
    names = {one.name for one in known}
    found = slurm.partitions(answer.output)
    return [replace(one, hidden=True) for one in found if one.name not in names]


def switches(asker: Asker) -> dict[str, str]:
    """Name of each node's switch, where Slurm knows the topology."""
    answer = asker.ask(["scontrol", "--oneliner", "show", "topology"])
    return slurm.switches(answer.output) if answer else {}


def settings(asker: Asker) -> dict[str, str]:
    """Settings of Slurm."""
    answer = asker.ask(["scontrol", "show", "config"])
    return slurm.settings(answer.output) if answer else {}


def mpi_types(asker: Asker) -> list[str]:
    """Names for srun's `--mpi`."""
    answer = asker.ask(["srun", "--mpi=list"])
    return slurm.mpi_types(answer.both) if answer else []
