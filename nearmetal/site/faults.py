"""What is wrong in a system's file beyond its schema: unknown names, missing keys.

Pure functions of a document that the schema allows. ReFrame never checks some of these names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nearmetal.site import versions
from nearmetal.util import documents, suggest
from nearmetal.util.documents import Fault

#: Keys of a partition's extras, one of which must be there where an environment has the feature.
NEEDED_EXTRAS = {
    "mpi": ("cores_per_node", "ranks_per_node"),
    "mpj": ("cores_per_node", "ranks_per_node"),
    "vswitch": ("cores_per_node", "vswitch_processes"),
}
#: Likeness from which an unknown name is taken for a misspelled one, and not for a site's own.
MISSPELLED = 0.75


def merged(document: Mapping, common: Mapping[str, dict]) -> dict[str, dict]:
    """The environments of a system by name: the common ones, and what differs in its file."""
    environments = dict(common)
    for own in document.get("environments", []):
        environments[own["name"]] = {**common.get(own["name"], {}), **own}
    return environments


def is_there(partition: Mapping) -> bool:
    """Whether the variables of the login environment have the values of its `only_with`."""
    wanted = partition.get("only_with", {})
    return all(os.environ.get(name) == value for name, value in wanted.items())


def place_of(keys: Sequence, document) -> str:
    """The place of a key in words: `here:batch: extras.cores_per_node`."""
    words, rest = "system", keys
    if isinstance(document, dict):
        words = str(document.get("name", "system"))
    if len(keys) > 1 and keys[0] in ("partitions", "environments"):
        part, rest = document[keys[0]][keys[1]], keys[2:]
        name = None
        if isinstance(part, dict):
            name = part.get("name")
        if keys[0] == "environments":
            words += f": environment {name or keys[1] + 1}"
        else:
            words += f":{name or f'partition {keys[1] + 1}'}"
    if not rest:
        return words
    return f"{words}: {'.'.join(map(str, rest))}"


def of_schema(document, schema: Path | Mapping) -> Iterator[Fault]:
    """What of a document its schema does not allow."""
    for fault in documents.faults(document, schema):
        if fault.keys[-1:] == ("extras",) and fault.key is not None:
            fix = f"{fault.fix}, or move it below `site`, if checks of your own choose by it"
            fault = replace(fault, fix=fix)
        yield fault


def of_document(document: Mapping, common: Mapping, definitions: Mapping) -> Iterator[Fault]:
    """The faults of a system's file.

    :arg common: the environments of all systems by name.
    :arg definitions: those of the schema, with the known names.
    """
    yield from of_repeats(document.get("environments", []), ("environments",))
    yield from of_unused_environments(document, common)
    for number, environment in enumerate(document.get("environments", [])):
        keys = ("environments", number)
        known = definitions["features_of_environments"]["enum"]
        yield from of_features(keys, environment, known)
        yield from of_own_keys(keys, environment, definitions["environ_extras"]["properties"])
    environments = merged(document, common)
    for number, partition in enumerate(document["partitions"]):
        keys = ("partitions", number)
        yield from of_environs(keys, partition, environments)
        yield from of_features(keys, partition, definitions["features_of_partitions"]["enum"])
        yield from of_missing_extras(keys, partition, environments)
        yield from of_hypervisor(keys, partition, definitions["hypervisors"]["enum"])
        yield from of_own_keys(keys, partition, definitions["extras"]["properties"])
    yield from of_hosts(document["hostnames"])
    # Partitions that are there at different times may share a name.
    yield from of_repeats(filter(is_there, document["partitions"]), ("partitions",))


def of_repeats(described: Iterable[Mapping], keys: tuple) -> Iterator[Fault]:
    """Names that more than one of the partitions or environments has."""
    names = [each["name"] for each in described]
    for name in sorted(set(names)):
        if names.count(name) > 1:
            yield Fault(keys, f"more than one is named {name}", "rename all but one")


def of_unused_environments(document: Mapping, common: Mapping[str, dict]) -> Iterator[Fault]:
    """Environments of this file that are neither common ones nor those of a partition."""
    # ReFrame itself takes an environment that nothing uses, and says nothing.
    used = set(common)
    for partition in document["partitions"]:
        used.update(partition["environs"])
    for number, environment in enumerate(document.get("environments", [])):
        name = environment["name"]
        if name not in used:
            yield Fault(
                ("environments", number),
                suggest.unknown_value("the environment", name, common),
                "correct the name, or list it in the environs of a partition",
                "name",
            )


def of_environs(keys: tuple, partition: Mapping, environments: Mapping) -> Iterator[Fault]:
    """Environments of a partition that no file describes."""
    for number, name in enumerate(partition["environs"]):
        if name not in environments:
            yield Fault(
                (*keys, "environs"),
                suggest.unknown_value("the environment", name, environments),
                "correct the name, or describe the environment in `environments` of this file",
                number,
            )


def of_features(keys: tuple, described: Mapping, known: Sequence[str]) -> Iterator[Fault]:
    """Features that are nearly one of ours, which would choose no check and say nothing.

    Others are a site's own.
    """
    for number, name in enumerate(described.get("features", [])):
        like = suggest.nearest(name, known, MISSPELLED)
        if name not in known and like:
            yield Fault(
                (*keys, "features"),
                f"{name!r} is unknown; did you mean {' or '.join(like)}?",
                "correct it. If checks of your own choose by it, "
                f"write `site: {{{name}: 1}}` in extras instead, which is a feature too",
                number,
            )


def of_missing_extras(keys: tuple, partition: Mapping, environments: Mapping) -> Iterator[Fault]:
    """Keys without which checks would run in a shape that nobody asked for."""
    # One fault is enough for several environments that need the same keys.
    named = set()
    for name in partition["environs"]:
        for feature in environments.get(name, {}).get("features", []):
            key, *others = needed = NEEDED_EXTRAS.get(feature, ("",))
            if needed in named or not key or not partition["extras"].keys().isdisjoint(needed):
                continue
            named.add(needed)
            yield Fault(
                (*keys, "extras"),
                f"{key!r} is missing, which the environment {name!r} needs (feature {feature})",
                f"give the physical cores of a node, or `{'`, `'.join(others)}`",
            )


def of_hypervisor(keys: tuple, partition: Mapping, known: Sequence[str]) -> Iterator[Fault]:
    """A hypervisor that is nearly a known one. Others are a site's own."""
    name = partition["extras"]["hypervisor"]
    like = suggest.nearest(name, known, MISSPELLED)
    is_known = any(name == other or name.startswith(f"{other}-") for other in known)
    if like and not is_known:
        message = f"{name!r} is unknown; did you mean {' or '.join(like)}?"
        yield Fault((*keys, "extras", "hypervisor"), message, "correct it")


def of_own_keys(keys: tuple, described: Mapping, ours: Mapping) -> Iterator[Fault]:
    """Keys below `site` that are Nearmetal's own, and would be two values of one key."""
    for key in described.get("extras", {}).get("site", {}):
        if key in ours:
            message = f"{key!r} is a key of Nearmetal's"
            yield Fault((*keys, "extras", "site"), message, "write it in extras itself", key)


def of_hosts(patterns: Iterable[str]) -> Iterator[Fault]:
    """Patterns of host names that are no regular expressions, such as the shell's `*login*`."""
    for number, pattern in enumerate(patterns):
        try:
            re.compile(pattern)
        except re.error as error:
            message = f"{pattern!r} is no regular expression ({error})"
            yield Fault(("hostnames",), message, "write `.*` for the shell's `*`", number)


def of_version(document: Mapping, version: str) -> Iterator[Fault]:
    """Features that a version of ReFrame refuses, of partitions that are there now."""
    for kind in ("partitions", "environments"):
        for number, described in enumerate(document.get(kind, [])):
            if not is_there(described):
                continue
            for item, name in enumerate(described.get("features", [])):
                if message := versions.refused_feature(name, version):
                    yield Fault((kind, number, "features"), message, key=item)
