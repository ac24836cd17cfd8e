"""Summary of a variable's samples, and formats of numbers, dates and names."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

from nearmetal.compare.side_by_side import number, percent, plain  # noqa: F401 - for the pages
from nearmetal.model import metrics
from nearmetal.results import date, parameters  # noqa: F401 - for the pages

#: Least number of samples for a 95 % interval of their median.
LEAST_REPEATS = 6


class Summary(NamedTuple):
    """The median of samples, and its interval."""

    value: float
    low: float
    high: float
    repeats: int


def summarize(samples: tuple[float, ...], value: float | None = None) -> Summary:
    """Summary of the samples, or of the stored value if there are no samples.

    The interval is the distribution-free 95 % interval of the median (order statistics; Hollander
    and Wolfe, section 3.6). With fewer than LEAST_REPEATS samples it goes from the lowest to the
    highest sample.
    """
    if not samples and value is not None:
        return Summary(value, value, value, 1)
    ordered = sorted(samples)
    count = len(ordered)
    rank = _rank(count)
    middle = count // 2
    median = ordered[middle] if count % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return Summary(median, ordered[rank - 1], ordered[count - rank], count)


@lru_cache
def _rank(count: int) -> int:
    """Largest k for which the k-th lowest and highest samples bound the median with 95 %."""
    outside, rank = 0.0, 0
    for k in range(count // 2 + 1):
        outside += 2 * math.comb(count, k) / 2**count
        if outside > 0.05:
            break
        rank = k + 1
    return max(rank, 1)


def interval_kind(repeats: int) -> str:
    """Name of the interval for this number of repeats."""
    if repeats >= LEAST_REPEATS:
        return "95 % interval of the median"
    return "lowest to highest repeat" if repeats > 1 else "one repeat: no interval"


def short(value: float) -> float:
    """Round to five significant digits, enough for a plot."""
    return float(f"{value:.5g}")


def unit(name: str) -> str:
    return metrics.printed(name)


def amount(value: float | None, name: str) -> str:
    return f"{number(value)} {unit(name)}".strip()


def hover(summary: Summary, name: str) -> str:
    """Tooltip: value, kind and ends of the interval, and number of repeats."""
    if summary.repeats == 1:
        return f"{amount(summary.value, name)}; {interval_kind(1)}"
    return (
        f"{amount(summary.value, name)}; {interval_kind(summary.repeats)}: "
        f"{number(summary.low)} to {amount(summary.high, name)}; n = {summary.repeats} repeats"
    )


def named(session) -> str:
    """Short name of a session: the beginning of its id, and its start."""
    return f"{session.uuid[:8]}, {date(session.started)}"


@lru_cache(maxsize=65536)
def base_name(check: str) -> str:
    return check.split(" ", 1)[0]


def text(fact) -> str:
    """A fact as one line."""
    return ", ".join(map(str, fact)) if isinstance(fact, (list, tuple)) else str(fact)
