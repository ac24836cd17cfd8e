"""When did a variable's level move?  Change points over all stored sessions, and what else changed there.

One point a session is the median of its launches. Apache Otava (the method of Hunter: Fleming et al., ICPE 2023) proposes
where the level moved. It tests the very split that it chose for being the best, so that at p = .001 it flags
far more flat series than one in a thousand. A proposal stands here only where an exact rank test between
the levels on both sides says so at ERROR, shared by all series and the places in each, and the medians differ by more
than the judge's THRESHOLD. How often that errs is measured: bench_gate.py.
"""

import functools
import math
import statistics
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from otava.analysis import compute_change_points
from scipy import stats
from tabulate import tabulate

from nearmetal.compare import number, plain
from nearmetal.gate.session import changed_facts
from nearmetal.results import Session, Value
from nearmetal.stats.sequential import THRESHOLD

#: Chance that a history of unchanged variables has any change point.
ERROR = 0.05
#: Nominal p-value of Otava's t-test: of what it proposes.
PROPOSED = 0.001
#: Sessions of a variable that are searched, the last ones: years of nights. Each costs Otava some 30 us.
LONGEST = 2000
#: Points from which on the search is worth further processes.
MANY = 20_000


@dataclass(frozen=True)
class ChangePoint:
    check: str
    partition: str
    environ: str
    variable: str
    unit: str
    session: str  #: id of the first session on the new level
    started: str  #: of it, as ReFrame writes it
    before: float  #: median of the level before, in unit
    after: float  #: and from there on, to the next change point
    change: float  #: of these, as a fraction; > 0 is a higher value
    p: float  #: of the rank test, two-sided
    #: what else changed in that session: (then, now)
    facts: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class _Point:
    value: Value
    session: Session
    facts: dict[str, str]

    @property
    def median(self) -> float:
        return statistics.median(self.value.samples or (self.value.value,))


def change_points(sessions: Sequence[Session]) -> list[ChangePoint]:
    """Of every variable of these sessions of one system, in any order; in the order of the sessions where they lie."""
    found, held = [], {key: points[-LONGEST:] for key, points in series(sessions).items()}
    medians = [np.array([point.median for point in points]) for points in held.values()]
    errors = [ERROR / len(held) / len(points) for points in held.values()]
    for ((check, partition, environ, variable, unit), points), values, moved in zip(
        held.items(), medians, _levels_of_all(medians, errors)
    ):
        for start, middle, end, p in moved:
            before, after = (
                float(np.median(values[start:middle])),
                float(np.median(values[middle:end])),
            )
            was, now = points[middle - 1], points[middle]
            facts = changed_facts(was.facts, now.facts)
            found.append(
                ChangePoint(
                    check,
                    partition,
                    environ,
                    variable,
                    unit,
                    now.session.uuid,
                    now.session.started,
                    before,
                    after,
                    after / before - 1,
                    p,
                    facts,
                )
            )
    order = {session.uuid: session.order for session in sessions}
    return sorted(
        found,
        key=lambda point: (
            order[point.session],
            point.check,
            point.partition,
            point.environ,
            point.variable,
        ),
    )


def _levels_of_all(medians: list[np.ndarray], errors: list[float]) -> list[list]:
    """`levels` of each, by all processors where there is much to do."""
    if sum(map(len, medians)) < MANY:
        return list(map(levels, medians, errors))
    with ProcessPoolExecutor() as pool:
        return list(pool.map(levels, medians, errors, chunksize=max(1, len(medians) // 32)))


def series(sessions: Sequence[Session]) -> dict[tuple[str, str, str, str, str], list[_Point]]:
    """Points of each (check, place, environ, variable, unit), oldest first, of the sessions that measured it whole."""
    found: dict[tuple[str, str, str, str, str], list[_Point]] = {}
    for session in sorted(sessions, key=lambda session: session.order):
        for case in session.cases:
            for value in case.values if case.measured else ():
                if math.isfinite(value.value) and min(value.samples, default=value.value) > 0:
                    key = value.check, value.place, value.environ, value.variable, value.unit
                    found.setdefault(key, []).append(_Point(value, session, case.facts))
    return found


def levels(values: np.ndarray, error: float) -> list[tuple[int, int, int, float]]:
    """(start of the level before, first point of the next, its end, p) of each change point in values, (sessions,).

    Otava's proposals, without those that the rank test at that error or THRESHOLD don't bear out: the weakest goes first, and
    its neighbours, which have more points then, are tested anew.
    """
    places, p_value = proposed(values), functools.cache(functools.partial(_p, values))
    while places:
        ends = [0, *places, len(values)]
        tested = [(*three, p_value(*three)) for three in zip(ends, ends[1:], ends[2:])]
        weakest = max(
            range(len(places)), key=lambda at: (not _moved(values, *tested[at][:3]), tested[at][3])
        )
        if _moved(values, *tested[weakest][:3]) and tested[weakest][3] <= error:
            return tested
        del places[weakest]
    return []


def proposed(values: np.ndarray) -> list[int]:
    """Where Otava sees the level of values, (sessions,), move: the first points of new levels."""
    # Otava cuts its windows out of lists only: an array it would take whole for each.
    return sorted(
        point.index for point in compute_change_points(values.tolist(), max_pvalue=PROPOSED)[0]
    )


def least_sessions(held: int) -> int:
    """Sessions from which on the rank test of one of so many series can reach its error: with the change in their middle."""
    count = 2
    while 2 / math.comb(count, count // 2) > ERROR / held / count:
        count += 1
    return count


def _moved(values: np.ndarray, start: int, middle: int, end: int) -> bool:
    ratio = np.median(values[middle:end]) / np.median(values[start:middle])
    return abs(math.log(ratio)) > math.log1p(THRESHOLD)


def _p(values: np.ndarray, start: int, middle: int, end: int) -> float:
    before, after = values[start:middle], values[middle:end]
    few = min(len(before), len(after)) <= 8  # where the normal approximation is off
    return float(stats.mannwhitneyu(after, before, method="exact" if few else "asymptotic").pvalue)


def told(points: Sequence[ChangePoint]) -> list[str]:
    """A sentence on each change point."""
    return [
        f"history: {point.variable} of {point.check} on {point.partition} with {point.environ} moved by "
        f"{100 * point.change:+.1f} % in session {point.session[:8]} of {point.started}"
        + (f"; changed with it: {_facts(point)}" if point.facts else "")
        for point in points
    ]


def render(sessions: Sequence[Session], points: Sequence[ChangePoint]) -> str:
    """Change points as a table, with what else changed below each, and what has too few sessions to say."""
    held = series(sessions)
    if not held:
        return "no session holds a value: nothing to look for change points in"
    least = least_sessions(len(held))
    short = sum(len(found) < least for found in held.values())
    lines = [f"{len(sessions)} sessions, {len(held)} variables: {len(points)} change points"]
    if points:
        headers = [
            "from",
            "session",
            "check",
            "partition",
            "environment",
            "variable",
            "before",
            "after",
            "unit",
            "change",
            "p",
            "changed with it",
        ]
        lines += [
            "",
            tabulate(
                map(_row, points),
                headers,
                disable_numparse=True,
                colalign=["left"] * 6 + ["right"] * 2 + ["left"] + ["right"] * 2 + ["left"],
            ),
        ]
    if max(map(len, held.values())) > LONGEST:
        lines += ["", f"searched: the last {LONGEST} sessions of each variable"]
    if short:
        lines += [
            "",
            f"too few sessions to say: {short} of {len(held)} variables, which need {least}",
        ]
    return "\n".join(lines)


def _row(point: ChangePoint) -> list[str]:
    facts = _facts(point)
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
        facts or "nothing recorded",
    ]


def _facts(point: ChangePoint) -> str:
    return ", ".join(f"{name}: {then} -> {now}" for name, (then, now) in point.facts.items())
