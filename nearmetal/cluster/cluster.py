"""What a cluster is, by the commands of its login node: `nearmetal init` describes it, and
`nearmetal doctor` compares a description with it."""

from __future__ import annotations

import functools
import os
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from nearmetal.cluster import answers, modules, node, slurm
from nearmetal.cluster.ask import Asker, last_line
from nearmetal.cluster.modules import Available, Modules
from nearmetal.cluster.slurm import Node, Partition

#: The line of node.sh on user namespaces.
NAMESPACES = re.compile(r"^\S+ user_namespaces=(yes|no)$", re.MULTILINE)


@dataclass
class Inspected:
    """What one node is."""

    node: str  #: host name of the node
    facts: Mapping[str, str]
    origin: str  #: the command that told it


@dataclass
class Cluster:
    """What a cluster says of itself. What it does not tell is empty, and in `asker.unread`."""

    host: str = field(default_factory=socket.gethostname)
    partitions: list[Partition] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    nodes_origin: str = ""  #: the command that named the nodes
    config: Mapping[str, str] = field(default_factory=dict)
    mpi_types: list[str] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    qos: list[str] = field(default_factory=list)  #: of the user, the default first
    modules: Modules = field(default_factory=lambda: Modules("nomod", "none was found"))
    #: Modules by kind of software (software.yaml), the preferred one first.
    software: Mapping[str, list[Available]] = field(default_factory=dict)
    #: Kind -> the modules to load for the preferred one.
    loads: dict[str, list[str]] = field(default_factory=dict)
    #: Partition -> what one of its nodes is.
    inspected: dict[str, Inspected] = field(default_factory=dict)
    #: What the login node is, for guesses.
    login: Inspected | None = None
    asker: Asker = field(default_factory=Asker)

    def ask_slurm(self) -> None:
        """Ask Slurm for partitions, nodes, settings, and what the user may use."""
        self.partitions, self.nodes, self.nodes_origin = answers.partitions_and_nodes(self.asker)
        self.config = answers.settings(self.asker)
        self.mpi_types = answers.mpi_types(self.asker)
        if self.has_accounting:
            self.accounts, self.qos = answers.accounts_and_qos(self.asker)

    def ask_modules_system(self) -> None:
        """Ask which modules system this login node has."""
        self.modules = Modules.found(os.environ, self.asker)

    def ask_modules(self) -> None:
        """Ask the modules system for the software that it has, and how it is loaded."""
        self.software = modules.of_kinds(self.modules.names(self.asker))
        for kind, available in self.software.items():
            if kind in modules.LOADED:
                self.loads[kind] = self.modules.needed(available[0].name, self.asker)

    def nodes_of(self, partition: str) -> list[Node]:
        """The nodes of a partition."""
        return [node for node in self.nodes if partition in node.partitions]

    @property
    def identities(self) -> dict[str, list[str]]:
        """The user's accounts and QOS by their kind."""
        return {"account": self.accounts, "qos": self.qos}

    @property
    def has_accounting(self) -> bool | None:
        """Whether Slurm stores ended jobs; None if it is not known."""
        return slurm.has_accounting(self.config)

    @property
    def enforces_accounts(self) -> bool:
        """Whether Slurm refuses the job of an account that is not the user's."""
        enforced = self.config.get("AccountingStorageEnforce", "associations")
        return self.has_accounting is not False and enforced != "none"

    @functools.cached_property
    def has_user_namespaces(self) -> bool | None:
        """Whether this login node gives a user namespaces, by node.sh; None if it does not tell."""
        answer = self.asker.run(["sh", str(node.SCRIPT)])
        match = NAMESPACES.search(answer.output)
        if match is None:
            return None
        return match[1] == "yes"

    @functools.cached_property
    def javac(self) -> str:
        """What this login node's `javac -version` says, `javac 25.0.1`; '' if it does not run."""
        answer = self.asker.run(["javac", "-version"])
        if answer.failure:
            return ""
        return last_line(answer.both)
