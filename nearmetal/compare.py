"""Partitions side by side: what each kind of link costs against the first one."""

import math
import re
import statistics

from tabulate import tabulate

from nearmetal import choices
from nearmetal.results import ResultsError, Session


def table(session: Session, columns: list[str]) -> tuple[list[list], list[str]]:
    """Rows of (check, environment, variable, unit, a value a column, a ratio a further column) and what is missing.

    The ratio is of each further column to the first. A missing value is None, and named in the second result. What parallel
    efficiency falls short of the first column's is a row of its own, in points (HPC Cloud slides: "degradation of PE").
    """
    cells = {(v.check, v.environ, v.variable, v.unit, v.place): v.value for v in session.values}
    rows, missing = [], []
    for key in dict.fromkeys(key[:4] for key in cells):
        values = [cells.get((*key, column)) for column in columns]
        missing += [
            f"{key[0]} {key[1]} {key[2]} on {column}"
            for column, value in zip(columns, values)
            if value is None
        ]
        base = values[0]
        rows.append(
            [
                *key,
                *values,
                *(value / base if base and value is not None else None for value in values[1:]),
            ]
        )
        if key[2].startswith("efficiency_") and base is not None and len(columns) > 1:
            losses = [None if value is None else base - value for value in values[1:]]
            rows.append(
                [
                    *key[:2],
                    key[2].replace("efficiency_", "efficiency_loss_"),
                    "points",
                    None,
                    *losses,
                    *[None] * len(losses),
                ]
            )
    return rows, missing


def columns(session: Session, text: str | None) -> list[str]:
    """The session's columns: as they ran, or as `--columns` names them.

    A partition stands for all nodes of `--distribute`.
    Raises ResultsError: an empty or a double entry, or one that is unknown.
    """
    ran = dict.fromkeys((value.place, value.partition) for value in session.values)
    if text is None:
        return [place for place, _ in ran]
    chosen = _known_columns(session, text)
    found = []
    for name in chosen:
        found += [place for place, partition in ran if name in (place, partition)] or [name]
    return list(dict.fromkeys(found))


def _known_columns(session: Session, text: str) -> list[str]:
    chosen = [name.strip() for name in text.split(",")]
    known = dict.fromkeys(case.partition for case in session.cases)
    known.update(dict.fromkeys(case.place for case in session.cases))
    known.update(dict.fromkeys(key[1] for key in session.skipped))
    has = f"session {session.uuid} on {session.system}"
    if "" in chosen:
        raise ResultsError(
            f"--columns {text!r}: an entry is empty: give partitions, comma-separated; those of {has} are "
            f"{', '.join(known)}"
        )
    if twice := [name for name in dict.fromkeys(chosen) if chosen.count(name) > 1]:
        raise ResultsError(f"--columns {text!r}: {', '.join(twice)} is there twice: give it once")
    if wrong := [name for name in chosen if name not in known]:
        hint = choices.unknown(wrong[0], known, "its partitions are")
        raise ResultsError(f"--columns {text!r}: {has} has no partition {', '.join(wrong)}: {hint}")
    return chosen


def number(value: float | None) -> str:
    """Four significant digits, never an exponent: people compare columns by eye."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


def plain(check: str) -> str:
    """A check's name without the percent signs that ReFrame sets before parameters."""
    return check.replace(" %", " ")


def percent(fraction: float | None) -> str:
    """With its sign, and no more digits than such changes have."""
    if fraction is None or not math.isfinite(fraction):
        return "-"
    return f"{100 * fraction:+.1f} %" if abs(fraction) < 10 else f"{100 * fraction:+.0f} %"


def gist(reason: str) -> str:
    """A failure's reason on one line, without the rules that ReFrame draws around what a compiler wrote."""
    lines = [
        line.strip()
        for line in reason.splitlines()
        if re.search(r"\w", line) and not line.startswith("---")
    ]
    return " / ".join(lines)[:300]


def failed(session: Session) -> list[str]:
    """A line for each failed case."""
    return [
        f"{case.check} on {case.place} with {case.environ}: {gist(case.failure or '')}"
        for case in session.failures
    ]


def spread(samples: tuple[float, ...]) -> str:
    """Coefficient of variation over the launches in percent, ` ±4 %`; nothing where one launch was all."""
    if len(samples) < 2:
        return ""
    return f" ±{100 * statistics.stdev(samples) / statistics.fmean(samples):.0f} %"


def render(
    session: Session, columns: list[str], with_spread: bool = False
) -> tuple[str, list[str]]:
    """The table as text, and what is missing from it."""
    rows, missing = table(session, columns)
    spreads = {
        (v.check, v.environ, v.variable, v.unit, v.place): spread(v.samples)
        for v in session.values
        if with_spread
    }
    headers = [
        "check",
        "environment",
        "variable",
        "unit",
        *columns,
        *(f"{c}/{columns[0]}" for c in columns[1:]),
    ]
    shown, last = [], None
    for row in rows:
        check = plain(row[0])
        # A check's and environment's name once, so that the eye finds where the next begins.
        head = ["", ""] if (check, row[1]) == last else [check, row[1]]
        last = (check, row[1])
        values, ratios = row[4 : 4 + len(columns)], row[4 + len(columns) :]
        cells = [
            number(v) + spreads.get((*row[:4], column), "") for column, v in zip(columns, values)
        ]
        shown.append(
            [*head, row[2], row[3], *cells, *(("-" if v is None else f"{v:.2f}") for v in ratios)]
        )
    text = tabulate(
        shown,
        headers,
        disable_numparse=True,
        colalign=["left"] * 4 + ["right"] * (len(headers) - 4),
    )
    return f"session {session.uuid} on {session.system}, {session.started}\n\n{text}", failed(
        session
    ) + missing
