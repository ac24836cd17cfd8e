"""Measures suspicious cases of a session again, by ReFrame in new jobs.

By then, a short disturbance of a node or switch is over. An inconclusive variable gets the repeats
that it lacks. A round is one run of ReFrame, which measures all open cases, each with its own
number of repeats.

A change is measured again on the nodes where it was seen: on others, a sick node would look well.
"""

from __future__ import annotations

import shlex
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearmetal import results
from nearmetal.compare.side_by_side import percent
from nearmetal.judge import native_ratio, rerun
from nearmetal.judge.session import Fresh
from nearmetal.judge.verdict import CHANGED, MEASURED_AGAIN, UNCHANGED, GateReport, Verdict, Where
from nearmetal.model.remeasure import Remeasure
from nearmetal.results import Case, Database, Session, confirmations
from nearmetal.stats.plan import CONFIRMATION_ANALYSES, LEAST_UNCHANGED
from nearmetal.util.suggest import shorten


@dataclass(frozen=True)
class Bounds:
    """What a confirmation may use."""

    most: int = 32  #: fresh repeats of a case
    rounds: int = 4  #: runs of ReFrame
    within: float | None = None  #: seconds; None: any


#: Why a case, or a variable of one, cannot be measured again.
Lost = dict["Where | tuple[Where, str]", str]


@dataclass
class _State:
    """What was measured again so far."""

    fresh: Fresh
    lost: Lost = field(default_factory=dict)
    nodes: dict[Where, set[str]] = field(default_factory=dict)  #: where they were measured again
    repeats: dict[Where, int] = field(default_factory=dict)  #: fresh ones

    def add(self, session: Session, case: Case) -> Mapping[str, list[float]]:
        """Add a case that was measured again; returns its samples by variable."""
        samples = {value.variable: list(value.samples) for value in case.values}
        samples |= native_ratio.fresh_ratios(session, case.where, samples)
        for name, values in samples.items():
            self.fresh.setdefault((*case.where, name), []).extend(values)
        self.nodes.setdefault(case.where, set()).update(rerun.nodes_of(case))
        count = max(map(len, samples.values()), default=0)
        self.repeats[case.where] = self.repeats.get(case.where, 0) + count
        return samples


@dataclass(frozen=True)
class Vanished:
    """Changes of a case that fresh repeats did not show."""

    where: Where
    variables: tuple[str, ...]  #: each with its change, in words
    nodes: tuple[str, ...]  #: on which they were seen
    again: tuple[str, ...]  #: on which the case was measured again
    repeats: int  #: fresh ones

    @property
    def said(self) -> str:
        """What vanished, in words."""
        first = ", ".join(self.nodes) or "unknown nodes"
        then = ", ".join(self.again) or "unknown nodes"
        same = sorted(self.nodes) == sorted(self.again)
        where = f"on the same nodes ({then})" if same else f"on {then} instead of {first}"
        return (
            f"{' | '.join(self.where)}: {shorten(list(self.variables))}; {self.repeats} fresh "
            f"repeats {where} do not show it"
        )


def measure_again(
    report: GateReport,
    judge: Callable[[Fresh], GateReport],
    fresh: Fresh,
    database: Path | Database,
    reframe: list[str],
    bounds: Bounds,
    say: Callable[[str], None],
    which: str = "suspicious",
    after_round: Callable[[GateReport], None] = lambda report: None,
) -> GateReport:
    """Measure suspicious cases until none is left, or a bound is reached; returns the report.

    :arg judge: function: fresh samples -> the report on the session.
    :arg fresh: fresh samples that the session has already (`fresh_samples`); new ones are added.
    :arg reframe: the command that starts ReFrame.
    :arg say: receives a line about each round.
    :arg which: a key of MEASURED_AGAIN.
    :arg after_round: receives the report after each round.
    :raises rerun.ConfirmError: the first round stored nothing.
    """
    database, session = Database.of(database), report.session
    state = _State(fresh)
    began, rounds, stopped = time.monotonic(), 0, ""
    seen: dict[tuple[Where, str], Verdict] = {}
    while wanted := suspicious(report, fresh, bounds, which, state.lost, rounds):
        if stopped := _stopped(bounds, rounds, time.monotonic() - began):
            break
        if not rounds:
            started = f"confirm: ReFrame is started by `{shlex.join(reframe)}`"
            say(f"{started} (--reframe sets another command)")
        seen |= {(one.where, one.variable): one for one in report.verdicts if one.name in CHANGED}
        rounds += 1
        say(
            f"confirm: round {rounds} of at most {bounds.rounds}: {_cases(len(wanted))}, "
            f"{sum(one.repeats for one in wanted.values())} fresh repeats"
        )
        left = bounds.within and bounds.within - (time.monotonic() - began)
        try:
            found = rerun.measure(session, wanted, database, reframe, left)
        except rerun.ConfirmError as error:
            if rounds == 1:
                raise
            found = dict.fromkeys(wanted, str(error))
        _take(found, session, wanted, report, state, which)
        report = _with_lost(judge(fresh), state.lost, which, fresh)
        after_round(report)
    gone = [f"vanished: {one.said}" for one in _vanished(report, seen, state)]
    notes = [*gone, *_left(report, fresh, bounds, which, state, stopped)]
    return replace(report, notes=(*report.notes, *notes), confirmed=True)


def _stopped(bounds: Bounds, rounds: int, seconds: float) -> str:
    """The bound that is reached, in words; '' if none is."""
    if rounds >= bounds.rounds:
        return f"after {rounds} rounds (--rounds)"
    if bounds.within is not None and seconds >= bounds.within:
        return f"after {seconds / 60:.0f} minutes (--within)"
    return ""


def _cases(count: int) -> str:
    return "1 case" if count == 1 else f"{count} cases"


def _take(
    found: Mapping[Where, Case | str],
    session: Session,
    wanted: Mapping[Where, Remeasure],
    report: GateReport,
    state: _State,
    which: str,
) -> None:
    """Add what a round measured to the state."""
    open_variables: dict[Where, set[str]] = {}
    for one in report.verdicts:
        if one.name in MEASURED_AGAIN[which]:
            open_variables.setdefault(one.where, set()).add(one.variable)
    for where in wanted:
        case = found.get(where, "ReFrame stored no result of it")
        if isinstance(case, str):
            state.lost[where] = f"could not be measured again: {case}"
            continue
        samples = state.add(session, case)
        for name in open_variables.get(where, set()) - samples.keys():
            state.lost[where, name] = f"measured again, but without a value of {name}"


def _with_lost(report: GateReport, lost: Lost, which: str, fresh: Fresh) -> GateReport:
    """The report; open variables that cannot be measured again are incomplete.

    A change that fresh samples have shown stays one.
    """
    verdicts = []
    for one in report.verdicts:
        reason = _why_lost(one, lost)
        is_confirmed = one.name in CHANGED and fresh.get((*one.where, one.variable))
        if reason and one.name in MEASURED_AGAIN[which] and not is_confirmed:
            one = replace(one, name="incomplete", wanted=None, reason=reason)
        verdicts.append(one)
    return replace(report, verdicts=tuple(verdicts))


def _why_lost(one: Verdict, lost: Lost) -> str:
    """Why a variable cannot be measured again; '' if it can."""
    return lost.get((one.where, one.variable)) or lost.get(one.where, "")


def vanished(
    session: Session, again: Iterable[Session], judge: Callable[[Fresh], GateReport]
) -> list[Vanished]:
    """Changes of a stored session that its stored confirmations did not show.

    :arg again: its confirmations.
    :arg judge: function: fresh samples -> the report on the session.
    """
    state = _state(session, again)
    seen = {
        (one.where, one.variable): one
        for one in judge({}).verdicts
        if one.name in CHANGED and one.where in state.repeats
    }
    return _vanished(judge(state.fresh), seen, state) if seen else []


def _vanished(
    report: GateReport, seen: Mapping[tuple[Where, str], Verdict], state: _State
) -> list[Vanished]:
    """Changes of the session that fresh repeats did not show, with their nodes."""
    cases = {case.where: case for case in report.session.cases}
    grouped: dict[Where, list[str]] = {}
    for one in report.verdicts:
        before = seen.get((one.where, one.variable))
        if before is None or not _is_gone(one, before) or _why_lost(one, state.lost):
            continue
        change = percent(before.change) if before.change is not None else before.name
        grouped.setdefault(one.where, []).append(f"{one.variable} {change}")
    return [
        Vanished(
            where,
            tuple(variables),
            rerun.nodes_of(cases[where]),
            tuple(sorted(state.nodes.get(where, ()))),
            state.repeats.get(where, 0),
        )
        for where, variables in grouped.items()
    ]


def _is_gone(one: Verdict, before: Verdict) -> bool:
    """Whether fresh repeats do not show the change. A few of them may leave it undecided."""
    if one.name == "watched" and one.change is not None and before.change is not None:
        return abs(one.change) < abs(before.change) / 2
    return one.name in UNCHANGED


def _left(
    report: GateReport, fresh: Fresh, bounds: Bounds, which: str, state: _State, stopped: str
) -> Iterable[str]:
    """What the confirmation left open, and why."""
    if stopped:
        wanted = suspicious(report, fresh, bounds, which, state.lost)
        names = [" | ".join(where) for where in wanted]
        yield f"the confirmation ended {stopped}; still open: {shorten(names)}"
    over = [
        f"{' | '.join(one.where)} | {one.variable}"
        for one in report.verdicts
        if one.name == "inconclusive" and one.wanted and not _repeats(one, fresh, bounds)
    ]
    if over:
        yield (
            f"undecided after --most {bounds.most} fresh repeats: {shorten(over)}. These are too "
            "noisy: a quieter system, or more time for each repeat, makes the noise less"
        )


def fresh_samples(session: Session, database: Path | Database) -> Fresh:
    """The stored samples of the session's confirmations. Raises ResultsError."""
    return _state(session, confirmations(database, session)).fresh


def with_confirmations(found: list[Session], database: Path | Database) -> list[Session]:
    """The sessions as later ones see them, by their confirmations in the database."""
    again: dict[str, list[Session]] = {}
    for one in results.sessions(database, kinds=("confirmation",)):
        again.setdefault(one.confirms, []).append(one)
    return [with_fresh(one, again.get(one.uuid, [])) for one in found]


def with_fresh(session: Session, again: list[Session]) -> Session:
    """The session as later ones see it: what was measured again has its fresh samples alone.

    The others were selected for a large change, which may have been over soon.

    :arg again: the sessions that measured some of its cases again.
    """
    if not again:
        return session
    fresh = _state(session, again).fresh
    cases = []
    for case in session.cases:
        values = []
        for one in case.values:
            samples = fresh.get((*case.where, one.variable))
            if samples:
                value = statistics.median(samples)
                one = replace(one, samples=tuple(samples), value=value, within=())
            values.append(one)
        cases.append(replace(case, values=tuple(values)))
    return replace(session, cases=tuple(cases))


def _state(session: Session, again: Iterable[Session]) -> _State:
    """What the stored confirmations of a session measured."""
    state = _State({})
    for later in again:
        for case in later.cases:
            if case.counts:
                state.add(session, case)
    return state


def suspicious(
    report: GateReport,
    fresh: Fresh,
    bounds: Bounds,
    which: str = "suspicious",
    lost: Lost | None = None,
    rounds: int = 0,
) -> dict[Where, Remeasure]:
    """Cases to measure next, with as many repeats as any of their variables needs.

    A change must show again in fresh samples alone, and on the same nodes.

    :arg lost: what cannot be measured again.
    :arg rounds: number of rounds before; the last one uses all repeats that are left.
    """
    nodes = {case.where: rerun.nodes_of(case) for case in report.session.cases}
    wanted: dict[Where, Remeasure] = {}
    for one in report.verdicts:
        taken = len(fresh.get((*one.where, one.variable), ()))
        if _why_lost(one, lost or {}) or not _is_suspicious(one, taken, which):
            continue
        repeats = _repeats(one, fresh, bounds, rounds + 1 >= bounds.rounds)
        if not repeats:
            continue
        before = wanted.get(one.where, Remeasure(0))
        same = nodes.get(one.where, ()) if one.fresh or taken or before.nodes else ()
        if one.node:
            same = ()  # `--distribute` pins it
        wanted[one.where] = Remeasure(max(repeats, before.repeats), same or before.nodes)
    return wanted


def _repeats(one: Verdict, fresh: Fresh, bounds: Bounds, is_last: bool = False) -> int:
    """Fresh repeats that a variable needs next; 0 if too few are left for an analysis."""
    left = bounds.most - len(fresh.get((*one.where, one.variable), ()))
    if one.name in CHANGED:
        least = CONFIRMATION_ANALYSES[0]
        return min(one.fresh or LEAST_UNCHANGED, left) if left >= least else 0
    if one.wanted is None:
        return 0
    reachable = [count for count in one.later if one.repeats < count <= one.repeats + left]
    if not reachable:
        return 0
    # A number of repeats without an analysis decides nothing.
    target = reachable[-1] if is_last else min(one.wanted, reachable[-1])
    return target - one.repeats


def _is_suspicious(one: Verdict, taken: int, which: str) -> bool:
    """Whether the variable needs fresh samples, after those taken."""
    if one.name in CHANGED and taken:
        return False  # confirmed
    # A change that fresh samples left undecided is measured again, whatever `which` is.
    return one.name in MEASURED_AGAIN[which] or (one.name == "inconclusive" and taken > 0)
