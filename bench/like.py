"""How well figures of machines like one tell a sick machine from a healthy one.

    python -m bench.like known_machines.csv.xz

Leaves one source out at a time, and asks whether its values are within the intervals of the
others: by level, and at the level that the product takes. Then all sources of its machine are left
out, and then all of its repository. The known effects of the table (bench/machines.py) should be
beyond the intervals.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tabulate import tabulate

from bench import machines as table
from nearmetal.expectations import machines
from nearmetal.expectations.machines import Alike, Known, Source
from nearmetal.util.text import rounded

HEAD = ["level", "kind", "values", "judged", "within", "coverage %", "median factor"]
HEAD_OF_EFFECTS = ["effect", "machine", "values", "judged", "beyond", "which"]
#: The level that the product takes.
CHOSEN = "as chosen"
#: Whether a source is left out with another one.
Same = Callable[[Source, Source], bool]
LEFT_OUT: dict[str, Same] = {
    "one source left out": lambda source, other: source is other,
    "one machine left out": lambda source, other: source.of.machine == other.of.machine,
    "one repository left out": lambda source, other: source.repository == other.repository,
}


def read(path: Path) -> tuple[list[Source], dict[str, list[Source]]]:
    """The healthy sources of a table, and those of each effect."""
    healthy, effects = [], {}
    read = table.sources(table.rows(path))
    for each in table.distinct([each for each in read if not each.effect]):
        healthy.append(_as_product(each))
    for each in read:
        if each.effect:
            effects.setdefault(each.effect, []).append(_as_product(each))
    return healthy, effects


def _as_product(source: table.Source) -> Source:
    entry = {**source.entry, "values": source.values}
    return machines.source_of(source.machine, source.cpu, entry)


@dataclass
class Level:
    """What a level says of left-out values of one kind."""

    values: int = 0
    judged: int = 0
    within: int = 0
    factors: list[float] = field(default_factory=list)  #: from the centre to an end

    def add(self, alike: Alike | None, value: float) -> None:
        self.values += 1
        if alike is None or alike.why:
            return
        self.judged += 1
        self.within += not alike.deviates(value)
        if alike.least and math.isfinite(alike.most):
            self.factors.append(math.sqrt(alike.most / alike.least))

    def cells(self) -> list:
        share = factor = None
        if self.judged:
            share = 100 * self.within / self.judged
        if self.factors:
            factor = statistics.median(self.factors)
        return [self.values, self.judged, self.within, share, factor]


def coverage(healthy: list[Source], same: Same) -> tuple[list[list], list[Source]]:
    """Rows of HEAD: each level as if it were the only one, and as chosen. Sources that deviate.

    :arg same: whether a source is left out with another one.
    """
    levels: dict[tuple[str, str], Level] = {}
    alarms: dict[Source, None] = {}
    for source in healthy:
        known = Known(other for other in healthy if not same(source, other))
        for subject, runs in source.values.items():
            value, chosen = statistics.median(runs), known.alike(source.of, subject)
            answers = [(CHOSEN, chosen)]
            for key in machines.keys(source.of, subject):
                answers.append((key[0], known.group(key)))
            for level, alike in answers:
                for kind in (subject.kind, "all"):
                    levels.setdefault((level, kind), Level()).add(alike, value)
            if chosen and chosen.deviates(value):
                alarms[source] = None
    rows = [[level, kind, *counts.cells()] for (level, kind), counts in sorted(levels.items())]
    return rows, list(alarms)


def effect_rows(healthy: list[Source], effects: dict[str, list[Source]]) -> list[list]:
    """What is said of each machine with a known effect."""
    known, rows = Known(healthy), []
    for effect, sources in effects.items():
        for source in sources:
            judged, beyond = 0, []
            for subject, runs in source.values.items():
                alike, value = known.alike(source.of, subject), statistics.median(runs)
                judged += alike is not None and not alike.why
                if alike is not None and alike.deviates(value):
                    beyond.append(f"{subject.variable} {rounded(value)} ({alike.interval})")
            number = len(source.values)
            machine = f"{source.of.machine} {source.of.link} {source.mpi}"
            rows.append([effect, machine, number, judged, len(beyond), "; ".join(beyond)[:120]])
    return rows


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(
        prog="like", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path, metavar="CSV", help="the table, compressed by xz")
    chosen = parser.parse_args(arguments)
    healthy, effects = read(chosen.table)
    print(f"{len(healthy)} healthy sources")
    for title, same in LEFT_OUT.items():
        rows, alarms = coverage(healthy, same)
        print(f"\n{title}\n{tabulate(rows, HEAD, floatfmt='.3g')}")
        print(f"{len(alarms)} of {len(healthy)} healthy sources deviate:")
        print("\n".join(map("  {}".format, alarms)))
    print(f"\n{tabulate(effect_rows(healthy, effects), HEAD_OF_EFFECTS)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
