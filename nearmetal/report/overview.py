"""The first page: the verdict, the changes, and the overhead of each partition."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from nearmetal.compare import nearness as nearness_of
from nearmetal.compare import published_ratios, scaling, side_by_side
from nearmetal.compare.index import Index
from nearmetal.judge.verdict import BASELINE
from nearmetal.report import summary
from nearmetal.results import base_first
from nearmetal.util.sanitize import first_line

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
#: What a published figure of scaling counts.
REACHES = {"scales_to": "processes", "nodes_to_beat_one_node": "nodes to beat one"}
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
        sentences = list(_sentences(report))
    if session.failures:
        cases = len(session.cases)
        sentences.append(f"{len(session.failures)} of {cases} case{'s' * (cases != 1)} failed.")
    return {"title": title, "symbol": symbol, "word": word, "sentences": sentences}


def _title(report) -> str:
    """The verdict in a word or two."""
    if report.verdict != "incomplete":
        return report.verdict.capitalize()
    names = {verdict.name for verdict in report.verdicts}
    for name, title in TITLES.items():
        if name in names:
            return title
    return "Not judged"


def _sentences(report) -> Iterator[str]:
    """Sentences on what got worse and the worst of it, on the other verdicts, and references."""
    counts = Counter(verdict.name for verdict in report.verdicts)
    if counts["deviates"]:
        yield f"{_variables(counts['deviates'])} beyond what one may expect."
    if counts["regressed"]:
        total = sum(bool(verdict.variable) for verdict in report.verdicts)
        yield f"{counts['regressed']} of {_variables(total)} got worse."
        worst = _largest(report, "regressed")
        yield f"Most: {_change(worst)}."
    elif counts["ok"] + counts["improved"]:
        yield f"None of {_variables(counts['ok'] + counts['improved'])} got worse."
    undecided = _largest(report, "inconclusive")
    if undecided is not None:
        low, high = map(summary.percent, undecided.interval)
        yield f"Undecided: {_change(undecided)} (95 % interval {low} to {high})."
    others = [f"{counts[name]} {name}" for name in SYMBOLS if counts[name] and name != "regressed"]
    if others:
        yield f"{', '.join(others)}."
    references = dict.fromkeys(
        verdict.reference for verdict in report.verdicts if verdict.variable and verdict.reference
    )
    # A full baseline goes without saying.
    references.pop(BASELINE, None)
    if references:
        yield f"Judged against: {', '.join(references)}."


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
    """Rows of the verdicts, worst first, and the `limit` of the scale of changes."""
    if report is None:
        return {"rows": [], "limit": ""}
    order = list(SYMBOLS)

    def rank(verdict) -> tuple:
        place = order.index(verdict.name) if verdict.name in order else 1
        return place, -abs(verdict.change or 0)

    # The scale reaches the widest interval that is not ok, but no further than half.
    limit = 0.05
    for verdict in report.verdicts:
        if verdict.interval and verdict.name != "ok":
            ends = filter(math.isfinite, verdict.interval)
            limit = max([limit, *map(abs, ends)])
    limit = min(limit, 0.5)
    rows = [_row(verdict, limit) for verdict in sorted(report.verdicts, key=rank)]
    return {"rows": rows, "limit": f"{limit * 100:.0f} %"}


def _row(verdict, limit: float) -> dict:
    row = {
        "word": verdict.name,
        "symbol": SYMBOLS.get(verdict.name, "○"),
        "css": verdict.name.replace(" ", "-"),
        "check": summary.plain(verdict.check),
        "partition": verdict.place,
        "environ": verdict.environ,
        "key": (verdict.check, verdict.place, verdict.environ, verdict.variable),
        # A missing case has no variable. A row on several cases has no check.
        "variable": verdict.variable or ("all variables" if verdict.check else "cases"),
        "means": summary.means(verdict.check, verdict.variable),
        "repeats": verdict.repeats,
        "wanted": verdict.wanted,
        "reason": first_line(verdict.reason or ""),
        "facts": _changed(verdict.facts or {}),
    }
    for key in ("baseline", "value", "change", "p", "finds", "interval"):
        row[key] = ""
    if verdict.baseline is not None:
        row["baseline"] = summary.amount(verdict.baseline, verdict.unit)
    if verdict.value is not None:
        row["value"] = summary.amount(verdict.value, verdict.unit)
    if verdict.change is not None:
        row["change"] = summary.percent(verdict.change)
    if verdict.p is not None:
        row["p"] = f"{verdict.p:.2g}"
    if verdict.finds is not None:
        row["finds"] = f"{verdict.finds * 100:.0f} %"
    if verdict.interval:
        low, high = map(summary.percent, verdict.interval)
        row["interval"] = f"{low} to {high}"
    return {**row, "bar": _bar(verdict, limit)}


def _changed(facts: dict) -> list[tuple[str, str, str]]:
    """Name, value before and value now of changed facts."""
    return [(name, summary.text(then), summary.text(now)) for name, (then, now) in facts.items()]


def _bar(verdict, limit: float) -> dict | None:
    """Places of the change and its interval in percent of the bar's width."""
    if verdict.change is None or not verdict.interval:
        return None

    def place(fraction: float) -> float:
        return round(50 + 48 * max(-1.0, min(1.0, fraction / limit)), 1)

    low, high = verdict.interval
    return {"low": place(low), "high": place(high), "at": place(verdict.change)}


def failures(session) -> list[dict]:
    """Rows of the cases that failed."""
    rows = []
    for case in session.failures:
        row = {"check": summary.plain(case.check), "partition": case.place}
        row |= {"environ": case.environ, "phase": case.phase or ""}
        rows.append({**row, "reason": first_line(case.failure)})
    return rows


def partitions(session, base: str | None = None) -> list[str]:
    """Partitions in the order in which they ran, but the base of comparisons first."""
    return base_first(session, (case.place for case in session.cases), base)


def has_overhead(session) -> bool:
    """Whether several partitions were measured."""
    # Called for each stored session: it makes no list of values.
    return len({case.place for case in session.measured if case.values}) > 1


def nearness(session, columns: list[str], numbers=None) -> dict:
    """Nearness of partitions: `base`, `places`, `rows` of cells, and `remarks`; {} without any.

    :arg numbers: as of nearmetal.compare.nearness.of_session.
    """
    if not columns:
        return {}
    near = nearness_of.of_session(session, columns, numbers)
    if not near.rows:
        return {}
    rows = [(aspect, list(map(_share, shares))) for aspect, shares in near.rows]
    return {"base": near.base, "places": near.places, "rows": rows, "remarks": near.remarks}


def _share(share) -> dict:
    """A share as text, its interval, and the width of its bar in percent."""
    if share is None:
        return {"text": "-", "interval": "", "width": 0, "word": "none"}
    interval = ""
    word = "worse" if share.value < 1 else "better"
    if share.interval is None:
        word = "unknown"
    else:
        interval = "{:#.2g} to {:#.2g}".format(*share.interval)
        if not share.differs:
            word = "alike"
    width = round(100 * min(1, share.value))
    return {"text": f"{share.value:#.2g}", "interval": interval, "width": width, "word": word}


def published(session, figures) -> list[dict]:
    """Rows of published ratios, such as overheads, each with the session's own: `check`, `what`,
    `figure`, `where`, and `here`, which is empty where the session cannot show it."""
    rows = []
    for ratio in published_ratios.beside(session, figures):
        figure = ratio.figure
        unit = "" if figure.unit == 1 else str(figure.unit)
        here = []
        for here_ratio in ratio.here:
            value = f"{here_ratio.value:.3g} {unit}".strip()
            here.append(
                f"{value} {here_ratio.variable} on {here_ratio.place} with {here_ratio.environ}"
            )
        if ratio.more:
            here.append(f"and more: the first {len(ratio.here)} are listed")
        rows.append(
            {
                "check": figure.check,
                "what": _ratio_of(figure),
                "figure": f"{figure.text} {unit}".strip(),
                "software": figure.software,
                "where": f"{figure.document}, {figure.where}",
                "here": here,
            }
        )
    return rows


def _ratio_of(figure) -> str:
    """`elapsed ratio of kvm to native (nodes=1)`."""
    who = figure.population or f"{figure.system}:{figure.partition}"
    at = ", ".join(f"{key}={value}" for key, value in figure.parameters.items())
    what = f"{figure.variable.replace('_', ' ')} of {who}, relative to {figure.relative_to}"
    return f"{what} ({at})" if at else what


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
        shown_value = summary.of_value(value)
        level_of_base = {"text": "-", "level": "none"}
        ratio = base and side_by_side.overhead(shown_value.value, base.value, value.lower_is_better)
        shown = level_of_base if ratio is None else _overhead(ratio, shown_value, base, number == 0)
        hover = summary.hover(shown_value, value.unit)
        cells.append({"amount": summary.number(shown_value.value), "hover": hover, **shown})
    return cells


def _overhead(ratio: float, other: summary.Summary, base: summary.Summary, is_base: bool) -> dict:
    """Text and shade of an overhead."""
    # Three digits.
    digits = max(0, 2 - sum(ratio >= step for step in (10, 100)))
    alike = other.low <= base.high and other.high >= base.low
    shade = level(ratio)
    if alike and not is_base and min(other.repeats, base.repeats) > 1:
        shade = "alike"
    return {"text": f"{ratio:.{digits}f}", "level": shade}


def level(ratio: float) -> str:
    """Shade of an overhead: `0`, `worse-1` to `worse-5`, `better-1` to `better-5`."""
    # The same number of shades each way: half the time is as much as twice the time.
    steps = sum(max(ratio, 1 / ratio) > step for step in STEPS)
    if not steps:
        return "0"
    return f"worse-{steps}" if ratio > 1 else f"better-{steps}"


def bindings(session) -> Iterator[dict]:
    """Rows of the variables that the session has bound and unbound."""
    for pair in side_by_side.bindings(session):
        bound, unbound = pair.bound, pair.unbound
        yield {
            "check": summary.plain(pair.check),
            "environ": bound.environ,
            "partition": bound.place,
            "variable": bound.variable,
            "bound": summary.amount(bound.value, bound.unit),
            "unbound": summary.amount(unbound.value, unbound.unit),
            "overhead": pair.overhead,
        }


def reaches(session, figures: Iterable) -> list[dict]:
    """Rows of how far each benchmark scales, with the published figures of its class."""
    rows = []
    for reach in scaling.reaches(session):
        published = []
        for figure in reach.beside(figures):
            what = f"{figure.text} {REACHES[figure.variable]}"
            published.append(f"{what}: {figure.software}, {figure.system} {figure.partition}")
        rows.append(
            {
                "check": summary.plain(reach.case.check),
                "size": f"class {reach.size}",
                "threads": reach.threads,
                "place": reach.case.place,
                "environ": reach.case.environ,
                "scales_to": reach.scales_to,
                "measured": ", ".join(map(str, reach.counts)),
                "open_ended": reach.open_ended,
                "nodes": reach.nodes_to_beat_one_node,
                "published": published,
            }
        )
    return rows
