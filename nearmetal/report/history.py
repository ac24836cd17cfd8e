"""History of every variable and fact over the sessions, which are read one by one."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from statistics import median
from typing import NamedTuple

from nearmetal.judge.history import creeping
from nearmetal.model.facts import changed_facts
from nearmetal.report import summary

#: Most points of a page. With more, older sessions are grouped in equal numbers.
MOST_POINTS = 20_000
#: Most points of a line. A screen cannot show more.
MOST_SLOTS = 300
#: Number of newest sessions that are not grouped (fewer with many variables). Their samples are
#: shown.
RECENT = 60
#: Most rows of a table.
MOST_ROWS = 400


class Key(NamedTuple):
    """A variable of a case."""

    check: str
    partition: str
    environ: str
    variable: str
    unit: str


@dataclass
class Series:
    """One variable of one case over the sessions."""

    at: list[int] = field(default_factory=list)  #: numbers of the sessions
    points: list[summary.Summary] = field(default_factory=list)
    samples: deque = field(default_factory=lambda: deque(maxlen=RECENT))  #: of the newest points

    @property
    def since(self) -> float | None:
        """Change of the newest value since the first; None if that is zero."""
        first = self.points[0].value
        if not first:
            return None
        return self.points[-1].value / first - 1


@dataclass
class Changed:
    """A fact that differs from the case's previous session."""

    session: int
    fact: str
    before: str
    after: str
    partitions: set[str] = field(default_factory=set)
    checks: set[str] = field(default_factory=set)


class Collector:
    """Collects the figures of all sessions for the pages, without keeping the sessions."""

    def __init__(self):
        self.sessions: list[tuple[str, str]] = []  #: (id, start) of each session, oldest first
        self.series: dict[Key, Series] = {}
        self.changed: dict[tuple, Changed] = {}
        self._facts: dict[tuple[str, str, str], dict] = {}

    def add(self, session) -> None:
        number = len(self.sessions)
        self.sessions.append((session.uuid, session.started))
        for case in session.cases:
            if case.facts:
                self._compare(number, case)
        for value in session.values:
            key = Key(value.check, value.place, value.environ, value.variable, value.unit)
            series = self.series.setdefault(key, Series())
            series.at.append(number)
            series.points.append(summary.of_value(value))
            series.samples.append(value.samples)

    def _compare(self, number: int, case) -> None:
        before = self._facts.get(case.where)
        self._facts[case.where] = case.facts
        if before is None or before == case.facts:
            return
        for name, (then, now) in changed_facts(before, case.facts).items():
            key = number, name, then, now
            changed = self.changed.setdefault(key, Changed(*key))
            changed.partitions.add(case.place)
            changed.checks.add(f"{summary.plain(case.check)} with {case.environ}")

    def partitions(self, first: Iterable[str]) -> list[str]:
        """The partitions of all sessions, those given first."""
        partitions = dict.fromkeys(first)
        for key in self.series:
            partitions[key.partition] = None
        return list(partitions)

    def plot(self, changes) -> dict:
        """Data of the history plot: `slots`, each a session or a group, and `series` of points."""
        points = sum(len(series.at) for series in self.series.values())
        groups = group(len(self.sessions), points, len(self.series))
        slots, slot_of, slot_of_uuid = [], {}, {}
        for slot, members in enumerate(groups):
            last = ""
            if len(members) > 1:
                last = self._name(members[-1])
            slots.append([self._name(members[0]), last, len(members)])
            for number in members:
                slot_of[number] = slot
                slot_of_uuid[self.sessions[number][0]] = slot
        marks = []
        for change in changes:
            if change.session in slot_of_uuid:
                mark = {"key": list(_key(change)), "slot": slot_of_uuid[change.session]}
                marks.append({**mark, "y": change.after, "text": sentence(change)})
        drawn = []
        for key, series in self.series.items():
            drawn.append(self._points(key, series, slot_of, groups))
        return {"slots": slots, "series": drawn, "changes": marks}

    def _name(self, number: int) -> str:
        uuid, started = self.sessions[number]
        return f"{summary.date(started)}, {uuid[:8]}"

    def _points(
        self, key: Key, series: Series, slot_of: dict[int, int], groups: list[range]
    ) -> dict:
        gathered: dict[int, list[summary.Summary]] = {}
        for number, point in zip(series.at, series.points):
            gathered.setdefault(slot_of[number], []).append(point)
        samples = {}
        # Samples of long histories would make the page too large.
        if len(series.at) <= RECENT:
            for number, of_point in zip(series.at, series.samples):
                samples[slot_of[number]] = list(map(summary.short, of_point))
        points = []
        for slot, values in gathered.items():
            if len(groups[slot]) > 1:
                values = [_grouped(values)]
            points += values
        ends = summary.ends(points)
        unit = summary.unit(key.unit)
        return {"key": key[:4], "unit": unit, "at": list(gathered), **ends, "samples": samples}

    def rows(self, data: dict, changes) -> list[dict]:
        """The table: one row for each variable, with its newest and first value and a sparkline."""
        moved: dict[tuple, list] = {}
        for change in changes:
            moved.setdefault(_key(change), []).append(sentence(change))
        # The partitions of a variable follow each other.
        alike: dict[tuple, list[tuple[Key, int]]] = {}
        for index, key in enumerate(self.series):
            variable = key.check, key.environ, key.variable
            alike.setdefault(variable, []).append((key, index))
        rows = []
        for key, index in itertools.islice(itertools.chain(*alike.values()), MOST_ROWS):
            series = self.series[key]
            rows.append(
                {
                    "index": index,
                    "key": key,
                    "series": series,
                    "session": self._name(series.at[-1]),
                    "moved": moved.get(key[:4], []),
                    "spark": spark(data["series"][index]["y"]),
                }
            )
        return rows

    def facts(self) -> tuple[list[dict], int]:
        """At most MOST_ROWS changed facts, newest first, and the number of all."""
        # The negative number puts the newest session first, and its facts in alphabetical order.
        newest = sorted(self.changed.values(), key=lambda c: (-c.session, c.fact, c.before))
        rows = []
        for changed in newest[:MOST_ROWS]:
            row = {"session": self._name(changed.session), "partitions": sorted(changed.partitions)}
            row |= {"fact": changed.fact, "before": changed.before, "after": changed.after}
            rows.append({**row, "checks": sorted(changed.checks)})
        return rows, len(newest)


def _key(change) -> tuple[str, str, str, str]:
    """The variable of a change point."""
    return change.check, change.partition, change.environ, change.variable


def _grouped(values: list[summary.Summary]) -> summary.Summary:
    """Summary of several sessions: median, lowest and highest of their medians, and number."""
    medians, *_ = zip(*values)
    return summary.Summary(median(medians), min(medians), max(medians), len(medians))


def group(sessions: int, points: int, series: int) -> list[range]:
    """Session numbers of each slot: one per slot if all fit, else groups of older sessions."""
    older, size = 0, 1
    if points > MOST_POINTS or sessions > MOST_SLOTS:
        slots = min(max(2, MOST_POINTS // series), MOST_SLOTS)
        recent = min(RECENT, slots // 2)
        older = sessions - recent
        size = max(1, -(-older // (slots - recent)))
    groups = [range(start, min(start + size, older)) for start in range(0, older, size)]
    return groups + [range(number, number + 1) for number in range(older, sessions)]


def sentence(change) -> str:
    """A sentence on a change point."""
    if change.creeps:
        return creeping(change)
    text = (
        f"{summary.percent(change.change)} at session {change.session[:8]}, "
        f"{summary.date(change.started)}: "
        f"{summary.number(change.before)} to {summary.amount(change.after, change.unit)}"
    )
    if change.p is not None:
        text += f", p = {change.p:.2g}"
    facts = []
    for name, (then, now) in (change.facts or {}).items():
        facts.append(f"{name}: {summary.text(then)} -> {summary.text(now)}")
    if facts:
        text += f". Changed there: {'; '.join(facts)}"
    return text


def spark(values: list[float], width: int = 96, height: int = 20) -> str:
    """Points of a sparkline through the newest sixty values, on a scale of at least 10 %."""
    # More points than this are no line on so few pixels.
    values = values[-60:]
    middle = (min(values) + max(values)) / 2
    # Noise of a few percent is to look like noise.
    span = max(max(values) - min(values), abs(middle) / 10) or 1
    step = width / max(len(values) - 1, 1)
    points = []
    for index, value in enumerate(values):
        y = height / 2 - (value - middle) / span * (height - 4)
        points.append(f"{index * step:.1f},{y:.1f}")
    return " ".join(points)


def has_facts(session) -> bool:
    return any(case.facts for case in session.cases)


def provenance(session, columns: list[str]) -> list[dict]:
    """Rows of facts, with one cell for each partition: each value, and the cases that have it."""
    facts: dict[str, dict[str, dict[str, list[str]]]] = {}
    for case in session.cases:
        for name, value in case.facts.items():
            cell = facts.setdefault(name, {}).setdefault(case.place, {})
            names = cell.setdefault(summary.text(value) or "none", [])
            names.append(f"{summary.plain(case.check)} with {case.environ}")
    rows = []
    # Facts of interfaces stand last.
    for name in sorted(facts, key=lambda name: (name.startswith("nic."), name)):
        cells, values = [], set()
        for column in columns:
            on_place = facts[name].get(column, {})
            values.add(tuple(on_place))
            cells.append(on_place)
        rows.append({"fact": name, "cells": cells, "differs": len(values) > 1})
    return rows
