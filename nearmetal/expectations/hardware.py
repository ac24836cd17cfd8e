"""What a node's recorded facts say of its processors and NICs. Pure functions of facts."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

from nearmetal.util import documents

#: What a core multiplies and adds at once, by processor, with the vendors' guides.
PROCESSORS = Path(__file__).resolve().parent / "processors.yaml"
NOMINAL = re.compile(r"@ (\d+(?:\.\d+)?)GHz")
SPEED = re.compile(r"nic\..+\.speed")
#: What joins the carriers of a transport, and the transports of variants.
JOINED = re.compile(r" \+ | over | \| | or ")


def numbers(facts: Mapping[str, str]) -> dict[str, float | None]:
    """What follows from the facts, by the names that expectations use (entries.DERIVED)."""
    return {
        "core_gflops": core_gflops(facts),
        "nic_gbps": nic_gbps(facts),
        "carrier_mtu": carrier_mtu(facts),
        "core_threads": core_threads(facts),
        "modules_gbps": modules_gbps(facts),
    }


def core_gflops(facts: Mapping[str, str]) -> float | None:
    """Theoretical peak of a core in Gflop/s, double precision: clock x operations a cycle.

    The clock is the highest, or else the model's nominal one. None if a fact is missing.
    """
    processor = _processor(facts)
    if processor is None:
        return None
    ghz = _clock(facts)
    if ghz is None and "EC2" in str(facts.get("dmi")):
        ghz = processor.get("ec2_ghz")
    if ghz is None:
        return None
    # A fused multiply-add is two operations on each 64 bits of a vector.
    return ghz * processor["units"] * processor["bits"] / 32


@functools.cache
def processors() -> list[dict]:
    """The rows of processors.yaml."""
    return documents.read(PROCESSORS)


def _processor(facts: Mapping[str, str]) -> dict | None:
    """The first row for a node's processor."""
    vector, model = facts.get("vector"), str(facts.get("cpu_model"))
    for row in processors():
        if row["vector"] == vector and re.search(row["model"], model):
            return row
    return None


def nic_gbps(facts: Mapping[str, str]) -> float | None:
    """Sum of the rates of a node's NICs in Gb/s, as their drivers tell them. None if one does not.

    Interfaces that send through others (bonds, VLANs, bridges) count as well, so that the sum is no
    less than the rate.
    """
    speeds = [_count(facts[key]) for key in facts if SPEED.fullmatch(key)]
    if not speeds or 0 in speeds:
        return None
    return sum(speeds) / 1000


def carriers(facts: Mapping[str, str]) -> list[str]:
    """Interfaces that carried the case's messages: `eth0` of `rxe0/1 over eth0 (virtio_net)`."""
    names = []
    for part in JOINED.split(str(facts.get("transport", ""))):
        name = part.split(" ")[0]
        # Devices without a MTU are no interfaces, such as InfiniBand's ports.
        if f"nic.{name}.mtu" in facts:
            names.append(name)
    return names


def carrier_mtu(facts: Mapping[str, str]) -> float | None:
    """Least MTU of the interfaces that carried the case's messages, on any node.

    None if none is known, as with InfiniBand and shared memory. Other interfaces of a node do not
    matter: tunnels and container networks have smaller frames.
    """
    sizes = (least(facts.get(f"nic.{name}.mtu")) for name in carriers(facts))
    return min(filter(None, sizes), default=None)


def core_threads(facts: Mapping[str, str]) -> float:
    """Hardware threads of a core that are online; 1 where it is not known."""
    return least(facts.get("threads_per_core")) or 1


def modules_gbps(facts: Mapping[str, str]) -> float | None:
    """Rate of all memory modules together in GB/s. None if not known, or if nodes differ.

    Two modules on one channel share it, so that the memory's rate is this, or half of it.
    """
    return _count(facts.get("memory_modules_mbps")) / 1000 or None


def least(fact: object) -> float | None:
    """The least number of a fact, which is `2 | 4` where nodes differ; None if it has none."""
    numbers = [float(part) for part in str(fact).split(" | ") if part.isdecimal()]
    return min(numbers, default=None)


def _clock(facts: Mapping[str, str]) -> float | None:
    if highest := _count(facts.get("clock_khz")):
        return highest / 1e6
    # Virtual machines often hide the highest clock, and keep the model's name.
    nominal = NOMINAL.search(str(facts.get("cpu_model", "")))
    if nominal is None:
        return None
    return float(nominal[1])


def _count(fact: object) -> int:
    """A fact as a positive integer; 0 where it is none (`2 | 4`, `unknown`)."""
    text = str(fact)
    if not text.isdecimal():
        return 0
    return int(text)
