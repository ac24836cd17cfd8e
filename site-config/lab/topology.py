"""The lab's cluster as data: topology.toml read, checked, and turned into addresses and configuration files."""

import ipaddress
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import jinja2

HERE = Path(__file__).parent
LINKS = ("bridge", "macvlan", "vde", "vde-each")
#: Private, and only ever inside the lab's own network namespaces: two labs may use the same addresses.
NETWORK = ipaddress.ip_network("10.77.0.0/16")


class TopologyError(ValueError):
    """topology.toml is not usable; the message names the file, the key and the fix."""


@dataclass(frozen=True)
class LinkClass:
    name: str
    link: str
    partitions: tuple[str, ...]
    subnet: ipaddress.IPv4Network

    @property
    def gateway(self) -> str:
        """Address of the controller's leg on this class."""
        return str(self.subnet[1])


@dataclass(frozen=True)
class Node:
    name: str
    link_class: LinkClass
    address: str


@dataclass(frozen=True)
class Topology:
    cluster: str
    controller: str
    classes: tuple[LinkClass, ...]
    nodes: tuple[Node, ...]

    def render(self, template: str, **facts) -> str:
        """A file of templates/ filled in with this cluster and the given facts of host and checkout."""
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(HERE / "templates"), undefined=jinja2.StrictUndefined,
            keep_trailing_newline=True)
        partitions = [
            {"name": partition, "nodes": [n.name for n in self.nodes if n.link_class is link_class]}
            for link_class in self.classes for partition in link_class.partitions]
        return environment.get_template(template).render(
            cluster={"name": self.cluster, "controller": self.controller},
            nodes=self.nodes, partitions=partitions, **facts)

    def hosts(self, seen_from: Node | None) -> list[tuple[str, str]]:
        """Names and addresses for /etc/hosts: a node sees the controller's leg on its own class.

        The controller itself (None) goes by its leg on the first class, which every node reaches through it.
        """
        gateway = (seen_from.link_class if seen_from else self.classes[0]).gateway
        return [(self.controller, gateway)] + [(node.name, node.address) for node in self.nodes]


def load(path: Path = HERE / "topology.toml") -> Topology:
    """Read and check a topology file. Raises TopologyError."""
    def wrong(where, what, fix):
        return TopologyError(f"{path}: {where}: {what}; {fix}")

    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise TopologyError(f"{path}: {error}") from error
    for section in ("cluster", "classes", "nodes"):
        if not data.get(section):
            raise wrong(f"[{section}]", "is missing or empty", "see the file as shipped for its shape")
    cluster = data["cluster"]
    for key in ("name", "controller"):
        if key not in cluster:
            raise wrong("[cluster]", f"has no `{key}`", f'add {key} = "..."')

    classes, owners = {}, {}
    subnets = NETWORK.subnets(new_prefix=24)
    for name, entry in data["classes"].items():
        if not isinstance(entry, dict) or set(entry) != {"link", "partitions"}:
            raise wrong(f"classes.{name}", "needs exactly `link` and `partitions`",
                        'for example { link = "bridge", partitions = ["x"] }')
        if entry["link"] not in LINKS:
            raise wrong(f"classes.{name}", f"unknown link {entry['link']!r}", f"choose one of {', '.join(LINKS)}")
        for partition in entry["partitions"]:
            if partition in owners:
                raise wrong(f"classes.{name}", f"partition {partition!r} is already on class {owners[partition]!r}",
                            "a partition belongs to one class")
            owners[partition] = name
        classes[name] = LinkClass(name, entry["link"], tuple(entry["partitions"]), next(subnets))

    nodes, counts = [], dict.fromkeys(classes, 1)
    for name, class_name in data["nodes"].items():
        if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", name) or name == cluster["controller"]:
            raise wrong(f"nodes.{name}", "is no usable node name", "use lower-case letters, digits and dashes, "
                        "and another name than the controller's")
        if class_name not in classes:
            raise wrong(f"nodes.{name}", f"unknown class {class_name!r}", f"choose one of {', '.join(classes)}")
        counts[class_name] += 1
        link_class = classes[class_name]
        nodes.append(Node(name, link_class, str(link_class.subnet[counts[class_name]])))
    for name, count in counts.items():
        if count == 1:
            raise wrong(f"classes.{name}", "has no node", f'add one under [nodes]: {name}1 = "{name}"')
    return Topology(cluster["name"], cluster["controller"], tuple(classes.values()), tuple(nodes))
