"""The environments of a new system, from the modules and the PATH of its cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from nearmetal.cluster import node
from nearmetal.cluster.cluster import Cluster, Inspected
from nearmetal.cluster.modules import COMPILERS, NATIVE_JDK, jdk
from nearmetal.util import documents

#: Environment -> names for srun's `--mpi`, the preferred first.
MPI_TYPES = {
    "openmpi": ("pmix", "pmi2"),
    "mpich": ("pmi2", "pmix", "cray_shasta"),
    "intelmpi": ("pmi2", "pmix"),
    "mvapich": ("pmi2", "pmix"),
    "hpcx": ("pmix", "pmi2"),
}
#: Open MPI from this version on starts by PMIx alone.
PMIX_ALONE = 5
#: Environment -> the command that shows its library on a node's PATH.
ON_PATH = {"openmpi": "ompi_info", "mpich": "mpichversion"}
JAVA = ("mpj", "fastmpj")
#: Environment of mpj-native -> that in C whose library it calls, the preferred first.
NATIVE = {"mpj-native": "openmpi", "mpj-native-mpich": "mpich"}
CRAY = {"cc": "cc", "cxx": "CC", "ftn": "ftn"}
#: Environments of libraries that environments.yaml lacks.
LIBRARIES = Path(__file__).resolve().parent / "libraries.yaml"
#: Stands for a node that nobody inspected.
NOWHERE = Inspected("", {}, "")


class Value(NamedTuple):
    """A value of a system's file."""

    value: Any
    origin: str
    guess: str = ""  #: why it may be wrong


@dataclass
class Environment:
    """An environment of the system, and what differs from environments.yaml."""

    name: str
    origin: str
    guess: str = ""
    differs: dict[str, Value] = field(default_factory=dict)


def environments_of(
    cluster: Cluster, common: Mapping[str, dict], somewhere: Inspected | None
) -> list[Environment]:
    """The environments that the cluster's modules, or the PATH of a node, have.

    :arg common: the environments of all systems by name (environments.yaml).
    :arg somewhere: the node; None: none was inspected.
    """
    return list(_Finder(cluster, common, somewhere or NOWHERE).environments())


def srun_starts(cluster: Cluster, environment: Environment) -> bool:
    """Whether srun can start the environment's MPI library, as far as Slurm told its types."""
    if environment.name not in MPI_TYPES or not cluster.mpi_types:
        return True
    return not set(_types(cluster, environment)).isdisjoint(cluster.mpi_types)


def _types(cluster: Cluster, environment: Environment) -> tuple[str, ...]:
    """Names for srun's `--mpi` by which the environment's library can start, preferred first."""
    module = ""
    if modules := cluster.software.get(environment.name):
        module = modules[0].name
    version = re.search(rf"(?i)open-?mpi\d*{COMPILERS}[/@-]v?(\d+)\.", module)
    if version and int(version[1]) >= PMIX_ALONE:
        return ("pmix",)
    types = MPI_TYPES.get(environment.name, ())
    if module.lower().startswith("cray-"):
        return ("cray_shasta", *types)
    return types


def _suffices(name: str) -> bool:
    """Whether mpj-native runs on the JDK of a module's name or a version."""
    return (jdk(name) or 0) >= NATIVE_JDK


@dataclass
class _Finder:
    """Looks for each environment on a cluster."""

    cluster: Cluster
    common: Mapping[str, dict]
    somewhere: Inspected

    def environments(self) -> Iterator[Environment]:
        """The environments, in the order of the file."""
        # The order of the file: libraries in C, Java over them, other Java, GCC.
        libraries = [*self._of_modules("openmpi", "mpich"), *self._further_libraries()]
        yield from libraries
        yield from self._native({library.name: library for library in libraries})
        yield from self._of_modules(*JAVA)
        yield from self._gnu()

    def _on_path(self, command: str) -> str:
        """The place of a program on the node; '' if it is not there, or nobody knows."""
        path = self.somewhere.facts.get(f"command.{command}", "none")
        if path in node.NONE:
            return ""
        return path

    def _of_modules(self, *names: str) -> Iterator[Environment]:
        """Common environments of a module, or of the library on the node's PATH."""
        for name in names:
            if name not in self.common:
                continue
            path = self._on_path(ON_PATH.get(name, ""))
            if self.cluster.software.get(name):
                environment = self._of_module(name, self.common[name])
                if name in JAVA:
                    self._load_java(environment)
            elif path:
                environment = Environment(name, f"{path} ({self.somewhere.origin})")
                environment.differs["modules"] = Value([], environment.origin)
            else:
                continue
            self._choose_mpi_type(environment, self.common[name])
            yield environment

    def _of_module(self, kind: str, common: Mapping) -> Environment:
        """The environment that loads the preferred module of a kind.

        :arg common: the environment in environments.yaml.
        """
        preferred, *others = self.cluster.software[kind]
        loads = self.cluster.loads.get(kind, [preferred.name])
        origin = "module -t avail"
        if self.cluster.modules.kind == "spack":
            origin = "spack find"
        # Only a hierarchy has modules that come first.
        if len(loads) > 1:
            origin = f"module spider {preferred.name}"
        guess = ""
        if others and not preferred.default:
            names = ", ".join(module.name for module in others[:3])
            guess = f"{origin}; others: {names}"
        environment = Environment(common["name"], origin, guess)
        # environments.yaml has the usual names, which need not be repeated.
        if loads != common.get("modules", []):
            environment.differs["modules"] = Value(loads, origin, guess)
        if preferred.name.lower().startswith("cray-"):
            for key, wrapper in CRAY.items():
                environment.differs[key] = Value(wrapper, "Cray's wrapper of compilers")
        return environment

    def _further_libraries(self) -> Iterator[Environment]:
        """Environments of the MPI libraries of libraries.yaml, whole: no other file has them."""
        for library in documents.read(LIBRARIES):
            name = library.pop("name")
            if name in self.common or name not in self.cluster.software:
                continue
            environment = self._of_module(name, {"name": name})
            for key, value in library.items():
                environment.differs[key] = Value(value, "nearmetal/init/libraries.yaml")
            self._choose_mpi_type(environment, library)
            if name == "intelmpi" and srun_starts(self.cluster, environment):
                self._add_pmi_library(environment)
            yield environment

    def _add_pmi_library(self, environment: Environment) -> None:
        """Add the library by which Intel MPI speaks with srun."""
        pairs, origin, guess = environment.differs["env_vars"]
        # By PMIx, Intel MPI needs no library of Slurm.
        if ["SLURM_MPI_TYPE", "pmi2"] not in pairs:
            return
        path = self.somewhere.facts.get("library.pmi2", "none")
        if path in node.NONE:
            # Some distributions have none. A path that is not there is an error of each process.
            guess = guess or "no libpmi2.so on a node: Intel MPI then speaks PMI-1 itself"
        else:
            pairs = [*pairs, ["I_MPI_PMI_LIBRARY", path]]
            origin = f"{self.somewhere.origin}: libpmi2.so"
        environment.differs["env_vars"] = Value(pairs, origin, guess)

    def _choose_mpi_type(self, environment: Environment, common: Mapping) -> None:
        """Set srun's `--mpi` where Slurm lacks the one of environments.yaml."""
        variables = dict(common.get("env_vars", []))
        usual, known = variables.get("SLURM_MPI_TYPE"), self.cluster.mpi_types
        if not usual or not known:
            return
        wanted = _types(self.cluster, environment)
        # Cray's library starts by Cray's own type alone, whatever else srun has.
        if usual in known and "cray_shasta" not in wanted[:1]:
            return
        usable = [name for name in wanted if name in known]
        if usable and usable[0] != usual:
            variables["SLURM_MPI_TYPE"] = usable[0]
            guess = f"srun --mpi=list has {', '.join(known)}: which one was the library built for?"
            pairs = [list(pair) for pair in variables.items()]
            environment.differs["env_vars"] = Value(pairs, "srun --mpi=list", guess)

    def _load_java(self, environment: Environment) -> None:
        """Load a module of Java first, where the node's PATH has none."""
        if self._on_path("java") or "java" not in self.cluster.software:
            return
        usual = Value([environment.name], environment.origin)
        own = environment.differs.get("modules", usual)
        java = self.cluster.loads.get("java", [self.cluster.software["java"][0].name])
        environment.differs["modules"] = own._replace(value=[*java, *own.value])

    def _native(self, libraries: Mapping[str, Environment]) -> Iterator[Environment]:
        """mpj-native over an MPI library that srun starts, where there is a JDK for it."""
        java = self._jdk()
        if not java:
            return
        for name, in_c in NATIVE.items():
            library = libraries.get(in_c)
            if name not in self.common or not library or not srun_starts(self.cluster, library):
                continue
            origin = f"{java.origin}, and {library.origin or library.name}"
            environment = Environment(name, origin, library.guess)
            for key in ("modules", "env_vars"):
                if key in library.differs:
                    environment.differs[key] = library.differs[key]
            if java.value:
                usual = Value(self.common[name]["modules"], "")
                own = library.differs.get("modules", usual)
                loads = [*java.value, *own.value]
                environment.differs["modules"] = Value(loads, java.origin, own.guess)
            yield environment
            return

    def _jdk(self) -> Value | None:
        """The modules that load a JDK for mpj-native; None if there is none."""
        facts = self.somewhere.facts
        version = facts.get("java_version", "unknown")
        # A JRE runs programs, but compiles none.
        if facts.get("command.javac") != "none" and _suffices(version):
            return Value([], f"java {version} ({self.somewhere.origin})")
        modules = self.cluster.software.get("java", [])
        for module in modules:
            if not _suffices(module.name):
                continue
            loads = [module.name]
            # What a module of a hierarchy needs first was asked for the preferred one alone.
            if module is modules[0]:
                loads = list(self.cluster.loads.get("java", loads))
            return Value(loads, f"module {module.name}")
        return None

    def _gnu(self) -> Iterator[Environment]:
        """The environment of GCC: on the node's PATH, else a module."""
        path = self._on_path("gcc")
        if path:
            yield Environment("gnu", f"gcc is {path} ({self.somewhere.origin})")
        elif "gcc" in self.cluster.software:
            yield self._of_module("gcc", {"name": "gnu"})
        # Nearly every node has GCC, so it is guessed where nobody looked.
        elif self.somewhere.facts.get("command.gcc") != "none":
            yield Environment("gnu", "", "no node was asked whether it has gcc")
