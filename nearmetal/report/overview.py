"""The first page: the verdict, the changes, and the overhead of each partition."""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterator

from nearmetal.compare import side_by_side
from nearmetal.compare.index import Index
from nearmetal.judge.verdict import BASELINE, UNJUDGED
from nearmetal.report import summary
from nearmetal.results import base_first

#: Symbols of the verdicts, in the order of the table.
SYMBOLS = {
    "regressed": "✕",
    "deviates": "!",
    "incomplete": "○",
    "disturbed": "≈",
    "inconclusive": "?",
    "improved": "▲",
    "xfail": "∅",
    "not judged": "–",
    "watched": "◔",
    "ok": "✓",
}
NO_VERDICT = (
    "This session has no verdict: `nearmetal gate` gives one, against a baseline of this system."
)
#: Symbol and CSS class of the gate's verdict.
CAMPAIGN = {
    "clean": ("✓", "ok"),
    "regressed": ("✕", "regressed"),
    "deviates": ("!", "regressed"),
    "incomplete": ("○", "incomplete"),
}
#: Titles of an incomplete campaign, by the worst of what is unknown.
TITLES = {"incomplete": "Incomplete", "disturbed": "Disturbed", "inconclusive": "Undecided"}
#: Ratios at which the heat map's shade changes.
STEPS = (1.05, 1.2, 1.5, 3.0, 10.0)
#: Cell of a variable that a partition lacks.
NO_CELL = {"text": "-", "level": "none", "hover": "not measured", "amount": ""}


def headline(report, session) -> dict:
    """The gate's verdict as `title`, `symbol`, CSS class `word`, and `sentences`."""
    if report is None:
        title, symbol, word = "Not judged", SYMBOLS["not judged"], "not-judged"
        sentences = [NO_VERDICT]
    else:
        title = _title(report)
        symbol, word = CAMPAIGN.get(report.verdict, CAMPAIGN["incomplete"])
        # Green would say that all is well.
        if report.verdict == "clean" and report.mostly_unjudged:
            symbol, word = SYMBOLS[UNJUDGED], "not-judged"
        sentences = list(_sentences(report))
    if session.failures:
        cases = len(session.cases)
        sentences.append(f"{len(session.failures)} of {cases} case{'s' * (cases != 1)} failed.")
    return {"title": title, "symbol": symbol, "word": word, "sentences": sentences}


def _title(report) -> str:
    """The verdict in a word or two; what is known, where not all variables were judged."""
    if report.known:
        return report.known[0].upper() + report.known[1:]
    if report.verdict != "incomplete":
        return report.verdict.capitalize()
    names = {verdict.name for verdict in report.verdicts}
    for name, title in TITLES.items():
        if name in names:
            return title
    return "Not judged"


def _sentences(report) -> Iterator[str]:
    """Sentences on what got worse and the worst of it, on the other verdicts, and references."""
    counts: Counter[str] = Counter()
    references: dict[str, None] = {}
    for verdict in report.verdicts:
        counts[verdict.name] += 1
        if verdict.variable and verdict.name != UNJUDGED:
            references[verdict.reference] = None
    if report.known:
        yield f"{report.without_reference}."
    if report.mostly_unjudged:
        yield "Less than half of the variables are judged."
    if counts["deviates"]:
        yield f"{_variables(counts['deviates'])} beyond what one may expect."
    if counts["regressed"]:
        yield f"{counts['regressed']} of {_variables(report.variables)} got worse."
        worst = _largest(report, "regressed")
        yield f"Most: {_change(worst)}."
    elif counts["ok"] + counts["improved"] and not report.known:
        yield f"None of {_variables(counts['ok'] + counts['improved'])} got worse."
    undecided = _largest(report, "inconclusive")
    if undecided is not None:
        low, high = map(summary.percent, undecided.interval)
        yield f"Undecided: {_change(undecided)} (95 % interval {low} to {high})."
    counted = {"regressed"}
    if report.known:
        counted |= {UNJUDGED, "ok"}
    others = [f"{counts[name]} {name}" for name in SYMBOLS if counts[name] and name not in counted]
    if others:
        yield f"{', '.join(others)}."
    # A full baseline goes without saying.
    references.pop(BASELINE, None)
    if named := ", ".join(filter(None, references)):
        yield f"Judged against: {named}."


def _variables(count: int) -> str:
    return f"{count} variable{'s' * (count != 1)}"


def _change(verdict) -> str:
    """A variable with its change, in words."""
    check = summary.plain(verdict.check)
    where = f"{verdict.variable} of {check} with {verdict.environ} on {verdict.place}"
    return f"{where}, {summary.percent(verdict.change)}"


def _largest(report, name: str):
    """The verdict of this name with the largest change; None without one.

    An undecided one counts if its interval excludes 0.
    """
    candidates = []
    for verdict in report.verdicts:
        low, high = verdict.interval or (0, 0)
        if verdict.name == name and (name == "regressed" or not low <= 0 <= high):
            candidates.append(verdict)
    return max(candidates, key=lambda verdict: abs(verdict.change or 0), default=None)


def verdicts(report) -> dict:
    """The verdicts, worst first, each with its bar, and the `limit` of the scale of changes."""
    if report is None:
        return {"rows": [], "limit": ""}
    # A verdict of another name stands with those that deviate.
    order = {name: place for place, name in enumerate(SYMBOLS)}

    def rank(verdict) -> tuple:
        return order.get(verdict.name, 1), -abs(verdict.change or 0)

    # The scale reaches the widest interval that is not ok, but no further than half.
    limit = 0.05
    for verdict in report.verdicts:
        if verdict.interval and verdict.name != "ok":
            ends = filter(math.isfinite, verdict.interval)
            limit = max([limit, *map(abs, ends)])
    limit = min(limit, 0.5)
    rows = [(verdict, _bar(verdict, limit)) for verdict in sorted(report.verdicts, key=rank)]
    return {"rows": rows, "limit": f"{limit * 100:.0f} %"}


def _bar(verdict, limit: float) -> dict | None:
    """Places of the change and its interval in percent of the bar's width."""
    if verdict.change is None or not verdict.interval:
        return None

    def place(fraction: float) -> float:
        return round(50 + 48 * max(-1.0, min(1.0, fraction / limit)), 1)

    low, high = verdict.interval
    return {"low": place(low), "high": place(high), "at": place(verdict.change)}


def partitions(session) -> list[str]:
    """Partitions in the order in which they ran, but the base of comparisons first."""
    return base_first(session, (case.place for case in session.cases))


def has_overhead(session) -> bool:
    """Whether several partitions were measured."""
    # Called for each stored session: it makes no list of values.
    return len({case.place for case in session.measured if case.values}) > 1


def share_cell(share) -> dict:
    """A share as text, its interval, and the width of its bar in percent."""
    if share is None:
        return {"text": "-", "interval": "", "width": 0, "word": "none"}
    interval, word = "", "better"
    if share.value < 1:
        word = "worse"
    if share.interval is None:
        word = "unknown"
    else:
        interval = "{:#.2g} to {:#.2g}".format(*share.interval)
        if not share.differs:
            word = "alike"
    width = round(100 * min(1, share.value))
    return {"text": f"{share.value:#.2g}", "interval": interval, "width": width, "word": word}


def heat_map(session, columns: list[str]) -> list[dict]:
    """Overhead over the first partition: for each check and environment, a row for each variable.

    Overhead is the ratio of times, or the inverse ratio of rates. Above 1 is worse for any unit.
    """
    groups: dict[tuple[str, str], dict] = {}
    # Values, and not cases: a partition may lack some variables of a check.
    index = Index(session.values)
    for key in index.keys:
        check, environ, variable, unit = key
        group = {"check": summary.plain(check), "environ": environ, "rows": []}
        row = {
            "variable": variable,
            "unit": unit,
            "means": summary.means(check, variable),
            "cells": _cells(index.row(key, columns)),
        }
        groups.setdefault((check, environ), group)["rows"].append(row)
    return list(groups.values())


def _cells(values: list) -> list[dict]:
    """A cell for each value, which is None where it was not measured."""
    base = values[0] and summary.of_value(values[0])
    cells = []
    for number, value in enumerate(values):
        if value is None:
            cells.append(NO_CELL)
            continue
        here = summary.of_value(value)
        hover = summary.hover(here, value.unit)
        cell = {**NO_CELL, "amount": summary.number(here.value), "hover": hover}
        ratio = base and side_by_side.overhead(here.value, base.value, value.lower_is_better)
        if ratio is not None:
            cell |= _overhead(ratio, here, base, number == 0)
        cells.append(cell)
    return cells


def _overhead(ratio: float, other: summary.Summary, base: summary.Summary, is_base: bool) -> dict:
    """Text and shade of an overhead."""
    # Three digits.
    digits = (2, 1, 0)[bisect.bisect_right((10, 100), ratio)]
    alike = other.low <= base.high and other.high >= base.low
    shade = level(ratio)
    if alike and not is_base and min(other.repeats, base.repeats) > 1:
        shade = "alike"
    return {"text": f"{ratio:.{digits}f}", "level": shade}


def level(ratio: float) -> str:
    """Shade of an overhead: `0`, `worse-1` to `worse-5`, `better-1` to `better-5`."""
    # The same number of shades each way: half the time is as much as twice the time.
    steps = bisect.bisect_left(STEPS, max(ratio, 1 / ratio))
    if not steps:
        return "0"
    if ratio > 1:
        return f"worse-{steps}"
    return f"better-{steps}"
