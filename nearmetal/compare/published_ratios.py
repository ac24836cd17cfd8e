"""Published ratios, such as overheads over bare metal, beside those of a session.

Pure functions. A ratio of the session is one of medians, between two of its cases.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tabulate import tabulate

from nearmetal.compare import published
from nearmetal.compare.published import Figure
from nearmetal.model import metrics, naming
from nearmetal.results import Case, Session, Value, base_first


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
    (r"(\w+)_speedup", lambda value, base: 1 / _time_ratio(value, base)),
    (r"(\w+)_gain", lambda value, base: 100 * (value.value / base.value - 1)),
    (r"(\w+)_ratio", lambda value, base: value.value / base.value),
)
#: The session's name of a quantity, where the figures have another.
NAMES = {"parallel_efficiency": "efficiency", "latency": "startup_latency"}
PROCESSES = re.compile(r"(\d+) processes\b")
#: Partition that others are relative to.
NATIVE = "native"
#: Link classes that a figure's ratio may be relative to; its last word.
BASES = ("native", "passthrough", "emulated")
#: A base on another system: its name and the class of its link.
ACROSS = re.compile(rf"(?:\d+ processes of )?[\w-]+ (?:{'|'.join(BASES)})")
PAGES = "small pages"
EPT = "EPT on"
#: Values of the fact `nested_paging` with it.
NESTED = ("ept", "npt")
#: What a figure is relative to that is itself a variable of one case.
WITHIN = ("theoretical peak", "local memory")
#: Most ratios of the session beside a published one: of N and M nodes there are N times M.
MOST = 500


@dataclass(frozen=True)
class Here:
    """A session's own ratio."""

    place: str
    environ: str
    variable: str
    value: float  #: in the figure's unit
    base: str = ""  #: place that the ratio is relative to


@dataclass(frozen=True)
class Beside:
    """A published ratio, and those of the session that it may be read beside."""

    figure: Figure
    here: tuple[Here, ...]
    more: bool = False  #: whether the session has more than MOST of them


def beside(session: Session, figures: Iterable[Figure]) -> list[Beside]:
    """The published ratios of the checks that a session measured, each with the session's own.

    A figure whose ratio the session cannot show, such as one of two settings of a hypervisor, has
    none.
    """
    by_check: dict[str, list[Case]] = {}
    for case in session.measured:
        by_check.setdefault(naming.base_name(case.check), []).append(case)
    # Without classes of links, the first partition stands for the native one.
    first = next(iter(base_first(session, (case.partition for case in session.cases))), "")
    ratios = []
    for figure in figures:
        is_ratio = figure.relative_to is not None and figure.variable not in published.BENDS
        if is_ratio and figure.check in by_check:
            cases = [case for case in by_check[figure.check] if not case.disturbed]
            here = tuple(itertools.islice(_here(figure, first, cases), MOST + 1))
            ratios.append(Beside(figure, here[:MOST], len(here) > MOST))
    return ratios


def _here(figure: Figure, first: str, cases: list[Case]) -> Iterator[Here]:
    """The session's ratios of a figure's kind.

    :arg first: the partition that stands for the native one.
    """
    if figure.relative_to in WITHIN:
        for case in cases:
            for value in case.values:
                if value.variable == figure.variable:
                    yield Here(case.place, case.environ, value.variable, value.value)
        return
    kind = _kind(figure)
    if kind is None:
        return
    quantity, ratio = kind
    counterparts = _Counterparts(figure, first, cases)
    for case in cases:
        values = [value for value in case.values if _is_same(figure, case, value, quantity)]
        # Of N nodes beside M, each has M counterparts.
        if not values:
            continue
        for other, processes in counterparts.of(case):
            for value in values:
                base = _base(value, other, processes)
                if base is not None and base.value > 0:
                    number = ratio(value, base)
                    yield Here(case.place, case.environ, value.variable, number, other.place)


def _kind(figure: Figure) -> tuple[str | None, Callable[[Value, Value], float]] | None:
    """The quantity of a figure's ratio, None being time or rate, and the function of two values."""
    for name, ratio in KINDS:
        if match := re.fullmatch(name, figure.variable):
            quantity = next(iter(match.groups()), None)
            return NAMES.get(quantity or "", quantity), ratio
    return None


def _is_same(figure: Figure, case: Case, value: Value, quantity: str | None) -> bool:
    """Whether a variable is of the figure's quantity and workload."""
    here = published.of_value(case, value)
    if quantity is None:
        if here.variable == "efficiency" or "processes" not in here.known:
            return False
        # Beside the elapsed time, a rate would be the same ratio twice.
        timed = any(other.variable.startswith("elapsed_") for other in case.values)
        if here.variable != "elapsed" and timed:
            return False
    elif here.variable != quantity:
        return False
    return published.is_alike(figure.workload, here.known)


class _Counterparts:
    """The cases that a figure compares others with."""

    def __init__(self, figure: Figure, first: str, cases: list[Case]):
        relative = str(figure.relative_to)
        self._processes = ""
        if match := PROCESSES.match(relative):
            self._processes = match[1]
        self._of_pages = relative == PAGES
        self._of_nested_paging = relative == EPT
        self._first = first
        self._link_class = relative.rsplit(maxsplit=1)[-1]
        self._of_native = figure.partition == NATIVE
        self._small: dict[tuple, list[Case]] = {}
        self._of_class: dict[tuple, list[Case]] = {}
        self._nested: dict[tuple, list[Case]] = {}
        for case in cases:
            if case.facts.get("nested_paging") in NESTED:
                self._nested.setdefault((case.check, case.environ), []).append(case)
            if naming.parameters(case.check).get("page_size") == "small":
                self._small.setdefault((case.place, case.environ), []).append(case)
            if self._has_class(case, self._link_class):
                self._of_class.setdefault((case.check, case.environ), []).append(case)

    def of(self, case: Case) -> Iterator[tuple[Case, str]]:
        """Each case that this one is compared with, and the processes that are compared."""
        if self._processes and self._link_class not in BASES:
            yield case, self._processes
        elif self._of_pages:
            if naming.parameters(case.check).get("page_size") == "large":
                for other in self._small.get((case.place, case.environ), ()):
                    yield other, ""
        elif self._of_nested_paging:
            if case.facts.get("nested_paging") == "shadow":
                for other in self._nested.get((case.check, case.environ), ()):
                    yield other, ""
        elif self._link_class in BASES and self._has_class(case, NATIVE) == self._of_native:
            for other in self._of_class.get((case.check, case.environ), ()):
                if other.place != case.place:
                    yield other, self._processes

    def _has_class(self, case: Case, link_class: str) -> bool:
        """Whether a case ran on a partition with this class of link, by its class or its name."""
        if case.link_class:
            return case.link_class == link_class
        stands_for_native = link_class == NATIVE and case.partition == self._first
        return case.partition == link_class or stands_for_native


def _base(value: Value, other: Case, processes: str) -> Value | None:
    """The other case's value of the variable, or of the same one with these processes."""
    name = value.variable
    if processes:
        name = re.sub(r"_\d+(x\d+)?$", f"_{processes}", name)
    for candidate in other.values:
        if (candidate.variable, candidate.unit) == (name, value.unit):
            return candidate
    return None


def can_show(figure: Figure) -> bool:
    """Whether a session can have the ratio of a figure at all."""
    relative = str(figure.relative_to)
    if relative in WITHIN:
        return True
    if _kind(figure) is None:
        return False
    within = relative in (PAGES, EPT) or PROCESSES.fullmatch(relative) is not None
    return within or relative.rsplit(maxsplit=1)[-1] in BASES


def across(session: Session, figures: Iterable[Figure]) -> str:
    """The table of published ratios between two systems, beside those of sessions side by side.

    '' if the sessions have none.
    """
    between = [figure for figure in figures if ACROSS.fullmatch(str(figure.relative_to))]
    rows = []
    for ratio in beside(session, between):
        figure = ratio.figure
        what = f"{figure.variable} of {figure.system} {figure.partition} to {figure.relative_to}"
        for here in ratio.here:
            if here.place.split(":")[0] != here.base.split(":")[0]:
                own = f"{here.value:.3g} {figure.unit_text}".rstrip()
                place = here.variable, here.environ, here.place, here.base
                rows.append([figure.check, what, f"{figure.text} {figure.unit_text}", own, *place])
    if not rows:
        return ""
    headers = ["check", "published ratio", "published", "here", "variable", "environment"]
    return tabulate(rows, [*headers, "on", "relative to"], disable_numparse=True)


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
    listed = []
    for figure in figures:
        gain = re.fullmatch(r"(\w+)_gain", figure.variable)
        if gain and figure.partition == NATIVE and figure.relative_to and figure.unit == "%":
            other = replace(figure, variable=gain[1], partition=figure.relative_to)
            # What the native partition gains, the other one loses.
            low, high = map(_factor, figure.bounds)
            listed.append(Overhead(other, low, high, f"{figure.text} % more on {NATIVE}"))
        if figure.relative_to is None and figure.partition not in (NATIVE, None):
            for base in figures:
                if _is_base(base, figure):
                    listed.append(_overhead(figure, base))
    return listed


def _factor(percent: float | None) -> float | None:
    if percent is None:
        return None
    return 1 + percent / 100


def _is_base(base: Figure, figure: Figure) -> bool:
    if base.partition != NATIVE or base.relative_to is not None:
        return False
    return _quantity(base) == _quantity(figure)


def _quantity(figure: Figure) -> tuple:
    """What a figure says, but for the partition."""
    where = figure.document, figure.system, figure.check, figure.variable
    return *where, figure.software, figure.unit, figure.parameters


def _overhead(figure: Figure, base: Figure) -> Overhead:
    # Time over time, or the native rate over the rate: above 1 is worse.
    over, under = base, figure
    if metrics.unit(figure.unit).lower_is_better:
        over, under = figure, base
    low, high = published.quotient(over.bounds, under.bounds)
    unit = figure.unit_text
    text = f"{figure.text} {unit}, {NATIVE} {base.text} {unit}"
    return Overhead(figure, low, high, text)
