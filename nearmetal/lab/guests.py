"""The lab's virtual machines: QEMU in the machine room, started over the node image with its layer, and entered by ssh."""

import os
import re
import shlex
import subprocess
from pathlib import Path

from nearmetal.lab.hardware import EMULATED, Hardware
from nearmetal.lab.room import LabError, Room, wait_until
from nearmetal.lab.topology import Node, Topology

#: A guest whose CPU is emulated is there after ten seconds on two idle cores.
START_SECONDS = 180
#: By KVM a kernel is at its first process within two seconds, where KVM is what it should be.
TRIAL_SECONDS = 10
#: Where the kernel says what it does and, on the trial's, that it came through.
KERNEL = ["-kernel", "/boot/guest-kernel", "-initrd", "/boot/guest.img"]
MACHINE = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
#: A clock that TCG emulates is steady, though the kernel doubts it; and against what a CPU leaks there is nothing to do.
KERNEL_LINE = {
    "kvm": "console=ttyS0 panic=-1",
    "tcg": "console=ttyS0 panic=-1 tsc=reliable mitigations=off",
}


def large_pages(kernel: Path = Path("/sys/kernel/mm/transparent_hugepage/enabled")) -> list[str]:
    """The guests' kernel gives programs large pages as the host's does, or the other nodes would differ from them in that too."""
    chosen = re.search(r"\[(\w+)\]", kernel.read_text()) if kernel.exists() else None
    return [f"transparent_hugepage={chosen[1]}"] if chosen else []


def processor(accelerator: str) -> list[str]:
    return {
        "kvm": ["-accel", "kvm", "-cpu", "host"],
        "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max"],
    }[accelerator]


def _mac(topology: Topology, node: Node) -> str:
    """Each guest's own, in QEMU's range and below a switch of this lab alone."""
    return f"52:54:00:4e:4d:{[guest.name for guest in topology.guests].index(node.name):02x}"


def shares(topology: Topology, node: Node, checkout) -> dict[str, str]:
    """Directories of the machine room that a guest has, by the names that guest/init mounts them by."""
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
        return value.replace(",", ",,")  # as QEMU's options have it

    memory = (
        "memory-backend-memfd,hugetlb=on,prealloc=on"
        if hardware.huge_pages
        else "memory-backend-ram"
    )
    # A guest whose NIC the host gave away has one of QEMU's besides, for Slurm.
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
    if hardware.devices:
        line += ["-device", f"vfio-pci,host={hardware.devices[topology.guests.index(node)]}"]
    for tag, path in shares(topology, node, checkout).items():
        own = ",readonly=on,multidevs=remap" if tag == "root" else ""
        line += [
            "-fsdev",
            f"local,id={tag},path={text(path)},security_model=passthrough{own}",
            "-device",
            f"virtio-9p-pci,fsdev={tag},mount_tag={tag}",
        ]
    return line


def files(topology: Topology, node: Node, checkout) -> dict[str, str]:
    """What guest/init and guest/boot.sh have to know, as a shell reads it."""
    prefix = f"/{node.link_class.subnet.prefixlen}"
    facts = {
        "checkout": str(checkout),
        "address": node.address + prefix,
        "gateway": node.link_class.gateway,
        "own_mac": _mac(topology, node),
        "passed_through": node.passed_through + prefix if topology.hardware.devices else "",
    }
    return {
        "etc/nearmetal/guest": "".join(
            f"{name}={shlex.quote(value)}\n" for name, value in facts.items()
        )
    }


def settle_accelerator(hardware: Hardware, room: Room) -> tuple[str, str]:
    """What runs the guests' instructions, and why: KVM where a guest does start by it, which is tried, else TCG."""
    if hardware.accelerator == "tcg":
        return "tcg", "as asked for"
    script = """
[ -e /dev/kvm ] || { echo "this host has no /dev/kvm"; exit 1; }
seconds=$1; shift
said=$(timeout --kill-after=1 "$seconds" "$@" 2>&1 < /dev/null) || :
case $said in *'nearmetal: a guest starts'*) ;; *)
    echo "by KVM a guest did not start within $seconds s$(echo "$said" | sed -n 's/^qemu-system-x86_64: /: /p' | head -n 1)"; exit 1 ;;
esac
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
        [*room.enter(), "sh", "-c", script, "trial", str(TRIAL_SECONDS), *trial],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode == 0:
        return "kvm", "a guest starts by it"
    why = (done.stdout or done.stderr).strip()
    if hardware.accelerator == "kvm":
        raise LabError(f"VM_ACCELERATOR=kvm: {why}")
    return "tcg", why


def start(topology: Topology, room: Room, say) -> None:
    """Start all guests at once and wait until each can be entered. Raises LabError."""
    accelerator, why = settle_accelerator(topology.hardware, room)
    room.record(accelerator=accelerator)
    say(
        f"lab: guests run by {accelerator.upper()} ({why})"
        + (": their CPU is emulated too" if accelerator == "tcg" else "")
    )
    for node in topology.guests:
        room.run(*command(topology, node, room.checkout, accelerator))
    if topology.hardware.pin:
        room.run("sh", "-eu", stdin="\n".join(pinning(topology)))
    for node in topology.guests:
        try:
            wait_until(
                lambda node=node: _entered(room, node), START_SECONDS, f"starting guest {node.name}"
            )
        except LabError as error:
            words = room.run("tail", "-n", "15", f"/lab/run/{node.name}.log", check=False)
            raise LabError(f"{error}; the end of its console:\n{words}") from error


def _entered(room: Room, node: Node) -> bool:
    if (
        room.run(
            "sh", "-c", f"kill -0 $(cat /lab/run/{node.name}.qemu) && echo lives", check=False
        ).strip()
        != "lives"
    ):
        raise LabError(f"guest {node.name} ended")
    return (
        subprocess.run(
            [*room.enter(node.name), "test", "-e", "/run/entered"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
        ).returncode
        == 0
    )


def pinning(topology: Topology) -> list[str]:
    """Script lines that bind each vCPU, a thread that QEMU names `CPU <n>/...`, to a core of its own: guest by guest."""
    script = [
        """pin() { # GUEST VCPU CORE
    for thread in /proc/"$(cat "/lab/run/$1.qemu")"/task/*; do
        case $(cat "$thread/comm") in "CPU $2/"*) taskset -cp "$3" "${thread##*/}" > /dev/null; return ;; esac
    done
    echo "guest $1 has no thread of vCPU $2 to pin" >&2; exit 1
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
    """Script lines, for the machine room, that let it into its guests by ssh and into nothing else: keys of this lab alone."""
    script = ["mkdir -m 700 /lab/ssh", "ssh-keygen -q -t ed25519 -N '' -C lab -f /lab/ssh/key"]
    for node in topology.guests:
        own = f"/lab/files/{node.name}"
        script += [
            f"mkdir -p {own}/etc/ssh; mkdir -p -m 700 {own}/root {own}/root/.ssh",
            f"ssh-keygen -q -t ed25519 -N '' -C {node.name} -f {own}/etc/ssh/ssh_host_ed25519_key",
            f"cp /lab/ssh/key.pub {own}/root/.ssh/authorized_keys",
            f'echo {node.name} "$(cat {own}/etc/ssh/ssh_host_ed25519_key.pub)" >> /lab/ssh/known_hosts',
            f"printf 'Host %s\\nHostName %s\\nHostKeyAlias %s\\n' {node.name} {node.address} {node.name} >> /lab/ssh/config",
        ]
    return [
        *script,
        (
            "printf '%s\\n' 'Host *' 'User root' 'IdentityFile /lab/ssh/key' 'UserKnownHostsFile /lab/ssh/known_hosts' "
            "'BatchMode yes' 'ConnectTimeout 20' 'LogLevel ERROR' >> /lab/ssh/config"
        ),
    ]
