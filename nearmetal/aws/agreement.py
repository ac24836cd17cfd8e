"""Compare the partitions of the system's file (systems/ec2.yaml) with the queues of the cluster."""

import re
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Queue:
    """A queue of the cluster's configuration."""

    name: str
    data: dict
    path: tuple  #: of its keys in the configuration
    types: tuple[str, ...]  #: instance types of its nodes

    @property
    def resources(self) -> list[dict]:
        return self.data["ComputeResources"]

    @property
    def nodes(self) -> int:
        """The most nodes that it can have; 10 is ParallelCluster's default of a resource."""
        return sum(resource.get("MaxCount", 10) for resource in self.resources)


def queues(document: dict) -> dict[str, Queue]:
    """The queues by name."""
    by_name = {}
    for index, data in enumerate(document["Scheduling"].get("SlurmQueues", [])):
        types = []
        for resource in data["ComputeResources"]:
            if "InstanceType" in resource:
                types.append(resource["InstanceType"])
            types += [instance["InstanceType"] for instance in resource.get("Instances", [])]
        path = ("Scheduling", "SlurmQueues", index)
        by_name[data["Name"]] = Queue(data["Name"], data, path, tuple(types))
    return by_name


def link_gbps(described: dict) -> float:
    """Rate of all network cards together.

    EC2 gives numbers for Nitro, and a text such as "10 Gigabit" for older types.
    """
    cards = described["NetworkInfo"]["NetworkCards"]
    rates = [card.get("PeakBandwidthInGbps") for card in cards]
    if None not in rates:
        return sum(rates)
    rate = re.fullmatch(r"(\d+) Gigabit", described["NetworkInfo"]["NetworkPerformance"])
    if rate:
        return float(rate[1])
    return 0.0


def facts(described: dict) -> dict:
    """EC2's description of an instance type as extras of a partition."""
    # An instance type of bare metal has no key `Hypervisor`.
    hypervisors = {"xen": "xen-hvm", "nitro": "nitro"}
    return {
        "instance_type": described["InstanceType"],
        "cores_per_node": described["VCpuInfo"]["DefaultCores"],
        "memory_gb": described["MemoryInfo"]["SizeInMiB"] / 1024,
        "link_speed_gbps": link_gbps(described),
        "hypervisor": hypervisors.get(described.get("Hypervisor", ""), "none"),
    }


def faults(
    queues: dict[str, Queue], types: dict[str, dict], system: dict, name: str
) -> Iterator[tuple[tuple, str]]:
    """Pairs of a path in the configuration and its fault.

    :arg types: EC2's description of each instance type.
    :arg name: name of the system's file.
    """
    wanted = {}
    for partition in system["partitions"]:
        for option in partition["access"]:
            wanted[option.removeprefix("-p ").removeprefix("--partition=")] = partition
    for missing in wanted.keys() - queues.keys():
        yield (
            ("Scheduling", "SlurmQueues"),
            f"no queue {missing}, which {name} has. Fix: add it, or remove the partition there",
        )
    for queue_name in queues.keys() & wanted.keys():
        queue = queues[queue_name]
        for fault in _faults(queue, types, wanted[queue_name]["extras"], name):
            yield queue.path, f"queue {queue_name}: {fault}"


def _faults(queue: Queue, types: dict[str, dict], extras: dict, name: str) -> Iterator[str]:
    """What of a queue contradicts the extras of its partition, each with the fix."""
    if len(set(queue.types)) != 1:
        fix = "give it one, since results of two types would be mixed"
        yield f"{len(set(queue.types))} instance types. Fix: {fix}"
        return
    described, resource = types[queue.types[0]], queue.resources[0]
    for key, true in facts(described).items():
        if extras.get(key) != true:
            yield (
                f"{key} is {extras.get(key)} in {name}, but {queue.types[0]} has {true}. "
                "Fix: correct the wrong one"
            )
    if extras.get("nodes", queue.nodes) != queue.nodes:
        yield (
            f"MaxCount is {queue.nodes}, but {name} has {extras['nodes']} nodes. "
            "Fix: write the same number to both"
        )
    # Without it, nodes get an ordinary interface, which is much slower.
    has_efa = resource.get("Efa", {}).get("Enabled", False)
    if has_efa != (extras["link_type"] == "efa"):
        state = "off"
        if has_efa:
            state = "on"
        yield (
            f"Efa is {state}, but link_type is {extras['link_type']} in {name}. "
            "Fix: correct the wrong one"
        )
    threads = described["VCpuInfo"].get("DefaultThreadsPerCore", 1)
    if threads > 1 and not resource.get("DisableSimultaneousMultithreading"):
        fix = "DisableSimultaneousMultithreading: true"
        yield f"two threads on each core, but {name} counts cores. Fix: {fix}"
    if not queue.data["Networking"].get("PlacementGroup", {}).get("Enabled"):
        fix = "PlacementGroup: {Enabled: true}, since without it latency varies"
        yield f"no placement group. Fix: {fix}"
    has_split_driver = described.get("Hypervisor") == "xen" and queue.data.get("Image")
    if extras["link_class"] == "emulated" and not has_split_driver:
        yield (
            f"link_class is emulated in {name}, which needs an instance type on Xen and an image "
            "registered without SriovNetSupport, as only these have Xen's split driver. "
            "Fix: give it both (README.md), or write link_class: sriov there"
        )
