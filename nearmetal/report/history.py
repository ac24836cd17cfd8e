"""History of every variable and fact over the sessions, which are read one by one."""

from collections import deque
from dataclasses import dataclass, field
from statistics import median

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


@dataclass
class Series:
    """One variable of one case over the sessions."""

    at: list[int] = field(default_factory=list)  #: numbers of the sessions
    points: list[summary.Summary] = field(default_factory=list)
    samples: deque = field(default_factory=lambda: deque(maxlen=RECENT))  #: of the newest points


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
        self.series: dict[
            tuple[str, str, str, str, str], Series
        ] = {}  #: by check, partition, environ, variable, unit
        self.changed: dict[tuple, Changed] = {}
        self._facts: dict[tuple[str, str, str], dict] = {}

    def add(self, session) -> None:
        number = len(self.sessions)
        self.sessions.append((session.uuid, session.started))
        for case in session.cases:
            if case.facts:
                self._compare(number, case)
            if not case.measured:
                continue
            for value in case.values:
                key = value.check, value.place, value.environ, value.variable, value.unit
                series = self.series.setdefault(key, Series())
                series.at.append(number)
                series.points.append(summary.summarize(value.samples, value.value))
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

    def plot(self, changes) -> dict:
        """Data of the history plot: `slots`, each a session or a group, and `series` of points."""
        groups = group(
            len(self.sessions),
            sum(len(series.at) for series in self.series.values()),
            len(self.series),
        )
        slot_of = {number: slot for slot, group in enumerate(groups) for number in group}
        slots = [
            [self._name(group[0]), self._name(group[-1]) if len(group) > 1 else "", len(group)]
            for group in groups
        ]
        number_of = {uuid: number for number, (uuid, _) in enumerate(self.sessions)}
        return {
            "slots": slots,
            "series": [
                self._points(key, series, slot_of, groups) for key, series in self.series.items()
            ],
            "changes": [
                {
                    "key": [c.check, c.partition, c.environ, c.variable],
                    "slot": slot_of[number_of[c.session]],
                    "y": c.after,
                    "text": sentence(c),
                }
                for c in changes
                if c.session in number_of
            ],
        }

    def _name(self, number: int) -> str:
        uuid, started = self.sessions[number]
        return f"{summary.date(started)}, {uuid[:8]}"

    def _points(self, key, series: Series, slot_of: dict, groups: list) -> dict:
        gathered: dict[int, list[summary.Summary]] = {}
        samples = {}
        shown = dict(zip(series.at, series.samples)) if len(series.at) <= RECENT else {}
        for number, point in zip(series.at, series.points):
            slot = slot_of[number]
            gathered.setdefault(slot, []).append(point)
            if number in shown:
                samples[slot] = [summary.short(sample) for sample in shown[number]]
        points = {
            slot: values[0] if len(groups[slot]) == 1 else _grouped(values)
            for slot, values in gathered.items()
        }
        return {
            "key": key[:4],
            "unit": summary.unit(key[4]),
            "at": list(points),
            "y": [summary.short(p.value) for p in points.values()],
            "low": [summary.short(p.low) for p in points.values()],
            "high": [summary.short(p.high) for p in points.values()],
            "n": [p.repeats for p in points.values()],
            "samples": samples,
        }

    def rows(self, data: dict, changes) -> list[dict]:
        """The table: one row for each variable, with its newest and first value and a sparkline."""
        moved: dict[tuple, list] = {}
        for change in changes:
            moved.setdefault(
                (change.check, change.partition, change.environ, change.variable), []
            ).append(sentence(change))
        order = {key: index for index, key in enumerate(self.series)}
        # The partitions of a variable follow each other.
        first_of: dict[tuple, int] = {}
        for key, index in order.items():
            first_of.setdefault((key[0], key[2], key[3]), index)
        rows = []
        for key in sorted(order, key=lambda key: (first_of[key[0], key[2], key[3]], order[key]))[
            :MOST_ROWS
        ]:
            index, series = order[key], self.series[key]
            newest, first = series.points[-1], series.points[0]
            rows.append(
                {
                    "index": index,
                    "key": key,
                    "check": summary.plain(key[0]),
                    "partition": key[1],
                    "environ": key[2],
                    "variable": key[3],
                    "sessions": len(series.at),
                    "first": summary.amount(first.value, key[4]),
                    "newest": summary.amount(newest.value, key[4]),
                    "hover": summary.hover(newest, key[4]),
                    "since": summary.percent(newest.value / first.value - 1)
                    if first.value
                    else "-",
                    "session": self._name(series.at[-1]),
                    "moved": moved.get(key[:4], []),
                    "spark": spark(data["series"][index]["y"]),
                }
            )
        return rows

    def facts(self) -> tuple[list[dict], int]:
        """At most MOST_ROWS changed facts, newest first, and the number of all."""
        newest = sorted(self.changed.values(), key=lambda c: (-c.session, c.fact, c.before))
        return [
            {
                "session": self._name(c.session),
                "partitions": sorted(c.partitions),
                "fact": c.fact,
                "before": c.before,
                "after": c.after,
                "checks": sorted(c.checks),
            }
            for c in newest[:MOST_ROWS]
        ], len(newest)


def _grouped(values: list[summary.Summary]) -> summary.Summary:
    """Summary of several sessions: median, lowest and highest of their medians, and number."""
    medians = [value.value for value in values]
    return summary.Summary(median(medians), min(medians), max(medians), len(medians))


def group(sessions: int, points: int, series: int) -> list[range]:
    """Session numbers of each slot: one per slot if all fit, else groups of older sessions."""
    if points <= MOST_POINTS and sessions <= MOST_SLOTS:
        return [range(number, number + 1) for number in range(sessions)]
    slots = min(max(2, MOST_POINTS // series), MOST_SLOTS)
    recent = min(RECENT, slots // 2)
    older = sessions - recent
    size = max(1, -(-older // (slots - recent)))
    return [range(start, min(start + size, older)) for start in range(0, older, size)] + [
        range(number, number + 1) for number in range(older, sessions)
    ]


def sentence(change) -> str:
    """A sentence on a change point."""
    if change.creeps:
        return creeping(change)
    facts = "; ".join(
        f"{name}: {summary.text(then)} -> {summary.text(now)}"
        for name, (then, now) in (change.facts or {}).items()
    )
    return (
        f"{summary.percent(change.change)} at session {change.session[:8]}, "
        f"{summary.date(change.started)}: "
        f"{summary.number(change.before)} to {summary.amount(change.after, change.unit)}"
        + (f", p = {change.p:.2g}" if change.p is not None else "")
        + (f". Changed there: {facts}" if facts else "")
    )


def spark(values: list[float], width: int = 96, height: int = 20) -> str:
    """Points of a sparkline through the newest sixty values, on a scale of at least 10 %."""
    values = values[-60:]
    middle = (min(values) + max(values)) / 2
    span = max(max(values) - min(values), abs(middle) / 10) or 1
    step = width / max(len(values) - 1, 1)
    return " ".join(
        f"{index * step:.1f},{height / 2 - (value - middle) / span * (height - 4):.1f}"
        for index, value in enumerate(values)
    )


def has_facts(session) -> bool:
    return any(case.facts for case in session.cases)


def provenance(session, columns: list[str]) -> list[dict]:
    """Rows of facts, with one cell for each partition. Each value in a cell has its cases."""
    facts: dict[str, dict[str, dict[str, list[str]]]] = {}
    for case in session.cases if session else ():
        for name, value in case.facts.items():
            cell = facts.setdefault(name, {}).setdefault(case.place, {})
            cell.setdefault(summary.text(value) or "none", []).append(
                f"{summary.plain(case.check)} with {case.environ}"
            )
    rows = []
    for name in sorted(facts, key=lambda name: (name.startswith("nic."), name)):
        cells = [
            [
                {"value": value, "cases": cases}
                for value, cases in facts[name].get(column, {}).items()
            ]
            for column in columns
        ]
        rows.append(
            {
                "fact": name,
                "cells": cells,
                "differs": len({tuple(c["value"] for c in cell) for cell in cells}) > 1,
            }
        )
    return rows
