"""`nearmetal like`: a partition beside published figures of machines like it."""

from __future__ import annotations

import functools
import math
import operator
from dataclasses import dataclass, field

import orjson
from tabulate import tabulate

from nearmetal import results
from nearmetal.commands.common import write
from nearmetal.expectations import machines
from nearmetal.expectations.judge import Measured
from nearmetal.expectations.machines import Alike, Fingerprint, Source, Subject, span
from nearmetal.judge.expected import Partition, measured_cases, partitions_at
from nearmetal.results import Session
from nearmetal.util import files

#: Marks a value beyond the interval.
BEYOND = "!"
HEAD = ["variable", "unit", "here", "place", "sources", "published", "95 % have", "level"]


@dataclass
class Row:
    """A variable of a partition beside others' figures of it."""

    alike: Alike
    here: dict[str, float] = field(default_factory=dict)  #: by environment

    def cells(self) -> list:
        subject, alike = self.alike.subject, self.alike
        here = place = "-"
        if self.here:
            values = list(self.here.values())
            here = span(values)
            place = " | ".join(dict.fromkeys(map(alike.place, values)))
            if any(map(alike.deviates, values)):
                here += f" {BEYOND}"
        number = len(alike.figures)
        level = f"{alike.level} ({alike.label})"
        return [subject, subject.unit, here, place, number, alike.range, alike.interval, level]

    def document(self) -> dict:
        subject, alike = self.alike.subject, self.alike
        sources = []
        for source, runs in alike.figures.items():
            sources.append({**vars(source), "of": source.of.machine, "values": runs})
        limits = {"level": alike.level, "least": alike.least, "most": alike.most, "why": alike.why}
        return {**vars(subject), "unit": subject.unit, **limits, "here": self.here, "from": sources}


@dataclass
class Table:
    """A partition's rows."""

    partition: str
    of: Fingerprint
    rows: list[Row]

    @classmethod
    def of_partition(cls, partition: Partition, cases: list[Measured]) -> Table:
        """What was measured beside what is known; without a case, what is known."""
        if not cases:
            of, known = (
                machines.fingerprint(next(iter(partition.places.values())), {}),
                machines.known(),
            )
            alike = map(functools.partial(known.alike, of), known.subjects(of))
            return cls(partition.fullname, of, list(map(Row, filter(None, alike))))
        rows: dict[Subject, Row] = {}
        for case in cases:
            for variable, value in case.values.items():
                beside = machines.of_case(case, variable)
                # ReFrame stores NaN where a check measured nothing.
                if beside is not None and math.isfinite(value):
                    row = rows.setdefault(beside.subject, Row(beside))
                    row.here[case.environ] = value
        of = machines.fingerprint(cases[0].place, cases[0].facts)
        return cls(partition.fullname, of, list(rows.values()))

    def lines(self) -> list[str]:
        lines = [f"{self.partition}: {self.of}"]
        if not self.rows:
            return [*lines, "  no published figure of a machine like it", ""]
        lines.append(tabulate(map(Row.cells, self.rows), HEAD, disable_numparse=True))
        sources: dict[Source, None] = {}
        for row in self.rows:
            sources.update(dict.fromkeys(row.alike.figures))
        return [*lines, *map("  {0}: {0.path} ({0.licence})".format, sources), ""]

    def document(self) -> dict:
        rows = list(map(Row.document, self.rows))
        return {"partition": self.partition, "is": vars(self.of), "variables": rows}


def run(arguments) -> int:
    """Print the table of each partition, with the newest session's values if there is one."""
    system = arguments.place.partition(":")[0]
    partitions = partitions_at(arguments.place)
    session = _session(arguments, system)
    cases: dict[str, list[Measured]] = {name: [] for name in partitions}
    if session is not None:
        for _, case in measured_cases(session, partitions):
            cases[case.partition].append(case)
    tables = []
    for name, partition in partitions.items():
        tables.append(Table.of_partition(partition, cases[name]))
        print("\n".join(tables[-1].lines()))
    if session is None:
        print(f"no session of {system} is stored: these are others' figures alone")
    else:
        print(f"here: medians of session {session.uuid}; {BEYOND}: beyond the interval")
    document = list(map(Table.document, tables))
    # JSON has no infinity: orjson writes null.
    write(arguments.json, lambda: orjson.dumps(document, option=orjson.OPT_INDENT_2))
    return 0


def _session(arguments, system: str) -> Session | None:
    """The named session, or the newest one of the system; None where none is stored."""
    if arguments.session:
        return results.load_session(arguments.database, system, arguments.session)
    if all(map(files.is_absent, map(operator.attrgetter("path"), arguments.database.files))):
        return None
    return results.newest(arguments.database, system)
