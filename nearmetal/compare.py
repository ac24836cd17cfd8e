"""Partitions side by side: the cost of each kind of link against the first."""

import math
import re
import statistics

from tabulate import tabulate

from nearmetal import choices
from nearmetal.results import ResultsError, Session


def table(session: Session, columns: list[str]) -> tuple[list[list], list[str]]:
    """Rows, and the missing values.

    A row is (check, environment, variable, unit, a value a column, a ratio a further column). The
    ratio is to the first column. A missing value is None, and named in the second result. The loss
    of parallel efficiency against the first column is a row of its own, in points (HPC Cloud
    slides: "degradation of PE").
    """
    cells = {(v.check, v.environ, v.variable, v.unit, v.place): v.value for v in session.values}
    rows, missing = [], []
    for key in dict.fromkeys(key[:4] for key in cells):
        check, environ, variable, _ = key
        values = [cells.get((*key, column)) for column in columns]
        for column, value in zip(columns, values):
            if value is None:
                missing.append(f"{check} {environ} {variable} on {column}")
        rows.append([*key, *values, *_ratios(values)])
        if variable.startswith("efficiency_") and values[0] is not None and len(columns) > 1:
            name = variable.replace("efficiency_", "efficiency_loss_")
            losses = [None if value is None else values[0] - value for value in values[1:]]
            rows.append([check, environ, name, "points", None, *losses, *[None] * len(losses)])
    return rows, missing


def _ratios(values: list[float | None]) -> list[float | None]:
    """Ratios of the further values to the first; None where one is missing or the first is 0."""
    base, *others = values
    return [value / base if base and value is not None else None for value in others]


def columns(session: Session, text: str | None) -> list[str]:
    """The session's columns: as they ran, or as `--columns` names them.

    A partition stands for all nodes of `--distribute`.
    Raises ResultsError for an empty, a double or an unknown entry.
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
            f"--columns {text!r}: an entry is empty. Fix: give partitions, comma-separated; those "
            f"of {has} are {', '.join(known)}"
        )
    twice = [name for name in dict.fromkeys(chosen) if chosen.count(name) > 1]
    if twice:
        raise ResultsError(f"--columns {text!r}: {', '.join(twice)} is there twice: give it once")
    wrong = [name for name in chosen if name not in known]
    if wrong:
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
    """A change in percent, with its sign."""
    if fraction is None or not math.isfinite(fraction):
        return "-"
    return f"{100 * fraction:+.1f} %" if abs(fraction) < 10 else f"{100 * fraction:+.0f} %"


def gist(reason: str) -> str:
    """A failure's reason on one line, without the rules that ReFrame draws around output."""
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
    """Coefficient of variation of the samples, ` ±4 %`; empty for a single sample."""
    if len(samples) < 2:
        return ""
    return f" ±{100 * statistics.stdev(samples) / statistics.fmean(samples):.0f} %"


def render(
    session: Session, columns: list[str], with_spread: bool = False
) -> tuple[str, list[str]]:
    """The table as text, and the missing values and failed cases."""
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
    for check, environ, variable, unit, *cells in rows:
        key = check, environ, variable, unit
        values = [
            number(value) + spreads.get((*key, column), "") for column, value in zip(columns, cells)
        ]
        ratios = ["-" if ratio is None else f"{ratio:.2f}" for ratio in cells[len(columns) :]]
        # A check and its environment appear once, so that the eye finds the next ones.
        head = ["", ""] if (check, environ) == last else [plain(check), environ]
        last = (check, environ)
        shown.append([*head, variable, unit, *values, *ratios])
    text = tabulate(
        shown,
        headers,
        disable_numparse=True,
        colalign=["left"] * 4 + ["right"] * (len(headers) - 4),
    )
    title = f"session {session.uuid} on {session.system}, {session.started}"
    return f"{title}\n\n{text}", failed(session) + missing
