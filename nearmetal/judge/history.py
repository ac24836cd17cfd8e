"""When did a variable's level move? Change points over all stored sessions, and what changed there.

A point is the median of a session's samples. Apache Otava (the method of Hunter: Fleming et al.,
ICPE 2023) proposes change points. It tests the same split that it chose as the best one, so that
at p = .001 it flags far more than one flat series in a thousand. A proposal counts here only if
two conditions hold: an exact rank test between the levels on both sides is significant at ERROR,
which all series, places and looks share; and the medians differ by more than THRESHOLD. The test
allows for sessions that resemble each other. A change in small steps is reported as a creep
(stats/trend.py). `make bench-gate` measures the error rates.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from otava.analysis import compute_change_points
from scipy import stats
from tabulate import tabulate

from nearmetal.model.facts import changed_facts
from nearmetal.model.naming import plain
from nearmetal.results import Session, Value
from nearmetal.stats import ranks, trend
from nearmetal.stats.plan import THRESHOLD
from nearmetal.util.suggest import shorten
from nearmetal.util.text import number

#: Chance that a history of unchanged variables ever has any change point, and any creep.
ERROR, CREEP_ERROR = 0.05, 0.05
#: Times that the number of sessions doubles in a year of nights: an equal part of the errors is for
#: the looks of each.
LOOKS = 6
#: Sessions of a level up to which the rank test is exact.
FEW = 20
#: Seconds of a week.
WEEK = 7 * 86400
#: Nominal p-value of Otava's t-test for its proposals.
PROPOSED = 0.001
#: Newest sessions of a variable that are searched: years of nights. Each takes Otava some 30 us.
LONGEST = 2000
#: Points beyond which the search uses several processes.
MANY = 20_000


HEADERS = (
    *("from", "session", "check", "partition", "environment", "variable"),
    *("before", "after", "unit", "change", "p", "changed with it"),
)


@dataclass(frozen=True)
class ChangePoint:
    check: str
    partition: str
    environ: str
    variable: str
    unit: str
    #: id of the first session on the new level
    session: str
    #: of it, as ReFrame writes it
    started: str
    #: median of the level before, in unit
    before: float
    #: and from there on, to the next change point
    after: float
    #: of these, as a fraction; > 0 is a higher value
    change: float
    #: of the rank test, two-sided
    p: float
    #: what else changed in that session: (then, now)
    facts: dict[str, tuple[str, str]] = field(default_factory=dict)
    #: number of sessions over which it crept, from `session` on; 0: a step
    sessions: int = 0
    #: change of a creep in a week, if it lasts at least that long
    per_week: float | None = None

    @property
    def creeps(self) -> bool:
        """Whether it changed in small steps, rather than in one."""
        return self.sessions > 0


@dataclass(frozen=True)
class _Point:
    value: Value
    session: Session
    facts: dict[str, str]


def _median(point: _Point) -> float:
    return statistics.median(point.value.samples or (point.value.value,))


def change_points(sessions: Sequence[Session]) -> list[ChangePoint]:
    """Change points of every variable, in the order of the sessions.

    :arg sessions: of one system, in any order.
    """
    keys, recent, medians = [], [], []
    for key, points in series(sessions).items():
        keys.append(key)
        recent.append(points[-LONGEST:])
        medians.append(np.array(list(map(_median, recent[-1]))))
    changes = []
    for key, points, values, (moved, creep) in zip(keys, recent, medians, _moves_of_all(medians)):
        for move in moved:
            changes.append(_change_point(key, points, values, *move))
        if creep:
            changes.append(_creep(key, points, values, creep))
    order = {session.uuid: session.order for session in sessions}

    def place(point: ChangePoint) -> tuple:
        where = point.check, point.partition, point.environ, point.variable
        return order[point.session], *where

    return sorted(changes, key=place)


def _change_point(
    key: tuple[str, str, str, str, str],
    points: list[_Point],
    values: np.ndarray,
    start: int,
    middle: int,
    end: int,
    p: float,
) -> ChangePoint:
    """The change point between values[start:middle] and values[middle:end]."""
    before = float(np.median(values[start:middle]))
    after = float(np.median(values[middle:end]))
    was, now = points[middle - 1], points[middle]
    return ChangePoint(
        *key,
        now.session.uuid,
        now.session.started,
        before,
        after,
        after / before - 1,
        p,
        changed_facts(was.facts, now.facts),
    )


def _creep(
    key: tuple[str, str, str, str, str],
    points: list[_Point],
    values: np.ndarray,
    creep: trend.Creep,
) -> ChangePoint:
    first, last = points[creep.start], points[-1]
    count = len(points) - creep.start
    change = creep.over(count)
    after = float(np.median(values[-max(1, count // 4) :]))
    seconds = last.session.time - first.session.time
    per_week = None
    if seconds >= WEEK:
        per_week = math.expm1(creep.slope * (count - 1) * WEEK / seconds)
    return ChangePoint(
        *key,
        first.session.uuid,
        first.session.started,
        after / (1 + change),
        after,
        change,
        creep.p,
        sessions=count,
        per_week=per_week,
    )


def _moves_of_all(medians: list[np.ndarray]) -> list[tuple[list, trend.Creep | None]]:
    """`moves` of each series, in several processes if there are many points."""
    shared = trend.common_memory(list(map(np.log, medians)))
    search = functools.partial(moves, count=len(medians), shared=shared)
    if sum(map(len, medians)) < MANY:
        return list(map(search, medians))
    with ProcessPoolExecutor() as pool:
        return list(pool.map(search, medians, chunksize=max(1, len(medians) // 32)))


def moves(
    values: np.ndarray, count: int = 1, shared: float = 1.0
) -> tuple[list, trend.Creep | None]:
    """`levels` of a series, and its creep; a creep is not a change of levels too.

    :arg values: (sessions,).
    :arg count: number of series that share the errors.
    :arg shared: autocorrelation time that most series have.
    """
    creep = trend.creep(values, CREEP_ERROR / count / LOOKS, shared)
    moved = levels(values, error_of_a_place(count, len(values)), shared)
    if creep is not None:
        moved = [level for level in moved if level[1] <= creep.start]
    return moved, creep


def series(sessions: Sequence[Session]) -> dict[tuple[str, str, str, str, str], list[_Point]]:
    """Points by (check, place, environ, variable, unit), oldest first, of whole cases alone.

    What disturbed a case moves its values. It is no change of the system.
    """
    points: dict[tuple[str, str, str, str, str], list[_Point]] = {}
    for session in sorted(sessions, key=lambda session: session.order):
        for case in session.cases:
            if not case.measured or case.disturbed:
                continue
            for value in filter(_is_positive, case.values):
                key = value.check, value.place, value.environ, value.variable, value.unit
                points.setdefault(key, []).append(_Point(value, session, case.facts))
    return points


def _is_positive(value: Value) -> bool:
    return math.isfinite(value.value) and min(value.samples, default=value.value) > 0


def levels(
    values: np.ndarray, error: float, shared: float = 1.0
) -> list[tuple[int, int, int, float]]:
    """(start of the level before, first point of the next, its end, p) of each change point.

    These are Otava's proposals without those that THRESHOLD or the rank test at `error` reject. The
    weakest is removed first; its neighbours then have more points and are tested again.

    :arg values: (sessions,).
    """
    if least_p(len(values)) > error:
        return []
    places, p_value = proposed(values), functools.cache(functools.partial(_p, values))
    while places:
        ends = [0, *places, len(values)]
        time = max(shared, trend.memory(_residuals(values, ends)))
        tested, weakness = [], []
        for start, middle, end in zip(ends, ends[1:], ends[2:]):
            p = trend.allowing_for(p_value(start, middle, end), time, len(values))
            tested.append((start, middle, end, p))
            weakness.append((not _moved(values, start, middle, end), p))
        weakest = max(range(len(places)), key=weakness.__getitem__)
        too_small, p = weakness[weakest]
        if not too_small and p <= error:
            return tested
        del places[weakest]
    return []


def proposed(values: np.ndarray) -> list[int]:
    """Otava's change points in values, (sessions,): the first points of new levels."""
    # As a list: Otava does not cut its windows out of an array.
    return sorted(
        point.index for point in compute_change_points(values.tolist(), max_pvalue=PROPOSED)[0]
    )


def error_of_a_place(held: int, sessions: int) -> float:
    """Error rate of one place of one of so many series, at one of many looks: an equal part."""
    return ERROR / LOOKS / held / sessions


def least_sessions(held: int) -> int:
    """Fewest sessions in which the rank test can be significant, for this number of series."""
    count = 2
    while least_p(count) > error_of_a_place(held, count):
        count += 1
    return count


def least_p(sessions: int) -> float:
    """The least p that the exact rank test can give in so many sessions."""
    return 2 / math.comb(sessions, sessions // 2)


def _moved(values: np.ndarray, start: int, middle: int, end: int) -> bool:
    ratio = np.median(values[middle:end]) / np.median(values[start:middle])
    return abs(math.log(ratio)) > math.log1p(THRESHOLD)


def _p(values: np.ndarray, start: int, middle: int, end: int) -> float:
    before, after = values[start:middle], values[middle:end]
    # The normal approximation is inexact for few sessions, and the exact test slow for many.
    if min(len(before), len(after)) > FEW:
        return float(stats.mannwhitneyu(after, before, method="asymptotic").pvalue)
    _, one_sided = ranks.two_samples(before[None], after[None])
    return min(1.0, 2 * float(one_sided[0]))


def _residuals(values: np.ndarray, ends: Sequence[int]) -> np.ndarray:
    """Logarithms beside the medians of their levels, which begin and end at these places."""
    parts = []
    for start, end in itertools.pairwise(ends):
        logs = np.log(values[start:end])
        parts.append(logs - np.median(logs))
    return np.concatenate(parts)


def sentences(points: Sequence[ChangePoint]) -> list[str]:
    """A sentence on each change point."""
    return list(map(_sentence, points))


def creeping(point: ChangePoint) -> str:
    """`creeps by +0.5 % a week: +3.1 % over 42 sessions since ...`."""
    rate = ""
    if point.per_week is not None:
        rate = f" by {100 * point.per_week:+.2g} % a week"
    return (
        f"creeps{rate}: {100 * point.change:+.1f} % over {point.sessions} sessions since session "
        f"{point.session[:8]} of {point.started}"
    )


def _sentence(point: ChangePoint) -> str:
    what = f"{point.variable} of {point.check} on {point.partition} with {point.environ}"
    if point.creeps:
        return f"history: {what} {creeping(point)}"
    text = (
        f"history: {what} moved by {100 * point.change:+.1f} % in session {point.session[:8]} of "
        f"{point.started}"
    )
    if point.facts:
        text += f"; changed with it: {_facts(point)}"
    return text


def render(sessions: Sequence[Session], points: Sequence[ChangePoint]) -> str:
    """Change points as a table, with facts that changed, and variables with too few sessions."""
    held = series(sessions)
    if not held:
        return "no session holds a value, so there are no change points"
    least = least_sessions(len(held))
    short = sum(len(series_points) < least for series_points in held.values())
    plural = "s" * (len(sessions) != 1)
    lines = [f"{len(sessions)} session{plural}, {len(held)} variables: {_counts(points)}"]
    lines += _disturbed(sessions)
    if points:
        alignment = ["left"] * 6 + ["right"] * 2 + ["left"] + ["right"] * 2 + ["left"]
        rows = map(_row, points)
        lines += ["", tabulate(rows, HEADERS, disable_numparse=True, colalign=alignment)]
    if max(map(len, held.values())) > LONGEST:
        lines += ["", f"searched: the last {LONGEST} sessions of each variable"]
    if short:
        lines += ["", f"too few sessions: {short} of {len(held)} variables need {least}"]
    return "\n".join(lines)


def _disturbed(sessions: Sequence[Session]) -> list[str]:
    """A line on the sessions with cases that are no points, since something disturbed them."""
    starts = []
    for session in sessions:
        if any(case.disturbed for case in session.cases):
            starts.append(session.started)
    if not starts:
        return []
    return [f"left out: the disturbed cases of sessions {shorten(starts)}"]


def _counts(points: Sequence[ChangePoint]) -> str:
    creeps = sum(point.creeps for point in points)
    text = f"{len(points) - creeps} change points"
    if creeps:
        text += f", {creeps} creep{'s' * (creeps != 1)}"
    return text


def _row(point: ChangePoint) -> list[str]:
    beside = _facts(point) or "nothing recorded"
    if point.creeps:
        beside = creeping(point)
    return [
        point.started,
        point.session[:8],
        plain(point.check),
        point.partition,
        point.environ,
        point.variable,
        number(point.before),
        number(point.after),
        point.unit,
        f"{100 * point.change:+.1f} %",
        f"{point.p:.1g}",
        beside,
    ]


def _facts(point: ChangePoint) -> str:
    return ", ".join(f"{name}: {then} -> {now}" for name, (then, now) in point.facts.items())
