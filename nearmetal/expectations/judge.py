"""Which expectations apply to a case, its bounds, and what deviates. Pure functions."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from nearmetal.expectations import hardware, sentence
from nearmetal.expectations.entries import (
    EXTRAS,
    FACTS,
    JUDGED,
    OF_REPEATS,
    Expectation,
    ExpectationError,
    Other,
)
from nearmetal.expectations.expression import Expression, Names, UnknownValue

#: Parameters of checks that do not have them in their names.
DEFAULTS = {"placement": "internode"}
#: Keys of extras by which links are the same.
LINK = ("link_type", "link_speed_gbps")
#: Values of the parameter `place`, and the key of extras with the class of the directory's device.
PLACES, DEVICE = ("local", "shared", "scratch"), "storage_{place}_device"


@dataclass(frozen=True)
class Place:
    """A partition with an environment, as far as expectations select by it."""

    extras: Mapping
    features: frozenset[str] = frozenset()
    environ_features: frozenset[str] = frozenset()
    described: str = "the system's file"  #: where its extras stand: `FILE: SYSTEM:PARTITION`


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
    node: str = ""  #: of `--distribute`


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

    @property
    def of_values(self) -> bool:
        """Whether it is about measured values, which a disturbance may explain."""
        of = self.expectation.of
        measured = of.over_own or bool(of.names & set(JUDGED))
        return bool(self.variable) or (measured and self.expectation.fact is None)

    @property
    def of_repeats(self) -> bool:
        """Whether it is about single repeats, which the median need not follow."""
        return bool(self.expectation.of.names & set(OF_REPEATS))


def selects(one: Expectation, place: Place) -> bool:
    """Whether an expectation applies to a partition with an environment."""
    where, extras = one.where, place.extras
    for key in ("link_class", "link_type"):
        if key in where and extras.get(key) not in where[key]:
            return False
    if not _within(extras.get("link_speed_gbps"), where.get("link_speed_gbps")):
        return False
    if "device" in where and not set(where["device"]) & set(_devices(extras).values()):
        return False
    if "hypervisor" in where and not re.fullmatch(
        where["hypervisor"], str(extras.get("hypervisor", ""))
    ):
        return False
    return _with(place.features, where.get("features", ())) and _with(
        place.environ_features, where.get("environ_features", ())
    )


def _devices(extras: Mapping) -> dict[str, str]:
    """The class of each directory's device, by the directory's place."""
    keys = {place: DEVICE.format(place=place) for place in PLACES}
    return {place: str(extras[key]) for place, key in keys.items() if key in extras}


def _within(number: object, limits: Mapping | None) -> bool:
    """Whether a number is within limits; a text is within none."""
    if limits is None:
        return True
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        return False
    return limits.get("least", -math.inf) <= number <= limits.get("most", math.inf)


def _with(features: frozenset[str], wanted: Iterable[str]) -> bool:
    """Whether all wanted features are there; `-mpj` is one that must not be."""
    return all((name.removeprefix("-") in features) != name.startswith("-") for name in wanted)


def applies(one: Expectation, case: Measured) -> bool:
    """Whether an expectation is about a case."""
    return (
        (case.check in one.checks or "*" in one.checks)
        and _has(case.parameters, one.parameters)
        and selects(one, case.place)
        and _on_device(one, case)
        and _of_model(one, case)
    )


def _on_device(one: Expectation, case: Measured) -> bool:
    """Whether the case's directory is on a device of the classes that the expectation is about."""
    wanted = one.where.get("device")
    place = str(case.parameters.get("place", ""))
    return wanted is None or _devices(case.place.extras).get(place) in wanted


def _of_model(one: Expectation, case: Measured) -> bool:
    """Whether all nodes have a processor that the expectation is about."""
    wanted = one.where.get("cpu_model")
    return wanted is None or all(
        re.fullmatch(wanted, model) for model in str(case.facts.get("cpu_model", "")).split(" | ")
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
    """The tightest bounds of each variable that are known before it is measured.

    Raises ExpectationError if no value is within the bounds of a variable.
    """
    limits: dict[str, list[_Limit]] = {}
    names = _names(case)
    for one in expectations:
        if not (applies(one, case) and one.plain):
            continue
        try:
            found = bounds(one, names)
        except UnknownValue:
            continue
        for name in variables:
            if one.variables and re.fullmatch(one.variables, name):
                limits.setdefault(name, []).append(_Limit(one, found))
    tightest = {name: _tightest(name, of, case.place) for name, of in limits.items()}
    return {name: limit for name, limit in tightest.items() if limit != Bounds(None, None)}


@dataclass(frozen=True)
class _Limit:
    """The bounds that one expectation sets."""

    one: Expectation
    bounds: Bounds

    def said(self, word: str, number: float, of: Expression | None) -> str:
        how = "" if of is None or not of.names else f" ({of.text})"
        return f"{self.one.name} expects {word} {sentence.number(number)}{how}"

    def keys(self, place: Place, of: Expression | None) -> list[str]:
        """Keys of the site's file on which a bound depends."""
        own = [self.one.changed_at] if self.one.changed_at else []
        names = sorted((of.names if of else frozenset()) & set(EXTRAS))
        return own + [f"{place.described}: extras.{name}" for name in names]


def _tightest(variable: str, limits: list[_Limit], place: Place) -> Bounds:
    """The tightest of several bounds. Raises ExpectationError if they exclude each other."""
    lows = [(one.bounds.least, one) for one in limits if one.bounds.least is not None]
    highs = [(one.bounds.most, one) for one in limits if one.bounds.most is not None]
    least, low = max(lows, key=lambda pair: pair[0], default=(None, None))
    most, high = min(highs, key=lambda pair: pair[0], default=(None, None))
    if low and high and least is not None and most is not None and least > most:
        keys = dict.fromkeys(
            [*low.keys(place, low.one.least), *high.keys(place, high.one.most)]
        ) or [f"{place.described}: extras.expected, which can drop one of them"]
        raise ExpectationError(
            f"{variable} has no possible value: {low.said('at least', least, low.one.least)}, and "
            f"{high.said('at most', most, high.one.most)}. Fix: correct {' or '.join(keys)}"
        )
    return Bounds(least, most)


class Others:
    """The cases of a session, for expectations over several of them."""

    def __init__(self, session: Iterable[Measured]):
        self._cases: dict[tuple[str, ...], list[Measured]] = {}  #: by each trait
        self._medians: dict[tuple, float | None] = {}
        for case in session:
            parameters = {**DEFAULTS, **case.parameters}
            for trait in _traits(case.check, parameters, case.environ, case.partition):
                self._cases.setdefault(trait, []).append(case)

    def median(self, other: Other, case: Measured, variable: str) -> float | None:
        """The median of a variable over the cases that `other` names; None without one.

        Judged cases that ask for the same cases share it.
        """
        traits = tuple(_asked(other, case))
        key = id(other), variable, traits, tuple(map(case.place.extras.get, LINK))
        if key not in self._medians:
            few = min((self._cases.get(trait, []) for trait in traits), key=len)
            values = [
                each.values[variable]
                for each in few
                if variable in each.values and _is(each, other, case)
            ]
            self._medians[key] = statistics.median(values) if values else None
        return self._medians[key]


def _traits(
    check: str, parameters: Mapping, environ: str | None, partition: str | None
) -> Iterator[tuple[str, ...]]:
    """What a case is chosen by: each is a key of an index."""
    yield (check,)
    if environ is not None:
        yield check, "environ", environ
    if partition is not None:
        yield check, "partition", partition
    for name, value in parameters.items():
        yield check, "parameter", name, str(value)


def deviations(
    expectations: Iterable[Expectation],
    case: Measured,
    session: Others | None = None,
) -> list[Deviation]:
    """What of a case is beyond expectations.

    :arg session: all cases, for expectations over several cases; None: only those over one.
    """
    found, numbers = [], _numbers(case)
    for one in expectations:
        if one.of_session is (session is None) or not applies(one, case):
            continue
        if one.fact:
            found += _of_fact(one, case)
            continue
        for variable in _judged(one, case):
            others = _others(one, case, variable, session)
            if others is None:
                continue
            names = _names(case, variable, numbers)
            said = _said(one, Names({**names.numbers, **others}, names.own))
            if said:
                found.append(Deviation(one, case, variable, said))
    return found


def _of_fact(one: Expectation, case: Measured) -> list[Deviation]:
    """The deviation of a recorded fact; [] if it matches, or is not recorded."""
    fact = case.facts.get(one.fact)
    if one.matches is None or fact is None or not str(fact):
        return []
    if re.fullmatch(one.matches, str(fact)):
        return []
    return [Deviation(one, case, "", f"{one.sentence.said(_names(case))}: {one.fact} is {fact}")]


def of_session(
    expectations_of: Mapping[str, Mapping[str, Expectation]], session: list[Measured]
) -> list[Deviation]:
    """What deviates in a session, over one case and over several.

    :arg expectations_of: by partition, with the site's own bounds.
    """
    others, found = Others(session), []
    for case in session:
        expectations = expectations_of.get(case.partition, {}).values()
        found += deviations(expectations, case)
        found += deviations(expectations, case, others)
    return found


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


def _numbers(case: Measured) -> dict[str, object]:
    """What the names of an expectation mean for all variables of a case."""
    numbers = of_extras(case.place.extras)
    numbers |= {key: _number(case.facts[key]) for key in FACTS if key in case.facts}
    numbers |= {key: number for key, number in hardware.numbers(case.facts).items() if number}
    return numbers


def _names(
    case: Measured, variable: str = "", numbers: Mapping[str, object] | None = None
) -> Names:
    """What the names of an expectation mean.

    :arg numbers: `_numbers` of the case, for a caller that has them.
    """
    numbers = dict(_numbers(case) if numbers is None else numbers)
    if variable in case.values:
        samples = case.samples.get(variable) or (case.values[variable],)
        numbers |= {
            "value": case.values[variable],
            "least_sample": min(samples),
            "most_sample": max(samples),
        }
    own = {name: value for name, value in case.values.items() if math.isfinite(value)}
    return Names(numbers, own)


def of_extras(extras: Mapping) -> dict[str, object]:
    """Extras by the names that expectations use, and what follows from them."""
    numbers = {key: extras[key] for key in EXTRAS if key in extras}
    memory = numbers.get("guest_memory_gb", numbers.get("memory_gb"))
    return numbers if memory is None else {**numbers, "node_memory_gb": memory}


def _number(fact) -> object:
    """A fact as a number: the least of nodes that differ (`2 | 4`). A text stays one."""
    number = hardware.least(fact)
    return str(fact) if number is None else number


def _others(
    one: Expectation, case: Measured, variable: str, session: Others | None
) -> dict[str, float] | None:
    """The values of other cases; None where one of them was not measured."""
    found = {}
    for name, other in one.others.items():
        value = session.median(other, case, other.variable or variable) if session else None
        if value is None:
            return None
        found[name] = value
    return found


def _asked(other: Other, case: Measured) -> Iterator[tuple[str, ...]]:
    """The traits of the cases that a judged case is compared with."""
    return _traits(
        other.check or case.check,
        _parameters(other, case),
        case.environ if other.environ == "same" else None,
        case.partition if other.link_class is None else None,
    )


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
    same_link = all(extras.get(key) == own.get(key) for key in LINK)
    return extras.get("link_class") == other.link_class and same_link
