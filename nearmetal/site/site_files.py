"""A site's files: systems and environments, read and checked before ReFrame sees them.

ReFrame's own errors name neither the file nor the fix, and some names it never checks.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import jsonschema
from reframe.core.exceptions import ConfigError

from nearmetal.site import versions
from nearmetal.util import strict_yaml, suggest

SCHEMA = Path(__file__).resolve().parent / "schema.yaml"

#: Keys of a partition's extras, one of which must be there where an environment has the feature.
NEEDED_EXTRAS = {
    "mpi": ("cores_per_node", "ranks_per_node"),
    "mpj": ("cores_per_node", "ranks_per_node"),
    "vswitch": ("cores_per_node", "vswitch_processes"),
}


def read_yaml(path: Path):
    """A file's content. Raises ConfigError."""
    try:
        return strict_yaml.read(path)
    except (OSError, strict_yaml.YamlError) as error:
        raise ConfigError(f"{path}: cannot be read as YAML: {error}") from None


def place_of(keys: list, document) -> tuple[str, list]:
    """The part of a system's file at these keys, and the keys within it."""
    name = str(document.get("name", "system")) if isinstance(document, dict) else "system"
    if len(keys) < 2 or keys[0] not in ("partitions", "environments"):
        return name, keys
    part = document[keys[0]][keys[1]]
    label = part.get("name") if isinstance(part, dict) else None
    if keys[0] == "environments":
        return f"{name}: environment {label or keys[1] + 1}", keys[2:]
    return f"{name}:{label or f'partition {keys[1] + 1}'}", keys[2:]


def _schema(error: jsonschema.ValidationError) -> Mapping[str, Any]:
    """The part of the schema that is not met; a schema may also be `true` or `false`, ours are
    not."""
    return error.schema if isinstance(error.schema, Mapping) else {}


def unknown_keys(error: jsonschema.ValidationError) -> list[str]:
    """The fault of each key that the schema does not know."""
    known, given = _schema(error)["properties"], cast(dict, error.instance)
    return [suggest.unknown_value("the key", key, known) for key in given if key not in known]


def complaints(error: jsonschema.ValidationError, document) -> list[str]:
    """Lines of place (system:partition: key), fault, and the fix from the schema's description."""
    name, keys = place_of(list(error.absolute_path), document)
    schema = _schema(error)
    faults, fix = [error.message], schema.get("description")
    if error.validator == "required":
        required = cast(list[str], error.validator_value)
        key = next(key for key in required if error.message.startswith(f"{key!r} "))
        faults = [f"{key!r} is missing"]
        fix = schema["properties"][key].get("description", fix)
    elif error.validator == "additionalProperties":
        faults, fix = unknown_keys(error), "correct or remove the key"
        if "site" in schema["properties"]:
            fix += ", or move it below `site`, if checks of your own choose by it"
    elif error.validator == "enum":
        faults = [
            suggest.unknown_value("the value", error.instance, cast(list, error.validator_value))
        ]
    where = ": ".join([name, *([".".join(map(str, keys))] if keys else [])])
    return [f"{where}: {fault}" + (f". Fix: {fix}" if fix else "") for fault in faults]


def schema_errors(document, schema: dict) -> list[str]:
    validator = jsonschema.Draft202012Validator(schema)
    return [
        line for error in validator.iter_errors(document) for line in complaints(error, document)
    ]


def refuse(path: Path, errors: list[str]) -> None:
    """Raise ConfigError where there is an error."""
    if errors:
        raise ConfigError("\n  ".join([f"{path}:", *errors]))


def read_environments(path: Path) -> dict[str, dict]:
    """The environments of all systems by name. ConfigError as of `read_system`."""
    definitions = read_yaml(SCHEMA)["$defs"]
    known = {"type": "array", "items": {"$ref": "#/$defs/environment"}}
    document = {"name": "all systems", "environments": read_yaml(path)}
    schema = {"properties": {"environments": known}, "$defs": definitions}
    refuse(path, schema_errors(document, schema))
    refuse(path, errors_of_repeats(document, "environments"))
    return {environment["name"]: environment for environment in document["environments"]}


def merged_environments(document: dict, common: dict[str, dict]) -> dict[str, dict]:
    """The environments of a system by name: the common ones, and what differs in its file."""
    own = document.get("environments", [])
    return common | {one["name"]: {**common.get(one["name"], {}), **one} for one in own}


def errors_of_repeats(document: dict, kind: str) -> list[str]:
    """Names that more than one of the partitions or environments has."""
    names = [described["name"] for described in document.get(kind, [])]
    return [
        f"{document['name']}: {kind}: more than one is named {name}. Fix: rename all but one"
        for name in sorted({name for name in names if names.count(name) > 1})
    ]


def errors_of_names(document: dict, common: dict[str, dict], definitions: dict) -> list[str]:
    """Unknown environments and features of a document that the schema allows; missing extras."""
    environments = merged_environments(document, common)
    errors = errors_of_repeats(document, "environments")
    of_environments = definitions["features_of_environments"]["enum"]
    of_partitions = definitions["features_of_partitions"]["enum"]
    own = document.get("environments", [])
    used = {name for partition in document["partitions"] for name in partition["environs"]}
    for environment in own:
        where = f"{document['name']}: environment {environment['name']}"
        if environment["name"] not in {*common, *used}:
            errors.append(
                f"{document['name']}: "
                f"{suggest.unknown_value('the environment', environment['name'], common)}. "
                "Fix: correct the name, or list it in the environs of a partition"
            )
        errors += errors_of_features(where, environment, of_environments)
    for partition in document["partitions"]:
        where = f"{document['name']}:{partition['name']}"
        errors += [
            f"{where}: environs: {suggest.unknown_value('the environment', name, environments)}. "
            "Fix: correct the name, or describe the environment in `environments` of this file"
            for name in partition["environs"]
            if name not in environments
        ]
        errors += errors_of_features(where, partition, of_partitions)
        errors += missing_extras(where, partition, environments)
        errors += errors_of_hypervisor(where, partition, definitions["hypervisors"]["enum"])
    return errors


def errors_of_hosts(document: dict) -> list[str]:
    """Patterns of host names that are no regular expressions, such as the shell's `*login*`."""
    errors = []
    for pattern in document["hostnames"]:
        try:
            re.compile(pattern)
        except re.error as error:
            errors.append(
                f"{document['name']}: hostnames: {pattern!r} is no regular expression ({error}). "
                "Fix: write `.*` for the shell's `*`"
            )
    return errors


def errors_of_features(where: str, described: dict, known: list[str]) -> list[str]:
    """Features that are nearly one of ours, which would choose no check and say nothing.

    Others are a site's own.
    """
    errors = []
    for name in described.get("features", []):
        like = suggest.nearest(name, known, cutoff=0.75)
        if name not in known and like:
            errors.append(
                f"{where}: features: {name!r} is unknown; did you mean {' or '.join(like)}? "
                "Fix: correct it. If checks of your own choose by it, "
                f"write `site: {{{name}: 1}}` in extras instead, which is a feature too"
            )
    return errors


def errors_of_hypervisor(where: str, partition: dict, known: list[str]) -> list[str]:
    """A hypervisor that is nearly a known one. Others are a site's own."""
    name = partition["extras"]["hypervisor"]
    like = suggest.nearest(name, known, cutoff=0.75)
    if not like or any(re.fullmatch(rf"{re.escape(one)}(-.*)?", name) for one in known):
        return []
    guess = " or ".join(like)
    return [
        f"{where}: extras.hypervisor: {name!r} is unknown; did you mean {guess}? Fix: correct it"
    ]


def errors_of_this_reframe(system: dict, version: str) -> list[str]:
    """Features of a system, as `read_system` returns it, that a version of ReFrame refuses."""
    described = [(f"{system['name']}:{one['name']}", one) for one in system["partitions"]]
    described += [
        (f"{system['name']}: environment {one['name']}", one)
        for one in system.get("environments", [])
    ]
    return [
        f"{where}: features: {why}"
        for where, one in described
        for name in one.get("features", [])
        if (why := versions.refused_feature(name, version))
    ]


def missing_extras(where: str, partition: dict, environments: dict[str, dict]) -> list[str]:
    """Keys without which checks would run in a shape that nobody asked for."""
    needed: dict[tuple[str, ...], tuple[str, str]] = {}
    for name in partition["environs"]:
        for feature in environments.get(name, {}).get("features", []):
            keys = NEEDED_EXTRAS.get(feature, ())
            if keys and not any(key in partition["extras"] for key in keys):
                needed.setdefault(keys, (name, feature))
    return [
        f"{where}: extras: {key!r} is missing, which the environment {name!r} needs "
        f"(feature {feature}). Fix: give the physical cores of a node, or `{'`, `'.join(others)}`"
        for (key, *others), (name, feature) in needed.items()
    ]


def errors_of_own_keys(document: dict, definitions: dict) -> list[str]:
    """Keys below `site` that are Nearmetal's own, and would be two values of one key."""
    errors = []
    for kind, known in (("partitions", "extras"), ("environments", "environ_extras")):
        for described in document.get(kind, []):
            ours = definitions[known]["properties"]
            errors += [
                f"{document['name']}: {described['name']}: extras.site: {key!r} is a key of "
                "Nearmetal's. Fix: write it in extras itself"
                for key in described.get("extras", {}).get("site", {})
                if key in ours
            ]
    return errors


def read_system(path: Path, common: dict[str, dict]) -> dict:
    """A system's file, valid and with known names, with the partitions that are there now.

    :arg common: the environments of all systems by name.
    :raises ConfigError: names the file, and for every fault the place and the fix.
    """
    return check_system(path, read_yaml(path), common)


def check_system(path: Path, document, common: dict[str, dict]) -> dict:
    """The contents of a system's file, as `read_system` returns them. Raises ConfigError."""
    schema = read_yaml(SCHEMA)
    refuse(path, schema_errors(document, schema))
    errors = errors_of_names(document, common, schema["$defs"]) + errors_of_hosts(document)
    refuse(path, errors + errors_of_own_keys(document, schema["$defs"]))
    document["partitions"] = [
        partition
        for partition in document["partitions"]
        if is_there(partition.pop("only_with", {}))
    ]
    refuse(path, errors_of_repeats(document, "partitions"))
    return document


def is_there(only_with: dict) -> bool:
    """Whether the variables of the login environment have these values."""
    return all(os.environ.get(name) == value for name, value in only_with.items())
