"""ReFrame's configuration for Nearmetal: the systems it knows, their environments, and where results go.

A system is one file in `systems/`; a site adds its own by dropping one there, or in a directory named in
NEARMETAL_SYSTEMS_PATH (colon-separated).  `schema.yaml` says what such a file may hold and is checked here, because
ReFrame's own check names neither the place nor the fix.
"""

import os
import sys
from pathlib import Path

import jsonschema
import yaml
from reframe.core.exceptions import ConfigError

HERE = Path(__file__).resolve().parent

# ReFrame loads this file alone. Once imported, the launcher is registered, also where this file is loaded twice.
sys.path.insert(0, str(HERE))
import srun_mpj  # noqa: E402, F401

#: What a partition's `link_class` lets a check ask for. A virtual function is a passed-through device too.
NIC_FEATURES = {
    "native": ["nic_native"],
    "passthrough": ["nic_passthrough"],
    "sriov": ["nic_passthrough", "nic_sriov"],
    "emulated": ["nic_emulated"],
}


def read_yaml(path: Path):
    try:
        return yaml.safe_load(path.read_text())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(
            f"{path}: cannot be read as YAML"
        ) from error  # ReFrame prints the cause behind it


def complaint(error: jsonschema.ValidationError, document) -> str:
    """One line of what is wrong: place (system:partition: key), fault, and the fix from the schema's description."""
    name, keys = "system", list(error.absolute_path)
    if isinstance(document, dict):
        name = str(document.get("name", name))
    if keys[:1] == ["partitions"] and len(keys) > 1:
        partition = document["partitions"][keys[1]]
        label = partition.get("name") if isinstance(partition, dict) else None
        name, keys = f"{name}:{label or f'partition {keys[1] + 1}'}", keys[2:]
    fault, fix = error.message, error.schema.get("description")
    if error.validator == "required":
        key = next(key for key in error.validator_value if error.message.startswith(f"{key!r} "))
        fault, fix = f"{key!r} is missing", error.schema["properties"][key].get("description", fix)
    elif error.validator == "additionalProperties":
        fix = "correct or remove the key; known are " + ", ".join(error.schema["properties"])
    return ": ".join([name, *([".".join(map(str, keys))] if keys else []), fault]) + (
        f". Fix: {fix}" if fix else ""
    )


def read_system(path: Path) -> dict:
    """A system's file, valid by the schema."""
    document = read_yaml(path)
    validator = jsonschema.Draft202012Validator(read_yaml(HERE / "schema.yaml"))
    if errors := [complaint(error, document) for error in validator.iter_errors(document)]:
        raise ConfigError("\n  ".join([f"{path}:", *errors]))
    document["partitions"] = [
        partition
        for partition in document["partitions"]
        if is_there(partition.pop("only_with", {}))
    ]
    names = [partition["name"] for partition in document["partitions"]]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(
            f"{path}: {document['name']}: more than one partition is named {', '.join(sorted(twice))}. "
            "Fix: rename all but one"
        )
    return document


def is_there(only_with: dict) -> bool:
    """Whether a partition that is there at times, as variables of the login environment tell, is there now."""
    return all(os.environ.get(name) == value for name, value in only_with.items())


def configure_partition(partition: dict) -> dict:
    """A partition as ReFrame takes it, with the features that follow from its extras."""
    extras = dict(partition["extras"])
    features = partition.get("features", []) + NIC_FEATURES[extras["link_class"]]
    features += ["bare_metal" if extras["hypervisor"] == "none" else "vm"]
    # Not left an extra: to ReFrame an extra's name is a feature, so that `+rdma` would match `rdma: false`.
    features += ["rdma"] if extras.pop("rdma", False) else []
    features += [platform["type"].lower() for platform in partition.get("container_platforms", [])]
    # One job at a time: two that share nodes or a switch would measure each other.
    return {"max_jobs": 1, **partition, "features": list(dict.fromkeys(features)), "extras": extras}


def configure(directories: list[Path], results: str) -> dict:
    """The whole configuration. ReFrame takes the first system whose host names match: directories in that order."""
    common = {
        environment["name"]: environment for environment in read_yaml(HERE / "environments.yaml")
    }
    systems, environments, files = [], list(common.values()), {}
    for directory in directories:
        # ReFrame loads this file from its own directory, so that a relative path would mean another place than typed.
        if not (directory.is_absolute() and directory.is_dir()):
            raise ConfigError(
                f"{directory}: not the absolute path of a directory. Fix: correct NEARMETAL_SYSTEMS_PATH"
            )
        for path in sorted(directory.glob("*.y*ml")):
            system = read_system(path)
            name = system["name"]
            if name in files:
                if files[name].parent == directory:
                    raise ConfigError(
                        f"{path}: system {name!r} is already defined in {files[name]}. Fix: rename one"
                    )
                continue  # a site's own is what it wants, not ours
            files[name] = path
            environments += [
                {**common.get(own["name"], {}), **own, "target_systems": [name]}
                for own in system.pop("environments", [])
            ]
            systems.append(
                {
                    "modules_system": "envmod",
                    "prefix": results,
                    **system,
                    "partitions": [
                        configure_partition(partition) for partition in system["partitions"]
                    ],
                }
            )
    # Not said here because ReFrame's own is right: the console at info, and performance logs of all loggable variables
    # in <prefix>/perflogs/<system>/<partition>/<check>.log.
    return {
        "systems": systems,
        "environments": environments,
        "general": [
            {
                "report_file": f"{results}/reports/run-report-{{sessionid}}.json",
                "save_log_files": True,
            }
        ],
        "storage": [{"enable": True, "sqlite_db_file": f"{results}/results.db"}],
    }


# A site's own systems come first, so that theirs win over ours of the same name, and where both match a host name.
# RFM_PREFIX is ReFrame's variable for stage and output; here everything else that a run writes follows it too.
site_configuration = configure(
    [
        *map(Path, filter(None, os.environ.get("NEARMETAL_SYSTEMS_PATH", "").split(":"))),
        HERE / "systems",
    ],
    os.environ.get("RFM_PREFIX") or str(HERE.parent / "results"),
)
