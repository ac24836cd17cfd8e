"""`python site-config/lab COMMAND`: the virtual cluster (see `--help`). `make lab-...` are its usual names."""

import argparse
import os
import shlex
import subprocess
import sys

import cluster
import image
import topology
from room import LabError, Room, images_in_use

EPILOG = """exit codes: 0 done; 1 the lab or the command in it failed; 2 bad usage.
The lab needs root (or sudo) to make namespaces; jobs in it run as an ordinary user."""


def status(room: Room, plan: topology.Topology) -> int:
    if not room.state:
        print("lab: down (start it with: make lab-up)")
        return 1
    states = cluster.node_states(plan, room)
    print(f"{'node':<16}{'class':<14}{'link':<10}{'address':<14}{'partitions':<20}Slurm")
    for node in plan.nodes:
        kind = node.link_class
        print(f"{node.name:<16}{kind.name:<14}{kind.link:<10}{node.address:<14}{','.join(kind.partitions):<20}"
              f"{states.get(node.name, 'unknown')}")
    sick = [name for name in (node.name for node in plan.nodes)
            if states.get(name) not in ("idle", "mix", "alloc", "comp")]
    if sick:
        print(f"not usable: {', '.join(sick)} (heal with: make lab-up)")
    return 1 if sick else 0


def shell_command(room: Room, arguments) -> list[str]:
    """The command that gives a login shell, or runs one line in it, as the lab's user (or root) on a node."""
    where = 'cd "$NEARMETAL_CHECKOUT" && '
    user = "root" if arguments.root else cluster.USER
    line = where + ("exec bash -l" if arguments.command == "shell" else
                    arguments.line[0] if len(arguments.line) == 1 else shlex.join(arguments.line))
    pty = ["--pty"] if sys.stdin.isatty() and arguments.command == "shell" else []
    return [*room.enter(arguments.node), "env", f"NEARMETAL_CHECKOUT={room.checkout}", "runuser", *pty,
            "--whitelist-environment=NEARMETAL_CHECKOUT", "--login", user, "--command", line]


def main() -> int:
    parser = argparse.ArgumentParser(prog="lab", description="A Slurm cluster of namespaces on this machine.",
                                     epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start the lab, or heal the one that runs")
    commands.add_parser("down", help="end it and leave nothing behind")
    commands.add_parser("status", help="nodes, links and what Slurm says of them")
    commands.add_parser("image", help="build the node image if this host has none")
    commands.add_parser("clean", help="remove this host's node images that no lab uses")
    for name, text in (("shell", "a login shell in the lab"), ("exec", "run one command line in the lab")):
        sub = commands.add_parser(name, help=text)
        sub.add_argument("--node", default="login", help="where (default: login)")
        sub.add_argument("--root", action="store_true", help="as root instead of the lab's user")
        if name == "exec":
            sub.add_argument("line", nargs=argparse.REMAINDER, metavar="LINE",
                             help="one word: a command line, as a shell on that node reads it; several: a command and its words")
    arguments = parser.parse_args()
    if os.geteuid() != 0:
        # Namespaces and mounts need root; what runs inside does not get it.
        os.execvp("sudo", ["sudo", "--preserve-env=NEARMETAL_CACHE,NEARMETAL_MIRROR", sys.executable, *sys.argv])

    def say(text):
        print(text, flush=True)

    try:
        plan, room = topology.load(), Room()
        if arguments.command == "image":
            say(str(image.ensure(say)))
        elif arguments.command == "up":
            with room.locked():
                cluster.up(plan, room, image.ensure(say), say)
        elif arguments.command == "down":
            with room.locked():
                room.stop()
            say("lab: down")
        elif arguments.command == "clean":
            image.clean(images_in_use(), say)
        elif arguments.command == "status":
            return status(room, plan)
        else:
            return subprocess.run(shell_command(room, arguments)).returncode
    except (LabError, topology.TopologyError, image.ImageError) as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
