"""The lines of a system's file, from what its cluster says. Pure functions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nearmetal.cluster import node, slurm
from nearmetal.cluster.cluster import Cluster, Inspected
from nearmetal.cluster.modules import COMPILERS, NATIVE_JDK, jdk
from nearmetal.cluster.slurm import Node, Partition
from nearmetal.init import admitted, limits
from nearmetal.init.lines import Lines
from nearmetal.util import documents, suggest

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_-]*")
#: Most patterns of host names.
MOST_PATTERNS = 8
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
#: Most modules of a kind that the file's head lists.
MOST_MODULES = 6
CRAY = {"cc": "cc", "cxx": "CC", "ftn": "ftn"}
#: Environments of libraries that environments.yaml lacks.
LIBRARIES = Path(__file__).resolve().parent / "libraries.yaml"
#: Time in the queue after which a case is given up.
PENDING = "1h"
NO_BASELINE = "the system is new; delete this key after `nearmetal baseline record`"


@dataclass
class Environment:
    """An environment of the system, and what differs from environments.yaml."""

    name: str
    origin: str
    guess: str = ""
    #: Key -> (value, origin, guess) of what differs.
    differs: dict[str, tuple[object, str, str]] = field(default_factory=dict)


def name_of(text: str) -> str:
    """A name that a system's file may have, made of another one."""
    plain = re.sub(r"[^a-zA-Z0-9_-]+", "-", text).strip("-") or "cluster"
    return plain if NAME.fullmatch(plain) else f"_{plain}"


def patterns(names: Sequence[str]) -> list[str]:
    """Patterns that match these host names, with or without a domain; the most common first."""
    shapes = Counter(re.sub(r"\d+", r"\\d+", re.escape(one.split(".")[0])) for one in names)
    return [f"^{shape.replace(chr(92) + '-', '-')}(\\.|$)" for shape, _ in shapes.most_common()]


def chosen_partitions(
    cluster: Cluster, wanted: Sequence[str], access: Sequence[str] = ()
) -> tuple[list[Partition], list[str]]:
    """The partitions to describe, and a sentence on each that is left out.

    :arg wanted: names of the only ones to describe, also where Slurm may refuse the user there.
    :arg access: further options of srun and sbatch, such as an account.
    """
    kept, left_out = [], []
    for one in cluster.partitions:
        if wanted and one.name not in wanted:
            continue
        refused = "" if wanted else admitted.refusal(cluster, one, access)
        if refused:
            left_out.append(f"the partition {one.name} is left out: {refused}")
        elif not cluster.nodes_of(one.name):
            left_out.append(f"the partition {one.name} is left out: it has no node")
        elif not one.up:
            left_out.append(f"the partition {one.name} is left out: its state is {one.state}")
        else:
            kept.append(one)
    return kept, left_out


def describe(
    cluster: Cluster,
    name: str,
    wanted: Sequence[Partition],
    access: Sequence[str],
    common: Mapping[str, dict],
    images: Sequence[str],
) -> Lines:
    """The lines of the system's file.

    :arg wanted: the partitions.
    :arg access: further options of srun and sbatch, such as an account.
    :arg common: the environments of all systems by name (environments.yaml).
    :arg images: names of the environments whose image is there.
    """
    lines = Lines()
    lines.add(0, "name", name, _origin_of_name(cluster, name))
    lines.add(0, "descr", f"Slurm cluster {name}", "nearmetal init; write what it is")
    _hostnames(lines, cluster)
    lines.add(0, "modules_system", cluster.modules.kind, cluster.modules.origin)
    somewhere = next(iter(cluster.inspected.values()), cluster.login)
    environments = environments_of(cluster, common, somewhere)
    if any(one.differs for one in environments):
        lines.open(0, "environments", "what differs from site-config/environments.yaml")
        for environment in environments:
            _environment(lines, environment)
    lines.open(0, "partitions", wanted[0].origin)
    taken: list[str] = []
    for one in wanted:
        plain = name_of(one.name)
        while plain in taken:
            plain += "_"
        taken.append(plain)
        _partition(lines, cluster, plain, one, access, environments, images)
    return lines


def _origin_of_name(cluster: Cluster, name: str) -> str:
    if name == name_of(cluster.config.get("ClusterName", "")):
        return "scontrol show config: ClusterName"
    return "nearmetal init's argument"


def _hostnames(lines: Lines, cluster: Cluster) -> None:
    lines.open(0, "hostnames", "patterns; without --system, ReFrame chooses a system by them")
    login, *_ = patterns([cluster.host])
    lines.item(2, login, "", f"hostname ({cluster.host}); are other login nodes named like it?")
    others = [one for one in patterns([one.name for one in cluster.nodes]) if one != login]
    for one in others[:MOST_PATTERNS]:
        lines.item(2, one, cluster.nodes_origin)


def environments_of(
    cluster: Cluster, common: Mapping[str, dict], somewhere: Inspected | None
) -> list[Environment]:
    """The environments that the cluster's modules, or the PATH of a node, have."""

    def of(*names: str) -> list[Environment]:
        return [
            one
            for name in names
            if name in common and (one := _of_modules(cluster, name, common[name], somewhere))
        ]

    found = of("openmpi", "mpich")
    found += _further_libraries(cluster, common, somewhere)
    if native := _native(cluster, common, found, somewhere):
        found.append(native)
    found += of(*JAVA)
    if gnu := _gnu(cluster, somewhere):
        found.append(gnu)
    return found


def _further_libraries(
    cluster: Cluster, common: Mapping[str, dict], somewhere: Inspected | None
) -> list[Environment]:
    """Environments of the MPI libraries of libraries.yaml, whole, as no other file has them."""
    found = []
    for library in documents.read(LIBRARIES):
        name = library["name"]
        if name in common or name not in cluster.software:
            continue
        one = _of_module(cluster, name, {"name": name})
        for key, value in library.items():
            if key != "name":
                one.differs[key] = (value, "nearmetal/init/libraries.yaml", "")
        _mpi_type(cluster, one, library)
        if name == "intelmpi" and _srun_starts(cluster, one):
            _pmi_library(one, somewhere)
        found.append(one)
    return found


def _pmi_library(one: Environment, somewhere: Inspected | None) -> None:
    """Add the library by which Intel MPI speaks with srun."""
    pairs, _, guess = one.differs["env_vars"]
    if ["SLURM_MPI_TYPE", "pmi2"] not in pairs:  # type: ignore[operator]
        return
    path = somewhere.facts.get("library.pmi2", "none") if somewhere else "none"
    origin = f"{somewhere.origin}: libpmi2.so" if somewhere else ""
    if path in node.NONE:
        path = "libpmi2.so"
        guess = guess or "Slurm's libpmi2.so was not found on a node: write its path"
    one.differs["env_vars"] = ([*pairs, ["I_MPI_PMI_LIBRARY", path]], origin, guess)  # type: ignore[misc]


def _gnu(cluster: Cluster, somewhere: Inspected | None) -> Environment | None:
    """The environment of GCC: on a node's PATH, else a module."""
    path = somewhere.facts.get("command.gcc", "unknown") if somewhere else "unknown"
    if somewhere and path not in node.NONE:
        return Environment("gnu", f"gcc is {path} ({somewhere.origin})")
    if "gcc" in cluster.software:
        return _of_module(cluster, "gcc", {"name": "gnu"})
    if path == "none":
        return None
    return Environment("gnu", "", "no node was asked whether it has gcc")


def _of_modules(
    cluster: Cluster, name: str, common: dict, somewhere: Inspected | None
) -> Environment | None:
    modules = cluster.software.get(name)
    if not modules:
        command = ON_PATH.get(name, "")
        path = somewhere.facts.get(f"command.{command}", "none") if somewhere else "none"
        if path in node.NONE or not somewhere:
            return None
        found = Environment(name, f"{path} ({somewhere.origin})")
        found.differs["modules"] = ([], found.origin, "")
    else:
        found = _of_module(cluster, name, common)
        if name in JAVA:
            _with_java(cluster, found, somewhere)
    _mpi_type(cluster, found, common)
    return found


def _of_module(cluster: Cluster, kind: str, common: dict) -> Environment:
    """The environment that loads the preferred module of a kind.

    :arg common: the environment in environments.yaml.
    """
    modules = cluster.software[kind]
    loads, origin = cluster.loads.get(kind, [modules[0].name]), "module -t avail"
    if cluster.modules.kind == "spack":
        origin = "spack find"
    if len(loads) > 1:
        origin = f"module spider {modules[0].name}"
    guess = ""
    if len(modules) > 1 and not modules[0].default:
        others = ", ".join(one.name for one in modules[1:4])
        guess = f"{origin}; others: {others}"
    found = Environment(common["name"], origin, guess)
    if loads != common.get("modules", []):
        found.differs["modules"] = (loads, origin, guess)
    if modules[0].name.lower().startswith("cray-"):
        for key, wrapper in CRAY.items():
            found.differs[key] = (wrapper, "Cray's wrapper of compilers", "")
    return found


def _with_java(cluster: Cluster, found: Environment, somewhere: Inspected | None) -> None:
    """Load a module of Java first, where a node's PATH has none."""
    path = somewhere.facts.get("command.java", "none") if somewhere else "none"
    if path not in node.NONE or "java" not in cluster.software:
        return
    modules, origin, guess = found.differs.get("modules", ([found.name], found.origin, ""))
    java = cluster.loads.get("java", [cluster.software["java"][0].name])
    found.differs["modules"] = ([*java, *modules], origin, guess)  # type: ignore[misc]


def _native(
    cluster: Cluster,
    common: Mapping[str, dict],
    libraries: Sequence[Environment],
    somewhere: Inspected | None,
) -> Environment | None:
    """mpj-native over an MPI library that srun starts, where there is a JDK that it runs on."""
    started = {one.name: one for one in libraries if _srun_starts(cluster, one)}
    java = _java(cluster, somewhere)
    for name, in_c in NATIVE.items():
        if java and name in common and in_c in started:
            (loads, origin), mpi = java, started[in_c]
            found = Environment(name, f"{origin}, and {mpi.origin or mpi.name}", mpi.guess)
            found.differs = {
                key: mpi.differs[key] for key in ("modules", "env_vars") if key in mpi.differs
            }
            if loads:
                own, _, guess = mpi.differs.get("modules", (common[name]["modules"], "", ""))
                found.differs["modules"] = ([*loads, *own], origin, guess)
            return found
    return None


def _java(cluster: Cluster, somewhere: Inspected | None) -> tuple[list[str], str] | None:
    """The modules that load a JDK for mpj-native, and the origin; None if there is none."""
    facts: Mapping[str, str] = somewhere.facts if somewhere else {}
    version = facts.get("java_version", "unknown")
    if somewhere and facts.get("command.javac") != "none" and _suffices(version):
        return [], f"java {version} ({somewhere.origin})"
    for number, one in enumerate(cluster.software.get("java", ())):
        if _suffices(one.name):
            loads = [one.name] if number else cluster.loads.get("java", [one.name])
            return list(loads), f"module {one.name}"
    return None


def _suffices(name: str) -> bool:
    return (jdk(name) or 0) >= NATIVE_JDK


def found_modules(cluster: Cluster) -> list[str]:
    """Sentences on the software that the modules system lists, by kind."""
    return [
        f"{kind.replace('_', ' ')}: {suggest.some([one.name for one in modules], MOST_MODULES)}"
        for kind, modules in cluster.software.items()
    ]


def _mpi_type(cluster: Cluster, found: Environment, common: dict) -> None:
    """Set srun's `--mpi` where Slurm lacks the one of environments.yaml."""
    variables = dict(common.get("env_vars", []))
    usual, known = variables.get("SLURM_MPI_TYPE"), cluster.mpi_types
    if not usual or not known:
        return
    wanted = _types(cluster, found)
    if usual in known and "cray_shasta" not in wanted[:1]:
        return
    chosen = next((one for one in wanted if one in known), None)
    if chosen and chosen != usual:
        pairs = [[key, value] for key, value in (variables | {"SLURM_MPI_TYPE": chosen}).items()]
        guess = f"srun --mpi=list has {', '.join(known)}: which one was the library built for?"
        found.differs["env_vars"] = (pairs, "srun --mpi=list", guess)


def _environment(lines: Lines, one: Environment) -> None:
    if one.differs:
        lines.add(2, "- name", one.name, one.origin, one.guess)
    for key, (value, origin, guess) in one.differs.items():
        lines.add(4, key, value, origin, guess)


def _partition(
    lines: Lines,
    cluster: Cluster,
    name: str,
    one: Partition,
    access: Sequence[str],
    environments: Sequence[Environment],
    images: Sequence[str],
) -> None:
    inspected = cluster.inspected.get(one.name)
    platform, modules, platform_origin = _platform(cluster, inspected)
    names = [environment.name for environment in environments]
    names += images if platform else []
    lines.add(2, "- name", name, f"{one.origin}: its name")
    _scheduler(lines, cluster, environments)
    origin = one.origin + ("; --access" if access else "")
    if len(cluster.accounts) > 1:
        origin += f"; sacctmgr: your accounts are {', '.join(cluster.accounts)}"
    further, doubt = admitted.options(cluster, one, access)
    lines.add(4, "access", [f"-p {one.name}", *access, *further], origin, doubt)
    origins = [f"{each.name}: {each.origin or each.guess}" for each in environments]
    # A partition has at least one environment: without a compiler none of ours can be used.
    guess = "" if names else "neither an MPI library nor gcc was found"
    lines.add(4, "environs", names or ["gnu"], "; ".join(origins), guess)
    features = [feature for feature, has in _features(names).items() if has]
    if features:
        lines.add(4, "features", features, "follows from environs")
    if platform:
        value = {"type": platform, **({"modules": modules} if modules else {})}
        lines.add(4, "container_platforms", [value], platform_origin)
    lines.open(4, "extras", "facts of the nodes and their link")
    _extras(lines, cluster, one, inspected)


def _scheduler(lines: Lines, cluster: Cluster, environments: Sequence[Environment]) -> None:
    accounting = slurm.has_accounting(cluster.config)
    kind = cluster.config.get("AccountingStorageType", "")
    origin = f"scontrol show config: AccountingStorageType is {kind}"
    guess = "scontrol show config could not be read" if accounting is None else ""
    lines.add(4, "scheduler", "slurm" if accounting else "squeue", origin, guess)
    origin = f"srun --mpi=list: {', '.join(cluster.mpi_types)}"
    guess = "" if cluster.mpi_types else "srun --mpi=list could not be read"
    alone = [each.name for each in environments if not _srun_starts(cluster, each)]
    if alone:
        guess = f"{origin}: srun has no type that starts {', '.join(alone)}"
    lines.add(4, "launcher", "mpirun" if alone else "srun", origin, guess)


def _srun_starts(cluster: Cluster, one: Environment) -> bool:
    """Whether srun can start the environment's MPI library, as far as Slurm told its types."""
    if one.name not in MPI_TYPES or not cluster.mpi_types:
        return True
    return bool({*_types(cluster, one)} & {*cluster.mpi_types})


def _types(cluster: Cluster, one: Environment) -> tuple[str, ...]:
    """Names for srun's `--mpi` by which the environment's library can start, preferred first."""
    module = next((found.name for found in cluster.software.get(one.name, ())), "")
    version = re.search(rf"(?i)open-?mpi\d*{COMPILERS}[/@-]v?(\d+)\.", module)
    if version and int(version[1]) >= PMIX_ALONE:
        return ("pmix",)
    cray = ("cray_shasta",) if module.lower().startswith("cray-") else ()
    return cray + MPI_TYPES.get(one.name, ())


def _features(environs: Sequence[str]) -> dict[str, bool]:
    return {
        "mpi": any(name.startswith(tuple(MPI_TYPES)) for name in environs),
        "java": any(name.startswith(("mpj", "fastmpj")) for name in environs),
    }


def _platform(cluster: Cluster, inspected: Inspected | None) -> tuple[str, list[str], str]:
    """Container platform, the modules that load it, and the origin; '' if there is none."""
    facts = inspected.facts if inspected else {}
    for command in ("apptainer", "singularity"):
        path = facts.get(f"command.{command}", "none")
        if inspected and path not in node.NONE:
            return command.capitalize(), [], f"{path} ({inspected.origin})"
    if "apptainer" in cluster.software:
        modules = cluster.loads.get("apptainer", [cluster.software["apptainer"][0].name])
        kind = "Singularity" if "singularity" in modules[-1].lower() else "Apptainer"
        return kind, list(modules), "module -t avail"
    return "", [], ""


def _extras(lines: Lines, cluster: Cluster, one: Partition, inspected: Inspected | None) -> None:
    source = inspected or cluster.login
    facts: Mapping[str, str] = source.facts if source else {}
    # What this node does not tell is told by another kind of node, if at all.
    doubt = ""
    if not inspected:
        doubt = "no node of the partition was inspected; this is the login node's"
        if not source:
            doubt = "no node was inspected"
    origin = source.origin if source else ""
    _link(lines, facts, origin, doubt)
    name, guess = node.hypervisor(facts)
    lines.add(6, "hypervisor", name, f"{origin}: hypervisor", doubt or guess)
    _hardware(lines, cluster, one, facts, origin, doubt)
    if one.time_limit:
        lines.add(6, "max_time_limit", one.time_limit, f"{one.origin}: its time limit")
    lines.add(6, "max_pending_time", PENDING, "nearmetal init; a case that waits longer fails")
    lines.add(6, "no_baseline", NO_BASELINE, "nearmetal init")
    document = f"{cluster.nodes_origin}; {origin or 'no node was inspected'}"
    lines.add(6, "source", document, "nearmetal init")


def _link(lines: Lines, facts: Mapping[str, str], origin: str, doubt: str) -> None:
    link = node.link_of(facts)
    guessed = dict(link.guessed)

    def add(key: str, value, fact: str) -> None:
        lines.add(6, key, value, f"{origin}: {fact}", doubt or guessed.get(key, ""))

    about = f"{link.nic or 'no interface'}, driver {link.driver}"
    add("link_class", link.link_class, about)
    add("link_type", link.link_type, about)
    add("link_speed_gbps", link.speed_gbps, f"rate of {link.nic}")
    if link.signalling_gbps:
        add("link_signalling_gbps", link.signalling_gbps, f"rate of {link.nic}")
    add("nic_model", link.model, about)
    if link.rdma:
        add("rdma", True, "an active port in /sys/class/infiniband")


def _hardware(
    lines: Lines,
    cluster: Cluster,
    one: Partition,
    facts: Mapping[str, str],
    origin: str,
    doubt: str,
) -> None:
    nodes = cluster.nodes_of(one.name)
    model = facts.get("cpu_model", "unknown")
    if model not in node.NONE:
        lines.add(6, "cpu", model, f"{origin}: {_settings(facts)}", doubt)
    instance = re.fullmatch(r"Amazon EC2 (\w+\.[\w-]+)", facts.get("dmi", ""))
    if instance and not doubt:
        lines.add(6, "instance_type", instance[1], f"{origin}: dmi")
    _nodes(lines, one, len(nodes), cluster.nodes_origin)
    _cores_per_node(lines, one, nodes, cluster.nodes_origin, 0 if doubt else _cores(facts))
    _memory(lines, one, nodes, facts, cluster, origin, doubt)


def _nodes(lines: Lines, one: Partition, number: int, origin: str) -> None:
    """The nodes that a job can have. The partition's least number of them has no key."""
    most, least = one.limits.get("MaxNodes", number), one.limits.get("MinNodes", 1)
    if most < number:
        number, origin = most, f"{one.origin}: MaxNodes"
    guess = ""
    if least > 1:
        guess = f"jobs have at least {least} nodes (MinNodes): checks of fewer do not start"
    lines.add(6, "nodes", number, origin, guess)


def _cores_per_node(
    lines: Lines, one: Partition, nodes: Sequence[Node], nodes_origin: str, seen: int
) -> None:
    """The cores of a node that a job can have.

    :arg seen: cores that a node has by itself; 0 if it was not asked.
    """
    smallest = min(nodes, key=lambda each: limits.cores(one, each))
    cores = limits.cores(one, smallest)
    origin = f"{nodes_origin}: CoresPerSocket"
    if smallest.kept_cores:
        origin += f", less {smallest.kept_cores} that Slurm keeps (CoreSpecCount)"
    if cores < smallest.cores:
        origin = f"{one.origin}: {limits.of_cores(one)}"
    guess = _differing([limits.cores(one, each) for each in nodes], "cores")
    has = smallest.cores + smallest.kept_cores
    if seen and seen != has:
        guess = guess or f"Slurm says {has} cores, and the node {seen}"
    lines.add(6, "cores_per_node", cores, origin, guess)


def _memory(
    lines: Lines,
    one: Partition,
    nodes: Sequence[Node],
    facts: Mapping[str, str],
    cluster: Cluster,
    origin: str,
    doubt: str,
) -> None:
    key = "guest_memory_gb" if node.is_guest(facts) else "memory_gb"
    known = facts.get("mem_total_kb", "")
    guess = _differing([each.memory_mb for each in nodes], "MB of memory")
    limited, limit, why = limits.memory(one, nodes, cluster.config)
    if limit:
        doubts = "; ".join(filter(None, [guess, why]))
        lines.add(6, key, _gb(limited << 20), limit, doubts)
        return
    if known.isdecimal() and not doubt and not guess:
        lines.add(6, key, _gb(int(known) * 1024), f"{origin}: MemTotal")
        return
    megabytes = min(each.memory_mb for each in nodes)
    if megabytes > 1:  # Slurm's default, where nobody configured it
        lines.add(6, key, _gb(megabytes << 20), f"{cluster.nodes_origin}: RealMemory", guess)


def _gb(count: int) -> float:
    """Bytes as GB: whole ones, or a tenth where there are few."""
    value = count / 1e9
    return round(value) if value >= 16 else max(0.1, round(value, 1))


def _cores(facts: Mapping[str, str]) -> int:
    """Physical cores of a node by its facts; 0 if they do not tell."""
    processors, threads = facts.get("cpus", ""), facts.get("threads_per_core", "1")
    if not (processors.isdecimal() and threads.isdecimal()):
        return 0
    return int(processors) // max(1, int(threads))


def _settings(facts: Mapping[str, str]) -> str:
    shown = {"NUMA nodes": "numa_nodes", "SMT": "smt", "governor": "governor"}
    return ", ".join(f"{label} {facts.get(key, 'unknown')}" for label, key in shown.items())


def _differing(numbers: Sequence[int], what: str) -> str:
    """The guess where nodes differ; '' where they do not."""
    different = sorted({*numbers})
    if len(different) < 2:
        return ""
    return f"nodes have {different[0]} to {different[-1]} {what}; this is the least"
