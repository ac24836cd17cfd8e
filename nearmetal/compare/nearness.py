"""Nearness of a session's partitions to a base: pairs of samples by aspect, and their table."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from nearmetal.errors import NearmetalError
from nearmetal.results import Case, Session, Value
from nearmetal.stats.nearness import Bootstrap, Pair, Remark, Share, bootstrap, shares
from nearmetal.util import strict_yaml, suggest

RULES = Path(__file__).with_name("aspects.yaml")
#: Aspect of variables that are left out for a reason, and of those without a rule.
LEFT_OUT, WITHOUT_RULE = "none", ""


@functools.cache
def rules() -> list[dict]:
    """Rules of aspects.yaml. Raises NearmetalError for an unknown or a missing key."""
    found = strict_yaml.load(RULES.read_text())
    for rule in found:
        wrong = set(rule) - {"aspect", "check", "variable", "why"}
        if wrong or "aspect" not in rule:
            raise NearmetalError(
                f"{RULES.name}: {rule}: a rule has aspect, and check, variable or why. "
                f"Fix: {'remove ' + ', '.join(sorted(wrong)) if wrong else 'add aspect'}"
            )
    return found


@functools.lru_cache(maxsize=65536)
def aspect(check: str, variable: str) -> str:
    """The aspect of a variable; LEFT_OUT or WITHOUT_RULE where it has none."""
    for rule in rules():
        named = (rule.get("check", ".*"), check), (rule.get("variable", ".*"), variable)
        if all(re.fullmatch(pattern, name) for pattern, name in named):
            return rule["aspect"]
    return WITHOUT_RULE


def name_of(case: Case, value: Value) -> str:
    """A variable in words."""
    return f"{case.check} {case.environ} {value.variable}"


#: Check, environment, variable and unit of a partition's values.
ByKey = dict[tuple[str, str, str, str], Value]


def by_place(session: Session) -> dict[str, ByKey]:
    """The session's values of each partition."""
    found: dict[str, ByKey] = {}
    for value in session.values:
        key = value.check, value.environ, value.variable, value.unit
        found.setdefault(value.place, {})[key] = value
    return found


def between(
    on_base: ByKey, on_place: ByKey, draw: Bootstrap | None = None
) -> tuple[list[Share], list[Remark]]:
    """Shares of the base that are left on a partition, and remarks on variables.

    :arg draw: of nearmetal.stats.nearness.shares.
    """
    pairs, remarks = [], []
    for key in dict.fromkeys([*on_base, *on_place]):
        check, environ, variable, _ = key
        name = f"{check} {environ} {variable}"
        found = aspect(check, variable)
        if found == WITHOUT_RULE:
            remarks.append(Remark(name, f"no rule of {RULES.name} gives its aspect", False))
        elif found != LEFT_OUT:
            first, second = on_base.get(key), on_place.get(key)
            either = first or second
            assert either is not None
            pairs.append(
                Pair(found, name, _samples(first), _samples(second), either.lower_is_better)
            )
    found_shares, more = shares(pairs, draw)
    return found_shares, remarks + more


def _samples(value: Value | None) -> tuple[float, ...]:
    return () if value is None else value.samples or (value.value,)


def cell(share: Share | None) -> str:
    """`0.72 [0.70, 0.75]`; `=` marks an interval around 1, `?` a share without an interval."""
    if share is None:
        return "-"
    if share.interval is None:
        return f"{share.value:#.3g} ?"
    low, high = share.interval
    return f"{share.value:#.3g} [{low:#.3g}, {high:#.3g}]" + ("" if share.differs else " =")


@dataclass(frozen=True)
class Nearness:
    """Shares of a base that are left on other partitions."""

    base: str
    places: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Share | None, ...]], ...]  #: aspect, and a share of each place
    remarks: tuple[str, ...] = ()


def of_session(session: Session, columns: list[str]) -> Nearness:
    """The nearness of a session's partitions to the first of them."""
    base, *others = columns
    values = by_place(session)
    draw = bootstrap(sum(map(len, values.values())))
    shares_of: dict[str, dict[str, Share]] = {}
    remarks: dict[tuple[str, bool], list[str]] = {}
    for place in others:
        found, more = between(values.get(base, {}), values.get(place, {}), draw)
        shares_of[place] = {share.aspect: share for share in found}
        for remark in more:
            remarks.setdefault((remark.reason, remark.counted), []).append(
                f"{remark.name} on {place}"
            )
    aspects = list(dict.fromkeys(name for found in shares_of.values() for name in found))
    return Nearness(
        base,
        tuple(others),
        tuple((name, tuple(shares_of[place].get(name) for place in others)) for name in aspects),
        tuple(
            f"{'counted' if counted else 'not counted'}, since {reason}: {suggest.shorten(names)}"
            for (reason, counted), names in remarks.items()
        ),
    )


def render(found: Nearness) -> str:
    """The table as text, what it means, and the remarks; empty without a share."""
    if not found.rows:
        return ""
    base, others, lines = found.base, found.places, found.remarks
    rows = [[name, *map(cell, shares)] for name, shares in found.rows]
    text = tabulate(rows, [f"share of {base} left", *others], disable_numparse=True)
    meaning = (
        f"1: as {base}. 0.5: half as fast, or twice the time or loss. []: 95 % of bootstrap draws "
        "over repeats.\n=: the interval includes 1. ?: a variable has one repeat."
    )
    return "\n".join([text, meaning, *lines])
