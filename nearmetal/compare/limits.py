"""Nearness to physical limits, for sessions without a native link to compare with."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from nearmetal.compare.nearness import LEFT_OUT, WITHOUT_RULE, Nearness, aspect, name_of, of_session
from nearmetal.errors import NearmetalError
from nearmetal.expectations import entries
from nearmetal.expectations.expression import Expression, Names, UnknownValue
from nearmetal.results import Case, Session, Value, base_first
from nearmetal.stats.nearness import Pair, bootstrap, shares
from nearmetal.util import strict_yaml

RULES = Path(__file__).with_name("limits.yaml")
KEYS = {"aspect", "check", "variable", "limit", "of", "best"}
#: Name of the base in the table.
BASE = "the limit"


@functools.cache
def rules() -> list[dict]:
    """Rules of limits.yaml, with `limit` and `of` parsed. Raises NearmetalError."""
    names = entries.Readable(("*",), {*entries.EXTRAS, "value"})
    found = []
    for rule in strict_yaml.load(RULES.read_text()):
        if set(rule) - KEYS or not {"aspect", "limit"} <= set(rule):
            raise NearmetalError(f"{RULES.name}: {rule}: write aspect, limit, and {KEYS} alone")
        both = {key: rule.get(key, "value") for key in ("limit", "of")}
        parsed = {key: entries.read(f"{RULES.name}: {rule}", both[key], names) for key in both}
        found.append({**rule, **parsed})
    return found


def has_native(session: Session) -> bool:
    """Whether a partition has a native link, or is called native."""
    return any(
        case.measured and "native" in (case.link_class, case.partition) for case in session.cases
    )


#: Extras that are numbers, by partition.
Numbers = Mapping[str, Mapping[str, object]]


def native_or_limits(
    session: Session, columns: list[str], numbers: Callable[[], Numbers] | None
) -> Nearness:
    """Nearness to the first of the columns, or to the limits where none has a native link.

    :arg numbers: is called only where there are limits to compute.
    """
    if numbers is None or has_native(session):
        return of_session(session, columns)
    return nearness(session, numbers())


def nearness(session: Session, numbers: Numbers) -> Nearness:
    """Shares of the limits that partitions reach.

    :arg numbers: extras of each partition that are numbers, such as its link's rate.
    """
    places = base_first(session, (case.place for case in session.cases if case.measured))
    pairs_of: dict[str, list[Pair]] = {place: [] for place in places}
    unknown: dict[str, list[str]] = {place: [] for place in places}
    for case in session.cases:
        if case.measured:
            found, more = _pairs(case, numbers.get(case.partition, {}))
            pairs_of[case.place] += found
            unknown[case.place] += more
    missing = [line for lines in unknown.values() for line in lines]
    draw = bootstrap(sum(map(len, pairs_of.values())))
    by_place: dict[str, dict] = {}
    for place, pairs in pairs_of.items():
        found_shares, _ = shares(pairs, draw)
        by_place[place] = {share.aspect: share for share in found_shares}
    order = list(dict.fromkeys(rule["aspect"] for rule in rules()))
    without = _measured(session) - set(order)
    if without:
        names = ", ".join(sorted(without))
        missing.append(f"{names}: no limit is known; a partition with a native link shows these")
    aspects = [name for name in order if any(name in found for found in by_place.values())]
    return Nearness(
        BASE,
        tuple(places),
        tuple((name, tuple(by_place[place].get(name) for place in places)) for name in aspects),
        tuple(dict.fromkeys(missing)),
    )


def _measured(session: Session) -> set[str]:
    """The aspects of the session's variables."""
    found = {
        aspect(case.check, value.variable)
        for case in session.cases
        if case.measured
        for value in case.values
    }
    return found - {LEFT_OUT, WITHOUT_RULE}


def _pairs(case: Case, numbers: Mapping[str, object]) -> tuple[list[Pair], list[str]]:
    """The case's variables beside their limits, and what is not known of them."""
    found, missing = [], []
    for rule in rules():
        values = [value for value in case.values if _matches(rule, case, value)]
        if rule.get("best") and values:
            values = [max(values, key=lambda value: value.value)]
        for value in values:
            try:
                found.append(_pair(rule, case, value, numbers))
            except UnknownValue as why:
                missing.append(f"{rule['aspect']}: no limit on {case.place}: {why}")
    return found, missing


def _matches(rule: dict, case: Case, value: Value) -> bool:
    named = (rule.get("check", ".*"), case.check), (rule.get("variable", ".*"), value.variable)
    return all(re.fullmatch(pattern, name) for pattern, name in named)


def _pair(rule: dict, case: Case, value: Value, numbers: Mapping[str, object]) -> Pair:
    samples = _each(rule["of"], value.samples or (value.value,), numbers)
    limit = _each(rule["limit"], (value.value,), numbers)
    # A limit has no noise: the same value in each repeat.
    return Pair(rule["aspect"], name_of(case, value), limit * len(samples), samples, False)


def _each(
    expression: Expression, samples: Iterable[float], numbers: Mapping[str, object]
) -> tuple[float, ...]:
    """Raises UnknownValue."""
    return tuple(expression.value(Names({**numbers, "value": sample})) for sample in samples)
