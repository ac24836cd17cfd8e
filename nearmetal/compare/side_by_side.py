"""Partitions side by side: the overhead of each kind of link over the first.

Base and direction are those of the report: the native link, else the first partition; above 1 is
worse.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tabulate import tabulate

from nearmetal.compare import nearness, published_ratios, scaling
from nearmetal.compare.index import Index, Key
from nearmetal.compare.published import Figure
from nearmetal.model.facts import factors_that_differ
from nearmetal.model.naming import plain
from nearmetal.results import XPASS, Case, ResultsError, Session, Value, base_first, worst
from nearmetal.results.session import Disturbed
from nearmetal.util import suggest
from nearmetal.util.sanitize import first_line
from nearmetal.util.text import number

#: Parameter of a check that says bound or unbound, in a check's name.
BINDING = re.compile(r" %(?:threads_are|binding)=(bound|unbound)(?= |$)")


def side_by_side(sessions: list[Session]) -> Session:
    """Several sessions as one session. Its partitions are `SYSTEM:PARTITION@ID`.

    A single session is returned as it is.

    Raises ResultsError if one session is there twice.
    """
    if len(sessions) == 1:
        return sessions[0]
    ids: list[str] = []
    systems: dict[str, None] = {}
    starts: list[str] = []
    for session in sessions:
        if session.uuid in ids:
            raise ResultsError(f"session {session.uuid} is there twice. Fix: name another session")
        ids.append(session.uuid)
        systems[session.system] = None
        starts.append(session.started)
    # The least length that tells the ids apart.
    length = 8
    while len({uuid[:length] for uuid in ids}) < len(ids):
        length += 1
    # Values name their partition, too: tables are made of values alone.
    cases: list[Case] = []
    for session in sessions:
        for case in session.cases:
            name = f"{session.system}:{case.partition}@{session.uuid[:length]}"
            values = tuple(replace(value, partition=name) for value in case.values)
            cases.append(replace(case, partition=name, values=values))
    return replace(
        sessions[0],
        uuid=", ".join(ids),
        system=", ".join(systems),
        started=", ".join(starts),
        cases=tuple(cases),
    )


@dataclass(frozen=True)
class Row:
    """A variable on all partitions."""

    key: Key
    values: tuple[Value | None, ...]  #: of each column; None: not measured, or not derived

    @property
    def overheads(self) -> list[float | None]:
        """Of each further column, over the first."""
        base, *others = self.values
        return [_overhead_of(value, base) for value in others]

    @property
    def loss(self) -> Row:
        """What a parallel efficiency loses against the first column, in points."""
        base, *others = self.values
        assert base is not None
        check, environ, variable, _ = self.key
        name = variable.replace("efficiency_", "efficiency_loss_")
        losses: list[Value | None] = [None]
        for value in others:
            if value is not None:
                # Samples of both partitions are no pairs, so that the loss has none.
                value = replace(value, value=base.value - value.value, samples=())
            losses.append(value)
        return Row((check, environ, name, "points"), tuple(losses))


def table(session: Session, columns: list[str]) -> tuple[list[Row], list[str]]:
    """A row for each variable, and the names of the missing values.

    The loss of parallel efficiency against the first column is a row of its own, in points (HPC
    Cloud slides: "degradation of PE"). So is the speed-up, which is derived.
    """
    values: list[Value] = []
    for case in session.measured:
        values += scaling.with_speedups(case.values)
    index = Index(values)
    # A case that may fail leaves no gap that somebody has to look after.
    excused = {case.where for case in session.cases if case.xfail}
    rows, missing = [], []
    for key in index.keys:
        check, environ, variable, unit = key
        row = Row(key, tuple(index.row(key, columns)))
        rows.append(row)
        for column, value in zip(columns, row.values):
            is_excused = unit == scaling.UNIT or (check, column, environ) in excused
            if value is None and not is_excused:
                missing.append(f"{check} {environ} {variable} on {column}")
        if variable.startswith("efficiency_") and row.values[0] is not None and len(columns) > 1:
            rows.append(row.loss)
    return rows, missing


def _overhead_of(value: Value | None, base: Value | None) -> float | None:
    if value is None or base is None:
        return None
    return overhead(value.value, base.value, value.lower_is_better)


def overhead(value: float, base: float, lower_is_better: bool | None) -> float | None:
    """Ratio of times, or inverse ratio of rates; above 1 is worse, whatever the unit.

    None where a value is not positive, or the unit does not say what is better.
    """
    if lower_is_better is None or not (base > 0 and value > 0):
        return None
    if lower_is_better:
        return value / base
    return base / value


def columns(session: Session, text: str | None) -> list[str]:
    """The session's columns: as they ran but the native link first, or as `--columns` names them.

    A partition stands for all nodes of `--distribute`.
    Raises ResultsError for an empty, a double or an unknown entry.
    """
    if text is None:
        return base_first(session, (value.place for value in session.values))
    places: dict[str, dict[str, None]] = {}
    for value in session.values:
        for name in (value.place, value.partition):
            places.setdefault(name, {})[value.place] = None
    chosen: list[str] = []
    for name in _known_columns(session, text):
        chosen += places.get(name, [name])
    return list(dict.fromkeys(chosen))


def _known_columns(session: Session, text: str) -> list[str]:
    chosen = list(map(str.strip, text.split(",")))
    # A partition whose cases all failed or were skipped has no value, and is no wrong name.
    known: dict[str, None] = {}
    for case in session.cases:
        known |= {case.partition: None, case.place: None}
    for _, partition, _ in session.skipped:
        known[partition] = None
    has = f"session {session.uuid} on {session.system}"
    if "" in chosen:
        raise ResultsError(
            f"--columns {text!r}: an entry is empty. Fix: give partitions, comma-separated; those "
            f"of {has} are {', '.join(known)}"
        )
    twice = [name for name, count in Counter(chosen).items() if count > 1]
    if twice:
        raise ResultsError(f"--columns {text!r}: {', '.join(twice)} is there twice: give it once")
    wrong = [name for name in chosen if name not in known]
    if wrong:
        hint = suggest.unknown(wrong[0], known, "its partitions are")
        raise ResultsError(f"--columns {text!r}: {has} has no partition {', '.join(wrong)}: {hint}")
    return chosen


def failed(session: Session) -> list[str]:
    """A line for each failed case without values."""
    return [_failure(case) for case in session.failures if not case.measured]


def beyond(session: Session) -> list[str]:
    """A line for each measured case that failed by its reference."""
    lines = []
    for case in session.failures:
        if case.measured:
            # A case that should have failed is within its references.
            is_beyond = all(value.expected != XPASS for value in case.values)
            lines.append(f"{'beyond its reference: ' * is_beyond}{_failure(case)}")
    return lines


def _failure(case: Case) -> str:
    return f"{case.check} on {case.place} with {case.environ}: {first_line(case.failure or '')}"


def disturbed(session: Session) -> list[str]:
    """Lines on disturbed repeats: causes with their cases, counts, and cases without evidence."""
    repeats: list[Disturbed] = []
    cases_of: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    for case in session.cases:
        name = f"{plain(case.check)} on {case.place} with {case.environ}"
        repeats += case.disturbances
        for cause in worst(case.disturbances):
            cases_of.setdefault(cause.rule, []).append(name)
        for text in case.unknown_evidence:
            unknown.setdefault(text, []).append(name)
    lines = []
    for cause in worst(repeats):
        cases = suggest.shorten(cases_of[cause.rule])
        lines.append(f"disturbed: {cause.text} at worst ({cases})")
    if repeats:
        again = sum(repeat.again for repeat in repeats)
        line = (
            f"disturbed repeats: {again} left out, since another ran in their place; "
            f"{len(repeats) - again} counted"
        )
        # A duet's launches do not run again.
        if session.kind != "duet":
            line += " (more may run again with -S spare_repeats=...)"
        lines.append(line)
    for text, names in unknown.items():
        lines.append(f"evidence unknown: {text} ({suggest.shorten(names)})")
    return lines


def spread(samples: tuple[float, ...]) -> str:
    """Coefficient of variation of the samples, ` ±4 %`; empty for a single sample."""
    if len(samples) < 2:
        return ""
    mean = statistics.fmean(samples)
    # statistics.stdev() is exact, and takes ten times as long.
    squares = math.fsum((sample - mean) ** 2 for sample in samples)
    deviation = math.sqrt(squares / (len(samples) - 1))
    return f" ±{100 * deviation / mean:.0f} %"


def _ratio(ratio: float | None, base: Value | None, other: Value | None) -> str:
    """A ratio, with `=` where the ranges of both variables' samples overlap."""
    if ratio is None:
        return "-"
    text = f"{ratio:.2f}"
    # One repeat has no range.
    if base is None or other is None or min(len(base.samples), len(other.samples)) < 2:
        return text
    if min(other.samples) <= max(base.samples) and max(other.samples) >= min(base.samples):
        text += " ="
    return text


@dataclass(frozen=True)
class Pair:
    """A variable of one case, bound and unbound."""

    check: str  #: without the parameter
    bound: Value
    unbound: Value

    @property
    def overhead(self) -> float | None:
        """Of the unbound value over the bound one."""
        return _overhead_of(self.unbound, self.bound)


def bindings(session: Session) -> Iterator[Pair]:
    """The variables that the session measured both bound and unbound, in their order."""
    pairs: dict[tuple, dict[str, Value]] = {}
    for value in session.values:
        if kind := BINDING.search(value.check):
            check = BINDING.sub("", value.check)
            key = check, value.environ, value.place, value.variable, value.unit
            pairs.setdefault(key, {})[kind[1]] = value
    # One of both may have failed.
    for (check, *_), both in pairs.items():
        if len(both) == 2:
            yield Pair(check, **both)


def _bindings(session: Session) -> str:
    """The table of bound and unbound values; empty if the session has no variable of both."""
    rows = []
    for pair in bindings(session):
        value = pair.bound
        row = [plain(pair.check), value.environ, value.place, value.variable, value.unit]
        for side in (value, pair.unbound):
            row.append(number(side.value) + spread(side.samples))
        rows.append([*row, _ratio(pair.overhead, value, pair.unbound)])
    if not rows:
        return ""
    headers = ["check", "environment", "partition", "variable", "unit"]
    headers += ["bound", "unbound", "overhead unbound"]
    aligned = ["left"] * 5 + ["right"] * 3
    return tabulate(rows, headers, disable_numparse=True, colalign=aligned)


def factors(session: Session, columns: list[str]) -> str:
    """The table of factors that differ between the columns, in all cases or some; '' if none do.

    Cases that ran in some columns alone are left out: their factors are of the cases.
    """
    shown = set(columns)
    cases: dict[tuple[str, str], list[Case]] = {}
    for case in session.cases:
        if case.place in shown and not case.fixture:
            cases.setdefault((case.check, case.environ), []).append(case)
    facts: dict[str, list[dict]] = {column: [] for column in columns}
    for alike in cases.values():
        # The factors of a case that ran on one partition alone say nothing of that partition.
        if {case.place for case in alike} == shown:
            for case in alike:
                facts[case.place].append(case.facts)
    if len(columns) < 2 or not any(facts.values()):
        return ""
    rows = [[name, *values] for name, values in factors_that_differ(facts)]
    if not rows:
        return ""
    return tabulate(rows, ["differs", *columns], disable_numparse=True)


def render(
    session: Session,
    columns: list[str],
    with_spread: bool = True,
    numbers: Callable[[], nearness.Numbers] | None = None,
    figures: Sequence[Figure] = (),
) -> tuple[str, list[str]]:
    """The table as text, and the missing values and failed cases.

    :arg numbers: of the partitions' extras, for the limits of a session without a native link.
    :arg figures: published ones, for ratios between the systems of several sessions.
    """
    rows, missing = table(session, columns)
    tables = [_table(session, rows, columns, with_spread), _bindings(session)]
    tables.append(published_ratios.across(session, figures))
    text = "\n\n".join(filter(None, [*tables, factors(session, columns)]))
    legend = []
    if " =" in text:
        legend.append("=: the repeats of both overlap.")
    if any(case.measured for case in session.failures):
        legend.append("!: a value of a case that failed by its reference.")
    title = f"session {session.uuid} on {session.system}, {session.started}"
    cautions = [*session.processor_notes, *session.xfail_notes]
    cautions += disturbed(session)
    near = nearness.render(nearness.of_session(session, columns, numbers))
    parts = [title, "\n".join(cautions), near, "\n".join([text, *legend])]
    return "\n\n".join(filter(None, parts)), failed(session) + missing


def _table(session: Session, rows: list[Row], columns: list[str], with_spread: bool) -> str:
    """The rows as text."""
    failing = {case.where for case in session.failures if case.measured}
    lines, last = [], None
    for row in rows:
        check, environ, variable, unit = row.key
        # A check and its environment appear once, so that the eye finds the next ones.
        line = [plain(check), environ, variable, unit]
        if (check, environ) == last:
            line[:2] = "", ""
        last = check, environ
        for column, value in zip(columns, row.values):
            if value is None:
                line.append("-")
                continue
            text = number(value.value)
            if with_spread:
                text += spread(value.samples)
            if (check, column, environ) in failing:
                text += " !"
            line.append(text)
        base, *others = row.values
        for ratio, value in zip(row.overheads, others):
            line.append(_ratio(ratio, base, value))
        lines.append(line)
    headers = ["check", "environment", "variable", "unit", *columns]
    headers += map("overhead {}".format, columns[1:])
    aligned = ["left"] * 4 + ["right"] * (len(headers) - 4)
    return tabulate(lines, headers, disable_numparse=True, colalign=aligned)
