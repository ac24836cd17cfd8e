"""`python -m nearmetal.lab COMMAND`: the virtual cluster (see `--help`). `make lab-...` are its usual names."""

import argparse
import os
import shlex
import signal
import subprocess
import sys

from nearmetal.lab import cache, cluster, conditions, health, image, layer, topology
from nearmetal.lab.hardware import ACCELERATORS, HardwareError, refuse_what_the_host_lacks
from nearmetal.lab.room import LabError, Room, images_in_use
from nearmetal.unforeseen import HELP, OPTION, guarded

EPILOG = """exit codes: 0 done; 1 the lab failed; 2 bad usage; 3 an unforeseen error (--debug prints its traceback); of shell and
exec the code of what they ran.
The lab needs root (or sudo) to make namespaces; jobs in it run as an ordinary user."""


def status(room: Room, plan: topology.Topology) -> int:
    if room.interrupted:
        print("lab: its start was interrupted (make lab-up starts it anew, make lab-down ends it)")
        return 1
    if not room.state:
        print("lab: down (start it with: make lab-up)")
        return 1
    states = cluster.node_states(plan, room)
    print(f"{'node':<16}{'class':<14}{'link':<10}{'address':<14}{'partitions':<20}Slurm")
    for node in plan.nodes:
        kind = node.link_class
        print(
            f"{node.name:<16}{kind.name:<14}{kind.link:<10}{node.address:<14}{','.join(kind.partitions):<20}"
            f"{states.get(node.name, 'unknown')}"
        )
    if plan.guests:
        print(
            f"guests: {plan.hardware.described(room.state.get('accelerator', 'not started')).partition(': ')[2]}"
        )
    found = health.look_twice(plan, room, cluster.user_arguments(room))
    for job in found.jobs:
        print(f"queue: {job}")
    for fault in found.faults:
        print(f"fault: {fault}")
    usable = cluster.node_states(plan, room)
    sick = [node.name for node in plan.nodes if usable.get(node.name) not in health.USABLE]
    if sick:
        print(f"not usable: {', '.join(sick)} (heal with: make lab-up)")
    elif found.faults:
        print("not healthy (heal with: make lab-up)")
    return 1 if sick or found.faults else 0


def shell_command(room: Room, arguments) -> list[str]:
    """The command that gives a login shell, or runs one line in it, as the lab's user (or root) on a node."""
    where = 'cd "$NEARMETAL_CHECKOUT" && '
    user = "root" if arguments.root else cluster.USER
    if arguments.command == "shell":
        line = where + "exec bash -l"
    elif len(arguments.line) == 1:
        line = where + arguments.line[0]
    else:
        line = where + shlex.join(arguments.line)
    pty = ["--pty"] if sys.stdin.isatty() and arguments.command == "shell" else []
    return [
        *room.enter(arguments.node),
        "env",
        f"NEARMETAL_CHECKOUT={room.checkout}",
        "runuser",
        *pty,
        "--whitelist-environment=NEARMETAL_CHECKOUT",
        "--login",
        user,
        "--command",
        line,
    ]


def asked_of_guests(arguments, room: Room) -> dict | None:
    """What was asked of virtual machines: now, or when the lab that runs was started; None: there are none."""
    if arguments.command != "up" or arguments.vm is None:
        return (room.state or {}).get("vm")
    return None if arguments.vm == "none" else {"nic": arguments.vm, **given_options(arguments)}


def given_options(arguments) -> dict:
    """The options of virtual machines that were given, as topology.toml's section [vm] names them."""
    return {
        name.removeprefix("vm_"): value
        for name, value in vars(arguments).items()
        if name.startswith("vm_") and value is not None
    }


def refuse_unsuitable_host(command: str, room: Room, plan: topology.Topology) -> None:
    """Before anything is started: what would end it later, in other words. Raises LabError."""
    if command not in ("up", "image"):
        return
    if command == "up":
        conditions.refuse_checkout(room.checkout, *cluster.owner(room))
        conditions.refuse_state(room.directory)
    directory = cache.cache_dir()
    needed = 0 if (directory / f"image-{image.key()}").exists() else conditions.IMAGE_MB
    conditions.refuse_cache(directory, needed)
    directory.mkdir(parents=True, exist_ok=True)
    conditions.refuse_overlay(directory)
    if plan.guests:
        conditions.refuse_overlay(directory, upper=True)


def yes(word: str) -> bool:
    if word not in ("yes", "no"):
        raise ValueError(word)
    return word == "yes"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="lab",
        description="A Slurm cluster of namespaces on this machine.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(OPTION, action="store_true", help=HELP)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser(
        "up", help="start the lab, or heal the one that runs, its virtual machines with it"
    )
    machines = up.add_argument_group(
        "virtual machines", "partition `vm`; what is not given is as topology.toml has it"
    )
    machines.add_argument(
        "--vm",
        metavar="NIC",
        help="start them too, their NIC being virtio, e1000e, or vfio:ADDRESS,... "
        "(a PCI device of this host for each); none: without them",
    )
    machines.add_argument("--vm-cpus", type=int, metavar="N", help="vCPUs of each")
    machines.add_argument("--vm-memory-mb", type=int, metavar="N", help="memory of each")
    machines.add_argument(
        "--vm-pin", type=yes, metavar="yes|no", help="each vCPU on a core of its own"
    )
    machines.add_argument(
        "--vm-huge-pages",
        type=yes,
        metavar="yes|no",
        help="memory from this host's pool of huge pages",
    )
    machines.add_argument(
        "--vm-accelerator",
        choices=ACCELERATORS,
        help="auto: kvm where a guest starts by it, else tcg",
    )
    commands.add_parser("down", help="end it and leave nothing behind")
    commands.add_parser("status", help="nodes, links and what Slurm says of them")
    commands.add_parser("image", help="build the node image if this host has none")
    commands.add_parser("clean", help="remove this host's node images that no lab uses")
    for name, text in (
        ("shell", "a login shell in the lab"),
        ("exec", "run one command line in the lab"),
    ):
        sub = commands.add_parser(name, help=text)
        sub.add_argument("--node", default="login", help="where (default: login)")
        sub.add_argument("--root", action="store_true", help="as root instead of the lab's user")
        if name == "exec":
            sub.add_argument(
                "line",
                nargs=argparse.REMAINDER,
                metavar="LINE",
                help="one word: a command line, as a shell on that node reads it; several: a command and its words",
            )
    arguments = parser.parse_args()
    if arguments.command == "up" and arguments.vm in (None, "none") and given_options(arguments):
        up.error(
            "--vm-... says what virtual machines have, and --vm which NIC: give it, for example --vm virtio"
        )
    try:
        conditions.refuse_without_root()
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    if os.geteuid() != 0:
        # Namespaces and mounts need root; what runs inside does not get it. No byte code of root's in the checkout.
        keep = "--preserve-env=NEARMETAL_CACHE,NEARMETAL_MIRROR"
        os.execvp("sudo", ["sudo", keep, sys.executable, "-B", *sys.argv])
    os.umask(0o022)

    def say(text):
        print(text, flush=True)

    if arguments.command in ("up", "down"):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.default_int_handler)

    try:
        room = Room()
        vm = asked_of_guests(arguments, room)
        plan = topology.load(vm=vm)
        refuse_unsuitable_host(arguments.command, room, plan)
        if arguments.command == "image":
            say(str(image.ensure(say)))
        elif arguments.command == "up":
            with room.locked(say):
                if plan.guests and vm != (room.state or {}).get("vm"):
                    refuse_what_the_host_lacks(plan.hardware, len(plan.guests))
                base = image.ensure(say)
                cluster.up(
                    plan, room, base, layer.ensure(base, say) if plan.guests else None, vm, say
                )
        elif arguments.command == "down":
            with room.locked(say):
                room.stop()
            say("lab: down")
        elif arguments.command == "clean":
            cache.clean(images_in_use(), say)
        elif arguments.command == "status":
            return status(room, plan)
        else:
            return subprocess.run(shell_command(room, arguments)).returncode
    except (LabError, topology.TopologyError, HardwareError, image.ImageError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            "lab: interrupted; `make lab-up` completes it, `make lab-down` removes what there is",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main, "lab"))
