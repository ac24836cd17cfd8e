"""The first page: the verdict, the changes, and the overhead of each partition."""

from __future__ import annotations

import math
from collections import Counter

from nearmetal.compare import binding, limits, published_ratios, scaling, side_by_side
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
CAMPAIGN = {
    "clean": ("✓", "ok"),
    "regressed": ("✕", "regressed"),
    "deviates": ("!", "regressed"),
    "incomplete": ("○", "incomplete"),
}
#: Ratios at which the heat map's shade changes.
STEPS = (1.05, 1.2, 1.5, 3.0, 10.0)
#: What a published figure of scaling counts.
_REACH = {"scales_to": "processes", "nodes_to_beat_one_node": "nodes to beat one"}


def headline(report, session) -> dict:
    """The gate's verdict as `title`, `symbol`, CSS class `word`, and `sentences`."""
    if report is None:
        title, symbol, word = "Not judged", SYMBOLS["not judged"], "not-judged"
        sentences = [
            (
                "This session has no verdict: `nearmetal gate` gives one, against a baseline of "
                "this system."
            )
        ]
    else:
        title = _title(report)
        symbol, word = CAMPAIGN.get(report.verdict, CAMPAIGN["incomplete"])
        sentences = [*_sentences(report), *_references(report)]
    if session.failures:
        cases = len(session.cases)
        sentences.append(f"{len(session.failures)} of {cases} case{'s' * (cases != 1)} failed.")
    return {"title": title, "symbol": symbol, "word": word, "sentences": sentences}


def _title(report) -> str:
    """The verdict in a word or two, by the worst of what is unknown."""
    if report.verdict != "incomplete":
        return report.verdict.capitalize()
    names = {one.name for one in report.verdicts}
    for name, title in (
        ("incomplete", "Incomplete"),
        ("disturbed", "Disturbed"),
        ("inconclusive", "Undecided"),
    ):
        if name in names:
            return title
    return "Not judged"


def _references(report) -> list[str]:
    """A sentence on what the variables are judged against, if it is no full baseline."""
    references = dict.fromkeys(
        one.reference for one in report.verdicts if one.variable and one.reference
    )
    references.pop(BASELINE, None)
    return [f"Judged against: {', '.join(references)}."] if references else []


def _undecided(report) -> list[str]:
    """A sentence on the largest change that is undecided though its interval excludes 0."""
    found = [
        one
        for one in report.verdicts
        if one.name == "inconclusive"
        and one.interval
        and not one.interval[0] <= 0 <= one.interval[1]
    ]
    if not found:
        return []
    most = max(found, key=lambda one: abs(one.change or 0))
    low, high = most.interval
    said = (
        f"Undecided: {most.variable} of {summary.plain(most.check)} with {most.environ} on "
        f"{most.place}, {summary.percent(most.change)} (95 % interval {summary.percent(low)} to "
        f"{summary.percent(high)})."
    )
    return [said]


def _sentences(report) -> list[str]:
    """Sentences on the variables that got worse, the worst of them, and the other verdicts."""
    counts = Counter(one.name for one in report.verdicts)
    sentences = []
    if counts["deviates"]:
        sentences.append(f"{_variables(counts['deviates'])} beyond what one may expect.")
    if counts["regressed"]:
        total = sum(bool(one.variable) for one in report.verdicts)
        regressed = [one for one in report.verdicts if one.name == "regressed"]
        worst = max(regressed, key=lambda one: abs(one.change or 0))
        sentences.append(f"{len(regressed)} of {_variables(total)} got worse.")
        sentences.append(
            f"Most: {worst.variable} of {summary.plain(worst.check)} with {worst.environ} on "
            f"{worst.place}, {summary.percent(worst.change)}."
        )
    elif counts["ok"] + counts["improved"]:
        sentences.append(f"None of {_variables(counts['ok'] + counts['improved'])} got worse.")
    sentences += _undecided(report)
    others = [f"{counts[name]} {name}" for name in SYMBOLS if counts[name] and name != "regressed"]
    return [*sentences, f"{', '.join(others)}."] if others else sentences


def _variables(count: int) -> str:
    return f"{count} variable{'s' * (count != 1)}"


def verdicts(report) -> dict:
    """Rows of the verdicts, worst first, and the `limit` of the scale of changes."""
    if report is None:
        return {"rows": [], "limit": ""}
    order = list(SYMBOLS)

    def rank(one) -> tuple:
        return order.index(one.name) if one.name in order else 1, -abs(one.change or 0)

    ends = [
        abs(end)
        for one in report.verdicts
        if one.interval and one.name != "ok"
        for end in one.interval
        if math.isfinite(end)
    ]
    limit = min(max([0.05, *ends]), 0.5)
    rows = [_row(one, limit) for one in sorted(report.verdicts, key=rank)]
    return {"rows": rows, "limit": f"{limit * 100:.0f} %"}


def _row(one, limit: float) -> dict:
    low, high = one.interval or (None, None)
    return {
        "word": one.name,
        "symbol": SYMBOLS.get(one.name, "○"),
        "css": one.name.replace(" ", "-"),
        "check": summary.plain(one.check),
        "partition": one.place,
        "environ": one.environ,
        "key": (one.check, one.place, one.environ, one.variable),
        # A missing case has no variable. A row on several cases has no check.
        "variable": one.variable or ("all variables" if one.check else "cases"),
        "baseline": "" if one.baseline is None else summary.amount(one.baseline, one.unit),
        "value": "" if one.value is None else summary.amount(one.value, one.unit),
        "change": "" if one.change is None else summary.percent(one.change),
        "bar": _bar(one, limit),
        "p": "" if one.p is None else f"{one.p:.2g}",
        "interval": f"{summary.percent(low)} to {summary.percent(high)}" if one.interval else "",
        "repeats": one.repeats,
        "wanted": one.wanted,
        "finds": "" if one.finds is None else f"{one.finds * 100:.0f} %",
        "reason": first_line(one.reason or ""),
        "facts": [
            (name, summary.text(then), summary.text(now))
            for name, (then, now) in (one.facts or {}).items()
        ],
    }


def _bar(one, limit: float) -> dict | None:
    """Places of the change and its interval in percent of the bar's width."""
    if one.change is None or not one.interval:
        return None

    def place(fraction: float) -> float:
        return round(50 + 48 * max(-1.0, min(1.0, fraction / limit)), 1)

    low, high = one.interval
    return {"low": place(low), "high": place(high), "at": place(one.change)}


def failures(session) -> list[dict]:
    return [
        {
            "check": summary.plain(case.check),
            "partition": case.place,
            "environ": case.environ,
            "phase": case.phase or "",
            "reason": first_line(case.failure),
        }
        for case in session.failures
    ]


def partitions(session, base: str | None = None) -> list[str]:
    """Partitions in the order in which they ran, but the base of comparisons first."""
    return base_first(session, (case.place for case in session.cases), base)


def has_overhead(session) -> bool:
    return len({case.place for case in session.cases if case.measured and case.values}) > 1


def nearness(session, columns: list[str], numbers=None) -> dict:
    """The shares of the first partition that are left on the others, or of the limits where no
    partition has a native link: `base`, `places`, `rows` of cells, and `remarks`; {} where no
    partition can be compared."""
    if session is None or not columns:
        return {}
    found = limits.native_or_limits(session, columns, numbers)
    if not found.rows:
        return {}
    return {
        "base": found.base,
        "places": found.places,
        "rows": [(aspect, [_share(share) for share in shares]) for aspect, shares in found.rows],
        "remarks": found.remarks,
    }


def published(session, figures) -> list[dict]:
    """Rows of published ratios, such as overheads, each with the session's own: `check`, `what`,
    `figure`, `where`, and `here`, which is empty where the session cannot show it."""
    return [
        {
            "check": one.figure.check,
            "what": _ratio_of(one.figure),
            "figure": f"{one.figure.text} {_unit(one.figure.unit)}".strip(),
            "software": one.figure.software,
            "where": f"{one.figure.document}, {one.figure.where}",
            "here": [
                *(_ratio_here(here, one.figure.unit) for here in one.here),
                *([f"and more: the first {len(one.here)} are listed"] if one.more else []),
            ],
        }
        for one in published_ratios.beside(session, figures)
    ]


def _ratio_of(figure) -> str:
    """`elapsed ratio of kvm to native (nodes=1)`."""
    who = figure.population or f"{figure.system}:{figure.partition}"
    at = ", ".join(f"{key}={value}" for key, value in figure.parameters.items())
    what = f"{figure.variable.replace('_', ' ')} of {who}, relative to {figure.relative_to}"
    return f"{what} ({at})" if at else what


def _unit(unit) -> str:
    return "" if unit == 1 else str(unit)


def _ratio_here(here, unit) -> str:
    value = f"{here.value:.3g} {_unit(unit)}".strip()
    return f"{value} {here.variable} on {here.place} with {here.environ}"


def _share(share) -> dict:
    """A share as text, its interval, and the width of its bar in percent."""
    if share is None:
        return {"text": "-", "interval": "", "width": 0, "word": "none"}
    interval = "" if share.interval is None else "{:#.2g} to {:#.2g}".format(*share.interval)
    word = "worse" if share.value < 1 else "better"
    if share.interval is None:
        word = "unknown"
    elif not share.differs:
        word = "alike"
    return {
        "text": f"{share.value:#.2g}",
        "interval": interval,
        "width": round(100 * min(1, share.value)),
        "word": word,
    }


def heat_map(session, columns: list[str]) -> list[dict]:
    """Overhead over the first partition: for each check and environment, a row for each variable.

    Overhead is the ratio of times, or the inverse ratio of rates. Above 1 is worse for any unit.
    """
    values = {
        (v.check, v.environ, v.variable, v.place): v
        for case in (session.cases if session else ())
        if case.measured
        for v in case.values
    }
    groups: dict[tuple, dict] = {}
    for (check, environ, variable, _), value in values.items():
        groups.setdefault((check, environ), {})[variable] = value.unit
    return [
        {
            "check": summary.plain(check),
            "environ": environ,
            "rows": [
                {
                    "variable": variable,
                    "unit": unit,
                    "cells": _cells(
                        [values.get((check, environ, variable, column)) for column in columns]
                    ),
                }
                for variable, unit in variables.items()
            ],
        }
        for (check, environ), variables in groups.items()
    ]


def _cells(values: list) -> list[dict]:
    summaries = [
        summary.summarize(value.samples, value.value) if value else None for value in values
    ]
    base = summaries[0]
    return [
        _cell(value, mine, base)
        if mine
        else {"text": "-", "level": "none", "hover": "not measured", "amount": ""}
        for value, mine in zip(values, summaries)
    ]


def _cell(value, mine: summary.Summary, base: summary.Summary | None) -> dict:
    common = {"amount": summary.number(mine.value), "hover": summary.hover(mine, value.unit)}
    ratio = base and side_by_side.overhead(mine.value, base.value, value.lower_is_better)
    if ratio is None:
        return {**common, "text": "-", "level": "none"}
    digits = max(0, 2 - sum(ratio >= step for step in (10, 100)))
    assert base is not None
    alike = base is not mine and mine.low <= base.high and mine.high >= base.low
    text = f"{ratio:.{digits}f}"
    if alike and min(mine.repeats, base.repeats) > 1:
        return {**common, "text": text, "level": "alike"}
    return {**common, "text": text, "level": level(ratio)}


def level(ratio: float) -> str:
    """Shade of an overhead: `0`, `worse-1` to `worse-5`, `better-1` to `better-5`."""
    steps = sum(max(ratio, 1 / ratio) > step for step in STEPS)
    if not steps:
        return "0"
    return f"worse-{steps}" if ratio > 1 else f"better-{steps}"


def bindings(session, checks: tuple[str, ...]) -> list[dict]:
    """Rows of the variables of these checks that the session has bound and unbound."""
    return [
        {
            "check": summary.plain(pair.check),
            "environ": pair.bound.environ,
            "partition": pair.bound.place,
            "variable": pair.bound.variable,
            "bound": summary.amount(pair.bound.value, pair.bound.unit),
            "unbound": summary.amount(pair.unbound.value, pair.unbound.unit),
            "overhead": side_by_side.overhead(
                pair.unbound.value, pair.bound.value, pair.bound.lower_is_better
            ),
        }
        for pair in binding.pairs(session)
        if summary.base_name(pair.check) in checks
    ]


def reaches(session, figures) -> list[dict]:
    """Rows of how far each benchmark scales, with the published figures of its class."""
    return [
        {
            "check": summary.plain(one.case.check),
            "size": f"class {one.size}",
            "threads": one.threads,
            "place": one.case.place,
            "environ": one.case.environ,
            "scales_to": one.scales_to,
            "measured": ", ".join(map(str, one.counts)),
            "open_ended": one.open_ended,
            "nodes": one.nodes_to_beat_one_node,
            "published": [
                f"{figure.text} {_REACH[figure.variable]}: {figure.software}, {figure.system} "
                f"{figure.partition}"
                for figure in one.beside(figures)
            ],
        }
        for one in scaling.reaches(session)
    ]
