"""Partitions side by side: the overhead of each kind of link over the first.

Base and direction are those of the report: the native link, else the first partition; above 1 is
worse.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from tabulate import tabulate

from nearmetal.compare import binding, limits, nearness, speedup
from nearmetal.model import naming
from nearmetal.model.facts import factors_that_differ
from nearmetal.results import XPASS, Case, ResultsError, Session, Value, base_first, worst
from nearmetal.util import suggest
from nearmetal.util.sanitize import first_line


def side_by_side(sessions: list[Session]) -> Session:
    """Several sessions as one, whose partitions are `SYSTEM:PARTITION@ID`; a single one as it is.

    Raises ResultsError if one session is there twice.
    """
    if len(sessions) == 1:
        return sessions[0]
    ids = [session.uuid for session in sessions]
    twice = next((uuid for uuid in ids if ids.count(uuid) > 1), None)
    if twice:
        raise ResultsError(f"session {twice} is there twice. Fix: name another session")
    short = _short(ids)
    return replace(
        sessions[0],
        uuid=", ".join(ids),
        system=", ".join(dict.fromkeys(session.system for session in sessions)),
        started=", ".join(session.started for session in sessions),
        cases=tuple(
            _called(case, f"{session.system}:{case.partition}@{short[session.uuid]}")
            for session in sessions
            for case in session.cases
        ),
    )


def _short(ids: list[str]) -> dict[str, str]:
    """The beginnings of ids that tell them apart, at least eight characters."""
    length = 8
    while len({uuid[:length] for uuid in ids}) < len(ids):
        length += 1
    return {uuid: uuid[:length] for uuid in ids}


def _called(case: Case, partition: str) -> Case:
    values = tuple(replace(value, partition=partition) for value in case.values)
    return replace(case, partition=partition, values=values)


def table(session: Session, columns: list[str]) -> tuple[list[list], list[str]]:
    """Rows, and the missing values.

    A row is (check, environment, variable, unit, a value a column, an overhead a further column).
    The overhead is over the first column. A missing value is None, and named in the second result.
    The loss of parallel efficiency against the first column is a row of its own, in points (HPC
    Cloud slides: "degradation of PE"). So is the speed-up, which is derived.
    """
    values_of = _with_speedups(session)
    cells = {(v.check, v.environ, v.variable, v.unit, v.place): v.value for v in values_of}
    directions = {(v.check, v.environ, v.variable, v.unit): v.lower_is_better for v in values_of}
    failed_as_expected = {(one.check, one.environ, one.place) for one in session.cases if one.xfail}
    rows, missing = [], []
    for key in dict.fromkeys(key[:4] for key in cells):
        check, environ, variable, unit = key
        values = [cells.get((*key, column)) for column in columns]
        for column, value in zip(columns, values):
            expected = (check, environ, column) in failed_as_expected
            if value is None and unit != speedup.UNIT and not expected:
                missing.append(f"{check} {environ} {variable} on {column}")
        rows.append([*key, *values, *_overheads(values, directions[key])])
        if variable.startswith("efficiency_") and values[0] is not None and len(columns) > 1:
            name = variable.replace("efficiency_", "efficiency_loss_")
            losses = [None if value is None else values[0] - value for value in values[1:]]
            rows.append([check, environ, name, "points", None, *losses, *[None] * len(losses)])
    return rows, missing


def _with_speedups(session: Session) -> list[Value]:
    """The session's values, each parallel efficiency followed by its speed-up."""
    by_case: dict[tuple[str, str, str], list[Value]] = {}
    for value in session.values:
        by_case.setdefault((value.check, value.environ, value.place), []).append(value)
    return [value for values in by_case.values() for value in speedup.added(values)]


def overhead(value: float, base: float, lower_is_better: bool | None) -> float | None:
    """Ratio of times, or inverse ratio of rates; above 1 is worse, whatever the unit.

    None where a value is not positive, or the unit does not say what is better.
    """
    if lower_is_better is None or not (base > 0 and value > 0):
        return None
    return value / base if lower_is_better else base / value


def _overheads(values: list[float | None], lower_is_better: bool | None) -> list[float | None]:
    """Overheads of the further values over the first; None where one is missing."""
    base, *others = values
    return [
        None if base is None or value is None else overhead(value, base, lower_is_better)
        for value in others
    ]


def columns(session: Session, text: str | None) -> list[str]:
    """The session's columns: as they ran but the native link first, or as `--columns` names them.

    A partition stands for all nodes of `--distribute`.
    Raises ResultsError for an empty, a double or an unknown entry.
    """
    ran = dict.fromkeys((value.place, value.partition) for value in session.values)
    if text is None:
        return base_first(session, (place for place, _ in ran))
    places: dict[str, list[str]] = {}
    for place, partition in ran:
        for name in {place, partition}:
            places.setdefault(name, []).append(place)
    chosen = _known_columns(session, text)
    found = [place for name in chosen for place in places.get(name, [name])]
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
    twice = [name for name, count in Counter(chosen).items() if count > 1]
    if twice:
        raise ResultsError(f"--columns {text!r}: {', '.join(twice)} is there twice: give it once")
    wrong = [name for name in chosen if name not in known]
    if wrong:
        hint = suggest.unknown(wrong[0], known, "its partitions are")
        raise ResultsError(f"--columns {text!r}: {has} has no partition {', '.join(wrong)}: {hint}")
    return chosen


def number(value: float | None) -> str:
    """Four significant digits, never an exponent: people compare columns by eye."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


def plain(check: str) -> str:
    """A check's name without the percent signs that ReFrame sets before parameters."""
    return naming.PARAMETER.sub(r" \1=\2", check)


def percent(fraction: float | None) -> str:
    """A change in percent, with its sign."""
    if fraction is None or not math.isfinite(fraction):
        return "-"
    return f"{100 * fraction:+.1f} %" if abs(fraction) < 10 else f"{100 * fraction:+.0f} %"


def failed(session: Session) -> list[str]:
    """A line for each failed case without values."""
    return [_failure(case) for case in session.failures if not case.measured]


def beyond(session: Session) -> list[str]:
    """A line for each measured case that failed by its reference."""
    lines = []
    for case in session.failures:
        if case.measured:
            is_beyond = all(value.expected != XPASS for value in case.values)
            lines.append(f"{'beyond its reference: ' * is_beyond}{_failure(case)}")
    return lines


def _failure(case: Case) -> str:
    return f"{case.check} on {case.place} with {case.environ}: {first_line(case.failure or '')}"


def disturbed(session: Session) -> list[str]:
    """Lines on what disturbed repeats of the session: causes with their cases, then counts, then
    cases of which nobody knows."""
    every = [one for case in session.cases for one in case.disturbances]
    lines = []
    for cause in worst(every):
        cases = [
            _named(case)
            for case in session.cases
            if cause.rule in {why.rule for one in case.disturbances for why in one.causes}
        ]
        lines.append(f"disturbed: {cause.text} at worst ({suggest.shorten(cases)})")
    again = sum(one.again for one in every)
    if every:
        # A duet's launches do not run again.
        hint = "" if session.kind == "duet" else " (more may run again with -S spare_repeats=...)"
        lines.append(
            f"disturbed repeats: {again} left out, since another ran in their place; "
            f"{len(every) - again} counted{hint}"
        )
    unknown: dict[str, list[str]] = {}
    for case in session.cases:
        for text in case.unknown_evidence:
            unknown.setdefault(text, []).append(_named(case))
    return lines + [
        f"evidence unknown: {text} ({suggest.shorten(cases)})" for text, cases in unknown.items()
    ]


def _named(case: Case) -> str:
    return f"{plain(case.check)} on {case.place} with {case.environ}"


def medians(case: Case) -> dict[str, float]:
    """The median of each quantity of evidence, over the repeats that count."""
    again = {one.number for one in case.disturbances if one.again}
    # Several runs of a case number their repeats alike, so that those which count are not known.
    kept = [
        one for number, one in enumerate(case.evidence, 1) if case.runs > 1 or number not in again
    ]
    names = dict.fromkeys(name for one in kept for name in one)
    return {name: statistics.median(one[name] for one in kept if name in one) for name in names}


def spread(samples: tuple[float, ...]) -> str:
    """Coefficient of variation of the samples, ` ±4 %`; empty for a single sample."""
    if len(samples) < 2:
        return ""
    mean = statistics.fmean(samples)
    # statistics.stdev() is exact, and takes ten times as long.
    squares = math.fsum((sample - mean) ** 2 for sample in samples)
    deviation = math.sqrt(squares / (len(samples) - 1))
    return f" ±{100 * deviation / mean:.0f} %"


def _ratio(ratio: float | None, base: tuple[float, ...], own: tuple[float, ...]) -> str:
    """A ratio, with `=` where the ranges of both variables' samples overlap."""
    if ratio is None:
        return "-"
    several = min(len(base), len(own)) > 1
    alike = several and min(own) <= max(base) and max(own) >= min(base)
    return f"{ratio:.2f} =" if alike else f"{ratio:.2f}"


def _mark(value: float | None, failing: set, key: tuple[str, ...], column: str) -> str:
    """` !` behind a value of a case that failed by its reference."""
    return " !" if value is not None and (*key[:2], column) in failing else ""


def _bindings(session: Session) -> str:
    """The table of bound and unbound values; empty if the session has no variable of both."""
    rows = []
    for pair in binding.pairs(session):
        one, other = pair.bound, pair.unbound
        ratio = overhead(other.value, one.value, one.lower_is_better)
        rows.append(
            [plain(pair.check), one.environ, one.place, one.variable, one.unit]
            + [number(value.value) + spread(value.samples) for value in (one, other)]
            + [_ratio(ratio, one.samples, other.samples)]
        )
    headers = ["check", "environment", "partition", "variable", "unit"]
    headers += ["bound", "unbound", "overhead unbound"]
    aligned = ["left"] * 5 + ["right"] * 3
    return tabulate(rows, headers, disable_numparse=True, colalign=aligned) if rows else ""


def factors(session: Session, columns: list[str]) -> str:
    """The table of factors that differ between the columns, in all cases or some; '' if none do.

    Cases that ran in some columns alone are left out: their factors are of the cases.
    """
    shown = set(columns)
    cases = [case for case in session.cases if case.place in shown and not case.fixture]
    places: dict[tuple[str, str], set[str]] = {}
    for case in cases:
        places.setdefault((case.check, case.environ), set()).add(case.place)
    everywhere = {key for key, where in places.items() if where == shown}
    if len(columns) < 2 or not everywhere:
        return ""
    by_column: dict[str, list[dict]] = {column: [] for column in columns}
    for case in cases:
        if (case.check, case.environ) in everywhere:
            by_column[case.place].append(case.facts)
    rows = [[name, *values] for name, values in factors_that_differ(by_column)]
    return tabulate(rows, ["differs", *columns], disable_numparse=True) if rows else ""


def render(
    session: Session,
    columns: list[str],
    with_spread: bool = True,
    numbers: Callable[[], limits.Numbers] | None = None,
) -> tuple[str, list[str]]:
    """The table as text, and the missing values and failed cases.

    :arg numbers: of the partitions' extras, for the limits of a session without a native link.
    """
    rows, missing = table(session, columns)
    samples = {
        (v.check, v.environ, v.variable, v.unit, v.place): v.samples
        for v in _with_speedups(session)
    }
    failing = {(one.check, one.environ, one.place) for one in session.failures if one.measured}
    spreads = {key: spread(found) for key, found in samples.items() if with_spread}
    headers = [
        "check",
        "environment",
        "variable",
        "unit",
        *columns,
        *(f"overhead {c}" for c in columns[1:]),
    ]
    shown, last = [], None
    for check, environ, variable, unit, *cells in rows:
        key = check, environ, variable, unit
        values = [
            number(value) + spreads.get((*key, column), "") + _mark(value, failing, key, column)
            for column, value in zip(columns, cells)
        ]
        ratios = [
            _ratio(ratio, samples.get((*key, columns[0]), ()), samples.get((*key, column), ()))
            for ratio, column in zip(cells[len(columns) :], columns[1:])
        ]
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
    text = "\n\n".join(filter(None, [text, _bindings(session), factors(session, columns)]))
    title = f"session {session.uuid} on {session.system}, {session.started}"
    told = [*session.told_of_processors, *session.told_of_expected_failures]
    cautions = "\n".join([*told, *disturbed(session)])
    legend = ["=: the repeats of both overlap."] if " =" in text else []
    if failing:
        legend.append("!: a value of a case that failed by its reference.")
    text = "\n".join([text, *legend])
    near = nearness.render(limits.native_or_limits(session, columns, numbers))
    parts = [title, cautions, near, text]
    return "\n\n".join(part for part in parts if part), failed(session) + missing
