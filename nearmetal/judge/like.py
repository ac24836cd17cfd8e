"""The partitions of a session beside published figures of machines like them."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from nearmetal.expectations import machines
from nearmetal.expectations.judge import Measured
from nearmetal.expectations.machines import Alike, Fingerprint, Subject
from nearmetal.judge.expected import Partition, measured_cases
from nearmetal.results import Session


@dataclass
class Row:
    """A variable of a partition beside others' figures of it."""

    alike: Alike
    here: dict[str, float] = field(default_factory=dict)  #: by environment


@dataclass
class Table:
    """A partition's rows."""

    partition: str
    of: Fingerprint
    rows: list[Row]


def tables(partitions: Mapping[str, Partition], session: Session | None) -> list[Table]:
    """A table for each partition: what the session measured; without a case, what is known."""
    cases: dict[str, list[Measured]] = {name: [] for name in partitions}
    if session is not None:
        for _, case in measured_cases(session, partitions):
            cases[case.partition].append(case)
    return list(map(_table, partitions.values(), cases.values()))


def _table(partition: Partition, cases: list[Measured]) -> Table:
    if not cases:
        of = machines.fingerprint(next(iter(partition.places.values())), {})
        known = machines.known()
        alike = map(functools.partial(known.alike, of), known.subjects(of))
        return Table(partition.fullname, of, list(map(Row, filter(None, alike))))
    rows: dict[Subject, Row] = {}
    for case in cases:
        for variable, value in case.values.items():
            beside = machines.of_case(case, variable)
            # ReFrame stores NaN where a check measured nothing.
            if beside is not None and math.isfinite(value):
                row = rows.setdefault(beside.subject, Row(beside))
                row.here[case.environ] = value
    of = machines.fingerprint(cases[0].place, cases[0].facts)
    return Table(partition.fullname, of, list(rows.values()))
