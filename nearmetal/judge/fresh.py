"""What the fresh repeats of a session show: those that confirm it, and those on other nodes."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nearmetal import results
from nearmetal.judge import native_ratio
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.by_baseline import Fresh
from nearmetal.judge.days import Drifts
from nearmetal.judge.verdict import UNCHANGED, GateReport, Verdict, Where
from nearmetal.model.facts import nodes_in
from nearmetal.results import Case, Database, Session
from nearmetal.stats import judge
from nearmetal.util.suggest import shorten
from nearmetal.util.text import percent

#: Why a case, or a variable of one, cannot be measured again.
Lost = dict["Where | tuple[Where, str]", str]


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
        found = cls()
        for confirmation in confirmations:
            for case in confirmation.cases:
                # What was disturbed neither confirms nor clears.
                if case.counts:
                    found.add(session, case)
        return found

    def add(self, session: Session, case: Case) -> Mapping[str, list[float]]:
        """Add a case that was measured again; returns its samples by variable."""
        samples = {value.variable: list(value.samples) for value in case.values}
        # The native link is not measured again: its median is the session's.
        samples |= native_ratio.fresh_ratios(session, case.where, samples)
        for name, values in samples.items():
            self.samples.setdefault((*case.where, name), []).extend(values)
        self.nodes.setdefault(case.where, set()).update(nodes_in(case.facts))
        count = max(map(len, samples.values()), default=0)
        self.repeats[case.where] = self.repeats.get(case.where, 0) + count
        return samples

    def why_lost(self, verdict: Verdict) -> str:
        """Why a variable cannot be measured again; '' if it can."""
        return self.lost.get((verdict.where, verdict.variable)) or self.lost.get(verdict.where, "")


@dataclass(frozen=True)
class Vanished:
    """Changes of a case that fresh repeats did not show."""

    where: Where
    #: each with its change, in words
    variables: tuple[str, ...]
    #: on which they were seen
    nodes: tuple[str, ...]
    #: on which the case was measured again
    fresh_nodes: tuple[str, ...]
    #: number of fresh ones
    repeats: int

    def __str__(self) -> str:
        first = ", ".join(self.nodes) or "unknown nodes"
        then = ", ".join(self.fresh_nodes) or "unknown nodes"
        same = sorted(self.nodes) == sorted(self.fresh_nodes)
        where = f"on the same nodes ({then})" if same else f"on {then} instead of {first}"
        return (
            f"{' | '.join(self.where)}: {shorten(list(self.variables))}; {self.repeats} fresh "
            f"repeats {where} do not show it"
        )


def vanished(report: GateReport, seen: Iterable[Verdict], remeasured: Remeasured) -> list[Vanished]:
    """Changes of a session that fresh repeats did not show, with their nodes.

    :arg report: by the fresh repeats.
    :arg seen: verdicts on variables that changed, before fresh repeats.
    """
    before = {(one.where, one.variable): one for one in seen}
    grouped: dict[Where, list[str]] = {}
    for one in report.verdicts:
        first = before.get((one.where, one.variable))
        if first is None or not _is_gone(one, first) or remeasured.why_lost(one):
            continue
        change = first.name if first.change is None else percent(first.change)
        grouped.setdefault(one.where, []).append(f"{one.variable} {change}")
    cases = report.session.by_where
    found = []
    for where, variables in grouped.items():
        fresh_nodes = tuple(sorted(remeasured.nodes.get(where, ())))
        repeats = remeasured.repeats.get(where, 0)
        nodes = nodes_in(cases[where].facts)
        found.append(Vanished(where, tuple(variables), nodes, fresh_nodes, repeats))
    return found


def _is_gone(verdict: Verdict, before: Verdict) -> bool:
    """Whether fresh repeats do not show the change. A few of them may leave it undecided."""
    if verdict.name == "watched" and verdict.change is not None and before.change is not None:
        return abs(verdict.change) < abs(before.change) / 2
    return verdict.name in UNCHANGED


def by_confirmed(database: Database) -> dict[str, list[Session]]:
    """The stored confirmations, by the id of the session that they confirm."""
    found: dict[str, list[Session]] = {}
    for session in results.sessions(database, kinds=("confirmation",)):
        found.setdefault(session.confirms, []).append(session)
    return found


def with_confirmations(sessions: Sequence[Session], database: Database) -> list[Session]:
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


#: Repeats of a case on other nodes.
REPEATS = 5


@dataclass(frozen=True)
class OnOtherNodes:
    """What other nodes showed of a regressed variable."""

    regressed: Verdict
    #: of it: `system`, `node` or `unknown`
    cause: str
    #: in words
    change: str
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
    for one in results.confirmations(database, session, other_nodes=True):
        cases += [case for case in one.cases if case.counts]
    return cases


def on_other_nodes(
    report: GateReport, cases: Iterable[Case], baseline: Baseline, drifts: Drifts
) -> list[OnOtherNodes]:
    """What other nodes showed of each regressed variable that they measured.

    One that regressed and is beyond an expectation is called `deviates`.

    :arg cases: as other nodes measured them.
    """
    own = report.session.by_where
    found = []
    for case in cases:
        for verdict in report.verdicts:
            if verdict.where != case.where or verdict.name not in ("regressed", "deviates"):
                continue
            decision = _judge_there(verdict, case, baseline, drifts)
            if decision is not None:
                cause, change = _cause(verdict, decision), percent(decision.change)
                nodes = nodes_in(own[verdict.where].facts), nodes_in(case.facts)
                found.append(OnOtherNodes(verdict, cause, change, *nodes))
    return found


def _judge_there(
    verdict: Verdict, case: Case, baseline: Baseline, drifts: Drifts
) -> judge.Decision | None:
    """None if the baseline or the case lacks the variable, or its samples cannot be judged."""
    value = next((value for value in case.values if value.variable == verdict.variable), None)
    entry = baseline.entries.get(verdict.key)
    if value is None or entry is None or not verdict.change:
        return None
    if verdict.variable not in entry.samples:
        return None
    better = bool(entry.lower_is_better(verdict.variable))
    drift = drifts[verdict.key, verdict.variable]
    try:
        return judge.judge(entry.by_day(verdict.variable), value.samples, better, drift=drift)
    except judge.JudgeError:
        return None


def _cause(regressed: Verdict, there: judge.Decision) -> str:
    if there.name == "regressed":
        return "system"
    # Half of the change is in the middle of "none" and "all of it".
    half = (regressed.change or 0.0) / 2
    low, high = there.interval
    is_gone = high < half if half > 0 else low > half
    return "node" if is_gone else "unknown"


def notes(seen: Iterable[OnOtherNodes]) -> list[str]:
    """What other nodes showed, a line for each case and finding."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for finding in seen:
        where = " | ".join(finding.regressed.where)
        name = f"{finding.regressed.variable} {finding.change}"
        grouped.setdefault((where, str(finding)), []).append(name)
    return [f"{where}: {text}: {shorten(names)}" for (where, text), names in grouped.items()]


#: What the causes of a change are called among the signs of explain/.
SIGNS = {"system": "all nodes", "node": "these nodes alone"}


def signs(seen: Iterable[OnOtherNodes]) -> dict[str, dict[str, str]]:
    """By partition, what other nodes showed of all of its regressed variables, in words.

    The key is one of SIGNS; a partition is left out where its variables disagree.
    """
    found: dict[str, dict[str, str]] = {}
    for finding in seen:
        if finding.cause in SIGNS:
            by_sign = found.setdefault(finding.regressed.partition, {})
            by_sign.setdefault(SIGNS[finding.cause], str(finding))
    return {partition: by_sign for partition, by_sign in found.items() if len(by_sign) == 1}
