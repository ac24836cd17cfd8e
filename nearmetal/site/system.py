"""A system as its file describes it (`systems/NAME.yaml`), and the directories of such files.

`schema.yaml` says what a file may hold, and each check's file of facts which extras it reads.
ReFrame's own errors name neither the file nor the fix.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reframe.core.exceptions import ConfigError

from nearmetal.checkout import CHECKOUT
from nearmetal.errors import NearmetalError
from nearmetal.model import catalogue
from nearmetal.model.catalogue import CatalogueError
from nearmetal.site import faults, versions
from nearmetal.util import documents, files, suggest
from nearmetal.util.documents import Fault

SCHEMA = Path(__file__).resolve().parent / "schema.yaml"
SYSTEMS = CHECKOUT / "site-config" / "systems"
#: What a partition's `link_class` lets a check ask for. A virtual function is a passed-through
#: device too.
NIC_FEATURES = {
    "native": ["nic_native"],
    "passthrough": ["nic_passthrough"],
    "sriov": ["nic_passthrough", "nic_sriov"],
    "emulated": ["nic_emulated"],
}


class SystemFileError(ConfigError, NearmetalError):
    """A system's file is not usable: for ReFrame an error of its configuration."""


class NotDescribed(SystemFileError):
    """No file describes the system, so that nothing is known of its partitions."""


@dataclass(frozen=True)
class System:
    """A valid file of a system, with the partitions that are there now."""

    path: Path
    document: Mapping  #: as it is written
    common: Mapping[str, dict]  #: the environments of all systems by name
    partitions: tuple[dict, ...]  #: those whose `only_with` is met

    @classmethod
    def read(cls, path: Path, common: Mapping[str, dict], text: str | None = None) -> System:
        """A system's file. Raises SystemFileError, which names each fault with its line and fix.

        :arg text: of a file that is not written yet.
        """
        written, document = documents.load(path, SystemFileError, text=text)
        refuse(path, written, document, faults.of_schema(document, schema()))
        refuse(path, written, document, faults.of_document(document, common, schema()["$defs"]))
        partitions = tuple(filter(faults.is_there, document["partitions"]))
        return cls(path, document, common, partitions)

    @classmethod
    def named(cls, name: str) -> System:
        """The system of a name, of the first directory that has one.

        A damaged file of another system is named on stderr.

        :raises NotDescribed: no file describes it.
        :raises SystemFileError: its file, or one that may be it, is not usable.
        """
        path, fix = None, "correct the name"
        # To the end: a damaged file after the first one of this name may be the one that is meant.
        for file in system_files():
            if file.fault and may_describe(file.path, name):
                raise SystemFileError(f"the system {name!r} may be described there: {file.fault}")
            if file.fault:
                warn_once(file.fault)
                fix = f"correct {file.path}, or the name"
            elif file.name == name and path is None:
                path = file.path
        if path is None:
            places = ", ".join(dict.fromkeys(map(str, directories())))
            raise NotDescribed(
                f"no file describes the system {name!r}. Fix: {fix}, or add it to one of {places}, "
                "or set NEARMETAL_SYSTEMS_PATH"
            )
        return cls.read(path, read_environments(environments_file()))

    @property
    def name(self) -> str:
        return self.document["name"]

    @property
    def partition_names(self) -> list[str]:
        return [partition["name"] for partition in self.partitions]

    @property
    def environments(self) -> dict[str, dict]:
        """The environments by name: the common ones, and what differs in this file."""
        return faults.merged(self.document, self.common)

    def only(self, partition: str) -> System:
        """The system with one of its partitions. Raises SystemFileError if it has no such one."""
        for described in self.partitions:
            if described["name"] == partition:
                return replace(self, partitions=(described,))
        unknown = suggest.unknown_value("the partition", partition, self.partition_names)
        raise SystemFileError(
            f"{self.name}: {unknown}. Fix: correct it, or describe the partition in the system's "
            "file"
        )

    def configured(self, partition: Mapping) -> dict:
        """A partition as ReFrame takes it: with the features that follow from its extras, and the
        system's scheduler options, which ReFrame itself does not give it."""
        extras = dict(partition["extras"])
        features = [*partition.get("features", []), *NIC_FEATURES[extras["link_class"]]]
        kind = "vm"
        if extras["hypervisor"] == "none":
            kind = "bare_metal"
        features.append(kind)
        # To ReFrame an extra's name is a feature: `+rdma` would match `rdma: false`.
        if extras.pop("rdma", False):
            features.append("rdma")
        for platform in partition.get("container_platforms", []):
            features.append(platform["type"].lower())
        # `site` is there so that our schema need not know a site's own keys.
        extras |= extras.pop("site", {})
        configured = {
            # One job at a time: two that share nodes or a switch would measure each other.
            "max_jobs": 1,
            **partition,
            "features": list(dict.fromkeys(features)),
            "extras": extras,
        }
        configured.pop("only_with", None)
        options = self.document.get("sched_options", {}) | partition.get("sched_options", {})
        if options:
            configured["sched_options"] = options
        return configured

    def as_reframes(self, prefix: str, version: str) -> dict:
        """The system as a version of ReFrame takes it. Raises SystemFileError.

        :arg prefix: the directory of results, unless the file names one.
        """
        # Not in `read`: commands that only read a file run with any version.
        refused = faults.of_version(self.document, version)
        refuse(self.path, files.read(self.path), self.document, refused)
        modules = self.document.get("modules_system", "envmod")
        if why := versions.refused_modules_system(modules, version):
            raise SystemFileError(f"{self.path}: {self.name}: {why}")
        system = {
            "prefix": prefix,
            **self.document,
            "modules_system": versions.modules_system(modules, version),
            "partitions": [self.configured(partition) for partition in self.partitions],
        }
        # ReFrame has environments beside its systems.
        system.pop("environments", None)
        return system

    def own_environments(self) -> list[dict]:
        """The environments that differ from the common ones, as ReFrame takes them."""
        merged = self.environments
        environments = []
        for own in self.document.get("environments", []):
            environment = configured_environment(merged[own["name"]])
            environments.append({**environment, "target_systems": [self.name]})
        return environments

    def obsolete_keys(self) -> list[str]:
        """A sentence on the keys `no_baseline`, for a system that has a baseline; [] without."""
        text = files.read(self.path)
        lines = {}
        for number, partition in enumerate(self.document["partitions"]):
            if "no_baseline" in partition["extras"]:
                keys = ("partitions", number, "extras", "no_baseline")
                lines[partition["name"]] = documents.line_of(text, keys)
        if not lines:
            return []
        numbers = sorted(set(lines.values()))
        place = f"line {numbers[0]}"
        if len(numbers) > 1:
            place = f"lines {', '.join(map(str, numbers))}"
        sentence = (
            f"{self.path}, {place}: delete `no_baseline` from the extras of "
            f"{', '.join(lines)}: {self.name} has a baseline, so that the key excuses nothing any "
            "more"
        )
        return [sentence]


def obsolete_keys(name: str) -> list[str]:
    """What `System.obsolete_keys` says of the system of a name; [] where no valid file has it."""
    path = path_of(name)
    if path is None:
        return []
    try:
        common = read_environments(environments_file())
        return System.read(path, common).obsolete_keys()
    except SystemFileError:
        return []  # a command that needs the file says what is wrong with it


def configured_environment(environment: Mapping) -> dict:
    """An environment as ReFrame takes it: a site's own extras are extras."""
    extras = dict(environment.get("extras", {}))
    if "site" not in extras:
        return dict(environment)
    own = extras.pop("site")
    return {**environment, "extras": extras | own}


def refuse(path: Path, text: str | bytes, document, wrong: Iterable[Fault]) -> None:
    """Raise SystemFileError where a system's file has faults: a line for each."""
    lines = []
    for fault in wrong:
        lines.append(fault.sentence(text, faults.place_of(fault.keys, document)))
    refuse_all(path, lines)


def refuse_all(path: Path, lines: Sequence[str]) -> None:
    """Raise SystemFileError where there are lines on faults of a file."""
    if lines:
        raise SystemFileError("\n  ".join([f"{path}:", *lines]))


@functools.cache
def schema() -> Mapping:
    """The schema of a system's file, with the extras of each check from its file of facts."""
    rules = documents.read(SCHEMA)
    definitions = rules["$defs"]
    properties = definitions["extras"]["properties"]
    try:
        properties.update(catalogue.extras())
    except CatalogueError as error:
        raise SystemFileError(str(error)) from None
    for key, rule in properties.items():
        # A fault prints the `description` of the rule that it is at: the key's, where it has one.
        name = rule.get("$ref", "").rpartition("/")[2]
        properties[key] = {**definitions.get(name, {}), **rule}
        properties[key].pop("$ref", None)
    return rules


def read_environments(path: Path) -> dict[str, dict]:
    """The environments of all systems by name. Raises SystemFileError."""
    text, document = documents.load(path, SystemFileError)
    wrong = list(faults.of_schema(document, documents.part(SCHEMA, "environments")))
    # Names can be compared once each environment has one.
    wrong = wrong or list(faults.of_repeats(document, ()))
    lines = []
    for fault in wrong:
        keys = ("environments", *fault.keys)
        place = faults.place_of(keys, {"name": "all systems", "environments": document})
        lines.append(fault.sentence(text, place))
    refuse_all(path, lines)
    return {environment["name"]: environment for environment in document}


def directories() -> list[Path]:
    """Where ReFrame's configuration (site-config/settings.py) looks for systems, in that order."""
    places = list(map(Path, _paths("NEARMETAL_SYSTEMS_PATH")))
    for place in map(Path, _paths("RFM_CONFIG_PATH")):
        # ReFrame takes a directory, or the file settings.py itself.
        if place.is_file():
            place = place.parent
        places.append(place / "systems")
    # Last, for a command without RFM_CONFIG_PATH.
    return [*places, SYSTEMS]


def _paths(variable: str) -> Iterable[str]:
    return filter(None, os.environ.get(variable, "").split(":"))


def environments_file() -> Path:
    """The file of the environments that all systems share."""
    for directory in directories():
        path = directory.parent / "environments.yaml"
        if not files.is_absent(path):
            break
    return path


@dataclass(frozen=True)
class SystemFile:
    """A file of a directory of systems, whose values nobody checked."""

    path: Path
    document: Mapping  #: {} if it is damaged
    fault: str = ""  #: why it is no mapping in YAML, with the fix

    @property
    def name(self) -> str:
        return str(self.document.get("name"))

    def matches(self, host: str) -> bool:
        """Whether its `hostnames` match a host, as in ReFrame."""
        patterns = self.document.get("hostnames")
        if not isinstance(patterns, list):
            return False
        for pattern in patterns:
            try:
                if re.match(str(pattern), host):
                    return True
            except re.error:
                continue  # ReFrame says what is wrong with it
        return False


def system_files(places: Iterable[Path] = ()) -> Iterator[SystemFile]:
    """The files of some directories, in ReFrame's order.

    :arg places: (): those of `directories`.
    """
    for directory in dict.fromkeys(places or directories()):
        for path in sorted(directory.glob("*.y*ml")):
            try:
                _, document = documents.load(path, SystemFileError, "correct or remove the file")
            except SystemFileError as error:
                yield SystemFile(path, {}, str(error))
                continue
            if isinstance(document, dict):
                yield SystemFile(path, document)
            else:
                fault = "cannot be read as YAML: it holds no mapping"
                yield SystemFile(path, {}, f"{path}: {fault}. Fix: correct or remove the file")


def path_of(name: str, places: Iterable[Path] = ()) -> Path | None:
    """The first file that describes a system of this name; None where no readable file does."""
    for file in system_files(places):
        if not file.fault and file.name == name:
            return file.path
    return None


def name_of_host(host: str) -> str:
    """The first system whose `hostnames` match this host; '' if none."""
    for file in system_files():
        if file.matches(host):
            return file.name
    return ""


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
def warn_once(sentence: str) -> None:
    """Print a sentence on a file that is left out, on stderr."""
    print(f"nearmetal: {sentence}", file=sys.stderr)
