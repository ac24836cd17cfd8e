"""Judges the variables of a session against the baseline of its system.

What the session alone cannot decide is judged by the sessions since the baseline together
(stats/pooled.py): it is `watched`, if they show no change; `regressed` or `improved`, if they show
one; and stays `inconclusive`, if they make it suspicious. Where days differ, a regression that one
day alone shows is `inconclusive`, too (stats/days.py).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from nearmetal.judge import native_ratio
from nearmetal.judge.baseline import (
    Baseline,
    Entry,
    Key,
    line_of_direction,
    time_of,
    without_direction,
)
from nearmetal.judge.days import Days, few_days
from nearmetal.judge.verdict import (
    BASELINE,
    CHANGED,
    EXPECTED,
    FEW_DAYS,
    RECORDED,
    GateReport,
    Verdict,
    Where,
    changed_without_direction,
    compared,
    lacking,
    note_on_foreign,
    undisturbed,
    unexpected_pass,
    unmeasured,
    worst_first,
)
from nearmetal.model.facts import changed_facts
from nearmetal.model.naming import parse
from nearmetal.results import XFAIL, Case, Session, Value
from nearmetal.stats import days, judge, plan, pooled

#: Fresh samples of a session's confirmations, by check, place, environment and variable.
Fresh = dict[tuple[str, str, str, str], list[float]]
#: Start of a session, and a variable's samples in it.
Dated = tuple[str, list[float]]

#: Why no further repeats are asked for.
OPPOSED = (
    "fresh repeats show the opposite of the session's, so that more repeats decide nothing. Fix: "
    "find what changes from hour to hour, and run a new session"
)
#: Why a change is no regression yet.
ONE_DAY = (
    "this day alone shows it, and one day may be unlike the others. Fix: run again on another day"
)
#: Why nothing but a huge change shows.
FEW_REPEATS = (
    "{repeats} repeats against {samples} of the baseline name changes beyond a factor of "
    "{huge:.0f} alone. Fix: `nearmetal gate --confirm`, or run with {least} repeats"
)
#: A regression needs a second day if the session has an improvement of at least this part of it.
OTHER_WAY = 2 / 3
_FEW_DAYS = (
    "{few}. Where they differ more, a day is called a change. "
    "`nearmetal baseline record --system {system} --add` on other days extends it"
)


@dataclass(frozen=True)
class Terms:
    """What the verdicts on all variables of a session share."""

    baseline: Baseline
    days: Days
    #: of all judged variables together
    weight: float
    #: cases of the baseline that the session should hold
    promised: frozenset[Key] = frozenset()
    #: why these are not known, or which ones other files define
    note: str = ""
    #: number of days between the baseline and the session
    since: int = 0
    #: of all variables together that fresh samples judge
    measured: float = 0.0
    #: largest improvement of the session, as a logarithm
    improved: float = 0.0

    def variables(self, check: str, variable: str) -> float:
        """Number of variables with which this one shares the campaign's error, by its weight."""
        return max(1.0, self.weight / self.baseline.weigh(check, variable))

    def also_unjudged(self, value: Value) -> float:
        """The same, where the variables that the baseline does not judge count too."""
        unjudged = 0
        for entry in self.baseline.entries.values():
            unjudged += len(entry.noise) - entry.judged
        return self.variables(value.check, value.variable) + unjudged

    def drift(self, value: Value) -> float:
        """Drift of the value's variable between days."""
        return self.days.drifts[(value.check, value.partition, value.environ), value.variable]

    def bound(self, verdict: Verdict) -> float:
        """The change, as a logarithm, beyond which the verdict needs no second day."""
        # A bad day shifts variables both ways.
        other_way = self.improved / OTHER_WAY
        return max(self.days.bounds[verdict.key, verdict.variable], other_way)


def judge_session(session: Session, terms: Terms, fresh: Fresh) -> GateReport:
    """Judge every variable that the session should hold, with the fresh samples that confirm it.

    :arg session: with the baseline's directions, and with ratios.
    """
    baseline = terms.baseline
    terms = replace(terms, measured=_measured(session, terms, fresh))
    promised = set(terms.promised)
    for case in session.cases:
        # A case that `-P` varied is not in the baseline, but it is in the selection.
        promised.discard((parse(case.check).plain, case.partition, case.environ))
    reason = "the selection promises this case, but the session lacks it"
    verdicts = [Verdict.incomplete(reason, key) for key in sorted(promised)]
    # Jobs end in any order, and outputs should not differ by it.
    for case in sorted(session.cases, key=lambda case: case.where):
        for verdict in _case(case, baseline.entries.get(case.key), terms, fresh):
            verdicts.append(replace(verdict, node=case.node))
    verdicts = _without_natives_changes(verdicts, native_ratio.native_partition(session))
    verdicts += lacking(session)
    note = terms.note
    if few := few_days(baseline, [(verdict.key, verdict.variable) for verdict in verdicts]):
        few = _FEW_DAYS.format(few=few, system=session.system)
        note = "; ".join(filter(None, [note, few]))
    notes = note, note_on_foreign(session.cases), *session.notes
    return GateReport(session, worst_first(verdicts)).noting(*notes)


def _measured(session: Session, terms: Terms, fresh: Fresh) -> float:
    """Weight of the variables that fresh samples judge: those that the session's own leave open."""
    weight = 0.0
    for case in session.cases:
        entry = terms.baseline.entries.get(case.key)
        for value in case.values:
            name = value.variable
            if entry is None or name not in entry.noise or (*case.where, name) not in fresh:
                continue
            variables = terms.variables(case.check, name)
            try:
                alone = _decision(value, entry, terms, [], variables)
            except judge.JudgeError:
                continue
            if alone.name != "ok":
                weight += terms.baseline.weigh(case.check, name)
    return weight


def _without_natives_changes(verdicts: list[Verdict], native: str) -> list[Verdict]:
    """The verdicts; a ratio that changed because the native variable did is not judged."""
    # If the native link got slower, the ratio of an unchanged one looks better.
    changed = {}
    for verdict in verdicts:
        if verdict.partition == native and verdict.name in CHANGED:
            changed[verdict.check, verdict.environ, verdict.variable] = verdict.name
    kept = []
    for verdict in verdicts:
        cause = changed.get((verdict.check, verdict.environ, native_ratio.plain(verdict.variable)))
        if cause and native_ratio.is_ratio(verdict.variable) and verdict.name in CHANGED:
            reason = f"the {native} variable itself {cause}"
            verdict = replace(verdict, name="not judged", reason=reason)
        kept.append(verdict)
    return kept


def _case(case: Case, entry: Entry | None, terms: Terms, fresh: Fresh) -> list[Verdict]:
    """The verdicts on a case's variables."""
    if not case.measured:
        return [unmeasured(case)]
    if entry is None and case.varied:
        reason = "-P set variables of its check, and a baseline holds no such case"
        return [Verdict.unjudged(value, reason) for value in case.values]
    verdicts = []
    if entry is None:
        for value in native_ratio.own_values(case):
            verdicts.append(_unrecorded(value, case, "this case"))
        return verdicts
    for value in case.values:
        is_known = value.variable in entry.noise
        # A baseline of an older version, or of one partition, has no ratios.
        if native_ratio.is_ratio(value.variable) and not is_known:
            continue
        if value.expected == XFAIL or not is_known:
            verdicts.append(_unrecorded(value, case, "this variable"))
        else:
            samples = fresh.get((*case.where, value.variable), [])
            verdict = _value(value, entry, terms, samples)
            verdicts.append(unexpected_pass(undisturbed(verdict, case), value))
    # Also of a variable that is not judged: what changed on the nodes is no less true.
    facts = changed_facts(entry.facts, case.facts)
    return [replace(verdict, facts=facts) for verdict in verdicts + _lost(case, entry)]


def _unrecorded(value: Value, case: Case, what: str) -> Verdict:
    """The verdict on a value that has no reference.

    It is incomplete, unless the check itself gives a reason or ReFrame expects its failure.
    """
    if value.expected == XFAIL:
        return Verdict.unjudged(value, case.xfail or EXPECTED, XFAIL)
    if case.no_baseline:
        return unexpected_pass(Verdict.unjudged(value, case.no_baseline), value)
    reason = f"the baseline lacks {what}: `nearmetal baseline record` adds it"
    return unexpected_pass(Verdict.unjudged(value, reason, "incomplete"), value)


def _lost(case: Case, entry: Entry) -> list[Verdict]:
    """Verdicts on the baseline's variables that the case lacks."""
    lost = []
    for name in entry.noise:
        is_ratio = native_ratio.is_ratio(name)
        # A case of one node never has ratios.
        if case.value(name) or (case.node and is_ratio):
            continue
        verdict, reason = "incomplete", "the baseline has this variable, but the session lacks it"
        if is_ratio:
            verdict = "not judged"
            reason = "the session has no undisturbed native case to compare with"
        median = entry.values[name]
        lost.append(
            Verdict(*case.key, name, entry.units[name], verdict, baseline=median, reason=reason)
        )
    return lost


def _value(value: Value, entry: Entry, terms: Terms, fresh: list[float]) -> Verdict:
    """The verdict on a value that the baseline has."""
    variable, unit = value.variable, entry.units[value.variable]
    if value.lower_is_better is None:
        unjudged = Verdict.unjudged(value, without_direction(value.unit))
        fix = f". Fix: {line_of_direction(value.unit)}"
        return _unless_it_changed(unjudged, value, entry, terms, fresh, fix)
    # All tests are of logarithms.
    if not entry.is_positive(variable):
        reason = "its baseline holds a value of 0 or less, which has no ratio"
        return Verdict.unjudged(value, reason)
    if _had_no_direction(value, entry, terms):
        reason = "its direction was not known when the baseline was recorded. Fix: record it anew"
        unjudged = Verdict.unjudged(value, reason)
        return _unless_it_changed(unjudged, value, entry, terms, fresh)
    if entry.noise[variable].finds is None:
        reason = "too noisy when the baseline was recorded (`nearmetal baseline show`)"
        return Verdict.unjudged(value, reason)
    if value.unit != unit:
        return _incomplete(value, f"its unit is {value.unit}, the baseline's {unit}")
    if value.lower_is_better is not entry.lower_is_better(variable):
        if value.lower_is_better:
            return _incomplete(value, "less is better, but more in the baseline")
        return _incomplete(value, "more is better, but less in the baseline")
    if not value.samples:
        return _incomplete(value, "the session holds none of its samples")
    variables = terms.variables(value.check, variable)
    try:
        decision = _decision(value, entry, terms, fresh, variables)
    except judge.JudgeError as error:
        return _incomplete(value, str(error))
    samples = fresh if decision.by_fresh else value.samples
    recorded = len(entry.by_day(variable))
    repeats, wanted, reason = len(value.samples) + len(fresh), None, ""
    if decision.opposed:
        reason = OPPOSED
    elif decision.name == "inconclusive":
        if decision.more:
            wanted = repeats + decision.more[0]
        if not fresh:
            reason = _few_repeats(len(value.samples), entry, variable, variables)
    verdict = Verdict.on(
        value,
        decision.name,
        value=statistics.median(samples),
        repeats=repeats,
        wanted=wanted,
        reference=FEW_DAYS if recorded < plan.LEAST_DAYS else BASELINE,
        more=decision.more,
        screened=decision.screened,
        by_fresh=decision.by_fresh,
        reason=reason,
    )
    return compared(verdict, decision, entry.values[variable])


def _few_repeats(repeats: int, entry: Entry, variable: str, variables: float) -> str:
    """Why so many repeats cannot be significant by their ranks; '' if they can."""
    samples = sum(map(len, entry.anchored_by_day(variable)))
    least = plan.least_repeats(samples, variables)
    if repeats >= least:
        return ""
    return FEW_REPEATS.format(repeats=repeats, samples=samples, huge=plan.HUGE, least=least)


def _incomplete(value: Value, reason: str) -> Verdict:
    return Verdict.on(value, "incomplete", reason=reason)


def _had_no_direction(value: Value, entry: Entry, terms: Terms) -> bool:
    """Whether the baseline does not judge the variable for want of a direction alone."""
    variable = value.variable
    if entry.lower_is_better(variable) is None:
        return True
    if entry.noise[variable].finds is not None:
        return False
    # The baseline computed it with these counts, but did not know the direction.
    count, drift = terms.also_unjudged(value), terms.drift(value)
    return judge.detectable_change(entry.anchored_by_day(variable), count, drift) is not None


def _unless_it_changed(
    unjudged: Verdict, value: Value, entry: Entry, terms: Terms, fresh: list[float], fix: str = ""
) -> Verdict:
    """The verdict on a variable without direction; incomplete if it changed either way."""
    if value.unit != entry.units[value.variable]:
        return unjudged
    try:
        decision = _decision(value, entry, terms, fresh, terms.also_unjudged(value))
    except judge.JudgeError:
        return unjudged
    return changed_without_direction(unjudged, decision, entry.values[value.variable], fix)


def _decision(
    value: Value, entry: Entry, terms: Terms, fresh: list[float], variables: float
) -> judge.Decision:
    """The decision on a value, with its fresh samples.

    :arg variables: number of variables that share the error.
    """
    recorded, better = entry.anchored_by_day(value.variable), bool(value.lower_is_better)
    contrast = days.contrast(terms.days.memory, tuple(map(len, recorded)), (1,), terms.since)
    shared = variables, terms.drift(value), contrast
    if not fresh:
        return judge.judge(recorded, value.samples, better, *shared)
    measured = max(1.0, terms.measured / terms.baseline.weigh(value.check, value.variable))
    return judge.judge_fresh(recorded, value.samples, fresh, better, *shared, measured)


def date_of(session: Session) -> str:
    """The day of a session, in UTC."""
    return f"{datetime.fromtimestamp(session.time, UTC):%Y-%m-%d}"


def since(recorded: Mapping[str, str], past: Iterable[Session]) -> list[Session]:
    """The sessions after the last of the recorded ones, oldest first.

    :arg recorded: sessions of a baseline: id -> start.
    :arg past: the system's sessions up to the judged one, oldest first.
    """
    known = list(past)
    for at in reversed(range(len(known))):
        if known[at].uuid in recorded:
            return known[at + 1 :]
    # The baseline is of another database.
    before = -math.inf
    for time in map(time_of, recorded.values()):
        if time is not None:
            before = max(before, time)
    return [session for session in known if session.time > before]


def judge_pooled(
    report: GateReport, terms: Terms, earlier: Sequence[Session], fresh: Fresh
) -> GateReport:
    """The report, with its undecided variables judged by the sessions since the baseline.

    :arg earlier: sessions between the baseline and the judged one, oldest first.
    :arg fresh: samples of the judged session's confirmations.
    """
    improved = [verdict for verdict in report.verdicts if verdict.name == "improved"]
    terms = replace(terms, improved=max(map(_size, improved), default=0.0))
    regressed = {
        (verdict.where, verdict.variable)
        for verdict in report.verdicts
        if verdict.name == "regressed" and not _is_undecided(verdict, terms)
    }
    undecided = []
    for verdict in report.verdicts:
        # A ratio to native shows no more than its variable does.
        is_known = (verdict.where, native_ratio.plain(verdict.variable)) in regressed
        undecided.append(_is_undecided(verdict, terms) and not is_known)
    if not any(undecided):
        return report
    # Older sessions than the longest window say nothing of today.
    past = map(native_ratio.with_ratios, earlier[1 - max(pooled.WINDOWS) :])
    sessions: list[tuple[str, Mapping[Where, Case]]] = []
    for session in (*past, report.session):
        cases = {}
        for case in session.cases:
            if case.counts and not case.varied:
                cases[case.where] = case
        sessions.append((date_of(session), cases))
    verdicts = []
    for verdict, is_open in zip(report.verdicts, undecided):
        if is_open:
            samples = _samples(verdict, sessions, fresh)
            verdict = _pooled(verdict, terms, samples)
        verdicts.append(verdict)
    return replace(report, verdicts=worst_first(verdicts)).noting(_summary(verdicts))


def _is_undecided(verdict: Verdict, terms: Terms) -> bool:
    if verdict.reference not in RECORDED or verdict.name not in ("inconclusive", "regressed"):
        return False
    return verdict.name == "inconclusive" or _size(verdict) <= terms.bound(verdict)


def _size(verdict: Verdict) -> float:
    """The verdict's change as a logarithm, above 0."""
    return abs(math.log1p(verdict.change or 0.0))


def _samples(
    verdict: Verdict, sessions: list[tuple[str, Mapping[Where, Case]]], fresh: Fresh
) -> list[Dated]:
    """Start and samples of each session that has the variable, oldest first."""
    dated: list[Dated] = []
    for start, cases in sessions:
        case = cases.get(verdict.where)
        value = case.value(verdict.variable) if case else None
        if value is None or value.unit != verdict.unit:
            continue
        # An earlier session with a negative value says nothing of later ones.
        is_last = cases is sessions[-1][1]
        if value.samples and (is_last or min(value.samples) >= 0):
            dated.append((start, list(value.samples)))
    if dated:
        start, samples = dated[-1]
        # The session's own samples were selected for a large change.
        if verdict.by_fresh:
            samples = fresh[(*verdict.where, verdict.variable)]
        dated[-1] = start, samples
    return dated


def _pooled(verdict: Verdict, terms: Terms, samples: list[Dated]) -> Verdict:
    """The verdict by all of these samples, if they decide more than the session's own do."""
    entry = terms.baseline.entries[verdict.key]
    recorded = entry.anchored_by_day(verdict.variable)
    better = entry.lower_is_better(verdict.variable)
    # Neither direction would be a regression.
    if better is None or not samples:
        return verdict
    dates, values = map(list, zip(*samples))
    variables = terms.variables(verdict.check, verdict.variable)
    series = verdict.key, verdict.variable
    before = max(0, terms.since - len(set(dates) - {dates[-1]}))
    try:
        decision = pooled.judge_pooled(
            recorded,
            values,
            better,
            variables,
            terms.days.drifts[series],
            dates,
            terms.days.memory,
            terms.bound(verdict),
            before,
        )
    except judge.JudgeError:
        return verdict
    if verdict.name == "regressed" and decision.name != "regressed":
        return replace(verdict, name="inconclusive", one_day=True, reason=ONE_DAY)
    if decision.name == "watched" and decision.finds is None:
        # No change of a sensible size would be seen.
        return verdict
    count = "this session"
    if decision.sessions > 1:
        count = f"{decision.sessions} sessions since {samples[-decision.sessions][0]}"
    what = {"watched": "no change ", "inconclusive": "suspicious "}.get(decision.name, "")
    reason = f"{what}over {count}"
    if decision.name == "inconclusive" and verdict.reason:
        reason = f"{reason}; {verdict.reason}"
    pool = list(itertools.chain(*values[-decision.sessions :]))
    return replace(
        verdict,
        name=decision.name,
        value=statistics.median(pool),
        pooled=len(pool),
        change=decision.change,
        interval=decision.interval,
        p=decision.p,
        finds=decision.finds,
        selected=False,
        reason=reason,
    )


def _summary(verdicts: list[Verdict]) -> str:
    """A note on what would have been seen of the watched variables; '' without any."""
    finds = []
    for verdict in verdicts:
        if verdict.name == "watched" and verdict.finds:
            finds.append(verdict.finds)
    if not finds:
        return ""
    count = f"{len(finds)} variable{'s' * (len(finds) > 1)}"
    changes = dict.fromkeys((f"{100 * min(finds):.0f}", f"{100 * max(finds):.0f}"))
    return (
        f"watched: {count} that this session alone does not decide. Changes of "
        f"{' to '.join(changes)} % (--all prints each under `finds`) would "
        f"have been seen with {100 * plan.POWER:.0f} % probability. An unchanged session raises "
        f"an alarm here with at most {100 * pooled.POOLED_ERROR:.0f} %"
    )
