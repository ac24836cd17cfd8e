"""Every variable over the sessions, which are taken as they stream by, and where the facts it was measured on changed."""

from collections import deque
from dataclasses import dataclass, field
from statistics import median

from nearmetal.gate.session import changed_facts
from nearmetal.report import summary

#: Points that a page holds at most; beyond, older sessions are put together in groups of equal size.
MOST_POINTS = 20_000
#: Points of a line at most: more than a screen tells apart.
MOST_SLOTS = 300
#: Newest sessions that stay single (fewer where there are many variables); up to so many have their launches shown.
RECENT = 60
#: Rows of a table at most.
MOST_ROWS = 400


@dataclass
class Series:
    """One variable of one case over the sessions."""

    at: list[int] = field(default_factory=list)  #: numbers of the sessions
    points: list[summary.Summary] = field(default_factory=list)
    launches: deque = field(default_factory=lambda: deque(maxlen=RECENT))  #: of the newest points


@dataclass
class Changed:
    """A fact that was another in this session than when the case was last measured."""

    session: int
    fact: str
    before: str
    after: str
    partitions: set[str] = field(default_factory=set)
    checks: set[str] = field(default_factory=set)


class Collector:
    """What the pages say of all sessions; keeps the figures and none of the sessions."""

    def __init__(self):
        self.sessions: list[tuple[str, str]] = []  #: id and start of each, oldest first
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
                if (series := self.series.get(key)) is None:
                    series = self.series[key] = Series()
                series.at.append(number)
                series.points.append(summary.summarize(value.samples, value.value))
                series.launches.append(value.samples)

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
        """Data of the history plot: `slots` (a session or a group of them each) and `series` of points in them."""
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
                    "text": told(c),
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
        launches = {}
        shown = dict(zip(series.at, series.launches)) if len(series.at) <= RECENT else {}
        for number, point in zip(series.at, series.points):
            slot = slot_of[number]
            gathered.setdefault(slot, []).append(point)
            if number in shown:
                launches[slot] = [summary.short(sample) for sample in shown[number]]
        # A group's interval goes from its lowest to its highest session's median; n is then its sessions.
        points = {
            slot: values[0]
            if len(groups[slot]) == 1
            else summary.Summary(
                median(p.value for p in values),
                min(p.value for p in values),
                max(p.value for p in values),
                len(values),
            )
            for slot, values in gathered.items()
        }
        return {
            "key": key[:4],
            "unit": summary.unit(key[4]),
            "at": list(points),
            "y": [summary.short(p.value) for p in points.values()],
            "low": [summary.short(p.low) for p in points.values()],
            "high": [summary.short(p.high) for p in points.values()],
            "n": [p.launches for p in points.values()],
            "launches": launches,
        }

    def rows(self, data: dict, changes) -> list[dict]:
        """The table: a row a variable, with its newest figure, its first and a line for the eye."""
        moved: dict[tuple, list] = {}
        for change in changes:
            moved.setdefault(
                (change.check, change.partition, change.environ, change.variable), []
            ).append(told(change))
        order = {key: index for index, key in enumerate(self.series)}
        # A variable's partitions one below the other.
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
        """Changed facts, newest first, at most MOST_ROWS of them, and how many there are."""
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


def group(sessions: int, points: int, series: int) -> list[range]:
    """Session numbers by slot: one each where all fit in the page, else groups, and the newest still one each."""
    if points <= MOST_POINTS and sessions <= MOST_SLOTS:
        return [range(number, number + 1) for number in range(sessions)]
    slots = min(max(2, MOST_POINTS // series), MOST_SLOTS)
    recent = min(RECENT, slots // 2)
    older = sessions - recent
    size = max(1, -(-older // (slots - recent)))
    return [range(start, min(start + size, older)) for start in range(0, older, size)] + [
        range(number, number + 1) for number in range(older, sessions)
    ]


def told(change) -> str:
    """A change point in words."""
    facts = "; ".join(
        f"{name}: {summary.text(then)} -> {summary.text(now)}"
        for name, (then, now) in (change.facts or {}).items()
    )
    return (
        f"{summary.percent(change.change)} at session {change.session[:8]}, {summary.date(change.started)}: "
        f"{summary.number(change.before)} to {summary.amount(change.after, change.unit)}"
        + (f", p = {change.p:.2g}" if change.p is not None else "")
        + (f". Changed there: {facts}" if facts else "")
    )


def spark(values: list[float], width: int = 96, height: int = 20) -> str:
    """Points of a small polyline through the newest sixty values, at least a tenth of them high, lest noise towers."""
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
    """Rows of facts, a cell a partition; a fact that differs by case names each of its values with the cases'."""
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
