"""Compare the partitions of the system's file (systems/ec2.yaml) with the queues of the cluster."""

import re


def queues(document: dict) -> dict[str, dict]:
    """By name: the queue, its path in the document, and the instance types of its nodes."""
    found = {}
    for index, queue in enumerate(document["Scheduling"].get("SlurmQueues", [])):
        types = []
        for resource in queue["ComputeResources"]:
            instances = [resource] if "InstanceType" in resource else resource.get("Instances", [])
            types += [instance["InstanceType"] for instance in instances]
        found[queue["Name"]] = {
            "queue": queue,
            "path": ("Scheduling", "SlurmQueues", index),
            "types": types,
        }
    return found


def link_gbps(described: dict) -> float:
    """Rate of all network cards together.

    EC2 gives numbers for Nitro, and a text such as "10 Gigabit" for older types.
    """
    cards = described["NetworkInfo"]["NetworkCards"]
    if all("PeakBandwidthInGbps" in card for card in cards):
        return sum(card["PeakBandwidthInGbps"] for card in cards)
    rate = re.fullmatch(r"(\d+) Gigabit", described["NetworkInfo"]["NetworkPerformance"])
    return float(rate[1]) if rate else 0.0


def facts(described: dict) -> dict:
    """EC2's description of an instance type as extras of a partition."""
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
    """Pairs of a path in the configuration and its fault.

    :arg types: EC2's description of each instance type.
    :arg name: name of the system's file.
    """
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
                f"{len(set(names))} instance types",
                "give it one, since results of two types would be mixed",
            )
            continue
        described, resource = types[names[0]], queue["ComputeResources"][0]
        for key, true in facts(described).items():
            if extras.get(key) != true:
                yield fault(
                    f"{key} is {extras.get(key)} in {name}, but {names[0]} has {true}",
                    "correct the wrong one",
                )
        nodes = sum(one.get("MaxCount", 10) for one in queue["ComputeResources"])
        if extras.get("nodes", nodes) != nodes:
            yield fault(
                f"MaxCount is {nodes}, but {name} has {extras['nodes']} nodes",
                "write the same number to both",
            )
        has_efa = resource.get("Efa", {}).get("Enabled", False)
        if has_efa != (extras["link_type"] == "efa"):
            yield fault(
                f"Efa is {'on' if has_efa else 'off'}, "
                f"but link_type is {extras['link_type']} in {name}",
                "correct the wrong one",
            )
        if described["VCpuInfo"].get("DefaultThreadsPerCore", 1) > 1 and not resource.get(
            "DisableSimultaneousMultithreading"
        ):
            yield fault(
                f"two threads on each core, but {name} counts cores",
                "DisableSimultaneousMultithreading: true",
            )
        if not queue["Networking"].get("PlacementGroup", {}).get("Enabled"):
            yield fault(
                "no placement group",
                "PlacementGroup: {Enabled: true}, since without it latency varies",
            )
        if extras["link_class"] == "emulated" and not (
            described.get("Hypervisor") == "xen" and queue.get("Image")
        ):
            yield fault(
                f"link_class is emulated in {name}, which needs an instance type on Xen and an "
                "image registered without SriovNetSupport, as only these have Xen's split driver",
                "give it both (README.md), or write link_class: sriov there",
            )
