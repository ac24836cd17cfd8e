"""Summary of a variable's samples, and formats of numbers, dates and names."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from nearmetal.model import catalogue, metrics
from nearmetal.model.naming import base_name, parameters, plain  # noqa: F401 - for the pages
from nearmetal.results import date
from nearmetal.util.text import number, percent  # noqa: F401 - for the pages

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
    return Summary(statistics.median(ordered), ordered[rank - 1], ordered[count - rank], count)


def of_value(value) -> Summary:
    """Summary of a value of a case."""
    return summarize(value.samples, value.value)


def of_curve(curve: Mapping[int, tuple[float, ...]]) -> dict[int, Summary]:
    """Summary of a curve's samples at each size that has some."""
    return {size: summarize(samples) for size, samples in curve.items() if samples}


@lru_cache
def _rank(count: int) -> int:
    """Largest k for which the k-th lowest and highest samples bound the median with 95 %."""
    # The number of samples below the median is binomial with p = 1/2.
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
    if repeats > 1:
        return "lowest to highest repeat"
    return "one repeat: no interval"


def ends(summaries: Iterable[Summary]) -> dict[str, list]:
    """Medians, intervals and repeats as lists, for a line of a plot."""
    columns: dict[str, list] = {"y": [], "low": [], "high": [], "n": []}
    for value, low, high, repeats in summaries:
        columns["y"].append(short(value))
        columns["low"].append(short(low))
        columns["high"].append(short(high))
        columns["n"].append(repeats)
    return columns


def short(value: float) -> float:
    """Round to five significant digits, enough for a plot."""
    return float(f"{value:.5g}")


def unit(name: str) -> str:
    return metrics.printed(name)


def amount(value: float | None, name: str) -> str:
    return f"{number(value)} {unit(name)}".strip()


def hover(summary: Summary, name: str) -> str:
    """Tooltip: value, kind and ends of the interval, and number of repeats."""
    text = f"{amount(summary.value, name)}; {interval_kind(summary.repeats)}"
    if summary.repeats == 1:
        return text
    interval = f"{number(summary.low)} to {amount(summary.high, name)}"
    return f"{text}: {interval}; n = {summary.repeats} repeats"


def named(session) -> str:
    """Short name of a session: the beginning of its id, and its start."""
    return f"{session.uuid[:8]}, {date(session.started)}"


def means(check: str, variable: str) -> str:
    """What a variable is, by the check's file; '' if no file has it."""
    known = catalogue.variable(check, variable)
    if known is None:
        return ""
    return known.means


def text(fact) -> str:
    """A fact as one line."""
    if isinstance(fact, (list, tuple)):
        return ", ".join(map(str, fact))
    return str(fact)
