"""What a system's file promises and the cluster lacks, found without a job."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nearmetal.cluster.access import named
from nearmetal.cluster.cluster import Cluster
from nearmetal.cluster.modules import NATIVE_JDK, jdk, software
from nearmetal.doctor import contradicted
from nearmetal.doctor.finding import Finding
from nearmetal.locks import images_lock
from nearmetal.site.system import System
from nearmetal.util import suggest

SLURM = ("slurm", "squeue")
#: Apptainer's program that needs no user namespaces, beside its directory of commands.
SETUID = "../libexec/apptainer/bin/starter-suid"
#: Names of the same modules system.
SAME = dict.fromkeys(("tmod", "tmod31", "tmod32", "tmod4"), "envmod")


@dataclass
class Described:
    """A system's file, and the cluster that it describes."""

    system: System
    cluster: Cluster
    #: Modules -> why they cannot be loaded together; '' if they can.
    refusals: dict[tuple[str, ...], str] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.system.path

    @property
    def modules_system(self) -> str:
        """The modules system of the file, by ReFrame's newest name."""
        name = self.system.document.get("modules_system", "envmod")
        return SAME.get(name, name)

    def modules(self, partition: dict, environment: dict) -> list:
        """The modules that a case loads, of the system, its partition and its environment."""
        return [
            *self.system.document.get("modules", ()),
            *partition.get("modules", ()),
            *environment.get("modules", ()),
        ]

    def refusal(self, names: tuple[str, ...]) -> str:
        """Why modules cannot be loaded together; '' if they can. Asked once."""
        if names not in self.refusals:
            cluster = self.cluster
            self.refusals[names] = cluster.modules.refusal(list(names), cluster.asker)
        return self.refusals[names]


def findings(described: Described) -> Iterator[Finding]:
    """What the cluster lacks of the system's file."""
    yield from modules_system(described)
    environments = described.system.environments
    for partition in described.system.partitions:
        if partition["scheduler"] in SLURM:
            yield from partition_of_slurm(described, partition)
            yield from accounting(described, partition)
            yield from launcher(partition)
        for name in partition["environs"]:
            environment = environments[name]
            yield from mpi_type(described, partition, environment)
            yield from modules(described, partition, environment)
            yield from java(described, partition, environment)
            yield from image(partition, environment)
            yield from user_namespaces(described, partition, environment)


def modules_system(described: Described) -> Iterator[Finding]:
    """The modules system of the file, where the login node has another one."""
    wanted = described.system.document.get("modules_system", "envmod")
    here = described.cluster.modules
    if described.modules_system != here.kind:
        if wanted == "nomod":
            return  # a site may have modules that it does not use
        yield Finding(
            f"modules_system is {wanted} in {described.path}, but this login node has "
            f"{here.kind} ({here.origin})",
            f"write `modules_system: {here.kind}`, or run this in a login shell",
        )
    elif here.note:
        yield Finding.of(here.note)


def partition_of_slurm(described: Described, partition: dict) -> Iterator[Finding]:
    """A partition that Slurm does not know, or where no job can run now."""
    cluster = described.cluster
    known = {known.name: known for known in cluster.partitions}
    if not known and not (shutil.which("scontrol") or shutil.which("sinfo")):
        return  # the missing commands are named
    if not known:
        why = "; ".join(cluster.asker.unread) or "it has none"
        yield Finding(
            f"Slurm names no partition, so that none is judged ({why})",
            "run `sinfo`, and ask the administrators",
            blocks=False,
        )
        return
    names = named(partition.get("access", ())).get("partition", "").split(",")
    reached = [known[name] for name in names if name in known]
    if reached:
        yield from contradicted.findings(described.path, partition, reached, cluster)
    for wanted in filter(None, names):
        if wanted not in known:
            unknown = suggest.unknown_value("the partition", wanted, known)
            yield Finding(
                f"access: {unknown.rstrip('.')}",
                f"correct `access` in {described.path}; `sinfo` lists the partitions",
                partition["name"],
            )
            continue
        nodes = cluster.nodes_of(wanted)
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


def accounting(described: Described, partition: dict) -> Iterator[Finding]:
    """ReFrame's scheduler `slurm` without accounting, which `sacct` needs."""
    if partition["scheduler"] == "slurm" and described.cluster.has_accounting is False:
        yield Finding(
            "the scheduler is slurm, but Slurm has no accounting, so that `sacct` finds no job",
            f"write `scheduler: squeue` in {described.path}",
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


def mpi_type(described: Described, partition: dict, environment: dict) -> Iterator[Finding]:
    """A PMI that srun does not speak."""
    variables = dict(environment.get("env_vars", ()))
    wanted = variables.get("SLURM_MPI_TYPE")
    types = described.cluster.mpi_types
    known = [name for name in types if name != "none"]
    if partition["launcher"] != "srun" or not wanted or not types or wanted in known:
        return
    listed = ", ".join(known) or "none"
    yield Finding(
        f"srun has no MPI type {wanted}, which SLURM_MPI_TYPE names; it has {listed}",
        f"set SLURM_MPI_TYPE of {environment['name']} to the one that its MPI library was built "
        f"for, in `env_vars` of `environments` in {described.path}; if srun lacks it, write "
        "another `launcher`, such as mpirun, in a partition entry of its own for this environment",
        partition["name"],
        environment["name"],
    )


def modules(described: Described, partition: dict, environment: dict) -> Iterator[Finding]:
    """Modules that cannot be loaded."""
    names = []
    for module in described.modules(partition, environment):
        if isinstance(module, dict):
            if len(module) > 1:
                return  # with a path or a collection: the smoke case loads them
            module = module["name"]
        names.append(module)
    if not names or described.modules_system != described.cluster.modules.kind:
        return
    if why := described.refusal(tuple(names)):
        yield Finding(
            f"the modules {' '.join(names)} cannot be loaded ({why})",
            f"correct `modules` of {environment['name']} in {described.path}; `module avail` and "
            "`module spider` list them",
            partition["name"],
            environment["name"],
        )


def java(described: Described, partition: dict, environment: dict) -> Iterator[Finding]:
    """A JDK that is too old for mpj-native: that of the modules, or this login node's.

    An image and Spack bring their own. Where nodes compile, this login node may have none.
    """
    own = {"image", "spack_env"} & {*environment.get("extras", ())}
    if "mpj_native" not in environment.get("features", ()) or own:
        return
    kind = software()["java"]
    loaded, origin = False, described.cluster.javac
    for module in described.modules(partition, environment):
        if isinstance(module, str) and kind.fullmatch(module):
            loaded, origin = True, module
    version = jdk(origin.replace("javac ", "/"))
    if loaded and version is None:
        return  # a module without a version: the smoke case tells
    on_nodes = partition["extras"].get("build_on_nodes", False)
    fix = (
        f"add the module of a JDK from {NATIVE_JDK} on to `modules` of {environment['name']} in "
        f"{described.path}; `module avail` lists them"
    )
    place = partition["name"], environment["name"]
    if version is None:
        what = f"there is no javac on PATH of this login node, and mpj-native needs {NATIVE_JDK}"
        yield Finding(what, fix, *place, blocks=not on_nodes)
    elif version < NATIVE_JDK:
        what = f"the JDK is {version} ({origin}), and mpj-native needs one from {NATIVE_JDK} on"
        yield Finding(what, fix, *place, blocks=loaded or not on_nodes)


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


def user_namespaces(described: Described, partition: dict, environment: dict) -> Iterator[Finding]:
    """User namespaces that are off on this login node. The smoke case shows those of nodes."""
    if not (environment.get("extras", {}).get("image") and partition.get("container_platforms")):
        return
    command = shutil.which("apptainer")
    # A setuid Apptainer needs no user namespaces.
    if command and (Path(command).resolve().parent / SETUID).exists():
        return
    if described.cluster.has_user_namespaces is False:
        yield Finding(
            "user namespaces are off on this login node, and Apptainer needs them on the nodes "
            "without setuid",
            "ask the administrators to set user.max_user_namespaces (on Ubuntu also "
            "kernel.apparmor_restrict_unprivileged_userns=0) on the nodes too, or to install "
            "apptainer-suid",
            partition["name"],
            blocks=False,
        )
