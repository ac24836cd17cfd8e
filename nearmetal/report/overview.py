"""The first page: the verdict in words, what changed, and what each partition costs against the native one."""

import math
from collections import Counter

from nearmetal import compare
from nearmetal.report import summary

#: Verdicts in the order in which they want to be read, with the symbol that stands beside the word.
SYMBOLS = {
    "regressed": "✕",
    "incomplete": "○",
    "inconclusive": "?",
    "improved": "▲",
    "not judged": "–",
    "ok": "✓",
}
CAMPAIGN = {
    "clean": ("✓", "ok"),
    "regressed": ("✕", "regressed"),
    "incomplete": ("○", "incomplete"),
}
#: Ratios at which the heat map's shade deepens.
STEPS = (1.05, 1.2, 1.5, 3.0, 10.0)


def headline(report, session) -> dict:
    """The verdict of the gate as `title`, `symbol`, CSS `word`, and sentences."""
    failed = len(session.failures)
    cases = len(session.cases)
    sentences = []
    if report is None:
        title, symbol, word = "Not judged", SYMBOLS["not judged"], "not-judged"
        sentences.append(
            "No verdict came with this session: `nearmetal gate` gives one, against a baseline of this system."
        )
    else:
        counts = Counter(judged.word for judged in report.judged)
        symbol, word = CAMPAIGN.get(report.word, CAMPAIGN["incomplete"])
        title, total = (
            report.word.capitalize(),
            sum(bool(judged.variable) for judged in report.judged),
        )
        if worst := [judged for judged in report.judged if judged.word == "regressed"]:
            sentences.append(f"{len(worst)} of {_variables(total)} got worse.")
            first = max(worst, key=lambda judged: abs(judged.change or 0))
            sentences.append(
                f"Most: {first.variable} of {summary.plain(first.check)} with {first.environ} on "
                f"{first.place}, {summary.percent(first.change)}."
            )
        elif counts["ok"] + counts["improved"]:
            sentences.append(f"None of {_variables(counts['ok'] + counts['improved'])} got worse.")
        rest = [
            f"{counts[word]} {word}" for word in SYMBOLS if counts[word] and word != "regressed"
        ]
        sentences += [f"{', '.join(rest)}."] if rest else []
    if failed:
        sentences.append(f"{failed} of {cases} case{'s' * (cases != 1)} failed.")
    return {"title": title, "symbol": symbol, "word": word, "sentences": sentences}


def _variables(count: int) -> str:
    return f"{count} variable{'s' * (count != 1)}"


def verdicts(report) -> dict:
    """Rows of the judged variables, worst first, with each change's place on a common scale of -`limit` to `limit`."""
    if report is None:
        return {"rows": [], "limit": ""}
    order = list(SYMBOLS)
    judged = sorted(
        report.judged,
        key=lambda j: (order.index(j.word) if j.word in order else 1, -abs(j.change or 0)),
    )
    ends = [
        abs(end)
        for j in judged
        if j.interval and j.word != "ok"
        for end in j.interval
        if math.isfinite(end)
    ]
    limit = min(max([0.05, *ends]), 0.5)
    return {"rows": [_row(j, limit) for j in judged], "limit": f"{limit * 100:.0f} %"}


def _row(judged, limit: float) -> dict:
    def place(fraction):
        return round(50 + 48 * max(-1.0, min(1.0, fraction / limit)), 1)

    bar = None
    if judged.change is not None and judged.interval:
        bar = {
            "low": place(judged.interval[0]),
            "high": place(judged.interval[1]),
            "at": place(judged.change),
        }
    return {
        "word": judged.word,
        "symbol": SYMBOLS.get(judged.word, "○"),
        "css": judged.word.replace(" ", "-"),
        "check": summary.plain(judged.check),
        "partition": judged.place,
        "environ": judged.environ,
        "key": (judged.check, judged.place, judged.environ, judged.variable),
        # The gate leaves the variable empty where the whole case is not there, and the check where cases are.
        "variable": judged.variable or ("all variables" if judged.check else "cases"),
        "baseline": summary.amount(judged.baseline, judged.unit)
        if judged.baseline is not None
        else "",
        "value": summary.amount(judged.value, judged.unit) if judged.value is not None else "",
        "change": summary.percent(judged.change) if judged.change is not None else "",
        "bar": bar,
        "p": f"{judged.p:.2g}" if judged.p is not None else "",
        "interval": f"{summary.percent(judged.interval[0])} to {summary.percent(judged.interval[1])}"
        if judged.interval
        else "",
        "launches": judged.launches,
        "wanted": judged.wanted,
        "finds": f"{judged.finds * 100:.0f} %" if judged.finds is not None else "",
        "reason": compare.gist(judged.reason or ""),
        "facts": [
            (name, summary.text(then), summary.text(now))
            for name, (then, now) in (judged.facts or {}).items()
        ],
    }


def failures(session) -> list[dict]:
    return [
        {
            "check": summary.plain(case.check),
            "partition": case.place,
            "environ": case.environ,
            "phase": case.phase or "",
            "reason": compare.gist(case.failure),
        }
        for case in session.failures
    ]


def partitions(session, base: str | None = None) -> list[str]:
    """As they ran, but first the one that the others are compared with: `base`, else `native`, else the first."""
    names = list(dict.fromkeys(case.place for case in session.cases))
    first = base if base is not None else "native"
    return sorted(names, key=lambda name: name != first)


def has_overhead(session) -> bool:
    return len({case.place for case in session.cases if case.measured and case.values}) > 1


def heat_map(session, columns: list[str]) -> list[dict]:
    """For each check and environment its variables, each with a cell a partition: overhead to the first partition.

    Overhead is the ratio of times, or the inverse ratio of rates, so that above 1 is worse whatever the unit.
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
    told = {"amount": summary.number(mine.value), "hover": summary.hover(mine, value.unit)}
    if base is None or value.lower_is_better is None or not (base.value > 0 and mine.value > 0):
        return {**told, "text": "-", "level": "none"}
    ratio = mine.value / base.value if value.lower_is_better else base.value / mine.value
    digits = sum(ratio < limit for limit in (10, 100))
    return {**told, "text": f"{ratio:.{digits}f}", "level": level(ratio)}


def level(ratio: float) -> str:
    """Shade of an overhead: `0`, `worse-1` to `worse-5`, `better-1` to `better-5`."""
    steps = sum(max(ratio, 1 / ratio) > step for step in STEPS)
    if not steps:
        return "0"
    return f"worse-{steps}" if ratio > 1 else f"better-{steps}"
