"""Asks the commands of a login node what the cluster is."""

from __future__ import annotations

import getpass
import os
import shutil
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from nearmetal.cluster import answers, modules, slurm
from nearmetal.cluster.ask import Asker
from nearmetal.cluster.modules import Available, Modules
from nearmetal.cluster.slurm import Node, Partition
from nearmetal.errors import NearmetalError

#: Kinds of modules that environments load.
LOADED = (
    *("openmpi", "mpich", "intelmpi", "mvapich", "hpcx"),
    *("mpj", "fastmpj", "gcc", "java", "apptainer"),
)


@dataclass
class Inspected:
    """What one node is."""

    node: str  #: host name of the node
    facts: Mapping[str, str]
    origin: str  #: the command that told it


@dataclass
class Cluster:
    """What a cluster says of itself."""

    host: str
    partitions: list[Partition]
    nodes: list[Node]
    nodes_origin: str
    config: Mapping[str, str] = field(default_factory=dict)
    mpi_types: list[str] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    qos: list[str] = field(default_factory=list)  #: of the user, the default first
    modules: Modules = field(default_factory=lambda: Modules("nomod", "none was found"))
    #: Modules by kind of software (software.yaml), the preferred one first.
    software: Mapping[str, list[Available]] = field(default_factory=dict)
    #: Kind -> the modules to load for the preferred one.
    loads: Mapping[str, list[str]] = field(default_factory=dict)
    #: Partition -> what one of its nodes is.
    inspected: dict[str, Inspected] = field(default_factory=dict)
    #: What the login node is, for guesses.
    login: Inspected | None = None

    def nodes_of(self, partition: str) -> list[Node]:
        return [node for node in self.nodes if partition in node.partitions]


def gather(asker: Asker) -> Cluster:
    """The cluster as its commands describe it. Raises NearmetalError without Slurm."""
    partitions, nodes, origin = _partitions_and_nodes(asker)
    cluster = Cluster(socket.gethostname(), partitions, nodes, origin)
    cluster.config = answers.settings(asker)
    cluster.mpi_types = answers.mpi_types(asker)
    if slurm.has_accounting(cluster.config):
        words = ["sacctmgr", "--noheader", "--parsable2", "show", "assoc"]
        answer = asker.ask([*words, f"user={getpass.getuser()}", f"format={slurm.ASSOC}"])
        associations = answer.output if answer else ""
        cluster.accounts = slurm.accounts(associations)
        cluster.qos = slurm.qos(associations)
    cluster.modules = Modules.found(os.environ, asker)
    cluster.software = modules.of_kinds(cluster.modules.names(asker))
    cluster.loads = {
        kind: cluster.modules.needed(found[0].name, asker)
        for kind, found in cluster.software.items()
        if kind in LOADED
    }
    return cluster


def _partitions_and_nodes(asker: Asker) -> tuple[list[Partition], list[Node], str]:
    if not (shutil.which("scontrol") or shutil.which("sinfo")):
        raise NearmetalError(
            "Slurm's commands are not on PATH. Fix: run this on a login node. For another "
            "scheduler, copy a file of site-config/examples"
        )
    partitions, nodes, origin = answers.partitions_and_nodes(asker)
    if partitions and nodes:
        return partitions, nodes, origin
    raise NearmetalError(
        f"Slurm names no partition with nodes: {'; '.join(asker.unread) or 'it has none'}. "
        "Fix: run `sinfo`, and ask the administrators who may see nodes"
    )
