"""Share of bare metal that is left, by aspect. Pure functions of samples.

A share has one direction: 1 is as bare metal, below 1 is worse, whatever the variable's unit. Of
one variable it is base / value for times and losses, and value / base for rates, of medians. Of an
aspect it is the geometric mean over its variables, each with the same weight.

The interval is the percentile bootstrap over repeats. Each variable is drawn for itself, although
variables of one launch share its noise. With few repeats the interval is too narrow: it describes,
and judges nothing. The gate judges (nearmetal/stats/judge.py).
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

DRAWS = 1000
SEED = 19
#: Variables from which NumPy draws.
MANY = 60
#: Part of the draws inside the interval.
LEVEL = 0.95
ONCE = "one repeat: its spread is unknown"


@dataclass(frozen=True)
class Pair:
    """Samples of one variable on the base and elsewhere."""

    aspect: str
    #: As the reader finds it.
    name: str
    #: One a repeat; () if absent.
    base: tuple[float, ...]
    other: tuple[float, ...]
    #: None: the unit does not say.
    lower_is_better: bool | None

    @property
    def once(self) -> bool:
        """Whether one side has a single repeat, and so no spread."""
        return min(len(self.base), len(self.other)) == 1


@dataclass(frozen=True)
class Share:
    """What is left of the base in one aspect."""

    aspect: str
    value: float
    #: None: a variable has one repeat, so no spread.
    interval: tuple[float, float] | None
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
    #: Whether it is in the share all the same.
    counted: bool


#: Function: pairs -> sum of their logarithms of shares in each draw, ascending.
Bootstrap = Callable[[Sequence[Pair]], list[float]]


def bootstrap(variables: int) -> Bootstrap:
    """The bootstrap for a session of so many variables.

    NumPy's import takes longer than all else that `nearmetal compare` does with few.
    """
    if variables < MANY:
        return drawn
    from nearmetal.stats import bootstrap as many

    return many.drawn


def shares(
    pairs: Iterable[Pair], draw: Bootstrap | None = None
) -> tuple[list[Share], list[Remark]]:
    """Shares in the order of the aspects' first usable variables, and remarks on variables.

    A variable with one repeat has no spread, and would hide that of its aspect. It counts only
    where its aspect has no other.

    :arg draw: the bootstrap; default: Python's.
    """
    usable: dict[str, list[Pair]] = {}
    remarks = []
    for pair in pairs:
        if fault := _fault(pair):
            remarks.append(Remark(pair.name, fault, False))
        else:
            usable.setdefault(pair.aspect, []).append(pair)
    by_aspect = []
    for aspect, of_aspect in usable.items():
        repeated = [pair for pair in of_aspect if not pair.once]
        by_aspect.append(_share(aspect, repeated or of_aspect, draw or drawn))
        remarks += [Remark(pair.name, ONCE, not repeated) for pair in of_aspect if pair.once]
    return by_aspect, remarks


def _fault(pair: Pair) -> str:
    """Why a variable cannot be in a share; '' if it can."""
    if pair.lower_is_better is None:
        return "its unit does not say what is better"
    for where, samples in (("the base", pair.base), ("the partition", pair.other)):
        if not samples:
            return f"no value on {where}"
        if not all(math.isfinite(sample) and sample > 0 for sample in samples):
            return f"a value on {where} is not positive"
    return ""


def _share(aspect: str, pairs: list[Pair], draw: Bootstrap) -> Share:
    value = math.exp(sum(_log_share(pair) for pair in pairs) / len(pairs))
    if any(pair.once for pair in pairs):
        return Share(aspect, value, None, len(pairs))
    sums = draw(pairs)
    tail = round(DRAWS * (1 - LEVEL) / 2)
    low, high = math.exp(sums[tail] / len(pairs)), math.exp(sums[-1 - tail] / len(pairs))
    return Share(aspect, value, (low, high), len(pairs))


def drawn(pairs: Sequence[Pair]) -> list[float]:
    """Sum of the pairs' logarithms of shares in each draw, ascending."""
    generator = random.Random(SEED)
    logs = [_drawn(pair, generator) for pair in pairs]
    return sorted(map(sum, zip(*logs)))


def _log_share(pair: Pair) -> float:
    return _of_medians(pair, statistics.median(pair.base), statistics.median(pair.other))


def _of_medians(pair: Pair, base: float, other: float) -> float:
    ratio = base / other if pair.lower_is_better else other / base
    return math.log(ratio)


def _drawn(pair: Pair, generator: random.Random) -> list[float]:
    """Logarithm of the share in each draw."""
    logs = []
    for _ in range(DRAWS):
        base = statistics.median(generator.choices(pair.base, k=len(pair.base)))
        other = statistics.median(generator.choices(pair.other, k=len(pair.other)))
        logs.append(_of_medians(pair, base, other))
    return logs
