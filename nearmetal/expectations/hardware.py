"""What a node's recorded facts say of its processors and NICs. Pure functions of facts."""

import re
from collections.abc import Mapping

#: Double-precision operations of a core in a cycle, by the widest instructions that it has: two
#: fused multiply-adds of a vector (Intel, Optimization Reference Manual, section 2; Arm, Neoverse
#: N1 Software Optimization Guide). Processors with one such unit have half of it.
OPERATIONS = {"avx512": 32, "fma": 16, "avx": 8, "sse2": 4, "asimd": 8}
NOMINAL = re.compile(r"@ (\d+(?:\.\d+)?)GHz")
SPEED = re.compile(r"nic\..+\.speed")


def numbers(facts: Mapping[str, str]) -> dict[str, float | None]:
    """What follows from the facts, by the names that expectations use (entries.DERIVED)."""
    return {"core_gflops": core_gflops(facts), "nic_gbps": nic_gbps(facts)}


def core_gflops(facts: Mapping[str, str]) -> float | None:
    """Theoretical peak of a core in Gflop/s, double precision: clock x operations a cycle.

    The clock is the highest, or else the model's nominal one. None if a fact is missing.
    """
    operations, ghz = OPERATIONS.get(str(facts.get("vector"))), _clock(facts)
    return ghz * operations if operations and ghz else None


def nic_gbps(facts: Mapping[str, str]) -> float | None:
    """Sum of the rates of a node's NICs in Gb/s, as their drivers tell them. None if one does not.

    Interfaces that send through others (bonds, VLANs, bridges) count as well, so that the sum is no
    less than the rate.
    """
    speeds = [_count(fact) for key, fact in facts.items() if SPEED.fullmatch(key)]
    known = [speed for speed in speeds if speed]
    return sum(known) / 1000 if known and len(known) == len(speeds) else None


def _clock(facts: Mapping[str, str]) -> float | None:
    if highest := _count(facts.get("clock_khz")):
        return highest / 1e6
    nominal = NOMINAL.search(str(facts.get("cpu_model", "")))
    return float(nominal[1]) if nominal else None


def _count(fact: object) -> int:
    """A fact as a positive integer; 0 where it is none (`2 | 4`, `unknown`)."""
    text = str(fact)
    return int(text) if text.isdecimal() else 0
