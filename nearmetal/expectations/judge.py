"""Which expectations apply to a case, its bounds, and what deviates. Pure functions."""

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nearmetal.expectations import hardware
from nearmetal.expectations.entries import EXTRAS, FACTS, Expectation, Other
from nearmetal.expectations.expression import Names, UnknownValue

#: Parameters of checks that do not have them in their names.
DEFAULTS = {"placement": "internode"}


@dataclass(frozen=True)
class Place:
    """A partition with an environment, as far as expectations select by it."""

    extras: Mapping
    features: frozenset[str] = frozenset()
    environ_features: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Measured:
    """A case with its values; before the run, without."""

    check: str  #: without parameters
    place: Place
    parameters: Mapping[str, str] = field(default_factory=dict)
    partition: str = ""
    environ: str = ""
    values: Mapping[str, float] = field(default_factory=dict)
    samples: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    facts: Mapping = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Bounds:
    """Bounds of one variable as numbers; None: none."""

    least: float | None
    most: float | None


@dataclass(frozen=True)
class Deviation:
    """A case beyond an expectation."""

    expectation: Expectation
    case: Measured
    variable: str  #: '' where it is about the whole case
    sentence: str

    def __str__(self) -> str:
        return f"{self.variable}: {self.said}" if self.variable else self.said

    @property
    def said(self) -> str:
        """The sentence, with the name of the expectation and the site's reason."""
        own = f" The site's bound: {self.expectation.overridden}." if self.overridden else ""
        return f"{self.sentence} ({self.expectation.name}){own}"

    @property
    def overridden(self) -> bool:
        return bool(self.expectation.overridden)


def selects(one: Expectation, place: Place) -> bool:
    """Whether an expectation applies to a partition with an environment."""
    where, extras = one.where, place.extras
    for key in ("link_class", "link_type"):
        if key in where and extras.get(key) not in where[key]:
            return False
    if "hypervisor" in where and not re.fullmatch(
        where["hypervisor"], str(extras.get("hypervisor", ""))
    ):
        return False
    return _with(place.features, where.get("features", ())) and _with(
        place.environ_features, where.get("environ_features", ())
    )


def _with(features: frozenset[str], wanted: Iterable[str]) -> bool:
    """Whether all wanted features are there; `-mpj` is one that must not be."""
    return all((name.removeprefix("-") in features) != name.startswith("-") for name in wanted)


def applies(one: Expectation, case: Measured) -> bool:
    """Whether an expectation is about a case."""
    return (
        bool({case.check, "*"} & set(one.checks))
        and _has(case.parameters, one.parameters)
        and selects(one, case.place)
    )


def _has(parameters: Mapping, wanted: Mapping) -> bool:
    known = {**DEFAULTS, **parameters}
    return all(str(known.get(key)) == str(value) for key, value in wanted.items())


def bounds(one: Expectation, names: Names) -> Bounds:
    """Its bounds as numbers. Raises UnknownValue."""
    return Bounds(
        None if one.least is None else one.least.value(names),
        None if one.most is None else one.most.value(names),
    )


def references(
    expectations: Iterable[Expectation], case: Measured, variables: Iterable[str]
) -> dict[str, Bounds]:
    """The tightest bounds of each variable that are known before it is measured."""
    found: dict[str, Bounds] = {}
    for one in expectations:
        if not (one.plain and applies(one, case)):
            continue
        try:
            limit = bounds(one, _names(case))
        except UnknownValue:
            continue
        for name in variables:
            if one.variables and re.fullmatch(one.variables, name):
                found[name] = _tighter(found.get(name), limit)
    return {name: limit for name, limit in found.items() if limit != Bounds(None, None)}


def _tighter(one: Bounds | None, other: Bounds) -> Bounds:
    if one is None:
        return other
    least = [limit for limit in (one.least, other.least) if limit is not None]
    most = [limit for limit in (one.most, other.most) if limit is not None]
    return Bounds(max(least, default=None), min(most, default=None))


def deviations(
    expectations: Iterable[Expectation],
    case: Measured,
    session: Iterable[Measured] | None = None,
) -> list[Deviation]:
    """What of a case is beyond expectations.

    :arg session: all cases, for expectations over several cases; None: only those over one.
    """
    session = None if session is None else list(session)
    found = []
    for one in expectations:
        if one.of_session is (session is None) or not applies(one, case):
            continue
        if one.fact:
            found += _of_fact(one, case)
            continue
        for variable in _judged(one, case):
            names = _names(case, variable)
            for others in _others(one, case, variable, session or ()):
                said = _said(one, Names({**names.numbers, **others}, names.own))
                if said:
                    found.append(Deviation(one, case, variable, said))
                    break
    return found


def _of_fact(one: Expectation, case: Measured) -> list[Deviation]:
    """The deviation of a recorded fact; [] if it matches, or is not recorded."""
    fact = case.facts.get(one.fact)
    if fact is None or not str(fact) or re.fullmatch(one.matches or "", str(fact)):
        return []
    return [Deviation(one, case, "", f"{one.sentence.said(_names(case))}: {one.fact} is {fact}")]


def of_session(
    expectations_of: Mapping[str, Mapping[str, Expectation]], session: list[Measured]
) -> list[Deviation]:
    """What deviates in a session, over one case and over several.

    :arg expectations_of: by partition, with the site's own bounds.
    """
    return [
        one
        for case in session
        for cases in (None, session)
        for one in deviations(expectations_of.get(case.partition, {}).values(), case, cases)
    ]


def _judged(one: Expectation, case: Measured) -> list[str]:
    """The variables that it judges; [''] where it judges the case once."""
    if one.variables is None:
        return [""]
    return [
        name
        for name in case.values
        if re.fullmatch(one.variables, name)
        and (one.unit is None or case.units.get(name, one.unit) == one.unit)
    ]


def _said(one: Expectation, names: Names) -> str:
    """The sentence of a deviation; '' where there is none or a name has no number."""
    try:
        value, limit = one.of.value(names), bounds(one, names)
    except UnknownValue:
        return ""
    low = limit.least is not None and value < limit.least
    high = limit.most is not None and value > limit.most
    return one.sentence.said(names) if low or high else ""


def _names(case: Measured, variable: str = "") -> Names:
    numbers = {key: case.place.extras[key] for key in EXTRAS if key in case.place.extras}
    numbers |= {key: _number(case.facts[key]) for key in FACTS if key in case.facts}
    numbers |= {key: number for key, number in hardware.numbers(case.facts).items() if number}
    if variable in case.values:
        samples = case.samples.get(variable) or (case.values[variable],)
        numbers |= {
            "value": case.values[variable],
            "least_sample": min(samples),
            "most_sample": max(samples),
        }
    own = {name: value for name, value in case.values.items() if math.isfinite(value)}
    return Names(numbers, own)


def _number(fact) -> object:
    """A fact as a number; nodes that differ (`2 | 4`) have none."""
    text = str(fact)
    return int(text) if text.isdecimal() else text


def _others(
    one: Expectation, case: Measured, variable: str, session: Iterable[Measured]
) -> Iterator[dict[str, float]]:
    """The values of other cases; nothing where one of them was not measured."""
    found = {}
    for name, other in one.others.items():
        values = [
            each.values[other.variable or variable]
            for each in session
            if _is(each, other, case) and (other.variable or variable) in each.values
        ]
        if not values:
            return
        found[name] = statistics.median(values)
    yield found


def _parameters(other: Other, case: Measured) -> Mapping:
    """The judged case's where nothing else is named; another check has none of these."""
    if other.parameters or other.check:
        return other.parameters
    return case.parameters


def _is(each: Measured, other: Other, case: Measured) -> bool:
    """Whether a case of the session is the one that is compared with."""
    if each.check != (other.check or case.check):
        return False
    if other.environ == "same" and each.environ != case.environ:
        return False
    if not _has(each.parameters, _parameters(other, case)):
        return False
    if other.link_class is None:
        return each.partition == case.partition
    extras, own = each.place.extras, case.place.extras
    same_link = all(extras.get(k) == own.get(k) for k in ("link_type", "link_speed_gbps"))
    return extras.get("link_class") == other.link_class and same_link
