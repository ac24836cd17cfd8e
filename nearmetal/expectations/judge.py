"""Which expectations apply to a case, its bounds, and what deviates. Pure functions."""

from __future__ import annotations

import fnmatch
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nearmetal.expectations import hardware, known
from nearmetal.expectations.entries import (
    EXTRAS,
    FACTS,
    JUDGED,
    LIKE,
    OF_REPEATS,
    Expectation,
    ExpectationError,
    Other,
)
from nearmetal.expectations.expression import LARGEST, Expression, Names, UnknownValue
from nearmetal.expectations.known import ANY
from nearmetal.util.text import rounded

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


#: The values that a name of `others` stands for: a variable of cases.
Values = tuple[str, list[Measured]]


@dataclass(frozen=True)
class Judgement:
    """A case held against an expectation."""

    expectation: Expectation
    case: Measured
    variable: str  #: '' where it is about the whole case
    sentence: str  #: '' where the case is within the bounds
    beside: tuple[Values, ...] = ()  #: what it was compared with

    @property
    def of_repeats(self) -> bool:
        """Whether it is about single repeats, which the median need not follow."""
        return bool(self.expectation.of.names & set(OF_REPEATS))

    def own(self) -> Iterator[str]:
        """The variables of the case that it is about."""
        for part in (self.expectation.of, *self.expectation.bounds):
            yield from part.own
            for pattern in part.patterns:
                yield from fnmatch.filter(self.case.values, pattern)

    def values(self) -> Iterator[tuple[Measured, str]]:
        """The measured values that it is about, also of other cases."""
        for name in {self.variable, *self.own()} & set(self.case.values):
            yield self.case, name
        for variable, cases in self.beside:
            for case in cases:
                yield case, variable


class Deviation(Judgement):
    """A case beyond an expectation."""

    def __str__(self) -> str:
        return ": ".join(filter(None, [self.variable, self.said]))

    @property
    def said(self) -> str:
        """The sentence, with the name of the expectation and the site's reason."""
        text = f"{self.sentence} ({self.expectation.name})"
        if self.overridden:
            text += f" The site's bound: {self.expectation.overridden}."
        return text

    @property
    def overridden(self) -> bool:
        return bool(self.expectation.overridden)

    @property
    def of_values(self) -> bool:
        """Whether it is about measured values, which a disturbance may explain."""
        of = self.expectation.of
        measured = of.over_own or bool(of.names & set(JUDGED))
        return bool(self.variable) or (measured and self.expectation.fact is None)


def selects(expectation: Expectation, place: Place) -> bool:
    """Whether an expectation applies to a partition with an environment."""
    where, extras = expectation.where, place.extras
    for key in ("link_class", "link_type"):
        if key in where and extras.get(key) not in where[key]:
            return False
    # Whether the case's own directory is on it is asked later (`_on_device`).
    if "device" in where and not set(where["device"]) & set(_devices(extras).values()):
        return False
    hypervisor = where.get("hypervisor", ".*")
    return (
        _within(extras.get("link_speed_gbps"), where.get("link_speed_gbps"))
        and re.fullmatch(hypervisor, str(extras.get("hypervisor", ""))) is not None
        and _with(place.features, where.get("features", ()))
        and _with(place.environ_features, where.get("environ_features", ()))
    )


def _devices(extras: Mapping) -> dict[str, str]:
    """The class of each directory's device, by the directory's place."""
    devices = {}
    for place in PLACES:
        key = DEVICE.format(place=place)
        if key in extras:
            devices[place] = str(extras[key])
    return devices


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


def applies(expectation: Expectation, case: Measured) -> bool:
    """Whether an expectation is about a case."""
    return (
        (case.check in expectation.checks or ANY in expectation.checks)
        and _has(case.parameters, expectation.parameters)
        and selects(expectation, case.place)
        and _on_device(expectation, case)
        and _of_model(expectation, case)
    )


def _past_the_kernel(case: Measured) -> bool:
    """Whether the NIC carried the messages between nodes past the kernel, as Slingshot's does.

    Where nothing was recorded, the link's type decides.
    """
    within = case.parameters.get("placement") == "intranode"
    return not within and bool(case.facts.get("transport")) and not hardware.carriers(case.facts)


def _on_device(expectation: Expectation, case: Measured) -> bool:
    """Whether the case's directory is on a device of the classes that the expectation is about."""
    wanted = expectation.where.get("device")
    place = str(case.parameters.get("place", ""))
    return wanted is None or _devices(case.place.extras).get(place) in wanted


def _of_model(expectation: Expectation, case: Measured) -> bool:
    """Whether all nodes have a processor that the expectation is about."""
    wanted = expectation.where.get("cpu_model")
    if wanted is None:
        return True
    # Nodes that differ are recorded as `A | B`.
    models = str(case.facts.get("cpu_model", "")).split(" | ")
    return all(re.fullmatch(wanted, model) for model in models)


def _has(parameters: Mapping, wanted: Mapping) -> bool:
    """Whether parameters of a case are as wanted."""
    return _texts(wanted).items() <= _texts({**DEFAULTS, **parameters}).items()


def _texts(parameters: Mapping) -> dict[str, str]:
    """Parameters as text: 2 and "2" are the same."""
    return {key: str(value) for key, value in parameters.items()}


def bounds(expectation: Expectation, names: Names) -> Bounds:
    """Its bounds as numbers. Raises UnknownValue."""
    least = most = None
    if expectation.least is not None:
        least = expectation.least.value(names)
    if expectation.most is not None:
        most = expectation.most.value(names)
    return Bounds(least, most)


def references(
    expectations: Iterable[Expectation], case: Measured, variables: Iterable[str]
) -> dict[str, Bounds]:
    """The tightest bounds of each variable that are known before it is measured.

    Raises ExpectationError if no value is within the bounds of a variable.
    """
    limits: dict[str, list[tuple[Expectation, Bounds]]] = {}
    names = _names(case, _numbers(case))
    for expectation in expectations:
        if not expectation.variables or not expectation.plain or not applies(expectation, case):
            continue
        # A bound over a key that the site's file lacks says nothing there.
        try:
            limit = bounds(expectation, names)
        except UnknownValue:
            continue
        for name in variables:
            if re.fullmatch(expectation.variables, name):
                limits.setdefault(name, []).append((expectation, limit))
    tightest_of = {}
    for name, several in limits.items():
        tightest = _tightest(name, several, case.place)
        if tightest != Bounds(None, None):
            tightest_of[name] = tightest
    return tightest_of


def _tightest(variable: str, limits: list[tuple[Expectation, Bounds]], place: Place) -> Bounds:
    """The tightest of several bounds. Raises ExpectationError if they exclude each other."""
    least = most = low = high = None
    for expectation, limit in limits:
        if limit.least is not None and (least is None or limit.least > least):
            least, low = limit.least, expectation
        if limit.most is not None and (most is None or limit.most < most):
            most, high = limit.most, expectation
    if low is None or high is None or least is None or most is None or least <= most:
        return Bounds(least, most)
    sides = (low, low.least, "at least", least), (high, high.most, "at most", most)
    words: list[str] = []
    keys: list[str] = []
    for expectation, bound, word, number in sides:
        expects = f"{expectation.name} expects {word} {rounded(number)}"
        if bound and bound.names:
            expects += f" ({bound.text})"
        words.append(expects)
        keys += _keys(expectation, bound, place)
    fix = " or ".join(dict.fromkeys(keys))
    if not fix:
        fix = f"{place.described}: extras.expected, which can drop one of them"
    raise ExpectationError(
        f"{variable} has no possible value: {', and '.join(words)}. Fix: correct {fix}"
    )


def _keys(expectation: Expectation, limit: Expression | None, place: Place) -> Iterator[str]:
    """Keys of the site's file on which a bound depends."""
    if expectation.changed_at:
        yield expectation.changed_at
    if limit is not None:
        for name in sorted(limit.names & set(EXTRAS) & set(place.extras)):
            yield f"{place.described}: extras.{name}"


@dataclass(frozen=True)
class _Wanted:
    """The cases of a session that a judged one is compared with; None: any."""

    check: str
    parameters: tuple[tuple[str, str], ...]
    environ: str | None
    partition: str | None
    link: tuple | None  #: class, and the values of LINK
    kind: str | None = None  #: of message passing
    node: str | None = None
    cpu_model: str | None = None

    def __contains__(self, case: Measured) -> bool:
        if self.partition not in (None, case.partition) or self.node not in (None, case.node):
            return False
        if self.kind not in (None, _kind(case)):
            return False
        if self.cpu_model not in (None, case.facts.get("cpu_model")):
            return False
        if self.environ not in (None, case.environ):
            return False
        if self.link not in (None, _link(case.place, case.place.extras.get("link_class"))):
            return False
        return _has(case.parameters, dict(self.parameters))

    def traits(self) -> Iterator[tuple]:
        """Keys of `Others`, each of which holds all of these cases."""
        yield (self.check,)
        if self.environ is not None:
            yield self.check, "environ", self.environ
        if self.partition is not None:
            yield self.check, "partition", self.partition
        if self.link is not None:
            yield self.check, "link", self.link
        if self.node is not None:
            yield self.check, "node", self.node
        for name, value in self.parameters:
            yield self.check, name, value


def _wanted(other: Other, case: Measured) -> _Wanted:
    parameters = case.parameters
    # Another check has other parameters.
    if other.parameters or other.check:
        parameters = other.parameters
    texts = tuple(_texts(parameters).items())
    wanted = _Wanted(other.check or case.check, texts, case.environ, case.partition, None)
    if other.environ != "same":
        wanted = replace(wanted, environ=None)
    if other.environ == "like":
        wanted = replace(wanted, kind=_kind(case), node=case.node)
    if other.partition == "like":
        # A partition whose processor is not known is like no other.
        model = str(case.facts.get("cpu_model") or case.partition)
        wanted = replace(wanted, partition=None, cpu_model=model)
    if other.link_class is not None:
        link = _link(case.place, other.link_class)
        wanted = replace(wanted, partition=None, link=link)
    return wanted


def _link(place: Place, link_class: str | None) -> tuple:
    return link_class, *map(place.extras.get, LINK)


def _kind(case: Measured) -> str:
    """How an environment passes messages."""
    # MPJ Express takes sockets even within a node, ours takes MPI's shared memory.
    return " ".join(sorted(case.place.environ_features & {"mpi", "mpj", "mpj_native"}))


class Others:
    """The cases of a session, for expectations over several of them."""

    def __init__(self, session: Iterable[Measured]):
        #: By the traits of a case: a search through all cases for each of them would take the
        #: square of their number.
        self._cases: dict[tuple, list[Measured]] = {}
        self._known: dict[tuple[_Wanted, str], tuple[list[Measured], float]] = {}
        for case in session:
            parameters = tuple(_texts({**DEFAULTS, **case.parameters}).items())
            link = _link(case.place, case.place.extras.get("link_class"))
            own = _Wanted(
                case.check, parameters, case.environ, case.partition, link, node=case.node
            )
            for trait in own.traits():
                self._cases.setdefault(trait, []).append(case)

    def median(
        self, other: Other, case: Measured, variable: str
    ) -> tuple[list[Measured], float] | None:
        """The cases that `other` names, and the median of their variable; None without one."""
        if other.of_own_case:
            if variable not in case.values:
                return None
            return [case], case.values[variable]
        wanted = _wanted(other, case)
        # Judged cases that ask for the same cases share the median.
        key = wanted, variable
        if key not in self._known:
            cases = []
            for each in min((self._cases.get(trait, []) for trait in wanted.traits()), key=len):
                if each in wanted and variable in each.values:
                    cases.append(each)
            self._known[key] = cases, _median(cases, variable)
        cases, median = self._known[key]
        # The judged case is among them. The median of two would be between them.
        if "like" in (other.environ, other.partition) and len(cases) < 3:
            cases = [each for each in cases if each is not case]
            median = _median(cases, variable)
        return (cases, median) if cases else None


def _median(cases: list[Measured], variable: str) -> float:
    values = [case.values[variable] for case in cases]
    return statistics.median(values) if values else math.nan


def of_session(
    expectations_of: Mapping[str, Mapping[str, Expectation]], session: list[Measured]
) -> list[Deviation]:
    """What deviates in a session, over one case and over several.

    :arg expectations_of: by partition, with the site's own bounds.
    """
    every = judged(expectations_of, session)
    return [each for each in every if isinstance(each, Deviation)]


def judged(
    expectations_of: Mapping[str, Mapping[str, Expectation]], session: list[Measured]
) -> Iterator[Judgement]:
    """Each case of a session held against each expectation whose numbers are known."""
    others = Others(session)
    for case in session:
        expectations = expectations_of.get(case.partition, {}).values()
        yield from judgements(expectations, case)
        yield from judgements(expectations, case, others)


def deviations(
    expectations: Iterable[Expectation], case: Measured, session: Others | None = None
) -> list[Deviation]:
    """What of a case is beyond expectations.

    :arg session: all cases, for expectations over several cases; None: only those over one.
    """
    every = judgements(expectations, case, session)
    return [each for each in every if isinstance(each, Deviation)]


def judgements(
    expectations: Iterable[Expectation], case: Measured, session: Others | None = None
) -> Iterator[Judgement]:
    """A case held against each expectation whose numbers are known.

    :arg session: all cases, for expectations over several cases; None: only those over one.
    """
    numbers = _numbers(case)
    for expectation in expectations:
        # Those over several cases are judged after the run alone.
        if expectation.of_session is (session is None) or not applies(expectation, case):
            continue
        if expectation.fact:
            yield from _of_fact(expectation, case)
            continue
        for variable, groups in _judged(expectation, case):
            others = _others(expectation, case, variable, groups, session)
            if others is None:
                continue
            medians, beside = others
            compared = [case, *(each for _, cases in beside for each in cases)]
            if "carried_by" in expectation.where and any(map(_past_the_kernel, compared)):
                continue
            for name, text in groups.items():
                if text.isdecimal():
                    medians[name] = float(text)
            names = _names(case, {**numbers, **medians}, variable)
            if expectation.of_machines:
                names = _with_machines(names, case, variable)
            try:
                sentence = _beyond(expectation, names)
            except UnknownValue:
                continue
            kind = Deviation if sentence else Judgement
            yield kind(expectation, case, variable, sentence, beside)


def _of_fact(expectation: Expectation, case: Measured) -> Iterator[Deviation]:
    """The deviation of a recorded fact; none if it matches, or is not recorded."""
    fact = str(case.facts.get(expectation.fact, "") or "")
    if fact and expectation.matches is not None and not re.fullmatch(expectation.matches, fact):
        sentence = expectation.sentence.filled(_names(case, _numbers(case)))
        text = f"{sentence}: {expectation.fact} is {fact}"
        yield Deviation(expectation, case, "", text)


def _judged(expectation: Expectation, case: Measured) -> Iterator[tuple[str, dict[str, str]]]:
    """The variables that it judges, with the groups of its pattern; '' for the case as a whole."""
    if expectation.variables is None:
        yield "", {}
        return
    for name in case.values:
        # Others' checks may use the same name in another unit.
        same_unit = expectation.unit in (None, case.units.get(name, expectation.unit))
        if same_unit and (match := re.fullmatch(expectation.variables, name)):
            yield name, match.groupdict()


def _others(
    expectation: Expectation,
    case: Measured,
    variable: str,
    groups: Mapping[str, str],
    session: Others | None,
) -> tuple[dict[str, float], tuple[Values, ...]] | None:
    """The values of other cases by name, and these; None where one was not measured."""
    medians, beside = {}, []
    for name, other in expectation.others.items():
        if session is None:
            return None
        read = known.fill(other.variable or variable, groups)
        measured = session.median(other, case, read)
        if measured is None:
            return None
        cases, medians[name] = measured
        beside.append((read, cases))
    return medians, tuple(beside)


def _with_machines(names: Names, case: Measured, variable: str) -> Names:
    """The names, with what machines like the case's give."""
    # Not at the top: SciPy takes a while, and no check needs it.
    from nearmetal.expectations import machines

    alike = machines.of_case(case, variable)
    if alike is None or alike.why:
        return names
    ends = {"like_least": alike.least, "like_most": min(alike.most, LARGEST)}
    return replace(
        names, numbers={**names.numbers, **ends}, texts={LIKE: alike.beside(case.values[variable])}
    )


def _beyond(expectation: Expectation, names: Names) -> str:
    """The sentence of a deviation; '' where there is none. Raises UnknownValue."""
    value, limit = expectation.of.value(names), bounds(expectation, names)
    low = limit.least is not None and value < limit.least
    high = limit.most is not None and value > limit.most
    if low or high:
        return expectation.sentence.filled(names)
    return ""


def _numbers(case: Measured) -> dict[str, object]:
    """What the names of an expectation mean for all variables of a case."""
    numbers = of_extras(case.place.extras)
    for key in FACTS:
        if key in case.facts:
            # Of nodes that differ (`2 | 4`), the least counts. A text stays one.
            numbers[key] = str(case.facts[key])
            number = hardware.least(case.facts[key])
            if number is not None:
                numbers[key] = number
    for key, derived in hardware.numbers(case.facts).items():
        if derived:
            numbers[key] = derived
    return numbers


def _names(case: Measured, numbers: Mapping[str, object], variable: str = "") -> Names:
    """What the names of an expectation mean.

    :arg numbers: those that do not depend on the variable.
    """
    named = dict(numbers)
    if variable in case.values:
        samples = case.samples.get(variable) or (case.values[variable],)
        named["value"] = case.values[variable]
        agreeing = _without_a_stray(samples)
        named["least_sample"], named["most_sample"] = agreeing[0], agreeing[-1]
    # ReFrame stores NaN where a check measured nothing.
    measured = {name: value for name, value in case.values.items() if math.isfinite(value)}
    return Names(named, measured)


def _without_a_stray(samples: Sequence[float]) -> list[float]:
    """Ascending samples; of three or more, without the one that is farthest from the median.

    One stray repeat changes the median little.
    """
    ordered = sorted(samples)
    if len(ordered) < 3 or not ordered[0] > 0:
        return ordered
    middle = statistics.median(ordered)
    if ordered[-1] / middle > middle / ordered[0]:
        return ordered[:-1]
    return ordered[1:]


def of_extras(extras: Mapping) -> dict[str, object]:
    """Extras by the names that expectations use, and what follows from them."""
    numbers = {key: extras[key] for key in EXTRAS if key in extras}
    memory = numbers.get("guest_memory_gb", numbers.get("memory_gb"))
    if memory is not None:
        numbers["node_memory_gb"] = memory
    # A file that does not know the key describes one link.
    numbers.setdefault("nics", 1)
    return numbers
