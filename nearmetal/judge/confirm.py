"""What of a session is measured again, and what the fresh repeats show.

By then, a short disturbance of a node or switch is over. What the session hardly shows is measured,
too: fresh repeats alone decide it. A round is one run of ReFrame, which measures all open cases,
each with its own number of repeats.

A change is measured again on the nodes where it was seen: on others, a sick node would look well.
What stays regressed is also measured on other nodes, where there are enough: is a node or the
system the cause?
"""

from __future__ import annotations

import shlex
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from nearmetal import results
from nearmetal.judge import native_ratio, rerun
from nearmetal.judge.against_baseline import Fresh
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.days import Drifts
from nearmetal.judge.verdict import MEASURED_AGAIN, UNCHANGED, GateReport, Verdict, Where
from nearmetal.model.remeasure import Remeasure
from nearmetal.results import Case, Database, Session
from nearmetal.stats import judge
from nearmetal.util.suggest import shorten
from nearmetal.util.text import percent

#: Why a case, or a variable of one, cannot be measured again.
Lost = dict["Where | tuple[Where, str]", str]
#: Repeats of a case on other nodes.
REPEATS = 5
#: What the causes of a change are called among the signs of explain/.
SIGNS = {"system": "all nodes", "node": "these nodes alone"}


@dataclass
class Remeasured:
    """What was measured again of a session so far."""

    samples: Fresh = field(default_factory=dict)
    #: nodes on which each case was measured again
    nodes: dict[Where, set[str]] = field(default_factory=dict)
    #: number of fresh repeats of each case
    repeats: dict[Where, int] = field(default_factory=dict)
    lost: Lost = field(default_factory=dict)

    @classmethod
    def of(cls, session: Session, confirmations: Iterable[Session]) -> Remeasured:
        """What stored confirmations of a session measured."""
        remeasured = cls()
        for confirmation in confirmations:
            for case in confirmation.cases:
                # What was disturbed neither confirms nor clears.
                if case.counts:
                    remeasured.add(session, case)
        return remeasured

    def add(self, session: Session, case: Case) -> Mapping[str, list[float]]:
        """Add a case that was measured again; returns its samples by variable."""
        samples = {value.variable: list(value.samples) for value in case.values}
        # The native link is not measured again: its median is the session's.
        samples |= native_ratio.fresh_ratios(session, case.where, samples)
        for name, values in samples.items():
            self.samples.setdefault((*case.where, name), []).extend(values)
        self.nodes.setdefault(case.where, set()).update(case.nodes)
        count = max(map(len, samples.values()), default=0)
        self.repeats[case.where] = self.repeats.get(case.where, 0) + count
        return samples

    def taken(self, verdict: Verdict) -> int:
        """Number of fresh samples of a variable."""
        return len(self.samples.get((*verdict.where, verdict.variable), ()))

    def why_lost(self, verdict: Verdict) -> str:
        """Why a variable cannot be measured again; '' if it can."""
        return self.lost.get((verdict.where, verdict.variable)) or self.lost.get(verdict.where, "")


def by_confirmed(database: Database) -> dict[str, list[Session]]:
    """The stored confirmations, by the id of the session that they confirm."""
    confirmations: dict[str, list[Session]] = {}
    for session in results.sessions(database, kinds=("confirmation",)):
        confirmations.setdefault(session.confirms, []).append(session)
    return confirmations


def with_confirmations(sessions: Iterable[Session], database: Database) -> list[Session]:
    """The sessions as later ones see them, by their confirmations in the database."""
    confirmations = by_confirmed(database)
    return [with_fresh(session, confirmations.get(session.uuid, [])) for session in sessions]


def with_fresh(session: Session, confirmations: list[Session]) -> Session:
    """The session as later ones see it: what was measured again has its fresh samples alone.

    The others were selected for a large change, which may have been over soon.
    """
    if not confirmations:
        return session
    fresh = Remeasured.of(session, confirmations).samples
    cases = []
    for case in session.cases:
        values = []
        for value in case.values:
            if samples := fresh.get((*case.where, value.variable)):
                median = statistics.median(samples)
                value = replace(value, samples=tuple(samples), value=median, within=())
            values.append(value)
        cases.append(replace(case, values=tuple(values)))
    return replace(session, cases=tuple(cases))


@dataclass(frozen=True)
class Vanished:
    """Changes of a case that fresh repeats did not show."""

    where: Where
    #: the verdicts on them before
    changed: tuple[Verdict, ...]
    #: on which they were seen
    nodes: tuple[str, ...]
    #: on which the case was measured again
    fresh_nodes: tuple[str, ...]
    #: number of fresh ones
    repeats: int

    def __str__(self) -> str:
        first = ", ".join(self.nodes) or "unknown nodes"
        then = ", ".join(self.fresh_nodes) or "unknown nodes"
        where = f"on {then} instead of {first}"
        if sorted(self.nodes) == sorted(self.fresh_nodes):
            where = f"on the same nodes ({then})"
        case, changes = " | ".join(self.where), shorten(map(_change, self.changed))
        return f"{case}: {changes}; {self.repeats} fresh repeats {where} do not show it"


def vanished(
    report: GateReport, changed: Iterable[Verdict], remeasured: Remeasured
) -> list[Vanished]:
    """Changes of a session that fresh repeats did not show, with their nodes.

    :arg report: by the fresh repeats.
    :arg changed: verdicts on variables that changed, before fresh repeats.
    """
    before = {(verdict.where, verdict.variable): verdict for verdict in changed}
    by_case: dict[Where, list[Verdict]] = {}
    for verdict in report.verdicts:
        first = before.get((verdict.where, verdict.variable))
        if first and _is_gone(verdict, first) and not remeasured.why_lost(verdict):
            by_case.setdefault(verdict.where, []).append(first)
    gone = []
    for where, verdicts in by_case.items():
        fresh_nodes = tuple(sorted(remeasured.nodes.get(where, ())))
        repeats = remeasured.repeats.get(where, 0)
        nodes = report.session.by_where[where].nodes
        gone.append(Vanished(where, tuple(verdicts), nodes, fresh_nodes, repeats))
    return gone


def _change(verdict: Verdict) -> str:
    """The variable and its change, in words."""
    if verdict.change is None:
        return f"{verdict.variable} {verdict.name}"
    return f"{verdict.variable} {percent(verdict.change)}"


def _is_gone(verdict: Verdict, before: Verdict) -> bool:
    """Whether fresh repeats do not show the change. A few of them may leave it undecided."""
    if verdict.name == "watched" and verdict.change is not None and before.change is not None:
        return abs(verdict.change) < abs(before.change) / 2
    return verdict.name in UNCHANGED


@dataclass(frozen=True)
class Bounds:
    """What a confirmation measures, and may use."""

    #: fresh repeats of a case
    most: int = 32
    #: runs of ReFrame
    rounds: int = 4
    #: seconds; None: any
    within: float | None = None
    #: verdicts whose cases are measured: a key of MEASURED_AGAIN
    which: str = "suspicious"


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
        if self.within is None:
            return None
        return self.within - self.spent


def measure_again(
    judge_with: Callable[[Fresh], GateReport],
    fresh: Fresh,
    database: Database,
    reframe: list[str],
    bounds: Bounds,
    say: Callable[[str], None],
    after_round: Callable[[GateReport], None] = lambda report: None,
) -> GateReport:
    """Measure suspicious cases until none is left, or a bound is reached; returns the report.

    :arg judge_with: function: fresh samples -> the report on the session.
    :arg fresh: fresh samples that the session has already; new ones are added.
    :arg reframe: the command that starts ReFrame.
    :arg say: receives a line about each round.
    :arg after_round: receives the report after each round.
    :raises rerun.ConfirmError: the first round stored nothing.
    """
    report, state, clock = judge_with(fresh), Remeasured(fresh), Clock(bounds.within)
    session, rounds, stopped = report.session, 0, ""
    changed: dict[tuple[Where, str], Verdict] = {}
    while wanted := suspicious(report, state, bounds, rounds):
        if stopped := _stopped(bounds, rounds, clock):
            break
        if not rounds:
            started = f"confirm: ReFrame is started by `{shlex.join(reframe)}`"
            say(f"{started} (--reframe sets another command)")
        # The latest verdict before fresh repeats is what these may refute.
        for verdict in report.verdicts:
            if verdict.shows_change:
                changed[verdict.where, verdict.variable] = verdict
        rounds += 1
        cases = f"{len(wanted)} case{'s' * (len(wanted) > 1)}"
        repeats = sum(remeasure.repeats for remeasure in wanted.values())
        say(f"confirm: round {rounds} of at most {bounds.rounds}: {cases}, {repeats} fresh repeats")
        try:
            measured = rerun.measure(session, wanted, database, reframe, clock.left)
        except rerun.ConfirmError as error:
            # What earlier rounds measured still counts.
            if rounds == 1:
                raise
            measured = dict.fromkeys(wanted, str(error))
        _take(measured, wanted, report, state, bounds)
        report = _with_lost(judge_with(fresh), state, bounds)
        after_round(report)
    gone = [f"vanished: {change}" for change in vanished(report, changed.values(), state)]
    left = _left(report, state, bounds, stopped)
    return replace(report, confirmed=True).noting(*gone, *left)


def _stopped(bounds: Bounds, rounds: int, clock: Clock) -> str:
    """The bound that is reached, in words; '' if none is."""
    if rounds >= bounds.rounds:
        return f"after {rounds} rounds (--rounds)"
    if bounds.within is not None and clock.spent >= bounds.within:
        return f"after {clock.spent / 60:.0f} minutes (--within)"
    return ""


def _take(
    measured: Mapping[Where, Case | str],
    wanted: Iterable[Where],
    report: GateReport,
    state: Remeasured,
    bounds: Bounds,
) -> None:
    """Add what a round measured to the state."""
    open_variables: dict[Where, set[str]] = {}
    for verdict in report.verdicts:
        if _is_suspicious(verdict, state.taken(verdict), bounds):
            open_variables.setdefault(verdict.where, set()).add(verdict.variable)
    for where in wanted:
        case = measured.get(where, "ReFrame stored no result of it")
        if isinstance(case, str):
            state.lost[where] = f"could not be measured again: {case}"
            continue
        samples = state.add(report.session, case)
        for name in open_variables.get(where, set()) - samples.keys():
            state.lost[where, name] = f"measured again, but without a value of {name}"


def _with_lost(report: GateReport, state: Remeasured, bounds: Bounds) -> GateReport:
    """The report; open variables that cannot be measured again are incomplete.

    A change that fresh samples have shown stays one.
    """
    verdicts = []
    for verdict in report.verdicts:
        reason = state.why_lost(verdict)
        if reason and _is_suspicious(verdict, state.taken(verdict), bounds):
            verdict = replace(verdict, name="incomplete", wanted=None, reason=reason)
        verdicts.append(verdict)
    return replace(report, verdicts=tuple(verdicts))


def _left(report: GateReport, state: Remeasured, bounds: Bounds, stopped: str) -> Iterable[str]:
    """What the confirmation left open, and why."""
    if stopped:
        names = map(" | ".join, suspicious(report, state, bounds))
        yield f"the confirmation ended {stopped}; still open: {shorten(names)}"
    over = []
    for verdict in report.verdicts:
        taken = state.taken(verdict)
        if _is_suspicious(verdict, taken, bounds) and not _repeats(verdict, taken, bounds):
            over.append(f"{' | '.join(verdict.where)} | {verdict.variable}")
    if over:
        yield (
            f"undecided after --most {bounds.most} fresh repeats: {shorten(over)}. These are too "
            "noisy: a quieter system, or more time for each repeat, makes the noise less"
        )


def suspicious(
    report: GateReport, state: Remeasured, bounds: Bounds, rounds: int = 0
) -> dict[Where, Remeasure]:
    """Cases to measure next, with as many repeats as any of their variables needs.

    A change must show again in fresh samples alone, and on the same nodes.

    :arg rounds: number of rounds before; the last one uses all repeats that are left.
    """
    is_last = rounds + 1 >= bounds.rounds
    wanted: dict[Where, Remeasure] = {}
    for verdict in report.verdicts:
        taken = state.taken(verdict)
        if state.why_lost(verdict) or not _is_suspicious(verdict, taken, bounds):
            continue
        repeats = _repeats(verdict, taken, bounds, is_last)
        # Repeats that no analysis follows are wasted.
        if not repeats:
            continue
        before = wanted.get(verdict.where, Remeasure(0))
        case = report.session.case(verdict.where)
        nodes: tuple[str, ...] = ()
        # `--distribute` pins a case to its node.
        if case is not None and not verdict.node:
            nodes = case.nodes
        wanted[verdict.where] = Remeasure(max(repeats, before.repeats), nodes)
    return wanted


def _repeats(verdict: Verdict, taken: int, bounds: Bounds, is_last: bool = False) -> int:
    """Fresh repeats that a variable needs after those taken; 0 if no analysis is left."""
    reachable = [count for count in verdict.more if taken + count <= bounds.most]
    if not reachable:
        return 0
    # A number of repeats without an analysis decides nothing.
    return reachable[-1] if is_last else reachable[0]


def _is_suspicious(verdict: Verdict, taken: int, bounds: Bounds) -> bool:
    """Whether the variable needs fresh samples, after those taken."""
    if taken:
        return verdict.screened and not verdict.shows_change
    if bounds.which == "changed":
        return verdict.shows_change
    return verdict.screened or verdict.name in MEASURED_AGAIN[bounds.which]


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
    measured = {case.where for case in measured_on_other_nodes(session, database)}
    regressed = {verdict.where for verdict in report.verdicts if verdict.name == "regressed"}
    wanted: dict[Where, Remeasure] = {}
    for case in session.cases:
        spare = nodes.get(case.partition, 0) - len(case.nodes)
        # A check of others takes no list of nodes.
        is_bound = case.node or case.foreign or not case.nodes or spare < len(case.nodes)
        if case.where in regressed - measured and not is_bound:
            wanted[case.where] = Remeasure(REPEATS, (), case.nodes)
    if not wanted:
        return
    if seconds is not None and seconds <= 0:
        say("confirm: not measured on other nodes: no time is left (--within)")
        return
    say(f"confirm: on other nodes: {shorten(map(' | '.join, wanted))}")
    try:
        rerun.measure(session, wanted, database, reframe, seconds, other_nodes=True)
    except rerun.ConfirmError as error:
        say(f"confirm: not measured on other nodes: {error}")


@dataclass(frozen=True)
class OnOtherNodes:
    """What other nodes showed of a regressed variable."""

    regressed: Verdict
    #: of it: `system`, `node` or `unknown`
    cause: str
    #: as a fraction
    change: float
    #: nodes of the session, and the others
    used: tuple[str, ...]
    other: tuple[str, ...]

    def __str__(self) -> str:
        used, other = ", ".join(self.used), ", ".join(self.other)
        if self.cause == "system":
            return f"{other} show it too, so {used} are not its cause"
        if self.cause == "node":
            return f"{other} do not show it, so look at {used}"
        return f"{REPEATS} repeats on {other} do not decide whether {used} are its cause"


def measured_on_other_nodes(session: Session, database: Database) -> list[Case]:
    """The stored cases of the session that count, as other nodes measured them."""
    cases = []
    for confirmation in results.confirmations(database, session, other_nodes=True):
        cases += [case for case in confirmation.cases if case.counts]
    return cases


def on_other_nodes(
    report: GateReport, cases: Iterable[Case], baseline: Baseline, drifts: Drifts
) -> list[OnOtherNodes]:
    """What other nodes showed of each regressed variable that they measured.

    One that regressed and is beyond an expectation is called `deviates`.

    :arg cases: as other nodes measured them.
    """
    session, shown = report.session, []
    for case in cases:
        for verdict in report.verdicts:
            if verdict.where != case.where or verdict.name not in ("regressed", "deviates"):
                continue
            decision = _judge_there(verdict, case, baseline, drifts)
            if decision is not None:
                cause, used = _cause(verdict, decision), session.by_where[verdict.where].nodes
                shown.append(OnOtherNodes(verdict, cause, decision.change, used, case.nodes))
    return shown


def _judge_there(
    verdict: Verdict, case: Case, baseline: Baseline, drifts: Drifts
) -> judge.Decision | None:
    """None if the baseline or the case lacks the variable, or its samples cannot be judged."""
    value, entry = case.value(verdict.variable), baseline.entries.get(verdict.key)
    if value is None or entry is None or not verdict.change:
        return None
    if verdict.variable not in entry.samples:
        return None
    better = bool(entry.lower_is_better(verdict.variable))
    drift = drifts[verdict.key, verdict.variable]
    try:
        return judge.judge(
            entry.anchored_by_day(verdict.variable), value.samples, better, drift=drift
        )
    except judge.JudgeError:
        return None


def _cause(regressed: Verdict, there: judge.Decision) -> str:
    if there.name == "regressed":
        return "system"
    # Half of the change is in the middle of "none" and "all of it".
    half = (regressed.change or 0.0) / 2
    low, high = there.interval
    if (half > 0 and high < half) or (half <= 0 and low > half):
        return "node"
    return "unknown"


def notes(shown: Iterable[OnOtherNodes]) -> list[str]:
    """What other nodes showed, a line for each case and finding."""
    grouped: dict[str, list[str]] = {}
    for on_others in shown:
        where = " | ".join(on_others.regressed.where)
        name = f"{on_others.regressed.variable} {percent(on_others.change)}"
        grouped.setdefault(f"{where}: {on_others}", []).append(name)
    return [f"{text}: {shorten(names)}" for text, names in grouped.items()]


def signs(shown: Iterable[OnOtherNodes]) -> dict[str, dict[str, str]]:
    """By partition, what other nodes showed of all of its regressed variables, in words.

    The key is one of SIGNS; a partition is left out where its variables disagree.
    """
    by_partition: dict[str, dict[str, str]] = {}
    for on_others in shown:
        if on_others.cause in SIGNS:
            by_sign = by_partition.setdefault(on_others.regressed.partition, {})
            by_sign.setdefault(SIGNS[on_others.cause], str(on_others))
    for partition, by_sign in list(by_partition.items()):
        if len(by_sign) > 1:
            del by_partition[partition]
    return by_partition
