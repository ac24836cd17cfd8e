"""The link of a node, from the facts of provenance.sh and node.sh. Pure functions of facts."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nearmetal.util import documents

HERE = Path(__file__).resolve().parent
#: The script whose facts complete those of provenance.sh.
SCRIPT = HERE / "node.sh"
DRIVER = re.compile(r"nic\.(.+)\.driver")
PORT = re.compile(r"ib\.(.+)\.(\d+)\.link_layer")
RATE = re.compile(r"(\d+(?:\.\d+)?) Gb/sec \((\d+)X ?(\w*)\)")
NONE = ("", "unknown", "none")
Guesses = tuple[tuple[str, str], ...]  #: names of values that are guessed, and why


@dataclass(frozen=True)
class Link:
    """A node's link as a system's file describes it."""

    nic: str  #: interface or port, such as `eth0` or `mlx5_0/1`; '' if there is none
    driver: str
    link_class: str
    link_type: str
    speed_gbps: float | str  #: of all of its NICs together
    model: str
    rdma: bool = False
    nics: int = 1  #: like this one
    signalling_gbps: float | None = None
    #: Values that the facts do not decide.
    guessed: Guesses = ()


@functools.cache
def known() -> dict:
    """What drivers and rates mean (nics.yaml)."""
    return documents.read(HERE / "nics.yaml")


def hypervisor(facts: Mapping[str, str]) -> tuple[str, str]:
    """The hypervisor as a system's file names it, and why it is a guess; '' if it is none."""
    word = facts.get("hypervisor", "unknown")
    guess = ""
    if word == "unknown":
        guess = "the node does not tell whether it is a VM; write none for bare metal"
    elif word == "vm-other":
        guess = "the node is a VM, and does not tell of which hypervisor"
    elif facts.get("command.systemd-detect-virt") == "none":
        guess = "by DMI, CPU flags and /sys/hypervisor: systemd-detect-virt is missing"
    return known()["hypervisors"].get(word, word), guess


def is_guest(facts: Mapping[str, str]) -> bool:
    return facts.get("hypervisor", "unknown") not in NONE


def interfaces(facts: Mapping[str, str]) -> list[str]:
    """The network interfaces of the node that have a carrier."""
    return [match[1] for key in facts if (match := DRIVER.fullmatch(key))]


def carriers_of(facts: Mapping[str, str], name: str) -> list[str]:
    """The interfaces that a bond, bridge or VLAN sends through; itself if it sends itself."""
    below = facts.get(f"nic.{name}.lower", "none").split(",")
    carriers = [nic for nic in below if f"nic.{nic}.driver" in facts and nic != name]
    return carriers or [name]


def main_interface(facts: Mapping[str, str]) -> tuple[str, str]:
    """The interface between nodes, and by what it was chosen; ('', '') without one."""
    names = interfaces(facts)
    for key, why in (("address_nic", "address of the node's name"), ("default_nic", "route")):
        if facts.get(key) in names:
            return facts[key], why
    if not names:
        return "", ""
    if len(names) == 1:
        return names[0], ""
    fastest = max(names, key=lambda name: _number(facts.get(f"nic.{name}.speed", "")))
    return fastest, "the fastest of several"


def ports(facts: Mapping[str, str]) -> list[tuple[str, str]]:
    """(device, port) of each RDMA port that is active, or whose state is not known."""
    active = []
    for key in facts:
        if match := PORT.fullmatch(key):
            device, port = match.groups()
            # `4: ACTIVE`
            state = facts.get(f"ib.{device}.{port}.state", "unknown").partition(": ")[2]
            if state in ("", "ACTIVE"):
                active.append((device, port))
    return active


def link_of(facts: Mapping[str, str]) -> Link:
    """The link between nodes: InfiniBand or EFA where it is active, else an interface."""
    active = ports(facts)
    for device, port in active:
        if facts[f"ib.{device}.{port}.link_layer"] == "InfiniBand":
            keys = ("link_layer", "rate")
            return _of_all(_infiniband(facts, device, port), _alike(facts, device, port, keys))
    # Neither InfiniBand nor EFA: a fabric's interface, or the way to the node's name.
    name, why = main_interface(facts)
    for interface in interfaces(facts):
        if facts[f"nic.{interface}.driver"] in known()["fabrics"]:
            name, why = interface, "driver"
    carriers = carriers_of(facts, name)
    nic = carriers[0]
    link = _ethernet(facts, nic, why)
    for device, port in active:
        if facts.get(f"ib.{device}.{port}.driver") in known()["efa"]:
            why = "the kernel does not tell EFA's rate: see the instance type's documentation"
            guessed = (("link_speed_gbps", why),)
            link = Link(device, "efa", "sriov", "efa", "unknown", "EFA", guessed=guessed)
            return _of_all(link, _alike(facts, device, port, ("driver",)))
    # RoCE, in hardware or in software (Soft-RoCE), is over an interface.
    over = {facts.get(f"ib.{device}.{port}.netdev") for device, port in active}
    # A bond sends through several, and programs through all interfaces of a fabric.
    alike = carriers
    if link.link_type in known()["fabrics"].values():
        alike = interfaces(facts)
    nics = [each for each in alike if facts.get(f"nic.{each}.driver") == link.driver]
    return replace(_of_all(link, len(nics)), rdma=bool(over & {name, nic}))


def _alike(facts: Mapping[str, str], device: str, port: str, keys: tuple[str, ...]) -> int:
    """The number of active ports that have the same facts."""

    def of(device, port):
        return [facts.get(f"ib.{device}.{port}.{key}") for key in keys]

    return sum(of(*other) == of(device, port) for other in ports(facts))


def _of_all(link: Link, nics: int) -> Link:
    """The link of all NICs like this one together."""
    if nics < 2:
        return link
    speed, signalling = link.speed_gbps, link.signalling_gbps
    if isinstance(speed, (int, float)):
        speed *= nics
    return replace(
        link, nics=nics, speed_gbps=speed, signalling_gbps=signalling and signalling * nics
    )


def _infiniband(facts: Mapping[str, str], device: str, port: str) -> Link:
    key = f"ib.{device}.{port}"
    driver = facts.get(f"{key}.driver", "unknown")
    # The interface of IPoIB has the PCI identity of its device.
    nic = ""
    for name in interfaces(facts):
        if f"{device}/{port}" in facts.get(f"nic.{name}.lower", "").split(","):
            nic = name
            break
    link_class, guessed = _class(facts, nic, driver)
    speed, signalling = rate(facts.get(f"{key}.rate", ""))
    return Link(
        f"{device}/{port}",
        driver,
        link_class,
        known()["fabrics"].get(driver, "infiniband"),
        speed,
        facts.get(f"nic.{nic}.model") or f"{device} ({driver})",
        rdma=True,
        signalling_gbps=signalling,
        guessed=guessed,
    )


def _ethernet(facts: Mapping[str, str], nic: str, why: str) -> Link:
    driver = facts.get(f"nic.{nic}.driver", "unknown")
    guessed: Guesses = ()
    if why == "the fastest of several":
        guessed = (("nic_model", "several interfaces; this is the fastest"),)
    if not nic:
        link_class = "native"
        if is_guest(facts):
            link_class = "emulated"
        keys = ("link_class", "link_type", "link_speed_gbps", "nic_model")
        guessed = tuple(dict.fromkeys(keys, "no interface was found on the node").items())
        return Link("", driver, link_class, "ethernet", "unknown", "unknown", guessed=guessed)
    # A link of the kernel has no rate, and no NIC that could be passed through.
    if driver in known()["software"]:
        link_class = known()["software"][driver]
        return Link(nic, driver, link_class, "software", "memory", driver, guessed=guessed)
    link_class, guess = _class(facts, nic, driver)
    speed: float | str = _number(facts.get(f"nic.{nic}.speed", "")) / 1000 or "unknown"
    if speed == "unknown":
        guessed += (("link_speed_gbps", f"the driver {driver} does not tell the rate"),)
    model = facts.get(f"nic.{nic}.model") or driver
    link_type = known()["fabrics"].get(driver, "ethernet")
    return Link(nic, driver, link_class, link_type, speed, model, guessed=guessed + guess)


def _class(facts: Mapping[str, str], nic: str, driver: str) -> tuple[str, Guesses]:
    """The link class of a NIC, and the reason if it is guessed."""
    about = known()
    if not is_guest(facts):
        if facts.get("hypervisor", "unknown") == "unknown":
            return "native", (("link_class", "the node does not tell whether it is a VM"),)
        return "native", ()
    # QEMU and VMware emulate Intel's NICs, which are also passed through.
    if driver in about["ambiguous"]:
        reason = f"{driver} drives emulated and passed-through NICs"
        return "emulated", (("link_class", reason),)
    if driver in about["emulated"]:
        return "emulated", ()
    identity = facts.get(f"nic.{nic}.pci", "")
    # A guest rarely sees `physfn`, so the identity decides as well.
    virtual = facts.get(f"nic.{nic}.virtual_function") == "yes"
    if driver in about["sriov"] or virtual or identity in about["virtual_functions"]:
        return "sriov", ()
    if driver == "unknown":
        return "emulated", (("link_class", "the node does not tell the NIC's driver"),)
    if identity:
        return "passthrough", ()
    reason = "the PCI identity is not known: a virtual function would be sriov"
    return "passthrough", (("link_class", reason),)


def rate(text: str) -> tuple[float | str, float | None]:
    """Data rate and, where it differs, signalling rate of a port in Gb/s.

    `40 Gb/sec (4X QDR)` carries 32 Gb/s.
    """
    match = RATE.fullmatch(text.strip())
    if not match:
        return "unknown", None
    quoted, lanes, name = float(match[1]), int(match[2]), match[3]
    # From EDR on, the kernel quotes the data rate.
    data = known()["lanes"].get(name)
    if data is None:
        return _plain(quoted), None
    return _plain(round(lanes * data, 1)), _plain(quoted)


def _plain(value: float) -> float:
    if value == int(value):
        return int(value)
    return value


def _number(text: str) -> float:
    if text.isdecimal():
        return float(text)
    return 0.0
