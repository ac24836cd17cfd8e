"""The site's files (site-config), read for what they say of baselines. Nothing here is written."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from nearmetal.checkout import CHECKOUT

SYSTEMS = CHECKOUT / "site-config" / "systems"


def directories() -> list[Path]:
    """Where ReFrame's configuration (site-config/settings.py) looks for systems, in that order."""
    own = filter(None, os.environ.get("NEARMETAL_SYSTEMS_PATH", "").split(":"))
    configured = filter(None, os.environ.get("RFM_CONFIG_PATH", "").split(":"))
    places = [Path(place) for place in configured]
    return [
        *map(Path, own),
        *((place.parent if place.is_file() else place) / "systems" for place in places),
        SYSTEMS,
    ]


def file_of(system: str, places: Iterable[Path] = ()) -> tuple[Path, dict] | None:
    """The file that defines a system, and what it holds; None where no readable file does.

    :arg places: directories to look in; (): those of `directories`.
    """
    return next(
        (found for found in _readable(places or directories()) if found[1].get("name") == system),
        None,
    )


def systems() -> Iterator[tuple[str, dict]]:
    """Name and contents of each system's file that is readable, in ReFrame's order, each once."""
    seen = set()
    for _, data in _readable(directories()):
        name = str(data.get("name"))
        if name not in seen:
            seen.add(name)
            yield name, data


def system_of(host: str) -> str:
    """The first system whose `hostnames` match this host, as ReFrame chooses one; '' if none."""
    for name, document in systems():
        for pattern in document.get("hostnames") or ():
            try:
                if re.match(str(pattern), host):
                    return name
            except re.error:
                continue  # ReFrame says what is wrong with it
    return ""


def _readable(places: Iterable[Path]) -> Iterator[tuple[Path, dict]]:
    for directory in places:
        for path in sorted(directory.glob("*.y*ml")):
            try:
                data = yaml.safe_load(path.read_text())
            except (OSError, UnicodeDecodeError, yaml.YAMLError):
                continue  # ReFrame says what is wrong with it
            if isinstance(data, dict):
                yield path, data


def unreadable() -> list[Path]:
    """Files of systems that cannot be read as YAML."""
    found = []
    for directory in dict.fromkeys(directories()):
        for path in sorted(directory.glob("*.y*ml")):
            try:
                yaml.safe_load(path.read_text())
            except (OSError, UnicodeDecodeError, yaml.YAMLError):
                found.append(path)
    return found


def obsolete(system: str) -> list[str]:
    """A sentence on the keys `no_baseline` that a system's file still has although the system has a
    baseline."""
    found = file_of(system)
    if found is None:
        return []
    path, data = found
    partitions = [
        str(partition.get("name"))
        for partition in data.get("partitions") or []
        if isinstance(partition, dict) and "no_baseline" in (partition.get("extras") or {})
    ]
    if not partitions:
        return []
    document = yaml.compose(path.read_text())
    lines = sorted(set(_lines(document, "no_baseline")))
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    return [
        (
            f"{path}, {where}: delete `no_baseline` from the extras of {', '.join(partitions)}: "
            f"{system} has a baseline, so that the key excuses nothing any more"
        )
    ]


def _lines(node: yaml.Node | None, key: str) -> Iterator[int]:
    """Lines, from 1, on which a key stands."""
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if name.value == key:
                yield name.start_mark.line + 1
            yield from _lines(value, key)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _lines(item, key)
