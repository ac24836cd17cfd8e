"""Dot strips: values of this machine among published figures of machines like it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable

from nearmetal.judge.like import Row, Table
from nearmetal.util.text import rounded

#: Least and most place on a strip, in percent: dots are whole at its ends.
FIRST, LAST = 2, 98


def strips(tables: Iterable[Table]) -> list[dict]:
    """The partitions with a row for each variable that was measured here."""
    drawn = []
    for table in tables:
        rows = [_strip(row) for row in table.rows if row.here]
        if rows:
            drawn.append({"partition": table.partition, "of": str(table.of), "rows": rows})
    return drawn


def _strip(row: Row) -> dict:
    """A row's dots and interval, by their places on a logarithmic scale."""
    alike, unit = row.alike, row.alike.subject.unit
    marks: list[tuple[float, str, str]] = []
    for source, runs in alike.figures.items():
        value = statistics.median(runs)
        marks.append((value, "other", f"{rounded(value)} {unit}: {source}"))
    for environ, value in row.here.items():
        kind = "here"
        if alike.deviates(value):
            kind = "beyond"
        text = f"{rounded(value)} {unit} here with {environ}: {alike.place(value)}"
        marks.append((value, kind, text))
    # A side that is not judged is open: its end is 0 or infinite.
    values = [alike.least, alike.most, *next(zip(*marks))]
    logs = [math.log(value) for value in values if 0 < value < math.inf]
    low, reach = min(logs), max(logs) - min(logs) or 1

    def place(value: float) -> float:
        if not 0 < value < math.inf:
            return 100 * (value > 0)
        return round(FIRST + (LAST - FIRST) * (math.log(value) - low) / reach, 2)

    left, right = place(alike.least), place(alike.most)
    return {
        "alike": alike,
        "dots": [{"x": place(value), "kind": kind, "text": text} for value, kind, text in marks],
        "band": not alike.why and (left, right - left),
        "here": " | ".join(dict.fromkeys(map(rounded, row.here.values()))),
    }
