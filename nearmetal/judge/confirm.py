"""Decides what of a session is measured again, and measures it by ReFrame in new jobs.

By then, a short disturbance of a node or switch is over. An inconclusive variable gets the repeats
that it lacks. A round is one run of ReFrame, which measures all open cases, each with its own
number of repeats.

A change is measured again on the nodes where it was seen: on others, a sick node would look well.
What stays regressed is also measured on other nodes, where there are enough: is a node or the
system the cause?
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from nearmetal.judge import rerun
from nearmetal.judge.by_baseline import Fresh
from nearmetal.judge.fresh import (
    REPEATS,
    Lost,
    Remeasured,
    measured_on_other_nodes,
    vanished,
)
from nearmetal.judge.verdict import CHANGED, MEASURED_AGAIN, GateReport, Verdict, Where
from nearmetal.model.facts import nodes_in
from nearmetal.model.remeasure import Remeasure
from nearmetal.results import Case, Database
from nearmetal.stats.plan import CONFIRMATION_ANALYSES, LEAST_UNCHANGED
from nearmetal.util.suggest import shorten


@dataclass(frozen=True)
class Bounds:
    """What a confirmation may use."""

    #: fresh repeats of a case
    most: int = 32
    #: runs of ReFrame
    rounds: int = 4
    #: seconds; None: any
    within: float | None = None


class Clock:
    """The seconds of a command with `--within`."""

    def __init__(self, within: float | None):
        self.within, self.began = within, time.monotonic()

    @property
    def spent(self) -> float:
        return time.monotonic() - self.began

    @property
    def left(self) -> float | None:
        """None: any number."""
        return None if self.within is None else self.within - self.spent


def measure_again(
    judge: Callable[[Fresh], GateReport],
    fresh: Fresh,
    database: Database,
    reframe: list[str],
    bounds: Bounds,
    say: Callable[[str], None],
    which: str = "suspicious",
    after_round: Callable[[GateReport], None] = lambda report: None,
) -> GateReport:
    """Measure suspicious cases until none is left, or a bound is reached; returns the report.

    :arg judge: function: fresh samples -> the report on the session.
    :arg fresh: fresh samples that the session has already; new ones are added.
    :arg reframe: the command that starts ReFrame.
    :arg say: receives a line about each round.
    :arg which: a key of MEASURED_AGAIN.
    :arg after_round: receives the report after each round.
    :raises rerun.ConfirmError: the first round stored nothing.
    """
    report, state, clock = judge(fresh), Remeasured(fresh), Clock(bounds.within)
    session, rounds, stopped = report.session, 0, ""
    seen: dict[tuple[Where, str], Verdict] = {}
    while wanted := suspicious(report, fresh, bounds, which, state.lost, rounds):
        if stopped := _stopped(bounds, rounds, clock):
            break
        if not rounds:
            started = f"confirm: ReFrame is started by `{shlex.join(reframe)}`"
            say(f"{started} (--reframe sets another command)")
        # The latest verdict before fresh repeats is what these may refute.
        seen |= {(one.where, one.variable): one for one in report.verdicts if one.name in CHANGED}
        rounds += 1
        cases = "1 case" if len(wanted) == 1 else f"{len(wanted)} cases"
        say(
            f"confirm: round {rounds} of at most {bounds.rounds}: {cases}, "
            f"{sum(one.repeats for one in wanted.values())} fresh repeats"
        )
        try:
            found = rerun.measure(session, wanted, database, reframe, clock.left)
        except rerun.ConfirmError as error:
            # What earlier rounds measured still counts.
            if rounds == 1:
                raise
            found = dict.fromkeys(wanted, str(error))
        _take(found, wanted, report, state, which)
        report = _with_lost(judge(fresh), state, which)
        after_round(report)
    gone = [f"vanished: {one}" for one in vanished(report, seen.values(), state)]
    left = _left(report, bounds, which, state, stopped)
    return replace(report, confirmed=True).noting(*gone, *left)


def _stopped(bounds: Bounds, rounds: int, clock: Clock) -> str:
    """The bound that is reached, in words; '' if none is."""
    if rounds >= bounds.rounds:
        return f"after {rounds} rounds (--rounds)"
    if bounds.within is not None and clock.spent >= bounds.within:
        return f"after {clock.spent / 60:.0f} minutes (--within)"
    return ""


def _take(
    found: Mapping[Where, Case | str],
    wanted: Iterable[Where],
    report: GateReport,
    state: Remeasured,
    which: str,
) -> None:
    """Add what a round measured to the state."""
    open_variables: dict[Where, set[str]] = {}
    for verdict in report.verdicts:
        if verdict.name in MEASURED_AGAIN[which]:
            open_variables.setdefault(verdict.where, set()).add(verdict.variable)
    for where in wanted:
        case = found.get(where, "ReFrame stored no result of it")
        if isinstance(case, str):
            state.lost[where] = f"could not be measured again: {case}"
            continue
        samples = state.add(report.session, case)
        for name in open_variables.get(where, set()) - samples.keys():
            state.lost[where, name] = f"measured again, but without a value of {name}"


def _with_lost(report: GateReport, state: Remeasured, which: str) -> GateReport:
    """The report; open variables that cannot be measured again are incomplete.

    A change that fresh samples have shown stays one.
    """
    verdicts = []
    for verdict in report.verdicts:
        reason = state.why_lost(verdict)
        is_confirmed = verdict.name in CHANGED and state.samples.get(
            (*verdict.where, verdict.variable)
        )
        if reason and verdict.name in MEASURED_AGAIN[which] and not is_confirmed:
            verdict = replace(verdict, name="incomplete", wanted=None, reason=reason)
        verdicts.append(verdict)
    return replace(report, verdicts=tuple(verdicts))


def _left(
    report: GateReport, bounds: Bounds, which: str, state: Remeasured, stopped: str
) -> Iterable[str]:
    """What the confirmation left open, and why."""
    if stopped:
        wanted = suspicious(report, state.samples, bounds, which, state.lost)
        names = [" | ".join(where) for where in wanted]
        yield f"the confirmation ended {stopped}; still open: {shorten(names)}"
    over = []
    for verdict in report.verdicts:
        undecided = verdict.name == "inconclusive" and verdict.wanted
        if undecided and not _repeats(verdict, state.samples, bounds):
            over.append(f"{' | '.join(verdict.where)} | {verdict.variable}")
    if over:
        yield (
            f"undecided after --most {bounds.most} fresh repeats: {shorten(over)}. These are too "
            "noisy: a quieter system, or more time for each repeat, makes the noise less"
        )


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
    cases = report.session.by_where
    state = Remeasured(fresh, lost=lost or {})
    is_last = rounds + 1 >= bounds.rounds
    wanted: dict[Where, Remeasure] = {}
    for verdict in report.verdicts:
        taken = len(fresh.get((*verdict.where, verdict.variable), ()))
        if state.why_lost(verdict) or not _is_suspicious(verdict, taken, which):
            continue
        repeats = _repeats(verdict, fresh, bounds, is_last)
        # Repeats that no analysis follows are wasted.
        if not repeats:
            continue
        before = wanted.get(verdict.where, Remeasure(0))
        same = before.nodes
        if verdict.node:
            # `--distribute` pins it.
            same = ()
        elif verdict.fresh or taken:
            case = cases.get(verdict.where)
            same = nodes_in(case.facts) if case else ()
            same = same or before.nodes
        wanted[verdict.where] = Remeasure(max(repeats, before.repeats), same)
    return wanted


def _repeats(verdict: Verdict, fresh: Fresh, bounds: Bounds, is_last: bool = False) -> int:
    """Fresh repeats that a variable needs next; 0 if too few are left for an analysis."""
    left = bounds.most - len(fresh.get((*verdict.where, verdict.variable), ()))
    if verdict.name in CHANGED:
        least = CONFIRMATION_ANALYSES[0]
        return min(verdict.fresh or LEAST_UNCHANGED, left) if left >= least else 0
    if verdict.wanted is None:
        return 0
    reachable = [
        count for count in verdict.later if verdict.repeats < count <= verdict.repeats + left
    ]
    if not reachable:
        return 0
    # A number of repeats without an analysis decides nothing.
    target = reachable[-1] if is_last else min(verdict.wanted, reachable[-1])
    return target - verdict.repeats


def _is_suspicious(verdict: Verdict, taken: int, which: str) -> bool:
    """Whether the variable needs fresh samples, after those taken."""
    if verdict.name in CHANGED and taken:
        # It is confirmed.
        return False
    # A change that fresh samples left undecided is measured again, whatever `which` is.
    return verdict.name in MEASURED_AGAIN[which] or (verdict.name == "inconclusive" and taken > 0)


def measure_on_other_nodes(
    report: GateReport,
    database: Database,
    reframe: list[str],
    nodes: Mapping[str, int],
    say: Callable[[str], None],
    seconds: float | None = None,
) -> None:
    """Measure regressed cases on nodes that their session did not use, where there are enough.

    :arg nodes: number of nodes by partition, of those that are known.
    :arg seconds: that are left for it; None: any number.
    """
    session = report.session
    done = {case.where for case in measured_on_other_nodes(session, database)}
    regressed = {verdict.where for verdict in report.verdicts if verdict.name == "regressed"}
    wanted: dict[Where, Remeasure] = {}
    for case in session.cases:
        used = nodes_in(case.facts)
        spare = nodes.get(case.partition, 0) - len(used)
        # A check of others takes no list of nodes.
        is_bound = case.node or case.foreign or not used or spare < len(used)
        if case.where in regressed - done and not is_bound:
            wanted[case.where] = Remeasure(REPEATS, (), used)
    if not wanted:
        return
    if seconds is not None and seconds <= 0:
        say("confirm: not measured on other nodes: no time is left (--within)")
        return
    say(f"confirm: on other nodes: {shorten([' | '.join(where) for where in wanted])}")
    try:
        rerun.measure(session, wanted, database, reframe, seconds, other_nodes=True)
    except rerun.ConfirmError as error:
        say(f"confirm: not measured on other nodes: {error}")
