"""Nearness of a session's partitions to bare metal: shares by aspect, and their table.

The base is the native link. Where no partition has one, it is what bare metal cannot exceed, such
as the link's rate. Aspects and limits: reframe_checks/references/checks/.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tabulate import tabulate

from nearmetal.compare.index import Index, Key
from nearmetal.expectations import entries
from nearmetal.expectations.expression import Expression, Names, UnknownValue
from nearmetal.model import catalogue
from nearmetal.results import Case, Session, Value, base_first
from nearmetal.stats.nearness import Bootstrap, Pair, Remark, Share, bootstrap, shares
from nearmetal.util import suggest

#: Aspect of variables that are left out for a reason, and of those that no file has.
LEFT_OUT, UNKNOWN = catalogue.NONE, ""
#: Name of the limits as a base.
LIMIT = "the limit"
#: Extras that are numbers, by partition.
Numbers = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True)
class Nearness:
    """Shares of a base that are left on other partitions."""

    base: str
    places: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Share | None, ...]], ...]  #: aspect, and a share of each place
    remarks: tuple[str, ...] = ()


def of_session(
    session: Session, columns: list[str], numbers: Callable[[], Numbers] | None
) -> Nearness:
    """Nearness to the first of the columns, or to the limits where none has a native link.

    :arg numbers: gives extras of partitions; called only where there are limits to compute.
    """
    if numbers is None or has_native(session):
        return to_base(session, columns)
    return to_limits(session, numbers())


def has_native(session: Session) -> bool:
    """Whether a partition has a native link, or is called native."""
    return any("native" in (case.link_class, case.partition) for case in session.measured)


def aspect(check: str, variable: str) -> str:
    """The aspect of a variable; LEFT_OUT or UNKNOWN where it has none."""
    known = catalogue.variable(check, variable)
    if known is None:
        return UNKNOWN
    return known.aspect


def to_base(session: Session, columns: list[str]) -> Nearness:
    """The nearness of a session's partitions to the first of them."""
    base, *others = columns
    index = Index(session.values)
    draw = bootstrap(sum(map(len, index.places.values())))
    by_place: dict[str, list[Share]] = {}
    # A reason often holds for many variables.
    names_of: dict[tuple[str, bool], list[str]] = {}
    for place in others:
        by_place[place], remarks = between(index.at(base), index.at(place), draw)
        for remark in remarks:
            names = names_of.setdefault((remark.reason, remark.counted), [])
            names.append(f"{remark.name} on {place}")
    words = {True: "counted", False: "not counted"}
    sentences = []
    for (reason, counted), names in names_of.items():
        sentences.append(f"{words[counted]}, since {reason}: {suggest.shorten(names)}")
    return Nearness(base, tuple(others), _rows(by_place), tuple(sentences))


def between(
    on_base: Mapping[Key, Value], on_place: Mapping[Key, Value], draw: Bootstrap | None = None
) -> tuple[list[Share], list[Remark]]:
    """Shares of the base that are left on a partition, and remarks on variables.

    :arg draw: of nearmetal.stats.nearness.shares.
    """
    pairs, remarks = [], []
    # The order of the base's values, in which the bootstrap draws.
    for key in dict.fromkeys([*on_base, *on_place]):
        check, environ, variable, _ = key
        name = f"{check} {environ} {variable}"
        of_variable = aspect(check, variable)
        if of_variable == UNKNOWN:
            remarks.append(Remark(name, "no file of references/checks/ gives its aspect", False))
            continue
        if of_variable == LEFT_OUT:
            continue
        base, other = on_base.get(key), on_place.get(key)
        value = base or other
        assert value is not None
        samples = _samples(base), _samples(other)
        pairs.append(Pair(of_variable, name, *samples, value.lower_is_better))
    of_aspects, more = shares(pairs, draw)
    return of_aspects, remarks + more


def _samples(value: Value | None) -> tuple[float, ...]:
    if value is None:
        return ()
    return value.samples or (value.value,)


def _rows(by_place: Mapping[str, list[Share]]) -> tuple[tuple[str, tuple[Share | None, ...]], ...]:
    """A row for each aspect, with the share of each partition."""
    cells: dict[str, dict[str, Share]] = {}
    for place, of_place in by_place.items():
        for share in of_place:
            cells.setdefault(share.aspect, {})[place] = share
    rows = []
    for name, row in cells.items():
        rows.append((name, tuple(map(row.get, by_place))))
    return tuple(rows)


def to_limits(session: Session, numbers: Numbers) -> Nearness:
    """Shares of the limits that partitions reach.

    :arg numbers: extras of each partition that are numbers, such as its link's rate.
    """
    pairs_of: dict[str, list[Pair]] = {}
    for place in base_first(session, (case.place for case in session.measured)):
        pairs_of[place] = []
    remarks: dict[str, None] = {}
    measured: set[str] = set()
    limited: set[str] = set()
    for case in session.measured:
        for value in case.values:
            measured.add(aspect(case.check, value.variable))
        for value, name, limit in _limited(case):
            limited.add(name)
            try:
                pair = _pair(case, value, name, limit, numbers.get(case.partition, {}))
            except UnknownValue as why:
                remarks[f"{name}: no limit on {case.place}: {why}"] = None
            else:
                pairs_of[case.place].append(pair)
    draw = bootstrap(sum(map(len, pairs_of.values())))
    by_place = {}
    for place, pairs in pairs_of.items():
        by_place[place], _ = shares(pairs, draw)
    # A limit whose number is not known has a remark of its own.
    if without := measured - limited - {LEFT_OUT, UNKNOWN}:
        names = ", ".join(sorted(without))
        remarks[f"{names}: no limit is known; a partition with a native link shows these"] = None
    return Nearness(LIMIT, tuple(by_place), _rows(by_place), tuple(remarks))


def _limited(case: Case) -> Iterator[tuple[Value, str, catalogue.Limit]]:
    """The case's variables with a limit, each with its aspect; one where the best counts."""
    best: dict[catalogue.Limit, tuple[Value, str]] = {}
    for value in case.values:
        known = catalogue.variable(case.check, value.variable)
        if known is None or known.limit is None:
            continue
        name = known.limit.aspect or known.aspect
        # STREAM on one thread is far from the limit, which all threads together reach.
        if not known.limit.best:
            yield value, name, known.limit
        elif known.limit not in best or value.value > best[known.limit][0].value:
            best[known.limit] = value, name
    for limit, (value, name) in best.items():
        yield value, name, limit


def _pair(
    case: Case, value: Value, name: str, limit: catalogue.Limit, numbers: Mapping[str, object]
) -> Pair:
    """A variable beside its limit. Raises UnknownValue."""
    samples = _each(parsed(limit.of), _samples(value), numbers)
    # A limit has no noise: the same value in each repeat.
    most = _each(parsed(limit.most), (value.value,), numbers) * len(samples)
    return Pair(name, f"{case.check} {case.environ} {value.variable}", most, samples, False)


@functools.cache
def parsed(text: str | float) -> Expression:
    """A limit's expression. Raises ExpectationError."""
    names = entries.Readable(("*",), {*entries.OF_EXTRAS, "value"})
    return entries.read(f"the limit {text!r}", text, names)


def _each(
    expression: Expression, samples: Iterable[float], numbers: Mapping[str, object]
) -> tuple[float, ...]:
    """Raises UnknownValue."""
    return tuple(expression.value(Names({**numbers, "value": sample})) for sample in samples)


def cell(share: Share | None) -> str:
    """`0.72 [0.70, 0.75]`; `=` marks an interval around 1, `?` a share without an interval."""
    if share is None:
        return "-"
    if share.interval is None:
        return f"{share.value:#.3g} ?"
    low, high = share.interval
    text = f"{share.value:#.3g} [{low:#.3g}, {high:#.3g}]"
    if not share.differs:
        text += " ="
    return text


def render(near: Nearness) -> str:
    """The table as text, what it means, and the remarks; empty without a share."""
    if not near.rows:
        return ""
    rows = [[name, *map(cell, row)] for name, row in near.rows]
    headers = [f"share of {near.base} left", *near.places]
    text = tabulate(rows, headers, disable_numparse=True)
    meaning = (
        f"1: as {near.base}. 0.5: half as fast, or twice the time or loss. []: 95 % of bootstrap "
        "draws over repeats.\n=: the interval includes 1. ?: a variable has one repeat."
    )
    return "\n".join([text, meaning, *near.remarks])
