"""Share of bare metal that is left, by aspect. Pure functions of samples.

A share has one direction: 1 is as bare metal, below 1 is worse, whatever the variable's unit. Of
one variable it is base / value for times and losses, and value / base for rates, of medians. Of an
aspect it is the geometric mean over its variables, each with the same weight.

The interval is the percentile bootstrap over repeats. Each variable is drawn for itself, although
variables of one launch share its noise. With few repeats the interval is too narrow: it describes,
and judges nothing. The gate judges (nearmetal/stats/judge.py).
"""

import math
import random
import statistics
from collections.abc import Iterable
from dataclasses import dataclass

#: Without NumPy, whose import takes longer than all else that `nearmetal compare` does.
DRAWS = 1000
SEED = 19
#: Part of the draws inside the interval.
LEVEL = 0.95


@dataclass(frozen=True)
class Pair:
    """Samples of one variable on the base and elsewhere."""

    aspect: str
    name: str  #: as the reader finds it
    base: tuple[float, ...]  #: one a repeat; () if absent
    other: tuple[float, ...]
    lower_is_better: bool | None  #: None: the unit does not say


@dataclass(frozen=True)
class Share:
    """What is left of the base in one aspect."""

    aspect: str
    value: float
    interval: tuple[float, float] | None  #: None: a variable has one repeat, so no spread
    variables: int

    @property
    def differs(self) -> bool:
        """Whether the interval excludes 1. False without an interval."""
        return self.interval is not None and not self.interval[0] <= 1 <= self.interval[1]


@dataclass(frozen=True)
class Remark:
    """A variable that is not in its share, or has no spread."""

    name: str
    reason: str
    counted: bool  #: whether it is in the share all the same


def shares(pairs: Iterable[Pair]) -> tuple[list[Share], list[Remark]]:
    """Shares in the order of the aspects' first usable variables, and remarks on variables."""
    usable: dict[str, list[Pair]] = {}
    remarks = []
    for pair in pairs:
        remark = _remark(pair)
        if remark:
            remarks.append(remark)
        if remark is None or remark.counted:
            usable.setdefault(pair.aspect, []).append(pair)
    return [_share(aspect, of_it) for aspect, of_it in usable.items()], remarks


def _remark(pair: Pair) -> Remark | None:
    if pair.lower_is_better is None:
        return Remark(pair.name, "its unit does not say what is better", False)
    for where, samples in (("the base", pair.base), ("the partition", pair.other)):
        if not samples:
            return Remark(pair.name, f"no value on {where}", False)
        if not all(math.isfinite(sample) and sample > 0 for sample in samples):
            return Remark(pair.name, f"a value on {where} is not positive", False)
    if min(len(pair.base), len(pair.other)) == 1:
        return Remark(pair.name, "one repeat: its spread is unknown", True)
    return None


def _share(aspect: str, pairs: list[Pair]) -> Share:
    value = math.exp(sum(_log_share(pair) for pair in pairs) / len(pairs))
    if any(min(len(pair.base), len(pair.other)) == 1 for pair in pairs):
        return Share(aspect, value, None, len(pairs))
    generator = random.Random(SEED)
    drawn = [_drawn(pair, generator) for pair in pairs]
    means = sorted(math.exp(sum(logs) / len(pairs)) for logs in zip(*drawn))
    tail = round(DRAWS * (1 - LEVEL) / 2)
    return Share(aspect, value, (means[tail], means[-1 - tail]), len(pairs))


def _log_share(pair: Pair) -> float:
    return _of_medians(pair, statistics.median(pair.base), statistics.median(pair.other))


def _of_medians(pair: Pair, base: float, other: float) -> float:
    ratio = base / other if pair.lower_is_better else other / base
    return math.log(ratio)


def _drawn(pair: Pair, generator: random.Random) -> list[float]:
    """Logarithm of the share in each draw."""
    return [
        _of_medians(
            pair,
            statistics.median(generator.choices(pair.base, k=len(pair.base))),
            statistics.median(generator.choices(pair.other, k=len(pair.other))),
        )
        for _ in range(DRAWS)
    ]
