"""`nearmetal like`: a partition beside published figures of machines like it."""

from __future__ import annotations

import operator

import orjson
from tabulate import tabulate

from nearmetal import results
from nearmetal.commands.common import write
from nearmetal.expectations.machines import Source, span
from nearmetal.judge.expected import partitions_at
from nearmetal.judge.like import Row, Table, tables
from nearmetal.results import Session
from nearmetal.util import files

#: Marks a value beyond the interval.
BEYOND = "!"
HEAD = ["variable", "unit", "here", "place", "sources", "published", "95 % have", "level"]


def run(arguments) -> int:
    """Print the table of each partition, with the newest session's values if there is one."""
    system = arguments.place.partition(":")[0]
    partitions = partitions_at(arguments.place)
    session = _session(arguments, system)
    beside = tables(partitions, session)
    for table in beside:
        print("\n".join(_lines(table)))
    if session is None:
        print(f"no session of {system} is stored: these are others' figures alone")
    else:
        print(f"here: medians of session {session.uuid}; {BEYOND}: beyond the interval")
    document = list(map(_document, beside))
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


def _lines(table: Table) -> list[str]:
    of = str(table.of) or "no instance type, processor or link that a published machine has"
    lines = [f"{table.partition}: {of}"]
    if not table.rows:
        return [*lines, "  no published figure of a machine like it", ""]
    lines.append(tabulate(map(_cells, table.rows), HEAD, disable_numparse=True))
    sources: dict[Source, None] = {}
    for row in table.rows:
        sources.update(dict.fromkeys(row.alike.figures))
    return [*lines, *map("  {0}: {0.path} ({0.licence})".format, sources), ""]


def _cells(row: Row) -> list:
    subject, alike = row.alike.subject, row.alike
    here = place = "-"
    if row.here:
        values = list(row.here.values())
        here = span(values)
        place = " | ".join(dict.fromkeys(map(alike.place, values)))
        if any(map(alike.deviates, values)):
            here += f" {BEYOND}"
    number = len(alike.figures)
    level = f"{alike.level} ({alike.label})"
    return [subject, subject.unit, here, place, number, alike.range, alike.interval, level]


def _document(table: Table) -> dict:
    rows = []
    for row in table.rows:
        subject, alike = row.alike.subject, row.alike
        sources = []
        for source, runs in alike.figures.items():
            sources.append({**vars(source), "of": source.of.machine, "values": runs})
        limits = {"level": alike.level, "least": alike.least, "most": alike.most, "why": alike.why}
        about = {**vars(subject), "unit": subject.unit, **limits}
        rows.append({**about, "here": row.here, "from": sources})
    return {"partition": table.partition, "is": vars(table.of), "variables": rows}
