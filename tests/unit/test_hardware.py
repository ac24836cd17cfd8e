"""Options of the lab's virtual machines, and the errors about what a host lacks for them."""

from pathlib import Path

import pytest

from nearmetal.lab import guests, hardware, topology
from nearmetal.lab.hardware import HardwareError
from tests.support.said import lacking

SECTION = {
    "guests": 2,
    "switches": 1,
    "cpus": 2,
    "memory_mb": 1536,
    "pin": False,
    "huge_pages": False,
    "accelerator": "auto",
}
NICS = "0000:01:00.0", "0000:01:00.1"


def choose(**asked):
    return hardware.choose(SECTION, {"nic": "virtio", **asked})


def test_what_is_asked_for_goes_before_the_file():
    assert choose(cpus=4) == hardware.Hardware("virtio", (), 4, 1536, False, False, "auto", 2, 1)
    assert choose(nic="vfio:" + ",".join(NICS)).devices == NICS


@pytest.mark.parametrize(
    "asked, facts",
    [
        ({"nic": "virtoi"}, ["VM=virtoi ", "virtio, e1000, e1000e, igb", "vfio:ADDRESS"]),
        ({"nic": "vfio"}, ["VM=vfio ", "vfio:ADDRESS", "PCI address", "each guest"]),
        ({"nic": "virtio:0000:01:00.0"}, ["VM=virtio:0000:01:00.0 ", "unknown"]),
        ({"nic": "vfio-nested", "pin": True}, ["VM=vfio-nested ", "VM_PIN", "QEMU emulates"]),
        ({"nic": "vfio-nested", "accelerator": "kvm"}, ["VM_ACCELERATOR=kvm"]),
        ({"nic": "vfio:01:00.0"}, ["'01:00.0'", "not a PCI address", "lspci -D"]),
        ({"nic": f"vfio:{NICS[0]},{NICS[0]}"}, ["'0000:01:00.0'", "given twice"]),
        ({"cpus": 0}, ["[vm] cpus is 0", "from 1"]),
        ({"pin": 1}, ["[vm] pin is 1", "true or false"]),
        ({"accelerator": "xen"}, ["accelerator 'xen'", "auto, kvm, tcg"]),
        (
            {"colour": "red"},
            [
                "topology.toml",
                "[vm]",
                "exactly cpus, memory_mb, pin, huge_pages, accelerator, guests",
            ],
        ),
        ({"guests": 0}, ["[vm] guests is 0", "from 1"]),
        ({"switches": 3}, ["switches is 3 for 2 guests", "one for each"]),
        ({"nic": "vfio:" + ",".join(NICS), "switches": 2}, ["NIC vfio", "VM_SWITCHES=1"]),
    ],
)
def test_a_mistake_is_named_with_its_fix(asked, facts):
    with pytest.raises(HardwareError) as error:
        choose(**asked)
    assert not lacking(str(error.value), *facts)


def test_a_section_that_lacks_a_key_is_named():
    with pytest.raises(HardwareError, match="it needs exactly"):
        hardware.choose({}, {"nic": "virtio"})


@pytest.fixture
def host(tmp_path):
    """A host with two NICs of one IOMMU group below a bridge, and 1024 free huge pages.

    No machine of ours has an IOMMU, so the files are invented. Their paths are those of the
    kernel's documentation (vfio.rst, sysfs-bus-pci).
    """
    pci, group = tmp_path / "sys/bus/pci/devices", tmp_path / "sys/kernel/iommu_groups/7"
    (group / "devices").mkdir(parents=True)
    (tmp_path / "sys/bus/pci/drivers/vfio-pci").mkdir(parents=True)
    for address, kind in (
        (NICS[0], "0x020000"),
        (NICS[1], "0x020000"),
        ("0000:00:01.0", "0x060400"),
    ):
        (pci / address).mkdir(parents=True)
        (pci / address / "class").write_text(f"{kind}\n")
        (pci / address / "iommu_group").symlink_to(group)
        (group / "devices" / address).symlink_to(pci / address)
        if kind == "0x020000":
            (pci / address / "driver").symlink_to(tmp_path / "sys/bus/pci/drivers/vfio-pci")
    (tmp_path / "dev/vfio").mkdir(parents=True)
    (tmp_path / "dev/vfio/7").touch()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(
        "MemTotal: 1 kB\nHugePages_Total: 1500\nHugePages_Free: 1024\nHugepagesize: 2048 kB\n"
    )
    return tmp_path


def refuse(host, **asked):
    hardware.refuse_what_the_host_lacks(choose(**asked), 2, host)


def test_a_host_that_has_all_is_not_refused(host):
    refuse(host, nic="vfio:" + ",".join(NICS), huge_pages=True, memory_mb=1024)


def test_a_device_for_each_guest(host):
    with pytest.raises(HardwareError, match=r"names 1 NIC\(s\) for 2 guests"):
        refuse(host, nic=f"vfio:{NICS[0]}")


@pytest.mark.parametrize(
    "lost, facts",
    [
        (f"sys/bus/pci/devices/{NICS[0]}", ["no PCI device 0000:01:00.0", "lspci -D"]),
        (
            f"sys/bus/pci/devices/{NICS[0]}/iommu_group",
            ["0000:01:00.0", "no IOMMU", "VT-d", "AMD-Vi", "intel_iommu=on", "amd_iommu=on"],
        ),
        (
            f"sys/bus/pci/devices/{NICS[0]}/driver",
            ["PCI device 0000:01:00.0 ", "no driver", "set-override 0000:01:00.0 vfio-pci"],
        ),
        (
            f"sys/bus/pci/devices/{NICS[1]}/driver",
            [
                "PCI device 0000:01:00.1 ",
                "same IOMMU group as 0000:01:00.0",
                "no driver",
                "set-override 0000:01:00.1 vfio-pci",
            ],
        ),
        ("dev/vfio/7", ["/dev/vfio/7", "0000:01:00.0", "missing"]),
    ],
)
def test_what_a_nic_lacks_to_be_given_away_is_named(host, lost, facts):
    (host / lost).rename(host / "lost")
    with pytest.raises(HardwareError) as error:
        refuse(host, nic="vfio:" + ",".join(NICS))
    assert not lacking(str(error.value), *facts)


def test_a_driver_of_the_hosts_is_named(host):
    driver = host / "sys/bus/pci/devices" / NICS[0] / "driver"
    driver.unlink()
    (host / "sys/bus/pci/drivers/ixgbe").mkdir()
    driver.symlink_to(host / "sys/bus/pci/drivers/ixgbe")
    with pytest.raises(HardwareError, match=r"ixgbe.*vfio-pci.*driverctl"):
        refuse(host, nic="vfio:" + ",".join(NICS))


def test_too_few_huge_pages_are_told_with_the_number(host):
    with pytest.raises(
        HardwareError,
        match=r"1536 .*1024 .*sysctl vm.nr_hugepages=2012",
    ):
        refuse(host, huge_pages=True)


def test_too_few_cores_to_pin_to(host, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    with pytest.raises(HardwareError, match=r"2 for 4\b.*VM_CPUS=1"):
        refuse(host, pin=True)
    refuse(host, pin=True, cpus=1)


# QEMU's command line


def line(accelerator="tcg", guest=0, **asked):
    plan = topology.load(vm={"nic": "virtio", **asked})
    return guests.command(plan, plan.guests[guest], Path("/home/me/a,b"), accelerator)


def after(words, option):
    return [words[number + 1] for number, word in enumerate(words) if word == option]


def test_a_second_nic_where_there_are_several_virtual_switches():
    words = line(guest=3, guests=4, switches=2)
    assert [word.split(",")[:3] for word in after(words, "-netdev")] == [
        ["tap", "id=net", "ifname=p5x4"],
        ["tap", "id=second", "ifname=sp5x4"],
    ]
    macs = [word.split("mac=")[1] for word in after(words, "-device") if "mac=" in word]
    assert macs == ["52:54:00:4e:4d:03,romfile=", "52:54:00:4e:4e:03,romfile="]
    plan = topology.load(vm={"nic": "virtio", "guests": 4, "switches": 2})
    text = guests.node_facts(plan, plan.guests[3], Path("/x"))
    assert "switched=10.77.69.5/24\nswitched_mac=52:54:00:4e:4e:03\n" in text
    text = guests.node_facts(topology.load(vm={"nic": "virtio"}), plan.guests[0], Path("/x"))
    assert "switched=''\n" in text and "second" not in " ".join(line())


def test_a_guest_has_what_was_asked_for_and_its_firmware_tells_it():
    words = line(cpus=3, memory_mb=1000, pin=True)
    assert after(words, "-smp") == ["3"] and after(words, "-m") == ["1000"]
    assert after(words, "-accel") == ["tcg,thread=multi"] and after(words, "-cpu") == ["max"]
    assert after(words, "-smbios") == [
        "type=1,manufacturer=QEMU,product=lab guest: tcg,, virtio,, vCPUs pinned,, small pages"
    ]
    assert after(words, "-object") == ["memory-backend-ram,id=memory,size=1000M"]
    assert after(line("kvm"), "-accel") == ["kvm"] and after(line("kvm"), "-cpu") == ["host"]
    assert after(line(huge_pages=True), "-object") == [
        "memory-backend-memfd,hugetlb=on,prealloc=on,id=memory,size=1536M"
    ]


def test_its_kernel_gives_large_pages_as_the_hosts_does(tmp_path):
    setting = tmp_path / "enabled"
    assert guests.large_pages(setting) == []
    setting.write_text("always [madvise] never\n")
    assert guests.large_pages(setting) == ["transparent_hugepage=madvise"]


def nics(words):
    return [device for device in after(words, "-device") if "virtio-9p" not in device]


def test_its_nic_is_the_one_asked_for():
    assert nics(line()) == ["virtio-net-pci,netdev=net,mac=52:54:00:4e:4d:00,romfile="]
    assert nics(line(nic="e1000e", guest=1)) == ["e1000e,netdev=net,mac=52:54:00:4e:4d:01,romfile="]
    assert nics(line(nic="igb")) == ["igb,netdev=net,mac=52:54:00:4e:4d:00,romfile="]
    assert nics(line(nic="vfio:" + ",".join(NICS), guest=1))[1:] == ["vfio-pci,host=0000:01:00.1"]


@pytest.mark.parametrize(
    "nic, kind, ports, devices",
    [
        ("vfio-nested", "e1000e", 2, ["0000:01:00.0", "0000:02:00.0"]),
        ("vfio-nested-sriov", "igb", 1, ["0000:01:10.0", "0000:01:10.2"]),
    ],
)
def test_a_guest_with_an_iommu_has_the_nics_that_it_gives_to_guests_in_it(
    nic, kind, ports, devices
):
    plan = topology.load(vm={"nic": nic, "memory_mb": 700})
    words = guests.machine_command(plan, Path("/home/me"))
    assert after(words, "-m") == [str(2 * 700 + 512)] and after(words, "-smp") == ["2"]
    assert after(words, "-device")[0] == "intel-iommu,intremap=on,caching-mode=on"
    assert after(words, "-append")[0].endswith(" intel_iommu=on no_timer_check")
    given = [device for device in after(words, "-device") if device.startswith(f"{kind},")]
    assert [device.split(",")[2] for device in given] == [f"bus=port{n}" for n in range(ports)]
    assert "local,id=lab,path=/lab,security_model=passthrough,multidevs=remap" in words
    for node, device in zip(plan.guests, devices):
        words = guests.command(plan, node, Path("/home/me"), "kvm in tcg")
        assert f"vfio-pci,host={device}" in words and "-daemonize" not in words
        assert after(words, "-accel") == ["kvm"]
        assert f"lab guest: kvm in tcg,, {nic},, " in after(words, "-smbios")[0]
    facts = guests.machine_facts(plan, "/home/me")
    assert "taps='p5x1 p5x2'\n" in facts and "address=10.77.5.253/24\n" in facts


def test_a_guest_within_a_guest_is_entered_by_one_connection():
    nested = guests.ssh_configuration(topology.load(vm={"nic": "vfio-nested"}))
    plain = guests.ssh_configuration(topology.load(vm={"nic": "virtio"}))
    assert "Host vmhost\nHostName 10.77.5.253\n" in nested and "ConnectTimeout 900\n" in nested
    assert nested.count("ControlPersist yes\n") == 1 and "Control" not in plain
    assert "vmhost" not in plain and "ConnectTimeout 20\n" in plain


class Answering:
    """Namespaces in which a ping answers, or does not."""

    def __init__(self, answers):
        self.answers, self.ran = answers, []

    def run(self, *command, node):
        self.ran.append((node, command[-1]))
        if not self.answers:
            raise guests.LabError("ended with 1")
        return "3 packets transmitted\nrtt min/avg/max/mdev = 1/2/3/1 ms\n"


def test_frames_have_to_pass_between_passed_through_nics():
    plan, said, lab = topology.load(vm={"nic": "vfio-nested"}), [], Answering(answers=True)
    guests.ping_passed_through(plan, lab, said.append)
    assert lab.ran == [("vm1", "10.77.133.3")] and "vm1 to vm2" in said[0] and "rtt" in said[0]
    with pytest.raises(guests.LabError, match=r"vm1 does not reach vm2 .*one network"):
        guests.ping_passed_through(plan, Answering(answers=False), said.append)


def test_guests_within_a_guest_ask_nothing_of_the_hosts_iommu(host):
    (host / "sys/bus/pci/devices" / NICS[0]).rename(host / "lost")
    refuse(host, nic="vfio-nested")


def test_a_checkout_may_have_any_name():
    assert "local,id=checkout,path=/home/me/a,,b,security_model=passthrough" in after(
        line(), "-fsdev"
    )
    plan = topology.load(vm={"nic": "virtio"})
    text = guests.node_facts(plan, plan.guests[0], "/it's/mine")
    assert (
        """checkout='/it'"'"'s/mine'\n""" in text
        and "address=10.77.5.2/24\n" in text
        and "passed_through=''\n" in text
    )


def test_each_vcpu_is_pinned_to_a_core_of_its_own(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {2, 3, 6, 7})
    assert guests.pinning(topology.load(vm={"nic": "virtio", "pin": True}))[1:] == [
        "pin vm1 0 2",
        "pin vm1 1 3",
        "pin vm2 0 6",
        "pin vm2 1 7",
    ]
