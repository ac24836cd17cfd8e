"""Does the system's file (systems/ec2.yaml) say of each partition what its queue in the cluster's configuration is?"""

import re


def queues(document: dict) -> dict[str, dict]:
    """By name: the queue, where it stands, and the instance types of its nodes."""
    found = {}
    for index, queue in enumerate(document["Scheduling"].get("SlurmQueues", [])):
        types = []
        for resource in queue["ComputeResources"]:
            types += (
                [resource["InstanceType"]]
                if "InstanceType" in resource
                else [instance["InstanceType"] for instance in resource.get("Instances", [])]
            )
        found[queue["Name"]] = {
            "queue": queue,
            "path": ("Scheduling", "SlurmQueues", index),
            "types": types,
        }
    return found


def link_gbps(described: dict) -> float:
    """The rate of all network cards together: figures for Nitro, and a text such as "10 Gigabit" for what was before."""
    cards = described["NetworkInfo"]["NetworkCards"]
    if all("PeakBandwidthInGbps" in card for card in cards):
        return sum(card["PeakBandwidthInGbps"] for card in cards)
    rate = re.fullmatch(r"(\d+) Gigabit", described["NetworkInfo"]["NetworkPerformance"])
    return float(rate[1]) if rate else 0.0


def facts(described: dict) -> dict:
    """What EC2 says of an instance type, as extras of a partition."""
    return {
        "instance_type": described["InstanceType"],
        "cores_per_node": described["VCpuInfo"]["DefaultCores"],
        "memory_gb": described["MemoryInfo"]["SizeInMiB"] / 1024,
        "link_speed_gbps": link_gbps(described),
        "hypervisor": {"xen": "xen-hvm", "nitro": "nitro"}.get(
            described.get("Hypervisor", ""), "none"
        ),
    }


def faults(queues: dict[str, dict], types: dict[str, dict], system: dict, name: str):
    """Pairs of a place in the configuration and what is wrong there; `types` is what EC2 says of each instance type."""
    wanted = {
        option.removeprefix("-p ").removeprefix("--partition="): partition
        for partition in system["partitions"]
        for option in partition["access"]
    }
    for missing in wanted.keys() - queues.keys():
        yield (
            ("Scheduling", "SlurmQueues"),
            f"no queue {missing}, which {name} has. Fix: add it, or remove the partition there",
        )
    for queue_name in queues.keys() & wanted.keys():
        place, queue, names = (queues[queue_name][key] for key in ("path", "queue", "types"))
        extras = wanted[queue_name]["extras"]

        def fault(text, fix, place=place, label=queue_name):
            return place, f"queue {label}: {text}. Fix: {fix}"

        if len(set(names)) != 1:
            yield fault(
                f"{len(set(names))} instance types", "give it one: figures of two would be mixed"
            )
            continue
        described, resource = types[names[0]], queue["ComputeResources"][0]
        for key, true in facts(described).items():
            if extras.get(key) != true:
                yield fault(
                    f"{key} is {extras.get(key)} in {name}, but {true} of {names[0]}",
                    "correct the one that is not meant",
                )
        has_efa = resource.get("Efa", {}).get("Enabled", False)
        if has_efa != (extras["link_type"] == "efa"):
            yield fault(
                f"Efa is {'on' if has_efa else 'off'}, but link_type is {extras['link_type']} in {name}",
                "correct the one that is not meant",
            )
        if described["VCpuInfo"].get("DefaultThreadsPerCore", 1) > 1 and not resource.get(
            "DisableSimultaneousMultithreading"
        ):
            yield fault(
                f"two threads a core, but {name} counts cores",
                "DisableSimultaneousMultithreading: true",
            )
        if not queue["Networking"].get("PlacementGroup", {}).get("Enabled"):
            yield fault(
                "no placement group", "PlacementGroup: {Enabled: true}, as latency is luck without"
            )
        if extras["link_class"] == "emulated" and not (
            described.get("Hypervisor") == "xen" and queue.get("Image")
        ):
            yield fault(
                f"link_class is emulated in {name}, which is Xen's split driver: an instance type on Xen with an image "
                "registered without SriovNetSupport",
                "give it both (README.md), or say link_class: sriov there",
            )
