"""Read and check topology.toml; derive addresses and configuration files from it."""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2

from nearmetal.checkout import CHECKOUT
from nearmetal.lab import hardware as machines
from nearmetal.util import documents

HERE = Path(__file__).parent
SCHEMA = HERE / "topology-schema.yaml"
#: The topology of the lab; tests read others.
SHIPPED = CHECKOUT / "site-config" / "lab" / "topology.toml"
#: Private, and only inside the lab's network namespaces: two labs may use the same addresses.
NETWORK = ipaddress.IPv4Network("10.77.0.0/16")
#: Keys of [cluster] that name a script of the user's own -> its file in /etc/slurm, where
#: slurm.conf finds it.
SCRIPTS = {
    "prolog": "own-prolog.sh",
    "epilog": "own-epilog.sh",
    "task_prolog": "task-prolog",
    "task_epilog": "task-epilog",
}
#: Distance of the address of a machine's second NIC from that of its first.
SWITCHED = 64 << 8
#: The guest that has an IOMMU, where the virtual machines run within a guest. It is no node.
MACHINE = "vmhost"
#: Nodes of a class. Its subnet also has an address for the controller and one for the bridge.
MOST_NODES = 252


class TopologyError(ValueError):
    """topology.toml has an error; the message names the file, the key and the fix."""


@dataclass(frozen=True)
class LinkClass:
    name: str
    link: str
    partitions: tuple[str, ...]
    subnet: ipaddress.IPv4Network
    on_demand: bool = False  #: whether options of the lab's start say how many nodes it has
    features: tuple[str, ...] = ()  #: of its nodes in Slurm
    gres: tuple[tuple[str, int], ...] = ()  #: resources that Slurm counts on each of its nodes
    domain: str = ""  #: of its nodes' host names; "": they have none

    @property
    def gateway(self) -> str:
        """Address of the controller's interface on this class."""
        return str(self.subnet[1])

    @property
    def bridge_address(self) -> str:
        """Address of the bridge in the lab's namespaces, from which ssh reaches guests."""
        return str(self.subnet[-2])

    @property
    def switch_address(self) -> str:
        """Address of the first virtual switch in the lab's namespaces, from which it is checked."""
        return str(self.subnet[-2] + SWITCHED)

    @property
    def machine_address(self) -> str:
        """Address of the guest within which the virtual machines run, where there is one."""
        return str(self.subnet[-3])


@dataclass(frozen=True)
class Node:
    name: str
    link_class: LinkClass
    address: str
    own_features: tuple[str, ...] = ()

    @property
    def host(self) -> str:
        """Its host name, which may have a domain. Slurm knows the node without it."""
        domain = self.link_class.domain
        if domain:
            return f"{self.name}.{domain}"
        return self.name

    @property
    def features(self) -> tuple[str, ...]:
        """Its features in Slurm, each once."""
        return tuple(dict.fromkeys(self.link_class.features + self.own_features))

    @property
    def virtual(self) -> bool:
        return self.link_class.link == "qemu"

    @property
    def passed_through(self) -> str:
        """Address of a passed-through NIC, on a network that the controller is not part of."""
        return str(ipaddress.ip_address(self.address) + (128 << 8))

    @property
    def switched(self) -> str:
        """Address of a virtual machine's second NIC, on one of several virtual switches."""
        return str(ipaddress.ip_address(self.address) + SWITCHED)


@dataclass(frozen=True)
class Topology:
    cluster: str
    controller: str
    classes: tuple[LinkClass, ...]
    nodes: tuple[Node, ...]
    vm: machines.Hardware | None  #: None where no node is a virtual machine
    scripts: tuple[tuple[str, str], ...] = ()  #: file in /etc/slurm and text, of each own script

    @property
    def hardware(self) -> machines.Hardware:
        """Of the virtual machines. Raises TopologyError where there are none."""
        if self.vm is None:
            raise TopologyError(
                f"{self.cluster} has no virtual machines. Fix: start it with VM=virtio or another "
                "NIC"
            )
        return self.vm

    @property
    def guests(self) -> list[Node]:
        return [node for node in self.nodes if node.virtual]

    @property
    def qemu_class(self) -> LinkClass:
        """The class of the virtual machines."""
        return self.guests[0].link_class

    @property
    def machine(self) -> str:
        """Name of the guest within which the virtual machines run; empty where there is none."""
        if self.vm and self.vm.nested:
            return MACHINE
        return ""

    @property
    def entered_by_ssh(self) -> list[tuple[str, str]]:
        """Name and address of each virtual machine."""
        addresses = [(node.name, node.address) for node in self.guests]
        if self.machine:
            addresses.insert(0, (self.machine, self.qemu_class.machine_address))
        return addresses

    @property
    def names(self) -> list[str]:
        """Names of the controller and of all nodes."""
        return [self.controller, *(node.name for node in self.nodes)]

    def role(self, name: str) -> str:
        """The role of a node, as daemons.sh calls it."""
        return "login" if name == self.controller else "node"

    @property
    def spaces(self) -> list[str]:
        """Names of the controller and of all nodes that are namespaces, not virtual machines."""
        return [self.controller, *(node.name for node in self.nodes if not node.virtual)]

    def interfaces(self, link_class: LinkClass) -> list[tuple[str, str, str]]:
        """Interfaces on a class, first the controller's: (node, device, address)."""
        interfaces = [(self.controller, link_class.name[:15], link_class.gateway)]
        for node in self.nodes:
            if node.link_class is link_class:
                interfaces.append((node.name, "eth0", node.address))
        return interfaces

    def port(self, name: str, link_class: LinkClass) -> str:
        """The device in the lab's namespaces that is the other end of a node's interface."""
        nodes = [node for node, _, _ in self.interfaces(link_class)]
        return f"p{self.classes.index(link_class)}x{nodes.index(name)}"

    def second_port(self, guest: Node) -> str:
        """The device in the lab's namespaces that is the other end of a guest's second NIC."""
        return f"s{self.port(guest.name, guest.link_class)}"

    def taps(self, link_class: LinkClass) -> list[str]:
        """The TAP devices in the lab's namespaces of the virtual machines of a class.

        A machine within a guest has its TAP device in that guest, which has one in the lab.
        """
        if self.machine:
            return [self.machine_port]
        return [self.port(name, link_class) for name, _, _ in self.interfaces(link_class)[1:]]

    @property
    def machine_port(self) -> str:
        return f"p{self.classes.index(self.qemu_class)}host"

    def render(self, template: str, **facts) -> str:
        """A file of templates/, filled in with this cluster and the facts of host and checkout."""
        # A fact that a template names and nobody gives is an error.
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"),
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True,
        )
        partitions: list[dict] = []
        gres: set[str] = set()
        for link_class in self.classes:
            _, *interfaces = self.interfaces(link_class)
            names = [name for name, _, _ in interfaces]
            partitions += [{"name": name, "nodes": names} for name in link_class.partitions]
            gres |= dict(link_class.gres).keys()
        return environment.get_template(template).render(
            cluster={"name": self.cluster, "controller": self.controller},
            nodes=self.nodes,
            partitions=partitions,
            gres=sorted(gres),
            hardware=self.vm,
            scripts=dict(self.scripts),
            **facts,
        )

    def hosts(self, seen_from: Node | None) -> list[tuple[str, str]]:
        """Names and addresses for the /etc/hosts of a node, or of the controller (None).

        A node reaches the controller by the interface on the node's own class. The controller's own
        name has the address on the first class, to which every node has a route. Virtual machines
        with a passed-through NIC reach each other by that NIC.
        """
        link_class = seen_from.link_class if seen_from else self.classes[0]
        by_passed_through = seen_from and seen_from.virtual and self.hardware.devices
        hosts = [(self.controller, link_class.gateway)]
        for node in self.nodes:
            names, address = node.name, node.address
            if node.host != node.name:
                names = f"{node.host} {node.name}"
            if by_passed_through and node.virtual:
                address = node.passed_through
            hosts.append((names, address))
        return hosts


def load(path: Path = SHIPPED, vm: dict | None = None, fleet: int = 0) -> Topology:
    """Read and check a topology file. Raises TopologyError, HardwareError.

    :arg vm: the virtual machines' NIC, and values that override section [vm]; None leaves them out.
    :arg fleet: number of nodes in each class that has its nodes on demand; 0 leaves them out.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        for fault in documents.faults(data, SCHEMA):
            raise TopologyError(str(fault))
        hardware = None
        if vm is not None:
            hardware = machines.choose(data.get("vm", {}), vm)
        classes = _classes(data["classes"])
        on_demand = _on_demand(classes, fleet, hardware)
        _refuse_listed_on_demand(data["nodes"], classes, on_demand)
        nodes = _nodes({**data["nodes"], **on_demand}, classes, data["cluster"]["controller"])
        kept = _with_nodes(classes, nodes)
        scripts = _scripts(data["cluster"], path.parent)
    # UnicodeDecodeError and TOML's own are a ValueError, as HardwareError is.
    except machines.HardwareError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise TopologyError(f"{path}: {error}") from error
    cluster = data["cluster"]
    return Topology(cluster["name"], cluster["controller"], kept, nodes, hardware, scripts)


def _wrong(place: str, message: str, fix: str) -> TopologyError:
    return TopologyError(f"{place}: {message}. Fix: {fix}")


def _scripts(cluster: dict, directory: Path) -> tuple[tuple[str, str], ...]:
    """File in /etc/slurm and text of each script that [cluster] names. Raises TopologyError."""
    scripts = []
    for key, name in SCRIPTS.items():
        if key not in cluster:
            continue
        place = f"cluster.{key}"
        try:
            text = (directory / cluster[key]).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            fix = "name a script, relative to this file"
            raise _wrong(place, f"cannot be read ({error})", fix) from error
        if not text.startswith("#!"):
            raise _wrong(place, f"{cluster[key]} is no script", "begin it with #!/bin/sh")
        scripts.append((name, text))
    return tuple(sorted(scripts))


def _classes(entries: dict[str, dict]) -> dict[str, LinkClass]:
    """The link classes by name, with a subnet each. Raises TopologyError."""
    classes: dict[str, LinkClass] = {}
    owners: dict[str, str] = {}
    subnets = NETWORK.subnets(new_prefix=24)
    for name, entry in entries.items():
        place = f"classes.{name}"
        # A machine that [nodes] lists would start without VM=...
        if entry["link"] == "qemu" and not entry.get("on_demand"):
            raise _wrong(
                place,
                "has virtual machines, whose number VM_GUESTS says",
                "add `on_demand = true`, and list none of them under [nodes]",
            )
        for partition in entry["partitions"]:
            if partition in owners:
                raise _wrong(
                    place,
                    f"partition {partition!r} is already on class {owners[partition]!r}",
                    "write it in one class alone",
                )
            owners[partition] = name
        subnet = next(subnets, None)
        if subnet is None:
            raise _wrong(place, f"is one too many for {NETWORK}", "remove a class")
        classes[name] = LinkClass(
            name,
            entry["link"],
            tuple(entry["partitions"]),
            subnet,
            entry.get("on_demand", False),
            tuple(entry.get("features", ())),
            tuple(entry.get("gres", {}).items()),
            entry.get("domain", ""),
        )
    return classes


def _on_demand(
    classes: dict[str, LinkClass], fleet: int, hardware: machines.Hardware | None
) -> dict[str, str]:
    """The class of each node that options of the lab's start ask for, by the node's name."""
    guests = hardware.guests if hardware else 0
    nodes = {}
    for name, link_class in classes.items():
        if link_class.on_demand:
            for number in range(guests if link_class.link == "qemu" else fleet):
                nodes[f"{name}{number + 1}"] = name
    return nodes


def _refuse_listed_on_demand(
    listed: dict, classes: dict[str, LinkClass], on_demand: dict[str, str]
) -> None:
    """Raise TopologyError for a listed node that options of the lab's start make, too."""
    for name, entry in listed.items():
        class_name = entry if isinstance(entry, str) else entry["class"]
        if name in on_demand or (class_name in classes and classes[class_name].on_demand):
            raise _wrong(
                f"nodes.{name}",
                "is a node on demand, or has its name",
                "remove it: `make lab-up NODES=16` or `VM_GUESTS=4` makes such nodes",
            )


def _nodes(
    entries: dict[str, dict | str], classes: dict[str, LinkClass], controller: str
) -> tuple[Node, ...]:
    """The nodes, with an address each. Raises TopologyError."""
    nodes = []
    # The first addresses of a subnet are its own and the controller's.
    last = dict.fromkeys(classes, 1)
    for name, entry in entries.items():
        place = f"nodes.{name}"
        if isinstance(entry, str):
            entry = {"class": entry}
        class_name = entry["class"]
        if name == controller:
            raise _wrong(place, "is the controller's name", "give another name")
        if class_name not in classes:
            raise _wrong(
                place, f"unknown class {class_name!r}", f"choose one of {', '.join(classes)}"
            )
        last[class_name] += 1
        if last[class_name] > MOST_NODES + 1:
            raise _wrong(place, f"is one too many in {class_name!r}", "add another class")
        link_class = classes[class_name]
        address = str(link_class.subnet[last[class_name]])
        nodes.append(Node(name, link_class, address, tuple(entry.get("features", ()))))
    return tuple(nodes)


def _with_nodes(classes: dict[str, LinkClass], nodes: Sequence[Node]) -> tuple[LinkClass, ...]:
    """The classes that have nodes. Raises TopologyError for one that is to have some."""
    used = {node.link_class.name for node in nodes}
    for name, link_class in classes.items():
        if name not in used and not link_class.on_demand:
            fix = f'add one under [nodes]: {name}1 = "{name}"'
            raise _wrong(f"classes.{name}", "has no node", fix)
    return tuple(link_class for name, link_class in classes.items() if name in used)
