"""`python -m nearmetal.lab COMMAND`: start, use and end the virtual cluster (see `--help`).

The Makefile has a target `lab-COMMAND` for each.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from nearmetal.lab import cache, cluster, conditions, health, image, layer, topology
from nearmetal.lab.hardware import ACCELERATORS, HardwareError, refuse_what_the_host_lacks
from nearmetal.lab.namespaces import LabError, Namespaces, images_in_use
from nearmetal.util.cli_errors import HELP, OPTION, guarded

EPILOG = """exit codes: 0 done; 1 the lab failed; 2 bad usage; 3 an unforeseen error (--debug prints
its traceback). shell and exec end with the exit code of the command that they ran.
The lab needs root (or sudo) to make namespaces; jobs in it run as an ordinary user."""


def status(namespaces: Namespaces, plan: topology.Topology) -> int:
    """Print nodes, guests, queue and faults; return 1 if the lab is down or has a fault."""
    if namespaces.interrupted:
        print("lab: its start was interrupted (make lab-up starts it again, make lab-down ends it)")
        return 1
    if not namespaces.state:
        print("lab: down (start it with: make lab-up)")
        return 1
    states = cluster.node_states(plan, namespaces)
    print(f"{'node':<16}{'class':<14}{'link':<10}{'address':<14}{'partitions':<20}Slurm")
    for node in plan.nodes:
        kind = node.link_class
        partitions = ",".join(kind.partitions)
        print(
            f"{node.name:<16}{kind.name:<14}{kind.link:<10}{node.address:<14}{partitions:<20}"
            f"{states.get(node.name, 'unknown')}"
        )
    if plan.guests:
        accelerator = namespaces.state.get("accelerator", "not started")
        print(f"guests: {plan.hardware.described(accelerator).partition(': ')[2]}")
    state = health.check_twice(plan, namespaces, cluster.user_arguments(namespaces))
    for job in state.jobs:
        print(f"queue: {job}")
    for fault in state.faults:
        print(f"fault: {fault}")
    # Remeasure, since a check takes a while.
    states = cluster.node_states(plan, namespaces)
    unusable = [node.name for node in plan.nodes if states.get(node.name) not in health.USABLE]
    if unusable:
        print(f"not usable: {', '.join(unusable)} (heal with: make lab-up)")
    elif state.faults:
        print("not healthy (heal with: make lab-up)")
    if unusable or state.faults:
        return 1
    return 0


def shell_command(namespaces: Namespaces, arguments) -> list[str]:
    """The command that starts a login shell on a node, for a person or for one command line."""
    user, pty = cluster.USER, []
    if arguments.root:
        user = "root"
    if arguments.command == "shell":
        line = "exec bash -l"
        if sys.stdin.isatty():
            pty = ["--pty"]
    elif len(arguments.line) == 1:
        line = arguments.line[0]
    else:
        line = shlex.join(arguments.line)
    return [
        *namespaces.enter(arguments.node),
        *("env", f"NEARMETAL_CHECKOUT={namespaces.checkout}"),
        *("runuser", *pty, "--whitelist-environment=NEARMETAL_CHECKOUT", "--login", user),
        *("--command", f'cd "$NEARMETAL_CHECKOUT" && {line}'),
    ]


def run(words: list[str]) -> int:
    """Exit code of a command in the lab. What ends this process ends the command too."""
    process = subprocess.Popen(words)

    def end(number, frame):
        with suppress(OSError):  # it has ended
            # runuser ends its command at SIGINT and SIGTERM alone.
            os.kill(innermost(process.pid), signal.SIGTERM if number == signal.SIGHUP else number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    code = process.wait()
    if code >= 0:
        return code
    return 128 - code


def innermost(pid: int) -> int:
    """The process within several `nsenter` that passes a signal on to the user's command."""
    while Path(f"/proc/{pid}/comm").read_text().strip() != "runuser":
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if not children:
            break
        pid = int(children[0])
    return pid


def guests_wanted(arguments, namespaces: Namespaces) -> dict | None:
    """Options of virtual machines: of this command, else of the running lab; None without any."""
    if arguments.command != "up" or arguments.vm is None:
        return (namespaces.state or {}).get("vm")
    if arguments.vm == "none":
        return None
    return {"nic": arguments.vm, **given_options(arguments)}


def fleet_wanted(arguments, namespaces: Namespaces) -> int:
    """Nodes on demand: of this command, else of the running lab."""
    if arguments.command != "up" or arguments.nodes is None:
        return (namespaces.state or {}).get("fleet", 0)
    return arguments.nodes


def given_options(arguments) -> dict:
    """The given options of virtual machines, by their keys in section [vm] of topology.toml."""
    options = {}
    for name, value in vars(arguments).items():
        if name.startswith("vm_") and value is not None:
            options[name.removeprefix("vm_")] = value
    return options


def refuse_unsuitable_host(command: str, namespaces: Namespaces, plan: topology.Topology) -> None:
    """Refuse a host or checkout on which the command would fail later. Raises LabError."""
    if command not in ("up", "image"):
        return
    # Only a start runs jobs as the user, and records a lab.
    if command == "up":
        conditions.refuse_checkout(namespaces.checkout, *cluster.owner(namespaces))
        conditions.refuse_state(namespaces.directory)
    directory = cache.cache_dir()
    needed = conditions.IMAGE_MB
    if (directory / f"image-{image.key()}").exists():
        needed = 0
    conditions.refuse_cache(directory, needed)
    directory.mkdir(parents=True, exist_ok=True)
    conditions.refuse_overlay(directory)
    if plan.guests:
        conditions.refuse_overlay(directory, upper=True)


def yes(word: str) -> bool:
    if word not in ("yes", "no"):
        raise ValueError(word)
    return word == "yes"


def nodes(word: str) -> int:
    if not word.isascii() or not word.isdigit() or int(word) > topology.MOST_NODES:
        raise argparse.ArgumentTypeError(f"give a number from 0 to {topology.MOST_NODES}")
    return int(word)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="lab",
        description="A Slurm cluster of namespaces on this machine.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(OPTION, action="store_true", help=HELP)
    commands = parser.add_subparsers(dest="command", required=True)
    _add_up(commands)
    commands.add_parser("down", help="end the lab and leave nothing behind")
    commands.add_parser("status", help="print nodes, links, their states in Slurm, and faults")
    commands.add_parser("image", help="build the node image if this host has none")
    commands.add_parser("clean", help="remove this host's node images that no lab uses")
    shell = commands.add_parser("shell", help="start a login shell in the lab")
    line = commands.add_parser("exec", help="run one command line in the lab")
    for command in (shell, line):
        command.add_argument("--node", default="login", help="the node (default: login)")
        command.add_argument(
            "--root", action="store_true", help="as root instead of the lab's user"
        )
    line.add_argument(
        "line",
        nargs=argparse.REMAINDER,
        metavar="LINE",
        help="one argument: a command line for a shell on that node; "
        "several: a command and its arguments",
    )
    return parser


def _add_up(commands) -> None:
    up = commands.add_parser("up", help="start the lab, or heal the one that runs")
    up.add_argument(
        "--nodes",
        type=nodes,
        metavar="N",
        help="start this many nodes of partition `fleet`, with a link as native; 0: none",
    )
    machines = up.add_argument_group(
        "virtual machines", "nodes of partition `vm`; defaults are in topology.toml"
    )
    machines.add_argument(
        "--vm",
        metavar="NIC",
        help="start virtual machines with this NIC: virtio, e1000e, igb, or vfio:ADDRESS,... "
        "(a PCI device of this host for each); vfio-nested, vfio-nested-sriov: within a guest that "
        "has an IOMMU and gives them its NICs or virtual functions; none: start without them",
    )
    machines.add_argument("--vm-cpus", type=int, metavar="N", help="vCPUs of each machine")
    machines.add_argument("--vm-guests", type=int, metavar="N", help="number of machines")
    switches = "virtual switches between second NICs of the machines; 1: no second NIC"
    machines.add_argument("--vm-switches", type=int, metavar="N", help=switches)
    machines.add_argument("--vm-memory-mb", type=int, metavar="N", help="memory of each machine")
    pin = "pin each vCPU to its own core"
    machines.add_argument("--vm-pin", type=yes, metavar="yes|no", help=pin)
    huge = "take memory from this host's pool of huge pages"
    machines.add_argument("--vm-huge-pages", type=yes, metavar="yes|no", help=huge)
    accelerator = "auto: kvm if a guest starts with it, else tcg"
    machines.add_argument("--vm-accelerator", choices=ACCELERATORS, help=accelerator)


def say(text: str) -> None:
    print(text, flush=True)


def start(arguments, namespaces: Namespaces, plan: topology.Topology) -> None:
    """Start or heal the lab. Raises LabError, HardwareError, ImageError."""
    vm = guests_wanted(arguments, namespaces)
    with namespaces.locked(say):
        if plan.guests and vm != (namespaces.state or {}).get("vm"):
            refuse_what_the_host_lacks(plan.hardware, len(plan.guests))
        base = image.ensure(say)
        upper = layer.ensure(base, say) if plan.guests else None
        cluster.up(plan, namespaces, base, upper, vm, fleet_wanted(arguments, namespaces), say)


def run_command(arguments) -> int:
    """Run a command as root. Raises LabError and the others of its parts."""
    namespaces = Namespaces()
    vm, fleet = guests_wanted(arguments, namespaces), fleet_wanted(arguments, namespaces)
    plan = topology.load(vm=vm, fleet=fleet)
    refuse_unsuitable_host(arguments.command, namespaces, plan)
    if arguments.command == "status":
        return status(namespaces, plan)
    if arguments.command in ("shell", "exec"):
        return run(shell_command(namespaces, arguments))
    if arguments.command == "image":
        say(str(image.ensure(say)))
    elif arguments.command == "up":
        start(arguments, namespaces, plan)
    elif arguments.command == "down":
        with namespaces.locked(say):
            namespaces.stop()
        say("lab: down")
    elif arguments.command == "clean":
        cache.clean(images_in_use(), say)
    return 0


def main() -> int:
    options = parser()
    arguments = options.parse_args()
    if arguments.command == "up" and arguments.vm in (None, "none") and given_options(arguments):
        options.error(
            "options --vm-... need virtual machines: give --vm and a NIC, for example --vm virtio"
        )
    try:
        if arguments.command in ("shell", "exec"):
            Namespaces().enter()  # a lab that is down needs no root to say it
        # Only namespaces and mounts need root.
        words = ["-m", "nearmetal.lab", *sys.argv[1:]]
        conditions.become_root(words, "NEARMETAL_CACHE", "NEARMETAL_MIRROR")
        os.umask(0o022)
        if arguments.command in ("up", "down"):
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.default_int_handler)
        return run_command(arguments)
    except (LabError, topology.TopologyError, HardwareError, image.ImageError) as error:
        print(f"lab: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(
            "lab: interrupted; `make lab-up` completes it, `make lab-down` removes what there is",
            file=sys.stderr,
        )
    return 1


if __name__ == "__main__":
    sys.exit(guarded(main, "lab"))
