"""How well figures of machines like one tell a sick machine from a healthy one.

    python -m bench.like known_machines.csv.xz

Leaves one source out at a time, and asks whether its values are within the intervals of the
others: by level, and at the level that the product takes. Then the same with all of a repository
left out. The known effects of the table (bench/machines.py) should be beyond them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from tabulate import tabulate

from bench import machines as table
from nearmetal.expectations import machines
from nearmetal.expectations.machines import Alike, Known, Source, Subject
from nearmetal.util.text import rounded

#: How many values: judged, and beyond the interval.
Counts = Counter
HEAD = ["level", "kind", "values", "judged", "within", "coverage %", "median factor"]


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
    return machines.source_of(source.machine, machines.family(source.cpu), entry)


def left_out(
    healthy: list[Source], same: Callable[[Source, Source], bool]
) -> Iterator[tuple[Source, Known]]:
    """Each source, and what is known without it and those that are the same."""
    for source in healthy:
        yield source, Known(other for other in healthy if not same(source, other))


def coverage(healthy: list[Source], same: Callable[[Source, Source], bool]) -> list[list]:
    """Rows of HEAD: by level as if it were the only one, and as chosen."""
    judged: dict[tuple[str, str], list[tuple[Alike, float]]] = {}
    unjudged: Counter = Counter()
    for source, known in left_out(healthy, same):
        for subject, runs in source.values.items():
            value = statistics.median(runs)
            chosen = known.alike(source.of, subject)
            for level, alike in (*_levels(known, source, subject), ("as chosen", chosen)):
                if alike is None or alike.why:
                    unjudged[level, subject.kind] += 1
                else:
                    judged.setdefault((level, subject.kind), []).append((alike, value))
    rows = []
    for (level, kind), pairs in sorted(judged.items()):
        within = sum(not alike.deviates(value) for alike, value in pairs)
        factors = [(a.most / a.least) ** 0.5 for a, _ in pairs if a.least and a.most]
        factor = statistics.median(factors) if factors else None
        number = len(pairs) + unjudged[level, kind]
        share = round(100 * within / len(pairs), 1)
        rows.append([level, kind, number, len(pairs), within, share, factor])
    return rows


def _levels(known: Known, source: Source, subject: Subject) -> Iterator[tuple[str, Alike | None]]:
    for key in machines.keys(source.of, subject):
        yield key[0], known.group(key) if known.has(key) else None


def totals(rows: Iterable[list]) -> list[list]:
    """A row for each level over all kinds."""
    summed: dict[str, list[int]] = {}
    for level, _, *numbers in rows:
        counts = summed.setdefault(level, [0, 0, 0])
        for place, number in enumerate(numbers[:3]):
            counts[place] += number
    return [
        [level, "all", *counts, round(100 * counts[2] / counts[1], 1), None]
        for level, counts in summed.items()
    ]


def effect_rows(healthy: list[Source], effects: dict[str, list[Source]]) -> list[list]:
    """What is said of each machine with a known effect."""
    known, rows = Known(healthy), []
    for effect, sources in effects.items():
        for source in sources:
            judged, beyond = 0, []
            for subject, runs in source.values.items():
                alike = known.alike(source.of, subject)
                if alike is None or alike.why:
                    continue
                judged += 1
                value = statistics.median(runs)
                if alike.deviates(value):
                    limits = "..".join(
                        rounded(end) if end else "" for end in (alike.least, alike.most)
                    )
                    beyond.append(f"{subject.variable} {rounded(value)} ({limits})")
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
    print(f"{len(healthy)} sources of {len({each.of.machine for each in healthy})} machines")
    same = {
        "one source left out": lambda one, other: one is other,
        "one machine left out": lambda one, other: one.of.machine == other.of.machine,
        "one repository left out": lambda one, other: one.repository == other.repository,
    }
    for title, rule in same.items():
        rows = coverage(healthy, rule)
        print(f"\n{title}\n{tabulate([*rows, *totals(rows)], HEAD, floatfmt='.3g')}")
    head = ["effect", "machine", "values", "judged", "beyond", "which"]
    print(f"\n{tabulate(effect_rows(healthy, effects), head)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
