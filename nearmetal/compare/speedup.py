"""Speed-up over the fewest processes, derived from the parallel efficiency of the same repeats.

It is no variable of its own: both say the same, and the gate would share its error among twice as
many variables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from nearmetal.results import Value

#: Unit of a speed-up (nearmetal/model/metrics.py).
UNIT = "x fewest processes"
#: Name of a parallel efficiency: size, processes, threads of a process.
EFFICIENCY = re.compile(r"efficiency_(\w+)_(\d+)(x\d+)?")


def added(values: Iterable[Value]) -> Iterator[Value]:
    """The values of one case, and behind each parallel efficiency its speed-up.

    An efficiency has none if the case lacks the rate or time of the fewest processes.
    """
    values = list(values)
    for value in values:
        yield value
        found = EFFICIENCY.fullmatch(value.variable)
        fewest = _fewest(values, found[1], found[3] or "") if found else None
        if found and fewest:
            ideal = int(found[2]) / fewest
            yield replace(
                value,
                variable=value.variable.replace("efficiency_", "speedup_", 1),
                unit=UNIT,
                value=value.value / 100 * ideal,
                samples=tuple(sample / 100 * ideal for sample in value.samples),
                within=(),
            )


def _fewest(values: list[Value], size: str, threads: str) -> int | None:
    """The fewest processes with a rate or time of this size and these threads."""
    name = re.compile(rf"(?!efficiency_)[a-z]+_{re.escape(size)}_(\d+){threads}")
    counts = [int(found[1]) for value in values if (found := name.fullmatch(value.variable))]
    return min(counts, default=None)
