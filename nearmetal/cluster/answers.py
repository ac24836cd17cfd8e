"""What Slurm's commands answer on this login node. Each is empty where Slurm does not tell."""

from nearmetal.cluster import slurm
from nearmetal.cluster.ask import Asker
from nearmetal.cluster.slurm import Node, Partition


def partitions_and_nodes(asker: Asker) -> tuple[list[Partition], list[Node], str]:
    """Partitions, nodes, and the command that named the nodes."""
    partitions, nodes = [], []
    if answer := asker.ask(["scontrol", "--oneliner", "show", "partition"]):
        partitions = slurm.partitions(answer.output)
    if answer := asker.ask(["scontrol", "--oneliner", "show", "node"]):
        nodes = slurm.nodes(answer.output)
    if partitions and any(node.partitions for node in nodes):
        return partitions, nodes, "scontrol show node"
    # Some sites let only administrators use scontrol.
    words = ["sinfo", "--noheader", "--Node", f"--format={slurm.SINFO}"]
    if answer := asker.ask(words):
        of_sinfo, nodes = slurm.of_sinfo(answer.output)
        partitions = partitions or of_sinfo
    return partitions, nodes, "sinfo --Node"


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
