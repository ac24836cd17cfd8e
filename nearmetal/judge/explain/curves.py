"""Which message sizes got slower: the sign of a curve of times over message sizes."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

#: Least ratio of the medians at a size that got slower, and the most at one that did not.
SLOWER, AS_FAST = 1.15, 1.08
#: Largest message that counts as short, in bytes.
SHORT = 1024


def sign(now: Mapping[int, Sequence[float]], then: Mapping[int, Sequence[float]]) -> dict[str, str]:
    """`only from a size` or `only between sizes`, in words; {} if neither holds."""
    sizes = sorted(set(now) & set(then))
    states = [_slower(now[size], then[size]) for size in sizes]
    slower = [size for size, state in zip(sizes, states) if state]
    if not slower or None in states[:1] or len(sizes) < 3:
        return {}
    before = [state for size, state in zip(sizes, states) if size < slower[0]]
    after = [state for size, state in zip(sizes, states) if size > slower[-1]]
    if slower[0] <= SHORT or True in before or before.count(False) < 2:
        return {}
    slow = f"messages of {_bytes(slower[0])}"
    if after.count(False) >= 2:
        return {"only between sizes": f"{slow} to {_bytes(slower[-1])} alone got slower"}
    return {"only from a size": f"{slow} and more alone got slower"}


def _slower(now: Sequence[float], then: Sequence[float]) -> bool | None:
    """Whether times got longer; None if that is not clear."""
    if len(now) < 3 or len(then) < 3:
        return None
    ratio = statistics.median(now) / statistics.median(then)
    apart = statistics.quantiles(now, n=4)[0] > statistics.quantiles(then, n=4)[2]
    if ratio > SLOWER and apart:
        return True
    return False if ratio < AS_FAST else None


def _bytes(size: int) -> str:
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"
