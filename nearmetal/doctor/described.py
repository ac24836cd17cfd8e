"""What a system's file promises and the cluster lacks, found without a job."""

from __future__ import annotations

import functools
import getpass
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nearmetal.cluster import answers, node, slurm
from nearmetal.cluster.ask import Answer, Asker, last_line
from nearmetal.cluster.modules import NATIVE_JDK, Modules, jdk, software
from nearmetal.cluster.slurm import Node, Partition
from nearmetal.doctor import contradicted
from nearmetal.doctor.finding import Finding
from nearmetal.locks import images_lock
from nearmetal.util import suggest

SLURM = ("slurm", "squeue")
OPTION = re.compile(r"(?<!\S)(?:-p\s*|--partition[=\s]\s*)(\S+)")
#: The line of node.sh on user namespaces.
NAMESPACES = re.compile(r"^\S+ user_namespaces=(yes|no)$", re.MULTILINE)
#: Apptainer's program that needs no user namespaces, beside its directory of commands.
SETUID = "../libexec/apptainer/bin/starter-suid"
#: Names of the same modules system.
SAME = dict.fromkeys(("tmod", "tmod31", "tmod32", "tmod4"), "envmod")


@dataclass
class Described:
    """A system's file, and the cluster that it describes."""

    path: str
    document: dict
    environments: Mapping[str, dict]
    asker: Asker
    modules: Modules
    config: Mapping[str, str] = field(default_factory=dict)
    partitions: list[Partition] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    mpi_types: list[str] = field(default_factory=list)
    mine: dict[str, list[str]] = field(default_factory=dict)  #: the user's accounts and QOS

    @functools.cached_property
    def has_user_namespaces(self) -> bool | None:
        """Whether this login node gives a user namespaces, by node.sh; None if it does not tell."""
        answer = self.asker.run(["sh", str(node.SCRIPT)])
        told = NAMESPACES.search(answer.output) if isinstance(answer, Answer) else None
        return told[1] == "yes" if told else None

    @functools.cached_property
    def javac(self) -> str:
        """What this login node's `javac -version` says, `javac 25.0.1`; '' if it does not run."""
        answer = self.asker.run(["javac", "-version"])
        return last_line(answer.both) if isinstance(answer, Answer) and answer.code == 0 else ""

    @property
    def name(self) -> str:
        return self.document["name"]

    def ask_slurm(self) -> None:
        """Read what Slurm says of itself. What it does not tell is not judged."""
        self.config = answers.settings(self.asker)
        self.partitions, self.nodes, _ = answers.partitions_and_nodes(self.asker)
        self.mpi_types = answers.mpi_types(self.asker)
        words = ["sacctmgr", "--noheader", "--parsable2", "show", "assoc"]
        words += [f"user={getpass.getuser()}", f"format={slurm.ASSOC}"]
        answer = self.asker.run(words) if self.enforces_accounts else ""
        if isinstance(answer, Answer) and answer.code == 0:
            text = answer.output
            self.mine = {"account": slurm.accounts(text), "qos": slurm.qos(text)}

    @property
    def enforces_accounts(self) -> bool:
        """Whether Slurm refuses the job of an account that is not the user's."""
        enforced = self.config.get("AccountingStorageEnforce", "associations")
        return slurm.has_accounting(self.config) is not False and enforced != "none"


def findings(system: Described) -> Iterator[Finding]:
    """What the cluster lacks of the system's file."""
    yield from modules_system(system)
    loaded: dict[tuple[str, ...], str] = {}
    for partition in system.document["partitions"]:
        if partition["scheduler"] in SLURM:
            yield from partition_of_slurm(system, partition)
            yield from accounting(system, partition)
            yield from launcher(partition)
        for name in partition["environs"]:
            environment = system.environments[name]
            yield from mpi_type(system, partition, environment)
            yield from modules(system, partition, environment, loaded)
            yield from java(system, partition, environment)
            yield from image(partition, environment)
            yield from user_namespaces(system, partition, environment)


def modules_system(system: Described) -> Iterator[Finding]:
    """The modules system of the file, where the login node has another one."""
    wanted = system.document.get("modules_system", "envmod")
    found = system.modules
    if SAME.get(wanted, wanted) != found.kind:
        if wanted == "nomod":
            return  # a site may have modules that it does not use
        yield Finding(
            f"modules_system is {wanted} in {system.path}, but this login node has "
            f"{found.kind} ({found.origin})",
            f"write `modules_system: {found.kind}`, or run this in a login shell",
        )
    elif found.note:
        what, _, fix = found.note.partition(". Fix: ")
        yield Finding(what, fix)


def partition_of_slurm(system: Described, partition: dict) -> Iterator[Finding]:
    """A partition that Slurm does not know, or where no job can run now."""
    known = {one.name: one for one in system.partitions}
    if not known and not (shutil.which("scontrol") or shutil.which("sinfo")):
        return  # the missing commands are named
    if not known:
        why = "; ".join(system.asker.unread) or "it has none"
        yield Finding(
            f"Slurm names no partition, so that none is judged ({why})",
            "run `sinfo`, and ask the administrators",
            blocks=False,
        )
        return
    options = " ".join(partition.get("access", ()))
    last = OPTION.findall(options)[-1:]
    names = ",".join(last).split(",") if last else []
    reached = [known[name] for name in names if name in known]
    if reached:
        nodes = [node for node in system.nodes if {*node.partitions} & {*names}]
        slurms = contradicted.Slurms(reached, nodes, system.mine)
        yield from contradicted.findings(system.path, partition, slurms)
    for wanted in names:
        if wanted not in known:
            unknown = suggest.unknown_value("the partition", wanted, known)
            yield Finding(
                f"access: {unknown.rstrip('.')}",
                f"correct `access` in {system.path}; `sinfo` lists the partitions",
                partition["name"],
            )
            continue
        nodes = [node for node in system.nodes if wanted in node.partitions]
        if not known[wanted].up:
            yield Finding(
                f"Slurm's partition {wanted} is not UP",
                "wait, or ask the administrators (`scontrol show partition`)",
                partition["name"],
            )
        elif nodes and not any(node.usable for node in nodes):
            yield Finding(
                f"no node of Slurm's partition {wanted} can run a job",
                "see the reasons in `sinfo -R`",
                partition["name"],
            )


def accounting(system: Described, partition: dict) -> Iterator[Finding]:
    """ReFrame's scheduler `slurm` without accounting, which `sacct` needs."""
    if partition["scheduler"] == "slurm" and slurm.has_accounting(system.config) is False:
        yield Finding(
            "the scheduler is slurm, but Slurm has no accounting, so that `sacct` finds no job",
            f"write `scheduler: squeue` in {system.path}",
            partition["name"],
        )


def launcher(partition: dict) -> Iterator[Finding]:
    """A launcher that this login node lacks. The nodes may have it all the same."""
    name = partition["launcher"]
    if name == "srun" and not shutil.which(name):
        yield Finding(
            "the launcher is srun, which PATH lacks",
            "add the directory of Slurm's commands to PATH, or write another `launcher`",
            partition["name"],
            blocks=False,
        )


def mpi_type(system: Described, partition: dict, environment: dict) -> Iterator[Finding]:
    """A PMI that srun does not speak."""
    variables = dict(environment.get("env_vars", ()))
    wanted = variables.get("SLURM_MPI_TYPE")
    known = [name for name in system.mpi_types if name != "none"]
    if partition["launcher"] != "srun" or not wanted or not system.mpi_types or wanted in known:
        return
    listed = ", ".join(known) or "none"
    yield Finding(
        f"srun has no MPI type {wanted}, which SLURM_MPI_TYPE names; it has {listed}",
        f"set SLURM_MPI_TYPE of {environment['name']} to the one that its MPI library was built "
        f"for, in `env_vars` of `environments` in {system.path}; if srun lacks it, write another "
        "`launcher`, such as mpirun, in a partition entry of its own for this environment",
        partition["name"],
        environment["name"],
    )


def modules(
    system: Described, partition: dict, environment: dict, loaded: dict[tuple[str, ...], str]
) -> Iterator[Finding]:
    """Modules that cannot be loaded.

    :arg loaded: modules -> why they cannot be loaded, '' if they can; kept for other partitions.
    """
    listed = [
        *system.document.get("modules", ()),
        *partition.get("modules", ()),
        *environment.get("modules", ()),
    ]
    names = tuple(one["name"] if isinstance(one, dict) else one for one in listed)
    if any(isinstance(one, dict) and len(one) > 1 for one in listed):
        return  # with a path or a collection: the smoke case loads them
    wanted = system.document.get("modules_system", "envmod")
    if not names or SAME.get(wanted, wanted) != system.modules.kind:
        return
    if names not in loaded:
        loaded[names] = system.modules.refusal(list(names), system.asker)
    if why := loaded[names]:
        yield Finding(
            f"the modules {' '.join(names)} cannot be loaded ({why})",
            f"correct `modules` of {environment['name']} in {system.path}; `module avail` and "
            "`module spider` list them",
            partition["name"],
            environment["name"],
        )


def java(system: Described, partition: dict, environment: dict) -> Iterator[Finding]:
    """A JDK that is too old for mpj-native: that of the modules, or this login node's.

    An image and Spack bring their own. Where nodes compile, this login node may have none.
    """
    own = {"image", "spack_env"} & {*environment.get("extras", ())}
    if "mpj_native" not in environment.get("features", ()) or own:
        return
    names = [*system.document.get("modules", ()), *partition.get("modules", ())]
    names += environment.get("modules", ())
    kind = software()["java"]
    loaded = [one for one in names if isinstance(one, str) and kind.fullmatch(one)]
    found = loaded[-1] if loaded else system.javac
    version = jdk(found.replace("javac ", "/"))
    if loaded and version is None:
        return  # a module without a version: the smoke case tells
    on_nodes = partition["extras"].get("build_on_nodes", False)
    fix = (
        f"add the module of a JDK from {NATIVE_JDK} on to `modules` of {environment['name']} in "
        f"{system.path}; `module avail` lists them"
    )
    place = partition["name"], environment["name"]
    if version is None:
        what = f"there is no javac on PATH of this login node, and mpj-native needs {NATIVE_JDK}"
        yield Finding(what, fix, *place, blocks=not on_nodes)
    elif version < NATIVE_JDK:
        what = f"the JDK is {version} ({found}), and mpj-native needs one from {NATIVE_JDK} on"
        yield Finding(what, fix, *place, blocks=bool(loaded) or not on_nodes)


def image(partition: dict, environment: dict) -> Iterator[Finding]:
    """An image that was not built, or a partition without Apptainer."""
    name = environment.get("extras", {}).get("image")
    if not name:
        return
    place = partition["name"], environment["name"]
    if not partition.get("container_platforms"):
        yield Finding(
            "the environment is an image, and the partition has no container_platforms",
            "add `container_platforms: [{type: Apptainer}]`, or remove the environment",
            *place,
        )
    elif not (path := images_lock.directory() / f"{name}.sif").exists():
        yield Finding(f"there is no image {path}", "make images", *place)


def user_namespaces(system: Described, partition: dict, environment: dict) -> Iterator[Finding]:
    """User namespaces that are off on this login node. The smoke case shows those of nodes."""
    if not (environment.get("extras", {}).get("image") and partition.get("container_platforms")):
        return
    command = shutil.which("apptainer")
    if command and (Path(command).resolve().parent / SETUID).exists():
        return
    if system.has_user_namespaces is False:
        yield Finding(
            "user namespaces are off on this login node, and Apptainer needs them on the nodes "
            "without setuid",
            "ask the administrators to set user.max_user_namespaces (on Ubuntu also "
            "kernel.apparmor_restrict_unprivileged_userns=0) on the nodes too, or to install "
            "apptainer-suid",
            partition["name"],
            blocks=False,
        )
