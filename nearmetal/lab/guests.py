"""Start the lab's virtual machines by QEMU in the lab's namespaces, over the node image.

Commands reach them by ssh. Nothing is asked of a running QEMU, so it has no monitor (QMP).
"""

import itertools
import os
import re
import shlex
import subprocess
from pathlib import Path

from nearmetal.lab.hardware import EMULATED, NESTED, Hardware
from nearmetal.lab.namespaces import LabError, Namespaces, wait_until
from nearmetal.lab.topology import Node, Topology

#: A guest with an emulated CPU takes ten seconds on two idle cores.
SECONDS_EACH = 90
#: A guest within a guest takes minutes, on a busy host half an hour: TCG emulates the CPU of both.
NESTED_SECONDS = 3600
#: With KVM a kernel starts its first process within two seconds.
TRIAL_SECONDS = 10
#: The kernel and the initramfs of the layer (guest/initramfs.sh).
KERNEL = ["-kernel", "/boot/guest-kernel", "-initrd", "/boot/guest.img"]
MACHINE = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
#: TCG's emulated clock is reliable, and an emulated CPU needs no mitigations against side channels.
KERNEL_LINE = {
    "kvm": "console=ttyS0 panic=-1",
    "tcg": "console=ttyS0 panic=-1 tsc=reliable mitigations=off",
    # Each letter on the console of a guest within a guest leaves both of them.
    "kvm in tcg": "console=ttyS0 panic=-1 mitigations=off quiet",
    "tcg in tcg": "console=ttyS0 panic=-1 tsc=reliable mitigations=off quiet",
}


#: Options of ssh for all guests.
SSH_OPTIONS = """Host *
User root
IdentityFile /lab/ssh/key
UserKnownHostsFile /lab/ssh/known_hosts
BatchMode yes
ConnectTimeout {seconds}
LogLevel ERROR
"""
#: One connection for all commands: a guest within a guest takes a minute to open one.
ONE_CONNECTION = """ControlMaster auto
ControlPath /lab/ssh/%n.socket
ControlPersist yes
"""


def start_seconds(topology: Topology) -> int:
    """Seconds within which the guests, or the daemons of all nodes, start."""
    if topology.machine:
        return NESTED_SECONDS
    if not topology.guests:
        return 20
    return SECONDS_EACH * max(2, len(topology.guests))


def large_pages(kernel: Path = Path("/sys/kernel/mm/transparent_hugepage/enabled")) -> list[str]:
    """Kernel option that sets the guests' transparent huge pages as the host's are."""
    if kernel.exists() and (chosen := re.search(r"\[(\w+)\]", kernel.read_text())):
        return [f"transparent_hugepage={chosen[1]}"]
    return []


def processor(accelerator: str) -> list[str]:
    """QEMU's options for accelerator and CPU."""
    return {
        "kvm": ["-accel", "kvm", "-cpu", "host"],
        "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max"],
    }[accelerator.partition(" in ")[0]]


def _mac(topology: Topology, node: Node, nic: int = 0) -> str:
    """MAC address of a guest's first or second NIC, in QEMU's range. It is unique in this lab."""
    number = [guest.name for guest in topology.guests].index(node.name)
    return f"52:54:00:4e:{0x4D + nic:02x}:{number:02x}"


#: MAC address of the guest within which the virtual machines run.
MACHINE_MAC = "52:54:00:4e:4d:ff"


def shares(name: str, checkout) -> dict[str, str]:
    """Directories of the lab's namespaces that a guest mounts, by their tag in guest/init."""
    return {
        "root": "/lab/guest",
        "files": f"/lab/files/{name}",
        "home": "/lab/shared/home",
        "scratch": "/lab/shared/scratch",
        "checkout": str(checkout),
    }


def command(topology: Topology, node: Node, checkout, accelerator: str) -> list[str]:
    """The command line of a guest."""
    hardware = topology.hardware
    memory = "memory-backend-ram"
    if hardware.huge_pages:
        memory = "memory-backend-memfd,hugetlb=on,prealloc=on"
    # A guest with a passed-through NIC also has one of QEMU, for Slurm.
    nic = EMULATED.get(hardware.nic, EMULATED["virtio"])
    line = [
        *MACHINE,
        *processor(accelerator),
        *("-machine", "q35,usb=off,memory-backend=memory"),
        *("-name", f"{node.name},debug-threads=on"),
        *("-smp", str(hardware.cpus), "-m", str(hardware.memory_mb)),
        *("-object", f"{memory},id=memory,size={hardware.memory_mb}M"),
        "-smbios",
        f"type=1,manufacturer=QEMU,product={_text(hardware.described(accelerator))}",
        *("-serial", f"file:/lab/run/{node.name}.log"),
        *("-pidfile", f"/lab/run/{node.name}.qemu"),
        *KERNEL,
        *("-append", " ".join([KERNEL_LINE[accelerator], *large_pages()])),
        *_tap("net", topology.port(node.name, node.link_class), nic, _mac(topology, node)),
    ]
    if not hardware.nested:  # else guest/machine.sh waits for it
        line.append("-daemonize")
    if hardware.switches > 1:
        line += _tap("second", topology.second_port(node), nic, _mac(topology, node, 1))
    if hardware.devices:
        line += ["-device", f"vfio-pci,host={hardware.devices[topology.guests.index(node)]}"]
    return line + _shared(shares(node.name, checkout))


def _tap(name: str, device: str, nic: str, mac: str) -> list[str]:
    """QEMU's options for a NIC on a TAP device of the lab's namespaces."""
    return [
        *("-netdev", f"tap,id={name},ifname={device},script=no,downscript=no"),
        # Without a boot ROM: the guest boots our kernel.
        *("-device", f"{nic},netdev={name},mac={mac},romfile="),
    ]


def _text(value: str) -> str:
    return value.replace(",", ",,")  # QEMU's escape


def _shared(directories: dict[str, str]) -> list[str]:
    """QEMU's options for directories that a guest mounts (tag -> directory)."""
    line = []
    for tag, path in directories.items():
        options = f"local,id={tag},path={_text(path)},security_model=passthrough"
        # These have file systems of several devices below them.
        if tag in ("root", "layer", "lab"):
            options += ",multidevs=remap"
        if tag in ("root", "layer"):
            options += ",readonly=on"
        line += ["-fsdev", options, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    return line


def machine_command(topology: Topology, checkout) -> list[str]:
    """The command line of the guest with an IOMMU, within which the virtual machines run.

    Its NICs are behind PCI Express ports that keep their traffic apart (ACS), so each NIC has an
    IOMMU group of its own.
    """
    hardware, name = topology.hardware, topology.machine
    kind, devices = NESTED[hardware.nic]
    line = [
        *MACHINE,
        *processor("tcg"),
        *("-machine", "q35,usb=off", "-name", f"{name},debug-threads=on"),
        *("-smp", str(hardware.cpus * len(devices)), "-m", str(hardware.total_mb)),
        *("-device", "intel-iommu,intremap=on,caching-mode=on"),
        *("-serial", f"file:/lab/run/{name}.log"),
        *("-daemonize", "-pidfile", f"/lab/run/{name}.qemu"),
        *KERNEL,
        # On a busy host the kernel's check that the timer interrupts in time would panic.
        *("-append", f"{KERNEL_LINE['tcg']} intel_iommu=on no_timer_check"),
        *_tap("net", topology.machine_port, "virtio-net-pci", MACHINE_MAC),
    ]
    # Virtual functions have one NIC, which switches their frames. Other NICs are on one hub.
    for number in range(1 if kind == "igb" else len(devices)):
        line += [
            *("-netdev", f"hubport,id=wire{number},hubid=0"),
            *("-device", f"pcie-root-port,id=port{number},chassis={number + 1}"),
            "-device",
            f"{kind},netdev=wire{number},bus=port{number},mac=52:54:00:4e:4e:{number:02x},romfile=",
        ]
    # `lab` has the directories that the virtual machines mount; `layer` is their root.
    own = shares(name, checkout) | {"lab": "/lab", "layer": "/lab/guest"}
    return line + _shared(own)


def machine_facts(topology: Topology, checkout) -> str:
    """The file of shell variables that guest/init and guest/boot.sh of that guest read."""
    taps = [topology.port(node.name, node.link_class) for node in topology.guests]
    link_class = topology.qemu_class
    return _variables(
        {
            "checkout": str(checkout),
            "address": f"{link_class.machine_address}/{link_class.subnet.prefixlen}",
            "gateway": link_class.gateway,
            "own_mac": MACHINE_MAC,
            "taps": " ".join(taps),
        }
    )


def _variables(facts: dict[str, str]) -> str:
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in facts.items())


def node_facts(topology: Topology, node: Node, checkout) -> str:
    """The file of shell variables that guest/init and guest/boot.sh read."""
    prefix = f"/{node.link_class.subnet.prefixlen}"
    passed_through, switched = "", ""
    if topology.hardware.devices:
        passed_through = node.passed_through + prefix
    if topology.hardware.switches > 1:
        switched = node.switched + prefix
    return _variables(
        {
            "checkout": str(checkout),
            "address": node.address + prefix,
            "gateway": node.link_class.gateway,
            "own_mac": _mac(topology, node),
            "passed_through": passed_through,
            "switched": switched,
            "switched_mac": _mac(topology, node, 1),
        }
    )


def settle_accelerator(hardware: Hardware, namespaces: Namespaces) -> tuple[str, str]:
    """The accelerator (kvm or tcg), and why: KVM if a trial guest starts with it, else TCG.

    Raises LabError if VM_ACCELERATOR=kvm and the trial fails.
    """
    if hardware.accelerator == "tcg":
        return "tcg", "as requested"
    script = """
[ -e /dev/kvm ] || { echo "this host has no /dev/kvm"; exit 1; }
seconds=$1; shift
said=$(timeout --kill-after=1 "$seconds" "$@" 2>&1 < /dev/null) || :
case $said in *'nearmetal: a guest starts'*) exit 0 ;; esac
error=$(echo "$said" | sed -n 's/^qemu-system-x86_64: /: /p' | head -n 1)
echo "with KVM a guest did not start within $seconds s$error"
exit 1
"""
    line = ("-append", f"{KERNEL_LINE['kvm']} nearmetal.trial")
    trial = [*MACHINE, *processor("kvm"), "-m", "256", "-serial", "stdio", *KERNEL, *line]
    words = ["sh", "-c", script, "trial", str(TRIAL_SECONDS), *trial]
    done = subprocess.run(
        [*namespaces.enter(), *words], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode == 0:
        return "kvm", "a guest starts with it"
    why = (done.stdout or done.stderr).strip()
    if hardware.accelerator == "kvm":
        raise LabError(f"VM_ACCELERATOR=kvm: {why}")
    return "tcg", why


def start(topology: Topology, namespaces: Namespaces, say) -> None:
    """Start all guests at once; wait until each can be entered. Raises LabError."""
    if topology.machine:
        _start_nested(topology, namespaces, say)
        ping_passed_through(topology, namespaces, say)
        return
    accelerator, why = settle_accelerator(topology.hardware, namespaces)
    namespaces.record(accelerator=accelerator)
    emulated = ": their CPU is emulated too" if accelerator == "tcg" else ""
    say(f"lab: guests run with {accelerator.upper()} ({why}){emulated}")
    for node in topology.guests:
        namespaces.run(*command(topology, node, namespaces.checkout, accelerator))
    if topology.hardware.pin:
        namespaces.run("sh", "-eu", stdin="\n".join(pinning(topology)))
    for node in topology.guests:
        _wait(namespaces, node.name, start_seconds(topology), _lives)
    if topology.hardware.devices:
        ping_passed_through(topology, namespaces, say)


def ping_passed_through(topology: Topology, namespaces: Namespaces, say) -> None:
    """Raise LabError unless frames pass between the passed-through NICs of the guests."""
    first, *others = topology.guests
    for other in others:
        to = other.passed_through
        try:
            done = namespaces.run("ping", "-n", "-c", "3", "-w", "120", to, node=first.name)
        except LabError as error:
            raise LabError(
                f"guest {first.name} does not reach {other.name} over the passed-through NICs "
                f"({to}): connect them to one network"
            ) from error
        loss = done.splitlines()[-1]
        say(f"lab: {first.name} to {other.name} over the passed-through NICs: {loss}")


def _start_nested(topology: Topology, namespaces: Namespaces, say) -> None:
    """Start the guest with an IOMMU; give its NICs to virtual machines in it. Raises LabError."""
    hardware, name = topology.hardware, topology.machine
    # KVM of the inner host uses the virtualization (SVM) that TCG emulates: TCG runs all guests.
    inner = "tcg" if hardware.accelerator == "tcg" else "kvm"
    accelerator = f"{inner} in tcg"
    namespaces.record(accelerator=accelerator)
    say(f"lab: guests run with {inner.upper()} within guest {name}, whose CPU QEMU emulates (TCG)")
    namespaces.run(*machine_command(topology, namespaces.checkout))
    _wait(namespaces, name, NESTED_SECONDS, _lives, pause=1)
    script = str(namespaces.checkout / "nearmetal/lab/guest/machine.sh")
    for words in namespaces.run(script, "give", *hardware.devices, node=name).splitlines():
        say(f"lab: {name}: {words}")
    for node in topology.guests:
        qemu = command(topology, node, namespaces.checkout, accelerator)
        namespaces.run(script, "start", node.name, *qemu, node=name)
    for node in topology.guests:
        _wait(namespaces, node.name, NESTED_SECONDS, _lives_nested, pause=1)


def _wait(namespaces: Namespaces, name: str, seconds: float, lives, pause: float = 0.02) -> None:
    """Wait until a guest has booted and can be entered. Raises LabError with its console's end.

    :arg lives: called with the namespaces and the name; whether it is worth a try. It raises
        LabError if the guest's QEMU ended.
    """

    def entered() -> bool:
        if not lives(namespaces, name):
            return False
        command = [*namespaces.enter(name), "test", "-e", "/run/entered"]
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
        return done.returncode == 0

    try:
        wait_until(entered, seconds, f"starting guest {name}", pause)
    except LabError as error:
        end = namespaces.run("tail", "-n", "15", f"/lab/run/{name}.log", check=False)
        raise LabError(f"{error}; the end of its console:\n{end}") from error


def _lives(namespaces: Namespaces, name: str) -> bool:
    alive = f"kill -0 $(cat /lab/run/{name}.qemu) && echo lives"
    # Waiting for the console of an ended QEMU would take minutes.
    if namespaces.run("sh", "-c", alive, check=False).strip() != "lives":
        raise LabError(f"guest {name} ended")
    return True


def _lives_nested(namespaces: Namespaces, name: str) -> bool:
    """By its console, since each command in the machine around it takes that machine's time."""
    console = namespaces.run("cat", f"/lab/run/{name}.log", check=False)
    if "nearmetal: QEMU ended" in console:
        raise LabError(f"guest {name} ended")
    return "nearmetal: a guest has started" in console


def pinning(topology: Topology) -> list[str]:
    """Script lines that bind each vCPU to its own core.

    QEMU names the thread of a vCPU `CPU <n>/...` (option debug-threads).
    """
    script = [
        """pin() { # GUEST VCPU CORE
    for thread in /proc/"$(cat "/lab/run/$1.qemu")"/task/*; do
        case $(cat "$thread/comm") in "CPU $2/"*)
            taskset -cp "$3" "${thread##*/}" > /dev/null
            return ;;
        esac
    done
    echo "guest $1 has no thread of vCPU $2 to pin" >&2
    exit 1
}"""
    ]
    # One core for each vCPU; hardware.py refuses a host that has fewer.
    names = [node.name for node in topology.guests]
    vcpus = itertools.product(names, range(topology.hardware.cpus))
    for (name, vcpu), core in zip(vcpus, sorted(os.sched_getaffinity(0))):
        script.append(f"pin {name} {vcpu} {core}")
    return script


def keys(topology: Topology) -> list[str]:
    """Script lines that make the ssh keys and configuration by which guests are entered."""
    script = ["mkdir -m 700 /lab/ssh", "ssh-keygen -q -t ed25519 -N '' -C lab -f /lab/ssh/key"]
    for name, _ in topology.entered_by_ssh:
        own = f"/lab/files/{name}"
        script += [
            f"mkdir -p {own}/etc/ssh; mkdir -p -m 700 {own}/root {own}/root/.ssh",
            f"ssh-keygen -q -t ed25519 -N '' -C {name} -f {own}/etc/ssh/ssh_host_ed25519_key",
            f"cp /lab/ssh/key.pub {own}/root/.ssh/authorized_keys",
            f"key=$(cat {own}/etc/ssh/ssh_host_ed25519_key.pub)",
            f'echo {name} "$key" >> /lab/ssh/known_hosts',
        ]
    return [*script, f"cat > /lab/ssh/config <<'END'\n{ssh_configuration(topology)}END"]


def ssh_configuration(topology: Topology) -> str:
    """The ssh client's configuration: an entry for each guest, and the options of all."""
    entries = ""
    for name, address in topology.entered_by_ssh:
        entries += f"Host {name}\nHostName {address}\nHostKeyAlias {name}\n"
    if topology.machine:
        return entries + SSH_OPTIONS.format(seconds=900) + ONE_CONNECTION
    return entries + SSH_OPTIONS.format(seconds=20)
