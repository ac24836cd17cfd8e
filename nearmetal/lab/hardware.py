"""Options of the lab's virtual machines, and whether this host can provide them.

The options are the NIC and the factors of the HPC cloud slides: pinning, memory pages, accelerator.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

#: NIC that QEMU emulates -> name of its device.
EMULATED = {"virtio": "virtio-net-pci", "e1000": "e1000", "e1000e": "e1000e", "igb": "igb"}
#: NIC that QEMU emulates in a machine with an IOMMU -> its guests' PCI addresses in that machine.
#: The guests have the machine's NICs, or the two virtual functions (SR-IOV) of its only NIC.
NESTED = {
    "vfio-nested": ("e1000e", ("0000:01:00.0", "0000:02:00.0")),
    "vfio-nested-sriov": ("igb", ("0000:01:10.0", "0000:01:10.2")),
}
#: Defaults of guests in such a machine, whose memory holds both of them.
NESTED_DEFAULTS = {"cpus": 1, "memory_mb": 640}
#: Memory of that machine beside its guests.
NESTED_BESIDE_MB = 512
ACCELERATORS = ("auto", "kvm", "tcg")
PCI_ADDRESS = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"


class HardwareError(ValueError):
    """An option of virtual machines is wrong, or this host lacks it; the message has the fix."""


@dataclass(frozen=True)
class Hardware:
    """The virtual machines, and the options of each."""

    nic: str
    #: PCI address of each machine's NIC, where NICs are passed through.
    devices: tuple[str, ...]
    cpus: int
    memory_mb: int
    pin: bool
    huge_pages: bool
    accelerator: str
    #: Number of virtual machines.
    guests: int
    #: Virtual switches between second NICs of the machines; with 1 a machine has one NIC.
    switches: int

    @property
    def nested(self) -> bool:
        """Whether the guests run within a guest that has an IOMMU of QEMU."""
        return self.nic in NESTED

    @property
    def total_mb(self) -> int:
        """Memory of the machine that holds so many nested guests as it has devices."""
        return len(self.devices) * self.memory_mb + NESTED_BESIDE_MB

    def described(self, accelerator: str) -> str:
        """The options as one text, which each result records.

        A guest cannot see them itself, so its firmware (DMI) has this text.
        """
        pinned = "pinned" if self.pin else "not pinned"
        pages = "huge" if self.huge_pages else "small"
        return f"lab guest: {accelerator}, {self.nic}, vCPUs {pinned}, {pages} pages"


def choose(section: dict, asked: dict) -> Hardware:
    """The hardware of the virtual machines. Raises HardwareError.

    :arg section: the section [vm] of topology.toml.
    :arg asked: options of the command line, which override it; `nic` at least.
    """
    if not isinstance(section, dict):
        raise HardwareError(f"topology.toml: [vm] is {section!r}: make it a section with keys")
    # The machine around the guests has the memory of both of them.
    values = {**section, **asked}
    if asked.get("nic") in NESTED:
        values = {**section, **NESTED_DEFAULTS, **asked}
    _refuse_wrong_types(section, values)
    nic, addresses = _nic(values.pop("nic"))
    if nic in NESTED:
        if values["pin"] or values["huge_pages"] or values["accelerator"] == "kvm":
            raise HardwareError(
                f"VM={nic} has guests within a guest, whose CPU QEMU emulates: "
                "leave out VM_PIN, VM_HUGE_PAGES and VM_ACCELERATOR=kvm"
            )
        addresses = NESTED[nic][1]
    if values["switches"] > (1 if addresses else values["guests"]):
        raise HardwareError(
            f"[vm] switches is {values['switches']} for {values['guests']} guests with the NIC "
            f"{nic}: give at most one for each guest, and 1 (VM_SWITCHES=1) with vfio, whose NICs "
            "have switches of their own"
        )
    return Hardware(nic=nic, devices=addresses, **values)


def _refuse_wrong_types(section: dict, values: dict) -> None:
    """Raise HardwareError where options are unknown, missing, or of another type."""
    wanted: dict[str, Any] = {field.name: field.type for field in fields(Hardware)}
    del wanted["devices"]  # a part of the option `nic`
    if values.keys() != wanted.keys():
        keys = ", ".join(name for name in wanted if name != "nic")
        raise HardwareError(
            f"topology.toml: [vm] has {', '.join(sorted(section))}; it needs exactly {keys}"
        )
    words = {int: "a number from 1 on", bool: "true or false", str: "a text"}
    for name, kind in wanted.items():
        if type(values[name]) is not kind or (kind is int and values[name] < 1):
            raise HardwareError(f"[vm] {name} is {values[name]!r}: give {words[kind]}")
    if values["accelerator"] not in ACCELERATORS:
        raise HardwareError(
            f"accelerator {values['accelerator']!r} is unknown: "
            f"choose one of {', '.join(ACCELERATORS)}"
        )


def _nic(option: str) -> tuple[str, tuple[str, ...]]:
    """The NIC, and the PCI addresses of the host's NICs to pass through. Raises HardwareError."""
    nic, _, devices = option.partition(":")
    addresses = tuple(devices.split(",")) if devices else ()
    if nic not in (*EMULATED, *NESTED, "vfio") or bool(devices) != (nic == "vfio"):
        raise HardwareError(
            f"VM={option} is unknown: choose one of {', '.join((*EMULATED, *NESTED))}, or "
            "vfio:ADDRESS,... with the PCI address of a NIC for each guest, "
            "such as vfio:0000:01:00.0,0000:01:00.1"
        )
    for address in addresses:
        if not re.fullmatch(PCI_ADDRESS, address) or addresses.count(address) > 1:
            raise HardwareError(
                f"{address!r} is not a PCI address, or is given twice: "
                "write addresses as `lspci -D` does (0000:01:00.0)"
            )
    return nic, addresses


def refuse_what_the_host_lacks(hardware: Hardware, guests: int, host: Path = Path("/")) -> None:
    """Raise HardwareError for the first thing that this host lacks for so many guests."""
    if hardware.devices and len(hardware.devices) != guests:
        raise HardwareError(
            f"VM=vfio names {len(hardware.devices)} NIC(s) for {guests} guests: name one for each"
        )
    if not hardware.nested:  # else the NICs are those of a guest
        refuse_unless_free(hardware.devices, host)
    cores, vcpus = len(os.sched_getaffinity(0)), guests * hardware.cpus
    if hardware.pin and cores < vcpus:
        raise HardwareError(
            f"{guests} guests of {hardware.cpus} vCPUs need a core for each vCPU: "
            f"this host has {cores} for {vcpus}; "
            f"ask for fewer (VM_CPUS={max(1, cores // guests)}), or do not pin"
        )
    if hardware.huge_pages:
        _refuse_too_few_huge_pages(hardware, guests, host)


def _refuse_too_few_huge_pages(hardware: Hardware, guests: int, host: Path) -> None:
    """Raise HardwareError if the host's free huge pages do not hold the guests' memory."""
    pool = {}
    for line in (host / "proc/meminfo").read_text().splitlines():
        if line.startswith("Huge"):
            name, value, *_ = line.replace(":", " ").split()
            pool[name] = int(value)
    size_mb = pool.get("Hugepagesize", 2048) / 1024
    pages = guests * -(-hardware.memory_mb // int(size_mb))
    free = pool.get("HugePages_Free", 0)
    if free < pages:
        raise HardwareError(
            f"guests' memory takes {pages} huge pages of {size_mb:.0f} MB, and {free} are free on "
            f"this host: sysctl vm.nr_hugepages={pool.get('HugePages_Total', 0) - free + pages}"
        )


def refuse_unless_free(addresses: Sequence[str], host: Path = Path("/")) -> None:
    """Raise HardwareError for the first PCI device that cannot be passed through (VFIO)."""
    for address in addresses:
        _refuse_unless_free(address, host)


def _refuse_unless_free(address: str, host: Path) -> None:
    device = host / "sys/bus/pci/devices" / address
    if not device.exists():
        raise HardwareError(f"this host has no PCI device {address}: `lspci -D` lists them")
    # VFIO gives whole groups to a guest: the IOMMU cannot tell their devices apart.
    group = device / "iommu_group"
    if not group.exists():
        raise HardwareError(
            f"PCI device {address} cannot be passed through, as this host has no IOMMU for it: "
            "switch VT-d or AMD-Vi on in its firmware, and boot its kernel with intel_iommu=on "
            "or amd_iommu=on"
        )
    for member in sorted((group / "devices").iterdir()):
        # A PCI bridge of the group stays with the host.
        if (member / "class").read_text().startswith("0x0604"):
            continue
        driver = "no driver"
        if (member / "driver").exists():
            driver = (member / "driver").resolve().name
        if driver != "vfio-pci":
            why = ""
            if member.name != address:
                why = f" (of the same IOMMU group as {address}, so both go or neither)"
            raise HardwareError(
                f"PCI device {member.name}{why} belongs to {driver}: give it to vfio-pci, as root: "
                f"modprobe vfio-pci && driverctl --nosave set-override {member.name} vfio-pci "
                "(package driverctl)"
            )
    number = group.resolve().name
    if not (host / "dev/vfio" / number).exists():
        raise HardwareError(
            f"/dev/vfio/{number} of PCI device {address} is missing: "
            "in a container, pass it to the container"
        )
