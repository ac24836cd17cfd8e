"""ReFrame's configuration for Nearmetal: the systems it knows, their environments, and where
results go.

A system is one file in `systems/`; a site adds its own by dropping one there, or in a directory
named in NEARMETAL_SYSTEMS_PATH (colon-separated). `schema.yaml` says what such a file may hold, and
`site_files.py` checks it.
"""

import os
import re
import shlex
import socket
import sys
from pathlib import Path

import reframe as rfm
from reframe.core.backends import getscheduler
from reframe.core.exceptions import ConfigError

from nearmetal.site import (
    obsolete,
    places,
    prun,  # noqa: F401 - the import registers the launcher
    selection,
    versions,
)
from nearmetal.site.site_files import (
    errors_of_this_reframe,
    read_environments,
    read_system,
    read_yaml,
    refuse,
)
from nearmetal.util import command, suggest

#: What a partition's `link_class` lets a check ask for. A virtual function is a passed-through
#: device too.
NIC_FEATURES = {
    "native": ["nic_native"],
    "passthrough": ["nic_passthrough"],
    "sriov": ["nic_passthrough", "nic_sriov"],
    "emulated": ["nic_emulated"],
}


def configure_partition(partition: dict) -> dict:
    """A partition as ReFrame takes it, with the features that follow from its extras."""
    extras = dict(partition["extras"])
    features = partition.get("features", []) + NIC_FEATURES[extras["link_class"]]
    features += ["bare_metal" if extras["hypervisor"] == "none" else "vm"]
    # Not left an extra: to ReFrame an extra's name is a feature, so that `+rdma` would match `rdma:
    # false`.
    features += ["rdma"] if extras.pop("rdma", False) else []
    features += [platform["type"].lower() for platform in partition.get("container_platforms", [])]
    extras |= extras.pop("site", {})
    # One job at a time: two that share nodes or a switch would measure each other.
    return {"max_jobs": 1, **partition, "features": list(dict.fromkeys(features)), "extras": extras}


def with_options_of_system(partition: dict, system: dict) -> dict:
    """A partition with the system's scheduler options, which ReFrame itself does not give it."""
    options = {**system.get("sched_options", {}), **partition.get("sched_options", {})}
    return {**partition, "sched_options": options} if options else partition


def configure_environment(environment: dict) -> dict:
    """An environment as ReFrame takes it."""
    extras = dict(environment.get("extras", {}))
    own = extras.pop("site", {})
    return {**environment, "extras": {**extras, **own}} if own else environment


def asked() -> dict:
    """ReFrame's options of this process by their names; empty where ReFrame refuses them itself."""
    if "reframe.frontend.cli" not in sys.modules:  # another program that reads a configuration
        return {}
    try:
        return vars(command.parse(shlex.join(sys.argv)).options)
    except command.CommandError:
        return {}


def requested_system(options: dict, environment) -> str:
    """The SYSTEM or SYSTEM:PARTITION that ReFrame is asked for; '' if none."""
    return options.get("system") or environment.get("RFM_SYSTEM", "")


def has_further_configuration(arguments: list[str], environment) -> bool:
    """Whether ReFrame reads other configuration files as well, whose systems we do not know."""
    return (
        any(word.startswith(("-C", "--config-file")) for word in arguments)
        or bool(environment.get("RFM_CONFIG_FILES"))
        or ":" in environment.get("RFM_CONFIG_PATH", "")
    )


def refuse_absent_partition(path: Path, system: str, partition: str) -> None:
    """Raise ConfigError where the partition is one that is there at other times."""
    described = read_yaml(path)["partitions"]
    times = [
        " and ".join(f"{key}={value}" for key, value in one["only_with"].items())
        for one in described
        if one["name"] == partition and "only_with" in one
    ]
    if times:
        raise ConfigError(
            f"{path}: {system}:{partition} is not there now (only_with). "
            f"Fix: set {', or '.join(times)}"
        )


def refuse_unknown_system(asked: str, systems: list[dict], files: dict[str, Path]) -> None:
    """Raise ConfigError where no file describes the system or partition that was asked for."""
    name, _, partition = asked.partition(":")
    if name in ("", "generic"):
        return
    known = {system["name"]: system["partitions"] for system in systems}
    if name not in known:
        directories = ", ".join(sorted({str(path.parent) for path in files.values()}))
        raise ConfigError(
            f"{suggest.unknown_value('the system', name, known)}. Fix: correct --system or "
            f"RFM_SYSTEM, or describe it in a file of {directories} or of a directory in "
            "NEARMETAL_SYSTEMS_PATH"
        )
    partitions = [one["name"] for one in known[name]]
    if partition and partition not in partitions:
        refuse_absent_partition(files[name], name, partition)
        raise ConfigError(
            f"{files[name]}: {name}: "
            f"{suggest.unknown_value('the partition', partition, partitions)}. Fix: correct "
            "--system or RFM_SYSTEM, or describe the partition in that file"
        )


#: Scheduler -> what to do where ReFrame lacks a library that it needs.
MISSING_LIBRARY = {
    "flux": "run ReFrame on a node of Flux, with a Python in which `import flux.job` works: "
    "`pip install flux-python==VERSION`, with the version that `flux version` prints"
}


def matches_this_host(system: dict) -> bool:
    """Whether ReFrame takes this system where none is asked for."""
    try:
        return any(re.match(pattern, socket.gethostname()) for pattern in system["hostnames"])
    except re.error:
        return False  # ReFrame names the pattern


def refuse_unusable_scheduler(asked: str, systems: list[dict], files: dict[str, Path]) -> None:
    """Raise ConfigError where ReFrame lacks a library that a chosen partition's scheduler needs."""
    name, _, partition = asked.partition(":")
    chosen = [one for one in systems if (one["name"] == name if name else matches_this_host(one))]
    for system in chosen[:1]:
        for one in system["partitions"]:
            if partition and one["name"] != partition:
                continue
            try:
                getscheduler(one["scheduler"])
            except ConfigError as error:
                fix = MISSING_LIBRARY.get(one["scheduler"], "correct `scheduler`")
                raise ConfigError(
                    f"{files[system['name']]}: {system['name']}:{one['name']}: scheduler: "
                    f"{one['scheduler']}: {error}. Fix: {fix}"
                ) from None


def read_new_system(path: Path, common: dict, files: dict[str, Path]) -> dict:
    """A system's file, if none before it describes the system; else {}. Raises ConfigError.

    :arg files: the files before it, by system.
    """
    system = read_system(path, common)
    refuse(path, errors_of_this_reframe(system, rfm.VERSION))
    name = system["name"]
    if name in files:
        if files[name].parent == path.parent:
            raise ConfigError(
                f"{path}: system {name!r} is already defined in {files[name]}. Fix: rename one"
            )
        return {}  # a site's own is what it wants, not ours
    modules = system.setdefault("modules_system", "envmod")
    if unknown := versions.refused_modules_system(modules, rfm.VERSION):
        raise ConfigError(f"{path}: {name}: {unknown}")
    return system


def refuse_damaged(asked: str, files: dict[str, Path], damaged: dict[Path, ConfigError]) -> None:
    """Raise the error of a file that may describe the requested system. Warn of other files.

    :arg files: the readable files by system.
    """
    name = asked.partition(":")[0]
    for path, error in damaged.items():
        if name not in files or obsolete.may_describe(path, name):
            raise error
        obsolete.tell_once(f"left out: {error}")


def configure(here: Path, directories: list[Path], results: str) -> dict:
    """The whole configuration. ReFrame takes the first system whose host names match: directories
    in that order."""
    common = read_environments(here / "environments.yaml")
    systems: list[dict] = []
    environments = list(common.values())
    files: dict[str, Path] = {}
    damaged: dict[Path, ConfigError] = {}
    for directory in directories:
        # ReFrame loads this file from its own directory, so that a relative path would mean another
        # place than typed.
        if not (directory.is_absolute() and directory.is_dir()):
            raise ConfigError(
                f"{directory}: not the absolute path of a directory. Fix: correct "
                "NEARMETAL_SYSTEMS_PATH"
            )
        for path in sorted(directory.glob("*.y*ml")):
            try:
                system = read_new_system(path, common, files)
            except ConfigError as error:
                damaged[path] = error
                continue
            if not system:
                continue
            name, modules = system["name"], system["modules_system"]
            files[name] = path
            environments += [
                {**common.get(own["name"], {}), **own, "target_systems": [name]}
                for own in system.pop("environments", [])
            ]
            systems.append(
                {
                    "prefix": results,
                    **system,
                    "modules_system": versions.modules_system(modules, rfm.VERSION),
                    "partitions": [
                        configure_partition(with_options_of_system(partition, system))
                        for partition in system["partitions"]
                    ],
                }
            )
    options = asked()
    refuse_damaged(requested_system(options, os.environ), files, damaged)
    if not has_further_configuration(sys.argv[1:], os.environ):
        refuse_unknown_system(requested_system(options, os.environ), systems, files)
    refuse_unusable_scheduler(requested_system(options, os.environ), systems, files)
    # Not said here because ReFrame's own is right: the console at info, and performance logs of all
    # loggable variables in <prefix>/perflogs/<system>/<partition>/<check>.log.
    return {
        "systems": systems,
        "environments": [configure_environment(environment) for environment in environments],
        "general": [
            {
                "report_file": f"{results}/reports/run-report-{{sessionid}}.json",
                "save_log_files": True,
            }
        ],
        "storage": [{"enable": True, "sqlite_db_file": f"{results}/results.db"}],
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
