"""The names in an expectation against what exists: checks, parameters, variables, facts, features.

Without it, a name with a typo would select nothing, and its expectation would never judge.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping

from nearmetal.checkout import PACKAGE
from nearmetal.model import catalogue
from nearmetal.util import documents, suggest

#: Any check.
ANY = "*"
#: Parameters that a check without them takes as given (judge.DEFAULTS).
GIVEN = {"placement": ["internode", "intranode", "guests"]}
#: Keys of `where` that list features, and the features that a system's file may have there.
FEATURES = {
    "features": "features_of_partitions",
    "environ_features": "features_of_environments",
}


def checks(names: Iterable[str] = (ANY,)) -> list[catalogue.Check]:
    """The facts of known checks; those of all for ANY. Raises CatalogueError."""
    if ANY in names:
        names = catalogue.names()
    return list(filter(None, map(catalogue.check, names)))


def variables(names: Iterable[str]) -> dict[str, str]:
    """Variables of checks with their units."""
    units: dict[str, str] = {}
    for known in checks(names):
        units.update(known.units)
    return units


def cases() -> Iterator[tuple[str, dict[str, str], list[str]]]:
    """Each check with each combination of its parameters' values, and examples of its variables."""
    for known in checks():
        names = list(itertools.chain.from_iterable(map(catalogue.examples, known.variables)))
        for values in itertools.product(*known.parameters.values()):
            yield known.name, dict(zip(known.parameters, values)), names


@functools.cache
def _features(key: str) -> tuple[str, ...]:
    """The features that a system's file is checked against."""
    schema = documents.read(PACKAGE / "site" / "schema.yaml")
    names = dict.fromkeys(schema["$defs"][key]["enum"])
    if key == "features_of_partitions":
        # No site writes it: it follows from the key `rdma`.
        names["rdma"] = None
    return tuple(names)


def faults(entry: Mapping) -> Iterator[tuple[str, str]]:
    """Key and sentence of each unknown name in an entry of an expectation."""
    unknown = [name for name in entry["checks"] if name not in (ANY, *catalogue.names())]
    for name in unknown:
        yield "checks", suggest.unknown_value("the check", name, catalogue.names())
    if unknown:
        return
    # All that follows needs known checks.
    yield from _in_parameters("parameters", entry["checks"], entry.get("parameters", {}))
    yield from _in_variables(entry)
    yield from _in_fact(entry.get("fact"))
    for key, kind in FEATURES.items():
        for name in entry.get("where", {}).get(key, ()):
            feature = name.removeprefix("-")
            if feature not in _features(kind):
                sentence = suggest.unknown_value("the feature", feature, _features(kind))
                yield f"where.{key}", sentence
    for name, other in entry.get("others", {}).items():
        yield from _in_other(f"others.{name}", entry, other)


def _in_fact(fact: str | None) -> Iterator[tuple[str, str]]:
    known = catalogue.facts()
    if fact is not None and not any(catalogue.is_named(fact, name) for name in known):
        yield "fact", suggest.unknown_value("the fact", fact, known)


def _in_parameters(key: str, names: Iterable[str], wanted: Mapping) -> Iterator[tuple[str, str]]:
    known = {name: list(values) for name, values in GIVEN.items()}
    for check in checks(names):
        for name, values in check.parameters.items():
            known.setdefault(name, []).extend(values)
    for name, value in wanted.items():
        # ReFrame's -P makes a parameter `.NAME` of any variable of a check.
        if name.startswith("."):
            continue
        if name not in known:
            yield key, suggest.unknown_value("the parameter", name, known)
        elif str(value) not in known[name]:
            every = dict.fromkeys(known[name])
            yield f"{key}.{name}", suggest.unknown_value("the value", value, every)


def _in_variables(entry: Mapping) -> Iterator[tuple[str, str]]:
    unit, pattern = entry.get("unit"), entry.get("variables")
    if unit is not None and unit not in _units():
        yield "unit", suggest.unknown_value("the unit", unit, _units())
        return
    if pattern is None:
        return
    known = variables(entry["checks"])
    if sentence := unmatched(pattern, known):
        yield "variables", sentence
        return
    units = {known[name] for name in _matching(pattern, known)}
    if unit is not None and unit not in units:
        yield "unit", f"the variables {pattern!r} have the unit {' or '.join(sorted(units))}"


@functools.cache
def _units() -> list[str]:
    """The units of all checks' variables."""
    return sorted(set(variables([ANY]).values()))


def _in_other(key: str, entry: Mapping, other: Mapping) -> Iterator[tuple[str, str]]:
    check = other.get("check")
    if check is not None and check not in catalogue.names():
        yield f"{key}.check", suggest.unknown_value("the check", check, catalogue.names())
        return
    names = entry["checks"]
    if check is not None:
        names = [check]
    yield from _in_parameters(f"{key}.parameters", names, other.get("parameters", {}))
    if "variable" in other:
        sentence = unknown_own(_filled(other["variable"], entry), (), variables(names))
        if sentence:
            yield f"{key}.variable", sentence


def _filled(variable: str, entry: Mapping) -> list[str]:
    """The variable, with the groups of an example of the judged ones in place of `{n}`."""
    pattern = re.compile(entry.get("variables", ""))
    if not pattern.groupindex:
        return [variable]
    for declared in variables(entry["checks"]):
        for name in catalogue.examples(declared):
            if match := pattern.fullmatch(name):
                return [fill(variable, match.groupdict())]
    return [variable]


def fill(variable: str, groups: Mapping[str, str]) -> str:
    """The variable with groups in place of their names in braces."""
    for name, text in groups.items():
        variable = variable.replace(f"{{{name}}}", text)
    return variable


def _matching(pattern: str, known: Iterable[str]) -> list[str]:
    """The declared names of which an example matches a regular expression."""
    expression = re.compile(pattern)
    return [name for name in known if any(map(expression.fullmatch, catalogue.examples(name)))]


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
        if not any(catalogue.is_named(name, declared) for declared in known):
            return suggest.unknown_value("the variable", name, known)
    for pattern in patterns:
        if not any(fnmatch.filter(catalogue.examples(declared), pattern) for declared in known):
            return suggest.unknown_value("the variable", pattern, known)
    return ""
