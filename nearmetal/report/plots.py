"""What a plot of the report consists of: lines of measured values, and published figures.

A plot is a dictionary that the page's script draws and the template writes as a table: {id, title,
x: {title, kind}, y: {title, log}, lines: [{partition, stack, unit, session, x, y, low, high, n}],
marks: [...], places: of the marks, bends: [...], drawn}. Each y is a median of samples
(summary.py). Each mark is a published figure (`mark`), and each bend a published message size
(`bend`). What is not `drawn` is a table alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from nearmetal.compare import published
from nearmetal.report import summary

#: Most lines of a plot. `--distribute` gives one a node.
MOST_LINES = 200


def plot(
    name: str,
    title: str,
    x: tuple[str, str],
    y: tuple[str, bool],
    lines: list[dict],
    marks: Sequence[dict] = (),
    bends: Sequence[dict] = (),
    order: Sequence[str] = (),
) -> dict:
    """A plot.

    :arg x: title and kind: `bytes`, `count` or `category`.
    :arg y: title, and whether the axis is logarithmic.
    :arg order: categories of x.
    """
    entry: dict[str, Any] = {
        "id": name,
        "title": title,
        "x": {"title": x[0], "kind": x[1], "order": list(order)},
        "y": {"title": y[0], "log": y[1]},
        "lines": lines[:MOST_LINES],
        "marks": list(marks),
        "places": list(dict.fromkeys(mark["place"] for mark in marks)),
        "bends": list(bends),
        # A line through a single place shows nothing: the value stands in the table.
        "drawn": len(set(places(lines))) != 1,
    }
    # The page says how many lines are left out.
    if len(lines) > MOST_LINES:
        entry["all_lines"] = len(lines)
    return entry


def places(lines: Iterable[Mapping]) -> Iterator:
    """The places on the x axis of a plot's lines."""
    for each in lines:
        yield from each["x"]


def line(
    session,
    partition: str,
    stack: str,
    unit: str,
    points: Mapping[Any, summary.Summary],
    categories: Sequence[str] = (),
) -> dict:
    """A line of a plot through the points, in the order of x.

    :arg categories: of x, in their order; (): x is a number.
    """
    order = [x for x in categories or sorted(points) if x in points]
    return {
        "partition": partition,
        "stack": stack,
        "unit": summary.unit(unit),
        "session": summary.named(session),
        "x": order,
        **summary.ends(map(points.__getitem__, order)),
    }


def measured(session, checks: tuple[str, ...] = ()) -> list:
    """The session's measured cases (of these checks)."""
    if not checks:
        return session.measured
    return [case for case in session.measured if summary.base_name(case.check) in checks]


def marks_of(placed: Iterable[tuple]) -> list[dict]:
    """The marks of published figures, each with its x. Each is made once."""
    marks = {}
    for figure, x in placed:
        # Figures hold dictionaries, which have no hash.
        if (id(figure), x) not in marks:
            marks[id(figure), x] = mark(figure, x)
    return distinct(marks.values())


def distinct(marks: Iterable[dict]) -> list[dict]:
    """Each published figure once, even if several partitions and stacks measured it."""
    unique: dict[tuple, dict] = {}
    for entry in marks:
        unique.setdefault(tuple(entry.items()), entry)
    return list(unique.values())


def mark(figure, x) -> dict:
    """A published figure at x, from `low` to `high`. `bound` is `<` or `>` for a limit."""
    low, high, bound = one_sided(*figure.bounds)
    y = figure.value
    if y is None:
        # The middle of a range on a logarithmic axis.
        y = (low * high) ** 0.5
    text = f"{figure.text} {summary.unit(figure.unit)}".strip()
    entry = {"x": x, "y": y, "low": low, "high": high, "bound": bound, "text": text}
    return {**entry, **source(figure)}


def one_sided(low: float | None, high: float | None) -> tuple[Any, Any, str]:
    """Both ends, and `<` or `>` where a document gives one of them alone."""
    if low is None:
        return high, high, "<"
    if high is None:
        return low, low, ">"
    return low, high, ""


def source(figure) -> dict:
    """Where a published figure comes from, as a tooltip says it."""
    settings = []
    for name, value in figure.parameters.items():
        # The plot's title and its x axis say these.
        if name not in ("placement", "threads"):
            settings.append(f"{name} {value}")
    return {
        "software": figure.software,
        "place": figure.population or f"{figure.system} {figure.partition}",
        "settings": ", ".join(settings),
        "where": f"{figure.document}, {figure.where}",
        "quote": figure.quote or f"read off a plot, ± {figure.read_off_plot['error']:g}",
    }


def bend(figure) -> dict:
    """A published message size where a curve bends, as a vertical line at x."""
    what = figure.variable.removesuffix("_at").rpartition("_")[2]
    size = published.bend(figure)
    return {"x": size, "text": f"{what} at {_bytes(size)}", **source(figure)}


def _bytes(size: int) -> str:
    """A message size as axes print it: `128 B`, `3 MiB`."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"
