"""ReFrame's configuration for Nearmetal: the systems it knows, their environments, and where
results go.

A system is one file in `systems/`. A site adds its own by dropping one there, or in a directory
named in NEARMETAL_SYSTEMS_PATH (colon-separated).
"""

import os
import re
import shlex
import socket
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import reframe as rfm
from reframe.core.backends import getscheduler
from reframe.core.exceptions import ConfigError

from nearmetal.site import (
    launchers,  # noqa: F401 - the import registers those that ReFrame lacks
    places,
    selection,
    versions,
)
from nearmetal.site.system import (
    System,
    SystemFileError,
    configured_environment,
    may_describe,
    read_environments,
    warn_once,
)
from nearmetal.util import command, suggest

#: Scheduler -> what to do where ReFrame lacks a library that it needs.
MISSING_LIBRARY = {
    "flux": "run ReFrame on a node of Flux, with a Python in which `import flux.job` works: "
    "`pip install flux-python==VERSION`, with the version that `flux version` prints"
}


def site_configuration(here: Path) -> dict:
    """The configuration of a directory with systems/ and environments.yaml.

    A site's own systems come first: they win over ours of the same name, and where both match a
    host name. RFM_PREFIX is ReFrame's variable for stage and output; whatever else a run writes
    follows it.
    """
    if too_old := versions.refused(rfm.VERSION):
        raise ConfigError(too_old)
    selection.refuse_empty_runs()
    own = filter(None, os.environ.get("NEARMETAL_SYSTEMS_PATH", "").split(":"))
    results = places.results(os.environ.get("RFM_PREFIX") or None, here.parent)
    return configure(here, [*map(Path, own), here / "systems"], results)


def configure(here: Path, directories: list[Path], results: str) -> dict:
    """The whole configuration. Raises ConfigError.

    ReFrame takes the first system whose host names match: directories in that order.
    """
    common = read_environments(here / "environments.yaml")
    requested = requested_system()
    systems, configured = read_systems(directories, common, requested, results)
    # Other configuration files of ReFrame may describe it.
    if not has_further_configuration(sys.argv[1:], os.environ):
        refuse_unknown_system(requested, systems)
    refuse_unusable_scheduler(requested, systems.values())
    environments = [configured_environment(environment) for environment in common.values()]
    for system in systems.values():
        environments += system.own_environments()
    # Left out because ReFrame's own is right: the console at info, and performance logs of all
    # loggable variables in <prefix>/perflogs/<system>/<partition>/<check>.log.
    return {
        "systems": configured,
        "environments": environments,
        "general": [
            {
                "report_file": f"{results}/reports/run-report-{{sessionid}}.json",
                "save_log_files": True,
            }
        ],
        "storage": [{"enable": True, "sqlite_db_file": f"{results}/results.db"}],
    }


def read_systems(
    directories: Iterable[Path], common: Mapping[str, dict], requested: str, results: str
) -> tuple[dict[str, System], list[dict]]:
    """The systems by name, and each as ReFrame takes it. Raises ConfigError.

    A damaged file ends ReFrame where it may describe the requested system. It is left out, with a
    warning, where another file describes that system.
    """
    systems: dict[str, System] = {}
    configured: list[dict] = []
    damaged: dict[Path, ConfigError] = {}
    for path in paths_of(directories):
        try:
            system = System.read(path, common)
            earlier = systems.get(system.name)
            if earlier is None:
                configured.append(system.as_reframes(results, rfm.VERSION))
                systems[system.name] = system
            # A file of an earlier directory is a site's own, which wins over ours.
            elif earlier.path.parent == path.parent:
                raise SystemFileError(
                    f"{path}: system {system.name!r} is already defined in {earlier.path}. "
                    "Fix: rename one"
                )
        except ConfigError as error:
            damaged[path] = error
    name = requested.partition(":")[0]
    for path, fault in damaged.items():
        if name not in systems or may_describe(path, name):
            raise fault
        warn_once(f"left out: {fault}")
    return systems, configured


def paths_of(directories: Iterable[Path]) -> Iterable[Path]:
    """The files of systems, in the order of their directories. Raises ConfigError."""
    for directory in directories:
        # ReFrame loads this file from its own directory, so that a relative path would mean another
        # place than typed.
        if not (directory.is_absolute() and directory.is_dir()):
            raise ConfigError(
                f"{directory}: not the absolute path of a directory. Fix: correct "
                "NEARMETAL_SYSTEMS_PATH"
            )
        yield from sorted(directory.glob("*.y*ml"))


def requested_system() -> str:
    """The SYSTEM or SYSTEM:PARTITION that ReFrame is asked for; '' if none."""
    options: dict = {}
    if "reframe.frontend.cli" in sys.modules:  # else another program reads a configuration
        try:
            options = vars(command.parse(shlex.join(sys.argv)).options)
        except command.CommandError:
            pass  # ReFrame refuses them itself
    return options.get("system") or os.environ.get("RFM_SYSTEM", "")


def has_further_configuration(arguments: list[str], environment: Mapping[str, str]) -> bool:
    """Whether ReFrame reads other configuration files as well, whose systems we do not know."""
    return (
        any(word.startswith(("-C", "--config-file")) for word in arguments)
        or bool(environment.get("RFM_CONFIG_FILES"))
        or ":" in environment.get("RFM_CONFIG_PATH", "")
    )


def refuse_unknown_system(requested: str, systems: Mapping[str, System]) -> None:
    """Raise ConfigError where no file describes the requested system or partition."""
    name, _, partition = requested.partition(":")
    if name in ("", "generic"):
        return
    if name not in systems:
        directories = sorted({str(system.path.parent) for system in systems.values()})
        raise ConfigError(
            f"{suggest.unknown_value('the system', name, systems)}. Fix: correct --system or "
            f"RFM_SYSTEM, or describe it in a file of {', '.join(directories)} or of a directory "
            "in NEARMETAL_SYSTEMS_PATH"
        )
    system = systems[name]
    if partition and partition not in system.partition_names:
        refuse_absent_partition(system, partition)
        unknown = suggest.unknown_value("the partition", partition, system.partition_names)
        raise ConfigError(
            f"{system.path}: {name}: {unknown}. Fix: correct --system or RFM_SYSTEM, or describe "
            "the partition in that file"
        )


def refuse_absent_partition(system: System, name: str) -> None:
    """Raise ConfigError where the partition is one that is there at other times."""
    times = []
    for partition in system.document["partitions"]:
        if partition["name"] == name and "only_with" in partition:
            times.append(" and ".join(map("=".join, partition["only_with"].items())))
    if times:
        raise ConfigError(
            f"{system.path}: {system.name}:{name} is not there now (only_with). "
            f"Fix: set {', or '.join(times)}"
        )


def matches_this_host(system: System) -> bool:
    """Whether ReFrame takes this system where none is asked for."""
    host = socket.gethostname()
    return any(re.match(pattern, host) for pattern in system.document["hostnames"])


def refuse_unusable_scheduler(requested: str, systems: Iterable[System]) -> None:
    """Raise ConfigError where ReFrame lacks a library that a chosen partition's scheduler needs."""
    name, _, partition = requested.partition(":")
    for system in systems:
        if system.name == name or (not name and matches_this_host(system)):
            _refuse_unusable_scheduler(system, partition)
            break  # ReFrame takes the first


def _refuse_unusable_scheduler(system: System, name: str) -> None:
    for partition in system.partitions:
        if name and partition["name"] != name:
            continue
        scheduler = partition["scheduler"]
        try:
            getscheduler(scheduler)
        except ConfigError as error:
            raise ConfigError(
                f"{system.path}: {system.name}:{partition['name']}: scheduler: {scheduler}: "
                f"{error}. Fix: {MISSING_LIBRARY.get(scheduler, 'correct `scheduler`')}"
            ) from None
