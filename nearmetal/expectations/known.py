"""What expectations may name: checks with parameters and variables, facts, features and units.

Without it, a name with a typo would select nothing, and its expectation would never judge.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nearmetal.checkout import PACKAGE
from nearmetal.util import strict_yaml, suggest

FILE = PACKAGE / "expectations" / "known.yaml"
#: Any check.
ANY = "*"
#: Examples of what stands for a number, a class and an interface.
EXAMPLES = {"N": ("1", "2", "4", "16", "128"), "CLASS": ("S", "A", "B"), "NAME": ("eth0",)}
FORMS = {"N": r"\d+(?:x\d+)?", "CLASS": r"\w+", "NAME": r".+"}
STANDS = re.compile(r"(?<![A-Za-z])(N|CLASS|NAME)(?![A-Za-z])")
#: Parameters that a check without them takes as given (judge.DEFAULTS).
GIVEN = {"placement": ("internode", "intranode", "guests")}


@dataclass(frozen=True)
class Check:
    """A check's parameters with their values, and its variables with their units."""

    parameters: Mapping[str, list] = field(default_factory=dict)
    variables: Mapping[str, str] | None = None  #: None: not known


@functools.cache
def checks() -> dict[str, Check]:
    """The shipped checks by name."""
    return {name: Check(**(entry or {})) for name, entry in _data()["checks"].items()}


@functools.cache
def _data() -> dict:
    return strict_yaml.load(FILE.read_bytes())


@functools.cache
def _features(key: str) -> tuple[str, ...]:
    """The features that a system's file is checked against."""
    schema = strict_yaml.load((PACKAGE / "site" / "schema.yaml").read_bytes())
    found = list(schema["$defs"][key]["enum"])
    if key == "features_of_partitions":
        found += ["rdma"]
    return tuple(dict.fromkeys(found))


@functools.cache
def cases() -> list[tuple[str, dict[str, str], list[str]]]:
    """Each shipped check with each of its parameters' values, and examples of its variables."""
    return [
        (name, dict(zip(check.parameters, map(str, values))), shown)
        for name, check in checks().items()
        for shown in [[one for known in check.variables or () for one in examples(known)]]
        if shown
        for values in itertools.product(*check.parameters.values())
    ]


def examples(name: str) -> list[str]:
    """Names that a name stands for: `triad_1`, `triad_2`, .. of `triad_N`."""
    kinds = STANDS.findall(name)
    parts = STANDS.split(name)
    return [
        "".join(itertools.chain(*itertools.zip_longest(parts[::2], chosen, fillvalue="")))
        for chosen in itertools.product(*(EXAMPLES[kind] for kind in kinds))
    ]


def is_named(name: str, known: str) -> bool:
    """Whether a name is one that a known name stands for."""
    parts = STANDS.split(known)
    form = "".join(
        FORMS[part] if number % 2 else re.escape(part) for number, part in enumerate(parts)
    )
    return re.fullmatch(form, name) is not None


def variables(names: Iterable[str]) -> dict[str, str] | None:
    """Variables of checks with their units; None if those of a check are not known."""
    chosen = list(checks().values()) if ANY in names else [checks()[name] for name in names]
    if ANY not in names and any(one.variables is None for one in chosen):
        return None
    return {name: unit for one in chosen for name, unit in (one.variables or {}).items()}


def faults(entry: Mapping) -> Iterator[tuple[str, str]]:
    """Key and sentence of each unknown name in an entry of an expectation."""
    unknown = [name for name in entry["checks"] if name != ANY and name not in checks()]
    for name in unknown:
        yield "checks", suggest.unknown_value("the check", name, checks())
    if unknown:
        return
    yield from _of_parameters("parameters", entry["checks"], entry.get("parameters", {}))
    yield from _of_variables(entry)
    if "fact" in entry and not any(is_named(entry["fact"], one) for one in _data()["facts"]):
        yield "fact", suggest.unknown_value("the fact", entry["fact"], _data()["facts"])
    for key, known in (
        ("features", "features_of_partitions"),
        ("environ_features", "features_of_environments"),
    ):
        for name in entry.get("where", {}).get(key, ()):
            if name.removeprefix("-") not in _features(known):
                yield (
                    f"where.{key}",
                    suggest.unknown_value("the feature", name.removeprefix("-"), _features(known)),
                )
    for name, other in entry.get("others", {}).items():
        yield from _of_other(f"others.{name}", entry, other)


def _of_parameters(key: str, names: Iterable[str], wanted: Mapping) -> Iterator[tuple[str, str]]:
    chosen = list(checks().values()) if ANY in names else [checks()[name] for name in names]
    for name, value in wanted.items():
        if name.startswith("."):  # a variable that ReFrame's -P made a parameter
            continue
        values = [*GIVEN.get(name, ())]
        values += [str(one) for check in chosen for one in check.parameters.get(name, ())]
        known = [*GIVEN, *(parameter for check in chosen for parameter in check.parameters)]
        if not values:
            yield key, suggest.unknown_value("the parameter", name, dict.fromkeys(known))
        elif str(value) not in values:
            yield f"{key}.{name}", suggest.unknown_value("the value", value, dict.fromkeys(values))


def _of_variables(entry: Mapping) -> Iterator[tuple[str, str]]:
    unit = entry.get("unit")
    if unit is not None and unit not in _units():
        yield "unit", suggest.unknown_value("the unit", unit, _units())
        return
    known = variables(entry["checks"])
    pattern = entry.get("variables")
    if known is None or pattern is None:
        return
    if sentence := unmatched(pattern, known):
        yield "variables", sentence
        return
    units = {known[name] for name in _matching(pattern, known)}
    if unit is not None and unit not in units:
        yield "unit", f"the variables {pattern!r} have the unit {' or '.join(sorted(units))}"


def _units() -> list[str]:
    """The units of the shipped checks' variables."""
    found = {unit for check in checks().values() for unit in (check.variables or {}).values()}
    return sorted(found)


def _matching(pattern: str, known: Iterable[str]) -> list[str]:
    return [
        name for name in known if any(re.fullmatch(pattern, example) for example in examples(name))
    ]


def unmatched(pattern: str, known: Iterable[str]) -> str:
    """A sentence if a regular expression matches no known variable, or ''."""
    if _matching(pattern, known):
        return ""
    return suggest.unknown_value("the variable", pattern, list(known))


def unknown_own(names: Iterable[str], patterns: Iterable[str], known: Iterable[str]) -> str:
    """A sentence on a variable of an expression that no check has, or ''.

    :arg names: of `own.NAME`.
    :arg patterns: of `most_of` and `least_of`.
    """
    known = list(known)
    for name in names:
        if not any(is_named(name, one) for one in known):
            return suggest.unknown_value("the variable", name, known)
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for one in known for name in examples(one)):
            return suggest.unknown_value("the variable", pattern, known)
    return ""


def _of_other(key: str, entry: Mapping, other: Mapping) -> Iterator[tuple[str, str]]:
    check = other.get("check")
    if check is not None and check not in checks():
        yield f"{key}.check", suggest.unknown_value("the check", check, checks())
        return
    names = entry["checks"] if check is None else [check]
    yield from _of_parameters(f"{key}.parameters", names, other.get("parameters", {}))
    known = variables(names)
    if known is None or "variable" not in other:
        return
    if sentence := unknown_own([other["variable"]], (), known):
        yield f"{key}.variable", sentence
