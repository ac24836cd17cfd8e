"""The site's files (site-config), read for what they say of baselines. Nothing here is written."""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import yaml

from nearmetal.checkout import CHECKOUT
from nearmetal.util import files, strict_yaml

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
        hostnames = document.get("hostnames")
        for pattern in hostnames if isinstance(hostnames, list) else ():
            try:
                if re.match(str(pattern), host):
                    return name
            except re.error:
                continue  # ReFrame says what is wrong with it
    return ""


def _readable(places: Iterable[Path]) -> Iterator[tuple[Path, dict]]:
    for path, data, _ in _documents(places):
        if isinstance(data, dict):  # else ReFrame says what is wrong with it
            yield path, data


def damaged() -> Iterator[tuple[Path, str]]:
    """Each file of a system that is not readable, and a sentence on it."""
    for path, data, why in _documents(directories()):
        if not isinstance(data, dict):
            fix = "" if "Fix:" in why else ". Fix: correct or remove the file"
            yield path, f"{path}: cannot be read as YAML: {why or 'it holds no mapping'}{fix}"


def _documents(places: Iterable[Path]) -> Iterator[tuple[Path, object, str]]:
    """Each file of a system with its document, or with the reason why it cannot be read."""
    for directory in dict.fromkeys(places):
        for path in sorted(directory.glob("*.y*ml")):
            try:
                yield path, strict_yaml.read(path), ""
            except (OSError, strict_yaml.YamlError) as error:
                yield path, None, str(error)


def may_describe(path: Path, system: str) -> bool:
    """Whether a damaged file may be the one of a system, by its own name or by its key `name`."""
    if path.stem == system:
        return True
    line = rf"^name:\s*[\"']?{re.escape(system)}[\"']?\s*(#.*)?$"
    try:
        return bool(re.search(line.encode(), files.read(path), re.MULTILINE))
    except OSError:
        return False  # it holds no text that ReFrame could read either


@functools.cache  # ReFrame reads a configuration twice, and a command a system's file several times
def tell_once(sentence: str) -> None:
    """Print a sentence on a file that is left out, on stderr."""
    print(f"nearmetal: {sentence}", file=sys.stderr)


def obsolete(system: str) -> list[str]:
    """A sentence on the keys `no_baseline` that a system's file still has although the system has a
    baseline."""
    found = file_of(system)
    if found is None:
        return []
    path, data = found
    partitions = [str(one.get("name")) for one in _partitions(data) if _has_no_baseline(one)]
    if not partitions:
        return []
    document = yaml.compose(files.read(path))
    lines = sorted(set(_lines(document, "no_baseline")))
    where = f"line{'s' * (len(lines) > 1)} {', '.join(map(str, lines))}"
    return [
        (
            f"{path}, {where}: delete `no_baseline` from the extras of {', '.join(partitions)}: "
            f"{system} has a baseline, so that the key excuses nothing any more"
        )
    ]


def _partitions(data: dict) -> list[dict]:
    found = data.get("partitions")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _has_no_baseline(partition: dict) -> bool:
    extras = partition.get("extras")
    return isinstance(extras, dict) and "no_baseline" in extras


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
