"""What Slurm's commands answer on this login node. Each is empty where Slurm does not tell."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from dataclasses import replace

from nearmetal.cluster import slurm
from nearmetal.cluster.ask import Asker
from nearmetal.cluster.slurm import Node, Partition


def partitions_and_nodes(asker: Asker) -> tuple[list[Partition], list[Node], str]:
    """Partitions, nodes, and the command that named the nodes."""
    partitions = slurm.partitions(asker.output("scontrol", "--oneliner", "show", "partition"))
    hidden = _hidden(asker, partitions)
    partitions += hidden
    # Without --all, Slurm also hides the nodes of hidden partitions.
    every = []
    if hidden:
        every = ["--all"]
    nodes = slurm.nodes(asker.output("scontrol", *every, "--oneliner", "show", "node"))
    if partitions and any(node.partitions for node in nodes):
        return partitions, nodes, "scontrol show node"
    # Some sites let only administrators use scontrol.
    words = ("sinfo", *every, "--noheader", "--Node", f"--format={slurm.SINFO}")
    of_sinfo, nodes_of_sinfo = slurm.of_sinfo(asker.output(*words))
    return partitions or of_sinfo, nodes_of_sinfo or nodes, "sinfo --Node"


def _hidden(asker: Asker, known: Sequence[Partition]) -> list[Partition]:
    """Partitions that are hidden, or of groups that this user is not in."""
    if not known:
        return []
    answer = asker.run(["scontrol", "--all", "--oneliner", "show", "partition"])
    if answer.failure:
        return []
    names = {partition.name for partition in known}
    hidden = []
    for partition in slurm.partitions(answer.output):
        if partition.name not in names:
            hidden.append(replace(partition, hidden=True))
    return hidden


def switches(asker: Asker) -> dict[str, str]:
    """Name of each node's switch, where Slurm knows the topology."""
    return slurm.switches(asker.output("scontrol", "--oneliner", "show", "topology"))


def settings(asker: Asker) -> dict[str, str]:
    """Settings of Slurm."""
    return slurm.settings(asker.output("scontrol", "show", "config"))


def mpi_types(asker: Asker) -> list[str]:
    """Names for srun's `--mpi`."""
    return slurm.mpi_types(asker.ask(["srun", "--mpi=list"]).both)


def accounts_and_qos(asker: Asker) -> tuple[list[str], list[str]]:
    """Accounts and QOS of this user, the default QOS first."""
    words = ("sacctmgr", "--noheader", "--parsable2", "show", "assoc")
    text = asker.output(*words, f"user={getpass.getuser()}", f"format={slurm.ASSOC}")
    return slurm.accounts(text), slurm.qos(text)
