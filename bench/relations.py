"""What relations within a session reach, and how often they fail healthy machines.

    python -m bench.relations --session DATABASE_OR_JSON --system lab
    python -m bench.relations --table known_machines.csv.xz

The first prints which part of a first session's variables has a verdict, without the relations and
with them, and for each relation its bound, how many variables it reaches, and what deviates. The
second judges curves of public machines by the same relations. Each curve is a case. It has the
collectives of the same machine, library and source.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import lzma
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tabulate import tabulate

from nearmetal import results
from nearmetal.expectations import entries, judge
from nearmetal.expectations.judge import Deviation, Judgement, Measured, Place
from nearmetal.judge.expected import Expectations, measured_cases

HEAD = ["relation", "bound", "compared", "variables", "beyond"]
PINGPONGS, PLACEMENTS = ("osu_latency", "IMB-MPI1 PingPong"), ("internode", "intranode")
COLLECTIVES, KERNELS = "allreduce|alltoall|bcast|barrier", "^(copy|scale|add|triad)"
SIZES = {0: "", 8: "_8B", 65536: "_64KiB"}


def is_relation(judgement: Judgement) -> bool:
    expectation = judgement.expectation
    # Published figures are judged after the run, too.
    if judgement.of_repeats or expectation.of_machines:
        return False
    return expectation.of_session


def rows(judgements: Iterable[Judgement]) -> list[list]:
    """Rows of HEAD."""
    by_relation: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in filter(is_relation, judgements):
        by_relation[judgement.expectation.name].append(judgement)
    table = []
    for name, each in by_relation.items():
        beyond = sum(isinstance(judgement, Deviation) for judgement in each)
        table.append([name, each[0].expectation.asked, len(each), len(_reached(each)), beyond])
    return table


def of_session(path: Path, system: str) -> None:
    """Print what is reached in a session: the newest of a database, or a recorded one."""
    if path.suffix == ".json":
        session = results.parse_session(json.loads(path.read_text()), str(path))
    else:
        session = results.load_session(path, system, None)
    expectations = Expectations.of(system)
    cases = [case for _, case in measured_cases(session, expectations.partitions)]
    judgements = [each for each in expectations.judged(cases) if not each.of_repeats]
    print(tabulate(rows(judgements), HEAD))
    total = sum(len(case.values) for case in cases)
    alone = itertools.filterfalse(is_relation, judgements)
    for text, chosen in (("without", alone), ("with", judgements)):
        count = len(_reached(chosen))
        share = 100 * count / total
        print(f"{text} relations: {count} of {total} variables judged ({share:.0f} %)")
    for deviation in expectations.deviations(session):
        case = deviation.case
        print(f"{case.check} {dict(case.parameters)} {case.partition} {case.environ}: {deviation}")


def _reached(judgements: Iterable[Judgement]) -> set[tuple[int, str]]:
    return {(id(case), name) for each in judgements for case, name in each.values()}


def of_table(path: Path) -> None:
    """Print which relations the curves of public machines do not hold."""
    cases = machines(path)
    shipped = entries.load()
    judgements = list(judge.judged({case.partition: shipped for case in cases}, cases))
    print(f"{len(cases)} cases of {len({case.partition for case in cases})} machines and libraries")
    print(tabulate(rows(judgements), HEAD))
    for judgement in judgements:
        if is_relation(judgement) and isinstance(judgement, Deviation):
            print(f"{judgement.case.partition}: {judgement}")


def machines(path: Path) -> list[Measured]:
    """A case for each curve of the table, and the collectives beside the median curve."""
    points: dict[tuple[str, str, str], dict] = defaultdict(lambda: defaultdict(list))
    for row in _safe(path):
        where = " ".join([row["machine"], row["mpi"], row["os"], row["source_repo"]])
        curve = f"{where} {row['source_path']}"
        value, placement = float(row["value"]), row["scope"].replace("-", "")
        size = int(float(row["size_bytes"] or 0))
        operation = _first(COLLECTIVES, row["benchmark"].lower())
        kernel = _first(KERNELS, row["variable"])
        if row["benchmark"] in PINGPONGS and placement in PLACEMENTS:
            points["pingpong", curve, placement][size].append(value)
            points["pingpong", where, placement][size].append(value)
        elif operation and placement == "collective" and size in SIZES and row["processes"]:
            name = f"{operation}{SIZES[size]}_{row['processes']}"
            points["collectives", where, ""][name].append(value)
        elif row["benchmark"] == "STREAM" and kernel and row["kind"] != "threshold":
            best = row["variable"].removeprefix(kernel)
            points["stream", f"{curve} {row['note']} {best}", ""][f"{kernel}_1"].append(value)
    place, cases = Place({}, environ_features=frozenset({"mpi"})), []
    for (check, where, placement), lists in points.items():
        values = {name: statistics.median(several) for name, several in lists.items()}
        parameters = {"placement": placement} if placement else {}
        if check == "pingpong":
            values = _variables(values)
        cases.append(Measured(check, place, parameters, where, "mpi", values))
    return [case for case in cases if case.values]


def _first(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        return ""
    return match[0]


def _safe(path: Path) -> Iterator[dict[str, str]]:
    """The rows with a time or a rate that are neither an extreme nor in doubt."""
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            doubt = "DO NOT USE" in row["note"] or row["variable"].endswith(("_min", "_max"))
            if not doubt and (row["benchmark"] == "STREAM" or row["unit"] == "us"):
                yield row


def _variables(curve: dict[int, float]) -> dict[str, float]:
    """The variables of pingpong, by the time in us of each size; {} where one was not measured."""
    if not {1, 1024, 65536} <= set(curve):
        return {}
    rates = [8 * size / time / 1000 for size, time in curve.items()]
    return {
        "startup_latency": curve[1],
        "latency_1KiB": curve[1024],
        "bandwidth_64KiB": 524.288 / curve[65536],
        "peak_bandwidth": max(rates),
    }


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(
        prog="relations", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--session", type=Path, metavar="FILE", help="database, or a JSON session")
    parser.add_argument("--system", default="lab", help="whose file has the expectations")
    parser.add_argument("--table", type=Path, metavar="CSV", help="figures of public machines")
    chosen = parser.parse_args(arguments)
    if chosen.session:
        of_session(chosen.session, chosen.system)
    if chosen.table:
        of_table(chosen.table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
