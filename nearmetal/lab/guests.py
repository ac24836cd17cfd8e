"""Start the lab's virtual machines by QEMU in the lab's namespaces, over the node image.

Commands reach them by ssh. Nothing is asked of a running QEMU, so it has no monitor (QMP).
"""

import os
import re
import shlex
import subprocess
from pathlib import Path

from nearmetal.lab.hardware import EMULATED, Hardware
from nearmetal.lab.namespaces import LabError, Namespaces, wait_until
from nearmetal.lab.topology import Node, Topology

#: A guest with an emulated CPU takes ten seconds on two idle cores.
SECONDS_EACH = 90
#: With KVM a kernel starts its first process within two seconds.
TRIAL_SECONDS = 10
#: The kernel and the initramfs of the layer (guest/initramfs.sh).
KERNEL = ["-kernel", "/boot/guest-kernel", "-initrd", "/boot/guest.img"]
MACHINE = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
#: TCG's emulated clock is reliable, and an emulated CPU needs no mitigations against side channels.
KERNEL_LINE = {
    "kvm": "console=ttyS0 panic=-1",
    "tcg": "console=ttyS0 panic=-1 tsc=reliable mitigations=off",
}


#: Options of ssh for all guests.
SSH_OPTIONS = """Host *
User root
IdentityFile /lab/ssh/key
UserKnownHostsFile /lab/ssh/known_hosts
BatchMode yes
ConnectTimeout 20
LogLevel ERROR
"""


def large_pages(kernel: Path = Path("/sys/kernel/mm/transparent_hugepage/enabled")) -> list[str]:
    """Kernel option that sets the guests' transparent huge pages as the host's are."""
    chosen = re.search(r"\[(\w+)\]", kernel.read_text()) if kernel.exists() else None
    return [f"transparent_hugepage={chosen[1]}"] if chosen else []


def processor(accelerator: str) -> list[str]:
    """QEMU's options for accelerator and CPU."""
    return {
        "kvm": ["-accel", "kvm", "-cpu", "host"],
        "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max"],
    }[accelerator]


def start_seconds(topology: Topology) -> int:
    """Seconds after which the start of the guests has failed."""
    return SECONDS_EACH * max(2, len(topology.guests))


def _mac(topology: Topology, node: Node, nic: int = 0) -> str:
    """MAC address of a guest's first or second NIC, in QEMU's range. It is unique in this lab."""
    number = [guest.name for guest in topology.guests].index(node.name)
    return f"52:54:00:4e:{0x4D + nic:02x}:{number:02x}"


def shares(topology: Topology, node: Node, checkout) -> dict[str, str]:
    """Directories of the lab's namespaces that a guest mounts, by their tag in guest/init."""
    return {
        "root": "/lab/guest",
        "files": f"/lab/files/{node.name}",
        "home": "/lab/shared/home",
        "scratch": "/lab/shared/scratch",
        "checkout": str(checkout),
    }


def command(topology: Topology, node: Node, checkout, accelerator: str) -> list[str]:
    """The command line of a guest."""
    hardware = topology.hardware

    def text(value: str) -> str:
        return value.replace(",", ",,")  # QEMU's escape

    memory = (
        "memory-backend-memfd,hugetlb=on,prealloc=on"
        if hardware.huge_pages
        else "memory-backend-ram"
    )
    # A guest with a passed-through NIC also has one of QEMU, for Slurm.
    nic = EMULATED.get(hardware.nic, EMULATED["virtio"])
    line = [
        *MACHINE,
        *processor(accelerator),
        "-machine",
        "q35,usb=off,memory-backend=memory",
        "-name",
        f"{node.name},debug-threads=on",
        "-smp",
        str(hardware.cpus),
        "-m",
        str(hardware.memory_mb),
        "-object",
        f"{memory},id=memory,size={hardware.memory_mb}M",
        "-smbios",
        f"type=1,manufacturer=QEMU,product={text(hardware.described(accelerator))}",
        "-serial",
        f"file:/lab/run/{node.name}.log",
        "-daemonize",
        "-pidfile",
        f"/lab/run/{node.name}.qemu",
        *KERNEL,
        "-append",
        " ".join([KERNEL_LINE[accelerator], *large_pages()]),
        "-netdev",
        f"tap,id=net,ifname={topology.port(node.name, node.link_class)},script=no,downscript=no",
        "-device",
        f"{nic},netdev=net,mac={_mac(topology, node)},romfile=",
    ]
    if hardware.switches > 1:
        line += [
            "-netdev",
            f"tap,id=second,ifname={topology.second_port(node)},script=no,downscript=no",
            "-device",
            f"{nic},netdev=second,mac={_mac(topology, node, 1)},romfile=",
        ]
    if hardware.devices:
        line += ["-device", f"vfio-pci,host={hardware.devices[topology.guests.index(node)]}"]
    for tag, path in shares(topology, node, checkout).items():
        extra = ",readonly=on,multidevs=remap" if tag == "root" else ""
        line += [
            "-fsdev",
            f"local,id={tag},path={text(path)},security_model=passthrough{extra}",
            "-device",
            f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
        ]
    return line


def files(topology: Topology, node: Node, checkout) -> dict[str, str]:
    """The file of shell variables that guest/init and guest/boot.sh read."""
    prefix = f"/{node.link_class.subnet.prefixlen}"
    facts = {
        "checkout": str(checkout),
        "address": node.address + prefix,
        "gateway": node.link_class.gateway,
        "own_mac": _mac(topology, node),
        "passed_through": node.passed_through + prefix if topology.hardware.devices else "",
        "switched": node.switched + prefix if topology.hardware.switches > 1 else "",
        "switched_mac": _mac(topology, node, 1),
    }
    return {
        "etc/nearmetal/guest": "".join(
            f"{name}={shlex.quote(value)}\n" for name, value in facts.items()
        )
    }


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
    trial = [
        *MACHINE,
        *processor("kvm"),
        "-m",
        "256",
        "-serial",
        "stdio",
        *KERNEL,
        "-append",
        f"{KERNEL_LINE['kvm']} nearmetal.trial",
    ]
    done = subprocess.run(
        [*namespaces.enter(), "sh", "-c", script, "trial", str(TRIAL_SECONDS), *trial],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode == 0:
        return "kvm", "a guest starts with it"
    why = (done.stdout or done.stderr).strip()
    if hardware.accelerator == "kvm":
        raise LabError(f"VM_ACCELERATOR=kvm: {why}")
    return "tcg", why


def start(topology: Topology, namespaces: Namespaces, say) -> None:
    """Start all guests at once; wait until each can be entered. Raises LabError."""
    accelerator, why = settle_accelerator(topology.hardware, namespaces)
    namespaces.record(accelerator=accelerator)
    emulated = ": their CPU is emulated too" if accelerator == "tcg" else ""
    say(f"lab: guests run with {accelerator.upper()} ({why}){emulated}")
    for node in topology.guests:
        namespaces.run(*command(topology, node, namespaces.checkout, accelerator))
    if topology.hardware.pin:
        namespaces.run("sh", "-eu", stdin="\n".join(pinning(topology)))
    for node in topology.guests:
        try:
            wait_until(
                lambda node=node: _entered(namespaces, node),
                start_seconds(topology),
                f"starting guest {node.name}",
            )
        except LabError as error:
            end = namespaces.run("tail", "-n", "15", f"/lab/run/{node.name}.log", check=False)
            raise LabError(f"{error}; the end of its console:\n{end}") from error


def _entered(namespaces: Namespaces, node: Node) -> bool:
    """Whether a guest has booted and can be entered. Raises LabError if its QEMU ended."""
    alive = f"kill -0 $(cat /lab/run/{node.name}.qemu) && echo lives"
    if namespaces.run("sh", "-c", alive, check=False).strip() != "lives":
        raise LabError(f"guest {node.name} ended")
    entered = [*namespaces.enter(node.name), "test", "-e", "/run/entered"]
    done = subprocess.run(entered, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.returncode == 0


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
    vcpus = [
        (node.name, vcpu) for node in topology.guests for vcpu in range(topology.hardware.cpus)
    ]
    return script + [
        f"pin {name} {vcpu} {core}"
        for (name, vcpu), core in zip(vcpus, sorted(os.sched_getaffinity(0)))
    ]


def keys(topology: Topology) -> list[str]:
    """Script lines that make the ssh keys and configuration by which guests are entered."""
    script = ["mkdir -m 700 /lab/ssh", "ssh-keygen -q -t ed25519 -N '' -C lab -f /lab/ssh/key"]
    for node in topology.guests:
        own = f"/lab/files/{node.name}"
        script += [
            f"mkdir -p {own}/etc/ssh; mkdir -p -m 700 {own}/root {own}/root/.ssh",
            f"ssh-keygen -q -t ed25519 -N '' -C {node.name} -f {own}/etc/ssh/ssh_host_ed25519_key",
            f"cp /lab/ssh/key.pub {own}/root/.ssh/authorized_keys",
            f"key=$(cat {own}/etc/ssh/ssh_host_ed25519_key.pub)",
            f'echo {node.name} "$key" >> /lab/ssh/known_hosts',
        ]
    return [*script, f"cat > /lab/ssh/config <<'END'\n{ssh_configuration(topology)}END"]


def ssh_configuration(topology: Topology) -> str:
    """The ssh client's configuration: an entry for each guest, and the options of all."""
    entries = [
        f"Host {node.name}\nHostName {node.address}\nHostKeyAlias {node.name}\n"
        for node in topology.guests
    ]
    return "".join(entries) + SSH_OPTIONS
