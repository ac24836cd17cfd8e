"""Published ratios, such as overheads over bare metal, beside those of a session.

Pure functions. A ratio of the session is one of medians, between two of its cases.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nearmetal.compare import published
from nearmetal.compare.published import Figure
from nearmetal.model import metrics
from nearmetal.results import Case, Session, Value, base_first, parameters


def _time_ratio(value: Value, base: Value) -> float:
    """Time over the base's time, of times or of rates."""
    if value.lower_is_better:
        return value.value / base.value
    return base.value / value.value


#: What a figure's variable says of two values of one quantity: its name -> function of both. Groups
#: name the quantity; without one, it is the time or rate of the program.
KINDS: tuple[tuple[str, Callable[[Value, Value], float]], ...] = (
    ("elapsed_ratio", _time_ratio),
    ("overhead", lambda value, base: 100 * (_time_ratio(value, base) - 1)),
    ("speedup", lambda value, base: 1 / _time_ratio(value, base)),
    ("(parallel_efficiency)_loss", lambda value, base: base.value - value.value),
    ("(latency)_overhead", lambda value, base: 100 * (value.value / base.value - 1)),
    (r"(\w+)_overhead", lambda value, base: value.value - base.value),
    (r"(\w+)_gain", lambda value, base: 100 * (value.value / base.value - 1)),
    (r"(\w+)_ratio", lambda value, base: value.value / base.value),
)
#: The session's name of a quantity, where the figures have another.
NAMES = {"parallel_efficiency": "efficiency", "latency": "startup_latency"}
PROCESSES = re.compile(r"(\d+) processes")
#: Partition that others are relative to.
NATIVE = "native"
#: Link classes that a figure's ratio may be relative to; its last word.
BASES = ("native", "passthrough")
PAGES = "small pages"
#: What a figure of a cluster that is no other's ratio is relative to.
WHOLE = "theoretical peak"


#: Most ratios of the session beside a published one: of N and M nodes there are N times M.
MOST = 500


@dataclass(frozen=True)
class Here:
    """A session's own ratio."""

    place: str
    environ: str
    variable: str
    value: float  #: in the figure's unit


@dataclass(frozen=True)
class Beside:
    """A published ratio, and those of the session that it may be read beside."""

    figure: Figure
    here: tuple[Here, ...]
    more: bool = False  #: whether the session has more than MOST of them


def beside(session: Session | None, figures: Iterable[Figure]) -> list[Beside]:
    """The published ratios of the checks that a session measured, each with the session's own.

    A figure whose ratio the session cannot show, such as one of two settings of a hypervisor, has
    none.
    """
    if session is None:
        return []
    by_check: dict[str, list[Case]] = {}
    for case in session.cases:
        if case.measured:
            by_check.setdefault(_check(case), []).append(case)
    classes = _Classes.of(session)
    found = []
    for figure in figures:
        shown = figure.relative_to is not None and figure.variable not in published.BENDS
        if shown and figure.check in by_check:
            own = [case for case in by_check[figure.check] if not case.disturbed]
            here = tuple(itertools.islice(_here(figure, classes, own), MOST + 1))
            found.append(Beside(figure, here[:MOST], len(here) > MOST))
    return found


@dataclass(frozen=True)
class Overhead:
    """A published overhead over bare metal: 2 is twice the time, or half the rate."""

    figure: Figure  #: of the system that has it
    low: float | None  #: None: the document sets no bound
    high: float | None
    text: str  #: `1.11-1.51 (5.3-7.2 and 8 Gb/s)`


def overheads(figures: Sequence[Figure]) -> list[Overhead]:
    """The overheads that published figures of one document, software and quantity give.

    Either of two figures, one of which is of a native partition, or of a gain over another one.
    """
    found = []
    for one in figures:
        gain = re.fullmatch(r"(\w+)_gain", one.variable)
        if gain and one.partition == NATIVE and one.relative_to and one.unit == "%":
            low, high = (None if bound is None else 1 + bound / 100 for bound in one.bounds)
            figure = replace(one, variable=gain[1], partition=one.relative_to)
            found.append(Overhead(figure, low, high, f"{one.text} % more on {NATIVE}"))
        if one.relative_to is not None or one.partition in (NATIVE, None):
            continue
        found += [_overhead(one, base) for base in figures if _is_base(base, one)]
    return found


def _is_base(base: Figure, one: Figure) -> bool:
    def what(figure: Figure) -> tuple:
        return (
            *(figure.document, figure.system, figure.check, figure.variable),
            *(figure.software, figure.unit, figure.parameters),
        )

    return base.partition == NATIVE and base.relative_to is None and what(base) == what(one)


def _overhead(one: Figure, base: Figure) -> Overhead:
    less = metrics.unit(one.unit).lower_is_better
    over, under = (one, base) if less else (base, one)
    (least, most), (least_under, most_under) = over.bounds, under.bounds
    return Overhead(
        one,
        least / most_under if least is not None and most_under else None,
        most / least_under if most is not None and least_under else None,
        f"{one.text} {_unit(one)}, {NATIVE} {base.text} {_unit(base)}",
    )


def _unit(figure: Figure) -> str:
    return "" if figure.unit == 1 else str(figure.unit)


def can_show(figure: Figure) -> bool:
    """Whether a session can have the ratio of a figure at all."""
    relative = str(figure.relative_to)
    if relative == WHOLE:
        return True
    known = any(re.fullmatch(name, figure.variable) for name, _ in KINDS)
    to = PROCESSES.fullmatch(relative) or relative == PAGES
    return known and bool(to or relative.rsplit(maxsplit=1)[-1] in BASES)


def _check(case: Case) -> str:
    return case.check.split(" ", 1)[0]


@dataclass(frozen=True)
class _Classes:
    """Which cases of a session ran on partitions of a class."""

    first: str  #: the partition that stands for the native one

    @classmethod
    def of(cls, session: Session) -> _Classes:
        names = base_first(session, (case.partition for case in session.cases))
        return cls(names[0] if names else "")

    def holds(self, case: Case, link_class: str) -> bool:
        if case.link_class:
            return case.link_class == link_class
        native = link_class == "native" and case.partition == self.first
        return case.partition == link_class or native


def _here(figure: Figure, classes: _Classes, own: list[Case]) -> Iterator[Here]:
    if figure.relative_to == WHOLE:
        for case in own:
            for value in case.values:
                if value.variable == figure.variable:
                    yield Here(case.place, case.environ, value.variable, value.value)
        return
    kind = next(
        ((found, ratio) for name, ratio in KINDS if (found := re.fullmatch(name, figure.variable))),
        None,
    )
    if kind is None:
        return
    match, ratio = kind
    quantity = NAMES.get(match[1], match[1]) if match.re.groups else None
    counterparts = _counterparts(figure, classes, own)
    for case in own:
        values = [value for value in case.values if _same(figure, case, value, quantity)]
        for other, processes in counterparts(case) if values else ():
            for value in values:
                base = _base(value, other, processes)
                if base is not None and base.value > 0:
                    yield Here(case.place, case.environ, value.variable, ratio(value, base))


def _counterparts(
    figure: Figure, classes: _Classes, cases: list[Case]
) -> Callable[[Case], Iterator[tuple[Case, str]]]:
    """Function: case -> the cases that a figure compares it with, and their processes."""
    relative = str(figure.relative_to)
    link_class = relative.rsplit(maxsplit=1)[-1]
    of_native = figure.partition == NATIVE
    processes = PROCESSES.fullmatch(relative)
    small: dict[tuple, list[Case]] = {}
    of_class: dict[tuple, list[Case]] = {}
    for case in cases:
        if parameters(case.check).get("page_size") == "small":
            small.setdefault((case.place, case.environ), []).append(case)
        if classes.holds(case, link_class):
            of_class.setdefault((case.check, case.environ), []).append(case)

    def found(case: Case) -> Iterator[tuple[Case, str]]:
        if processes:
            yield case, processes[1]
        elif relative == PAGES and parameters(case.check).get("page_size") == "large":
            for other in small.get((case.place, case.environ), ()):
                yield other, ""
        elif link_class in BASES and classes.holds(case, NATIVE) == of_native:
            for other in of_class.get((case.check, case.environ), ()):
                if other.place != case.place:
                    yield other, ""

    return found


def _base(value: Value, other: Case, processes: str) -> Value | None:
    """The other case's value of the variable, or of the same one with these processes."""
    name = value.variable
    if processes:
        name = re.sub(r"_\d+(x\d+)?$", f"_{processes}", name)
    return next(
        (one for one in other.values if (one.variable, one.unit) == (name, value.unit)), None
    )


def _same(figure: Figure, case: Case, value: Value, quantity: str | None) -> bool:
    """Whether a variable is of the figure's quantity and workload."""
    name, _, known = published.workload(
        figure.check, parameters(case.check), value.variable, case.workload
    )
    if quantity is None:
        if name == "efficiency" or "processes" not in known:
            return False
        if name != "elapsed" and any(one.variable.startswith("elapsed_") for one in case.values):
            return False  # the same ratio twice
    elif name != quantity:
        return False
    given = {key: one for key, one in figure.parameters.items() if key in published.WORKLOAD}
    return all(str(one).lower() == str(known.get(key)).lower() for key, one in given.items())
