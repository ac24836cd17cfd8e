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
    others, here = [], []
    for source, runs in alike.figures.items():
        value = statistics.median(runs)
        others.append((value, f"{rounded(value)} {unit}: {source}"))
    for environ, value in row.here.items():
        here.append((value, f"{rounded(value)} {unit} here with {environ}: {alike.place(value)}"))
    ends = [end for end in (alike.least, alike.most) if 0 < end < math.inf]
    logs = [math.log(value) for value, _ in (*others, *here) if value > 0]
    logs += map(math.log, ends)
    low, reach = min(logs), max(logs) - min(logs) or 1

    def place(value: float) -> float:
        share = (math.log(value) - low) / reach
        return round(FIRST + (LAST - FIRST) * share, 2)

    band = None
    if not alike.why:
        left, right = 0.0, 100.0  # a side that is not judged is open
        if alike.least:
            left = place(alike.least)
        if alike.most < math.inf:
            right = place(alike.most)
        band = (left, right - left)
    dots = []
    for kind, named in (("other", others), ("here", here)):
        for value, text in named:
            if value > 0:
                if kind == "here" and alike.deviates(value):
                    kind = "beyond"
                dots.append({"x": place(value), "text": text, "kind": kind})
    return {
        "alike": alike,
        "dots": dots,
        "band": band,
        "here": " | ".join(dict.fromkeys(map(rounded, row.here.values()))),
    }
