"""Check a cluster's configuration for AWS ParallelCluster: `make aws-check
FILE=my-cluster.yaml`.

The check needs no account and calls no AWS service. It applies ParallelCluster's schema and
validators (version in requirements.in), and compares the queues with the system's file. Each fault
is one line, FILE:LINE: what is wrong. Fix: what to do. Exit codes: 0 no fault; 1 faults; 2 bad
usage; 3 an unforeseen error.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import marshmallow
import yaml
from pcluster.config.common import TypeMatchValidatorsSuppressor
from pcluster.schemas.cluster_schema import ClusterSchema
from pcluster.utils import yaml_load
from pcluster.validators.common import FailureLevel, ValidatorContext

from nearmetal.aws import agreement, recorded
from nearmetal.checkout import CHECKOUT
from nearmetal.util import suggest
from nearmetal.util.cli_errors import HELP, OPTION, guarded

SITE_CONFIG = CHECKOUT / "site-config"
MANUAL = "https://docs.aws.amazon.com/parallelcluster/latest/ug/cluster-configuration-file-v3.html"
#: Validators that need the account: its key pair, the tags of its image, its permission to launch.
ACCOUNT = {
    "KeyPairValidator",
    "CustomAmiTagValidator",
    "AmiOsCompatibleValidator",
    "HeadNodeLaunchTemplateValidator",
    "ComputeResourceLaunchTemplateValidator",
}
#: Errors of reading YAML: PyYAML's own, and Python's for invalid dates, numbers and keys.
NOT_YAML = (
    yaml.YAMLError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)
#: Values that a copy has to replace; RFC 5737 reserves the address for documentation.
PLACEHOLDER = re.compile(r"your|^192\.0\.2\.")


class SystemLoader(yaml.SafeLoader):
    """PyYAML's safe loader with its own constructors.

    ParallelCluster's loader removes the one of merge keys (`<<`) from PyYAML.
    """

    yaml_constructors = yaml.SafeLoader.yaml_constructors.copy()


def read_system(path: Path) -> dict:
    """Read a system's file; check the keys compared with queues. Raises OSError, ValueError."""
    try:
        system = yaml.load(path.read_bytes(), SystemLoader)  # derived from the safe one
        for number, partition in enumerate(system["partitions"]):
            place, extras = f"partitions.{number}", partition["extras"]
            access = partition["access"]
            if not isinstance(access, list) or not all(
                isinstance(option, str) for option in access
            ):
                raise TypeError(f"{place}.access is not a list of texts")
            for key in ("link_class", "link_type"):
                if not isinstance(extras[key], str):
                    raise TypeError(f"{place}.extras.{key} is not a text")
    except NOT_YAML as error:
        raise ValueError(
            f"{path}: cannot be read as a system's file: {type(error).__name__}: "
            f"{' '.join(str(error).split())}. Fix: correct it there"
        ) from None
    return system


def places(text: str) -> tuple[dict[tuple, int], dict[str, int]]:
    """Line of each key, by its path, and line of each value's first occurrence."""
    by_path: dict[tuple, int] = {(): 1}
    by_value: dict[str, int] = {}

    def walk(node, path):
        if isinstance(node, yaml.ScalarNode):
            by_value.setdefault(node.value, node.start_mark.line + 1)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                by_path[(*path, index)] = item.start_mark.line + 1
                walk(item, (*path, index))
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                by_path[(*path, key.value)] = key.start_mark.line + 1
                walk(value, (*path, key.value))

    walk(yaml.compose(text, yaml.SafeLoader), ())
    return by_path, by_value


def flat(messages, path=()):
    """Marshmallow's nested messages as pairs of path and message."""
    if isinstance(messages, dict):
        for key, inner in messages.items():
            place = (*path, key)
            # What concerns the whole mapping.
            if key == "_schema":
                place = path
            yield from flat(inner, place)
    else:
        yield from ((path, str(message)) for message in messages)


def known_keys(path: tuple) -> list[str]:
    """The keys that the schema allows below this path."""
    fields = _fields(ClusterSchema(cluster_name="nearmetal"))
    for key in path:
        if not isinstance(key, int):
            field = fields[key]
            # A list has its items' schema within.
            fields = _fields(getattr(field, "inner", field).schema)
    return sorted(fields)


def _fields(schema) -> dict:
    """The fields of a schema of Marshmallow by their keys in the configuration."""
    return {field.data_key: field for field in schema.fields.values()}


def schema_faults(document):
    """Pairs of a path and its error, by the published schema."""
    try:
        ClusterSchema(cluster_name="nearmetal").load(document)
    except marshmallow.ValidationError as error:
        for path, message in flat(error.messages):
            if message == "Unknown field.":
                # Marshmallow does not say which keys there are.
                keys = known_keys(path[:-1])
                meant = suggest.nearest(path[-1], keys) or [f"one of {', '.join(keys)}"]
                message, fix = "unknown key", f"write {' or '.join(meant)}, or remove it"
            else:
                fix = f"see {MANUAL}"
            yield path, f"{message.rstrip('.')}. Fix: {fix}"
    except NOT_YAML as error:  # its classes want keys that its schema does not ask for
        is_named = False
        for word in re.findall(r"'(\w+)'", str(error)):
            key = "".join(map(str.capitalize, word.split("_")))
            for path in lacking(document, key):
                is_named = True
                yield path, f"lacks {key}. Fix: add it, see {MANUAL}"
        if not is_named:
            yield (), f"ParallelCluster cannot read it: {' '.join(str(error).split())}"


def lacking(part, key: str, path: tuple = ()):
    """Paths of the mappings without this key that the schema allows to have it."""
    pairs: Iterable[tuple] = enumerate(part)
    if isinstance(part, dict):
        pairs = part.items()
        if key in known_keys(path) and key not in part:
            yield path
    for name, inner in pairs:
        if isinstance(inner, dict | list):
            yield from lacking(inner, key, (*path, name))


def validator_faults(ec2, document: dict):
    """Pairs of level and message of ParallelCluster's validators, without level INFO.

    Raises Unknown.
    """
    types = [*sorted(instance_types(document)), document["HeadNode"]["InstanceType"]]
    zone = recorded.zones(ec2, types)[0]
    standing, image = recorded.stand_in(ec2, document, zone)
    cluster = ClusterSchema(cluster_name="nearmetal").load(standing)
    cluster.official_ami = image
    for failure in cluster.validate([TypeMatchValidatorsSuppressor(ACCOUNT)], ValidatorContext()):
        if failure.level is not FailureLevel.INFO:
            yield failure.level, f"{failure.validator_type}: {failure.message.strip()}"


def check(path: Path, system: dict, system_file: str) -> tuple[list[str], list[str]]:
    """Lines of faults and lines of notes."""
    text = path.read_text()
    by_path, by_value = places(text)
    # ParallelCluster's own reader: what it takes is what counts.
    document = yaml_load(text)
    region = None
    if isinstance(document, dict):
        region = document.get("Region")
    if region not in recorded.REGIONS:
        line = by_path.get(("Region",), 1)
        known = ", ".join(sorted(recorded.REGIONS))
        return [f"{path}:{line}: Region is {region or 'missing'}. Fix: give one of {known}"], []
    faults, notes = set(), []
    for value, line in by_value.items():
        if PLACEHOLDER.search(value):
            notes.append((line, f"yours to fill in: {value}"))
    with recorded.account(str(region)) as ec2:
        for keys, message in schema_faults(document):
            # Named by its key, since an aliased part occurs several times but is corrected once.
            name = path.name
            for key in keys:
                if isinstance(key, str):
                    name = key
            faults.add((by_path.get(keys) or by_path[keys[:-1]], f"{name}: {message}"))
        if not faults:
            try:
                for keys, message in disagreements(ec2, document, system, system_file):
                    faults.add((by_path[keys], message))
                for level, message in validator_faults(ec2, document):
                    line = line_of(message, by_value)
                    if level is FailureLevel.ERROR:
                        faults.add((line, f"{message.rstrip('.')}. Fix: see {MANUAL}"))
                    else:
                        notes.append((line, message))
            except recorded.Unknown as unknown:
                faults = {(by_value[unknown.args[0]], unknown.args[1])}
    return lines_of(path, faults), lines_of(path, notes)


def line_of(message: str, by_value: dict[str, int]) -> int:
    """The line of the longest value that a message names; 1 if it names none."""
    named = ""
    for value in by_value:
        is_named = re.search(rf"(?<![\w.-]){re.escape(value)}(?![\w-])", message)
        if is_named and len(value) > max(2, len(named)):
            named = value
    return by_value.get(named, 1)


def lines_of(path: Path, messages: Iterable[tuple[int, str]]) -> list[str]:
    """Messages on a file, in the order of its lines."""
    return [f"{path}:{line}: {message}" for line, message in sorted(messages)]


def instance_types(document: dict) -> set[str]:
    """The instance types of all nodes of the queues."""
    types: set[str] = set()
    for queue in agreement.queues(document).values():
        types.update(queue.types)
    return types


def disagreements(ec2, document: dict, system: dict, system_file: str) -> Iterator[tuple]:
    """Pairs of a path and what contradicts the system's file. Raises Unknown."""
    types = {}
    for name in sorted(instance_types(document)):
        types[name] = recorded.instance_type(ec2, name)
    yield from agreement.faults(agreement.queues(document), types, system, system_file)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "files", nargs="*", type=Path, default=[SITE_CONFIG / "aws" / "cluster.yaml"]
    )
    parser.add_argument(
        "--system",
        type=Path,
        default=SITE_CONFIG / "systems" / "ec2.yaml",
        help="the system's file whose partitions are the queues",
    )
    parser.add_argument(OPTION, action="store_true", help=HELP)
    arguments = parser.parse_args()
    try:
        system, wrong = read_system(arguments.system), 0
    except (OSError, ValueError) as error:
        print(error)
        return 1
    for path in arguments.files:
        try:
            faults, notes = check(path, system, arguments.system.name)
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            faults, notes = [f"{path}: cannot be read as YAML: {error}. Fix: correct it there"], []
        print(*faults, *(f"note: {note}" for note in notes), sep="\n")
        verdict = "right"
        if faults:
            verdict = f"{len(faults)} to correct"
        print(f"{path}: {verdict}")
        wrong += len(faults)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(guarded(main, "aws-check"))
