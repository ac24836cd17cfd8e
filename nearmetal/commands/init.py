"""`nearmetal init`: writes the file of this cluster."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from nearmetal.checkout import CHECKOUT
from nearmetal.cluster.cluster import Cluster
from nearmetal.commands.common import warn
from nearmetal.errors import NearmetalError
from nearmetal.init import admitted, describe, inspect
from nearmetal.init.lines import Lines, comment
from nearmetal.locks import images_lock
from nearmetal.model import naming
from nearmetal.site import system
from nearmetal.site.system import System, SystemFileError
from nearmetal.util import files, suggest


def run(arguments) -> int:
    """Write the file. Exit code 2 if something of the cluster could not be read."""
    inspects = may_submit(arguments)
    common = environments()
    warn("asking Slurm and the modules system")
    cluster = ask_cluster()
    name = arguments.name or describe.name_of(cluster.config.get("ClusterName", "cluster"))
    path = place_of(name, arguments.directory)
    known = known_partitions(cluster, arguments)
    wanted, left_out = describe.chosen_partitions(cluster, known, arguments.access)
    if not wanted:
        raise NearmetalError("; ".join(left_out) or "no partition is left")
    access = {}
    for partition in wanted:
        access[partition.name] = admitted.access_of(cluster, partition, arguments.access)
    together = inspect.groups(cluster, list(access))
    if inspects is None:
        inspects = agreed(together, access)
    if inspects:
        inspect.inspect(cluster, together, access, arguments.wait, warn)
    if not access.keys() <= cluster.inspected.keys():
        inspect.inspect_login_node(cluster)
    images = with_image(common)
    lines = describe.describe(cluster, name, wanted, arguments.access, common, images)
    unread = [*cluster.asker.unread, *filter(None, [cluster.modules.note])]
    write(path, lines, head(describe.listed_modules(cluster), [*left_out, *unread]), common)
    report(path, name, lines, [*left_out, *unread])
    return 2 if unread else 0


def ask_cluster() -> Cluster:
    """What Slurm and the modules system say. Raises NearmetalError without Slurm's nodes."""
    if not (shutil.which("scontrol") or shutil.which("sinfo")):
        raise NearmetalError(
            "Slurm's commands are not on PATH. Fix: run this on a login node. For another "
            "scheduler, copy a file of site-config/examples"
        )
    cluster = Cluster()
    cluster.ask_slurm()
    if not (cluster.partitions and cluster.nodes):
        why = "; ".join(cluster.asker.unread) or "it has none"
        raise NearmetalError(
            f"Slurm names no partition with nodes: {why}. Fix: run `sinfo`, and ask the "
            "administrators who may see nodes"
        )
    cluster.ask_modules_system()
    cluster.ask_modules()
    return cluster


def environments() -> dict[str, dict]:
    """The environments of all systems by name. Raises NearmetalError."""
    try:
        return system.read_environments(system.environments_file())
    except SystemFileError as error:
        raise NearmetalError(
            f"{error}. Fix: run this in a checkout of Nearmetal's repository, or set "
            "RFM_CONFIG_PATH to its directory site-config"
        ) from None


def may_submit(arguments) -> bool | None:
    """Whether jobs may be submitted; None if the user is to be asked. Raises NearmetalError."""
    if arguments.yes or arguments.no_jobs:
        return bool(arguments.yes)
    if sys.stdin.isatty():
        return None
    raise NearmetalError(
        "there is no terminal to ask whether jobs may inspect the nodes. Fix: give --yes, or "
        "--no-jobs, with which facts of the nodes are guessed"
    )


def agreed(together: list[list[str]], access: Mapping[str, Sequence[str]]) -> bool:
    """Whether the user agrees to the jobs.

    :arg access: options of srun by partition.
    """
    if not together:
        return False
    print("One node of each partition is inspected, by a job on one core for some seconds:")
    for names in together:
        line = shlex.join(["srun", "-p", names[0], *access[names[0]]])
        if names[1:]:
            line += f"  (the same nodes: {', '.join(names[1:])})"
        print(f"  {line}")
    print(
        "Submit? Without these jobs the facts of the nodes are guessed. [y/N] ", end="", flush=True
    )
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def known_partitions(cluster: Cluster, arguments) -> list[str]:
    """The partitions of --partition. Raises NearmetalError for one that Slurm does not know."""
    known = [partition.name for partition in cluster.partitions]
    for name in arguments.partition:
        if name not in known:
            raise NearmetalError(
                f"--partition: {suggest.unknown_value('the partition', name, known)}. Fix: give "
                "one that `sinfo` lists"
            )
    return arguments.partition


def place_of(name: str, directory: Path | None) -> Path:
    """The file to write, where nothing is yet. Raises NearmetalError."""
    if not describe.NAME.fullmatch(name):
        raise NearmetalError(
            f"{name!r} is no name of a system. Fix: give letters, digits, _ and -, beginning with "
            "a letter or _"
        )
    directory = (directory or system.directories()[0]).absolute()
    try:
        path = directory / naming.file_of(name, ".yaml")
    except naming.NoFileNameError as error:
        raise NearmetalError(str(error)) from None
    for taken in (path, path.with_suffix(".yml")):
        if not files.is_absent(taken):
            raise NearmetalError(
                f"{taken} is there, and nothing is overwritten. Fix: move it, or give another "
                "name: nearmetal init NAME"
            )
    above = next(path for path in (directory, *directory.parents) if path.exists())
    if not os.access(above, os.W_OK | os.X_OK):
        raise NearmetalError(
            f"{above}: you may not write there. Fix: nearmetal init --directory DIRECTORY"
        )
    if described := system.path_of(name, [directory]):
        raise NearmetalError(
            f"{described} describes a system {name!r} already. Fix: give another name: "
            "nearmetal init NAME"
        )
    return path


def with_image(common: dict[str, dict]) -> list[str]:
    """Names of the environments whose image was built."""
    directory = images_lock.directory()
    names = []
    for name, environment in common.items():
        image = environment.get("extras", {}).get("image")
        if image and (directory / f"{image}.sif").exists():
            names.append(name)
    return names


def head(modules: list[str], notes: list[str]) -> str:
    """The comment at the beginning of the file.

    :arg modules: sentences on the modules that are there.
    :arg notes: sentences on what is left out or was not read.
    """
    today = datetime.now(timezone.utc).date().isoformat()
    text = comment(
        f"Written by `nearmetal init` on {today}. Each comment names the origin of its line. Check "
        'the lines marked "guessed". docs/keys.md describes the keys.'
    )
    for title, sentences in (("Modules:", modules), ("Left out, or not read:", notes)):
        if sentences:
            text += comment(title)
        for sentence in sentences:
            text += comment(f"- {sentence}")
    return text


def write(path: Path, lines: Lines, head: str, common: dict[str, dict]) -> None:
    """Write the file. Raises NearmetalError if ReFrame would refuse it."""
    text = f"{head}{lines}"
    try:
        System.read(path, common, text)
    except SystemFileError as error:
        raise NearmetalError(
            f"{path} is not written, since ReFrame would refuse it: {error}. Fix: leave out "
            "partitions by --partition, or describe the system by hand (docs/cluster.md)"
        ) from None
    files.write(path, text)


def report(path: Path, name: str, lines: Lines, notes: list[str]) -> None:
    """Print what was written, what is missing, and what to type next."""
    for text in notes:
        warn(text)
    first = system.name_of_host(socket.gethostname())
    if first and first != name:
        warn(
            f"without --system, ReFrame takes the system {first}, whose `hostnames` match this "
            "host first"
        )
    print(f"wrote {path}: {len(lines.lines)} lines, {lines.guesses} of them guessed")
    print("next:")
    if lines.guesses:
        print(f"    grep -n guessed: {shlex.quote(str(path))}    # check these lines")
    if path.parent not in [directory.absolute() for directory in system.directories()]:
        print(f"    export NEARMETAL_SYSTEMS_PATH={shlex.quote(str(path.parent))}")
    if not os.environ.get("RFM_CONFIG_PATH"):
        print(f"    export RFM_CONFIG_PATH={shlex.quote(str(CHECKOUT / 'site-config'))}")
    print(f"    nearmetal doctor {name}")
    print(f"    reframe -c {shlex.quote(str(CHECKOUT / 'reframe_checks'))} -r --system {name}")
