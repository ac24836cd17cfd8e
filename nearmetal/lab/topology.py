"""Read and check topology.toml; derive addresses and configuration files from it."""

from __future__ import annotations

import ipaddress
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import jinja2

from nearmetal.checkout import CHECKOUT
from nearmetal.lab import hardware as machines

HERE = Path(__file__).parent
#: The topology of the lab; tests read others.
SHIPPED = CHECKOUT / "site-config" / "lab" / "topology.toml"
LINKS = ("bridge", "macvlan", "vde", "vde-each", "qemu")
#: Private, and only inside the lab's network namespaces: two labs may use the same addresses.
NETWORK = ipaddress.IPv4Network("10.77.0.0/16")
SECTIONS = ("cluster", "classes", "nodes", "vm")
#: Names of nodes, classes and the cluster, which become host names and network devices.
NAME = r"[a-z][a-z0-9-]{0,30}"
#: Names that points join, or nothing.
DOMAIN = rf"({NAME}(\.{NAME})*)?"
#: Keys that a class may have, beside `link` and `partitions`.
OPTIONAL = {"on_demand", "features", "gres", "domain"}
#: Keys of [cluster] that name a script of the user's own -> its file in /etc/slurm, where
#: slurm.conf finds it.
SCRIPTS = {
    "prolog": "own-prolog.sh",
    "epilog": "own-epilog.sh",
    "task_prolog": "task-prolog",
    "task_epilog": "task-epilog",
}
#: Most of one counted resource on a node.
MOST_GRES = 1000
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
        return f"{self.name}.{domain}" if domain else self.name

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
        return MACHINE if self.vm and self.vm.nested else ""

    @property
    def entered_by_ssh(self) -> list[tuple[str, str]]:
        """Name and address of each virtual machine."""
        own = [(self.machine, self.qemu_class.machine_address)] if self.machine else []
        return [*own, *((node.name, node.address) for node in self.guests)]

    @property
    def spaces(self) -> list[str]:
        """Names of the controller and of all nodes that are namespaces, not virtual machines."""
        return [self.controller, *(node.name for node in self.nodes if not node.virtual)]

    def interfaces(self, link_class: LinkClass) -> list[tuple[str, str, str]]:
        """Interfaces on a class, first the controller's: (node, device, address)."""
        return [
            (self.controller, link_class.name[:15], link_class.gateway),
            *(
                (node.name, "eth0", node.address)
                for node in self.nodes
                if node.link_class is link_class
            ),
        ]

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
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"),
            undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True,
        )
        partitions = [
            {"name": partition, "nodes": [n.name for n in self.nodes if n.link_class is link_class]}
            for link_class in self.classes
            for partition in link_class.partitions
        ]
        return environment.get_template(template).render(
            cluster={"name": self.cluster, "controller": self.controller},
            nodes=self.nodes,
            partitions=partitions,
            gres=sorted({name for kind in self.classes for name, _ in kind.gres}),
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
        gateway = (seen_from.link_class if seen_from else self.classes[0]).gateway
        given_away = seen_from and seen_from.virtual and self.hardware.devices
        found = [(self.controller, gateway)]
        for node in self.nodes:
            names = node.name if node.host == node.name else f"{node.host} {node.name}"
            address = node.passed_through if given_away and node.virtual else node.address
            found.append((names, address))
        return found


def load(path: Path = SHIPPED, vm: dict | None = None, fleet: int = 0) -> Topology:
    """Read and check a topology file. Raises TopologyError, HardwareError.

    :arg vm: the virtual machines' NIC, and values that override section [vm]; None leaves them out.
    :arg fleet: number of nodes in each class that has its nodes on demand; 0 leaves them out.
    """

    def wrong(where, what, fix):
        return TopologyError(f"{path}: {where}: {what}; {fix}")

    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # UnicodeDecodeError and TOML's own too
        raise TopologyError(f"{path}: {error}") from error
    for section in ("cluster", "classes", "nodes"):
        if not data.get(section) or not isinstance(data[section], dict):
            raise wrong(
                f"[{section}]", "is missing or empty", "compare it with the file as shipped"
            )
    for section in data.keys() - SECTIONS:
        raise wrong(section, "is not a known section", f"the sections are {', '.join(SECTIONS)}")
    cluster = data["cluster"]
    for key in ("name", "controller"):
        if key not in cluster:
            raise wrong("[cluster]", f"has no `{key}`", f'add {key} = "..."')
        if not isinstance(cluster[key], str) or not re.fullmatch(NAME, cluster[key]):
            raise wrong(
                f"cluster.{key}",
                f"is {cluster[key]!r}, which is not a valid name",
                "use lower-case letters, digits and dashes",
            )
    for key in cluster.keys() - {"name", "controller", *SCRIPTS}:
        known = ", ".join(("name", "controller", *SCRIPTS))
        raise wrong(f"cluster.{key}", "is not a known key", f"the keys are {known}")
    scripts = []
    for key in SCRIPTS.keys() & cluster.keys():
        try:
            text = (path.parent / cluster[key]).read_text(encoding="utf-8")
        except (TypeError, OSError, ValueError) as error:
            fix = "name a script, relative to this file"
            raise wrong(f"cluster.{key}", f"cannot be read ({error})", fix) from error
        if not text.startswith("#!"):
            raise wrong(f"cluster.{key}", f"{cluster[key]} is no script", "begin it with #!/bin/sh")
        scripts.append((SCRIPTS[key], text))

    classes: dict[str, LinkClass] = {}
    owners: dict[str, str] = {}
    subnets = NETWORK.subnets(new_prefix=24)
    for name, entry in data["classes"].items():
        if not isinstance(entry, dict) or entry.keys() - OPTIONAL != {"link", "partitions"}:
            raise wrong(
                f"classes.{name}",
                "needs exactly `link` and `partitions`, and may have `on_demand`, `features`, "
                "`gres` and `domain`",
                'for example { link = "bridge", partitions = ["x"] }',
            )
        on_demand = entry.get("on_demand", False)
        if not isinstance(on_demand, bool):
            raise wrong(f"classes.{name}", f"`on_demand` is {on_demand!r}", "write true or false")
        features, gres = entry.get("features", []), entry.get("gres", {})
        if not _are_names(features):
            raise wrong(f"classes.{name}", "`features` is not a list of names", 'write ["x"]')
        if not isinstance(gres, dict) or not all(map(_is_counted, gres, gres.values())):
            raise wrong(
                f"classes.{name}",
                "`gres` is not a table of names and counts",
                f"write {{ slot = 4 }}; a count is 1 to {MOST_GRES}",
            )
        domain = entry.get("domain", "")
        if not isinstance(domain, str) or not re.fullmatch(DOMAIN, domain):
            raise wrong(
                f"classes.{name}", f"`domain` is {domain!r}", 'write one such as "example.org"'
            )
        if not re.fullmatch(NAME, name):
            raise wrong(
                f"classes.{name}",
                "is not a valid name",
                "use lower-case letters, digits and dashes",
            )
        names = entry["partitions"]
        if not isinstance(names, list) or not all(isinstance(one, str) and one for one in names):
            raise wrong(f"classes.{name}", "`partitions` is not a list of names", 'write ["x"]')
        if entry["link"] not in LINKS:
            raise wrong(
                f"classes.{name}",
                f"unknown link {entry['link']!r}",
                f"choose one of {', '.join(LINKS)}",
            )
        if entry["link"] == "qemu" and not on_demand:
            raise wrong(
                f"classes.{name}",
                "has virtual machines, whose number VM_GUESTS says",
                "add `on_demand = true`, and list none of them under [nodes]",
            )
        for partition in entry["partitions"]:
            if partition in owners:
                raise wrong(
                    f"classes.{name}",
                    f"partition {partition!r} is already on class {owners[partition]!r}",
                    "a partition belongs to one class",
                )
            owners[partition] = name
        subnet = next(subnets, None)
        if subnet is None:
            raise wrong(f"classes.{name}", f"is one too many for {NETWORK}", "remove a class")
        partitions = tuple(entry["partitions"])
        classes[name] = LinkClass(
            *(name, entry["link"], partitions, subnet, on_demand),
            tuple(features),
            tuple(gres.items()),
            domain,
        )

    hardware = None if vm is None else machines.choose(data.get("vm", {}), vm)
    machine_count = hardware.guests if hardware else 0

    def number_of(kind: LinkClass) -> int:
        return machine_count if kind.link == "qemu" else fleet

    wanted = {
        f"{name}{number}": name
        for name, kind in classes.items()
        if kind.on_demand
        for number in range(1, number_of(kind) + 1)
    }
    nodes, counts = [], dict.fromkeys(classes, 1)
    for name, described in [*data["nodes"].items(), *wanted.items()]:
        if not re.fullmatch(NAME, name) or name == cluster["controller"]:
            raise wrong(
                f"nodes.{name}",
                "is not a valid node name",
                "use lower-case letters, digits and dashes, and another name than the controller's",
            )
        if not isinstance(described, dict):
            described = {"class": described}
        class_name, features = described.get("class"), described.get("features", [])
        if described.keys() - {"class", "features"} or not _are_names(features):
            raise wrong(
                f"nodes.{name}",
                "is neither a class nor a table of `class` and `features`",
                'for example "native", or { class = "native", features = ["rack1"] }',
            )
        if not isinstance(class_name, str) or class_name not in classes:
            raise wrong(
                f"nodes.{name}",
                f"unknown class {class_name!r}",
                f"choose one of {', '.join(classes)}",
            )
        if name in data["nodes"] and (name in wanted or classes[class_name].on_demand):
            raise wrong(
                f"nodes.{name}",
                "is a node on demand, or has its name",
                "remove it: `make lab-up NODES=16` or `VM_GUESTS=4` makes such nodes",
            )
        counts[class_name] += 1
        link_class = classes[class_name]
        if counts[class_name] > MOST_NODES + 1:
            raise wrong(f"nodes.{name}", f"is one too many in {class_name!r}", "add another class")
        address = str(link_class.subnet[counts[class_name]])
        nodes.append(Node(name, link_class, address, tuple(features)))
    for name, count in counts.items():
        if count == 1 and not classes[name].on_demand:
            raise wrong(
                f"classes.{name}", "has no node", f'add one under [nodes]: {name}1 = "{name}"'
            )
    classes = {
        name: kind for name, kind in classes.items() if number_of(kind) or not kind.on_demand
    }
    return Topology(
        cluster["name"],
        cluster["controller"],
        tuple(classes.values()),
        tuple(nodes),
        hardware,
        tuple(sorted(scripts)),
    )


def _are_names(value) -> bool:
    """Whether this is a list of names that Slurm takes for features."""
    return isinstance(value, list) and all(
        isinstance(one, str) and re.fullmatch(NAME, one) for one in value
    )


def _is_counted(name: str, count) -> bool:
    """Whether this is a resource's name and its count on a node."""
    return re.fullmatch(NAME, name) is not None and type(count) is int and 0 < count <= MOST_GRES
