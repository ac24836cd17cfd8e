"""Judges a session of a system without a baseline: by expectations and the session before it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nearmetal.judge.baseline import line_of_direction, without_direction
from nearmetal.judge.verdict import (
    CHANGED,
    EXPECTATION,
    EXPECTED,
    NOTHING,
    SESSION_BEFORE,
    GateReport,
    Verdict,
    Where,
    changed_without_direction,
    compared,
    lacking,
    note_on_foreign,
    option_of_repeats,
    undisturbed,
    unexpected_pass,
    unmeasured,
    worst_first,
)
from nearmetal.results import XFAIL, Case, Session, Value
from nearmetal.stats import plan, two_sessions
from nearmetal.stats.judge import JudgeError
from nearmetal.stats.two_sessions import Change
from nearmetal.util.suggest import shorten

#: The change that counts where all variables together changed by two_sessions.LEAST.
DIFFERENT = (1 + two_sessions.LEAST) ** 2 - 1
#: Seconds between sessions of two days.
ANOTHER_DAY = 12 * 3600
ONE_DAY = (
    "one day alone shows it, and two sessions do not show how days differ: a change of less than "
    "{:.0f} % must show on a second day. Fix: run again on another day"
)
#: Variables by case that an expectation bounds.
Bounded = dict[Where, frozenset[str]]


def judge_without_baseline(
    session: Session, before: Session | None, bounded: Bounded, earlier: Session | None = None
) -> GateReport:
    """Judge a session of a system that has no baseline.

    :arg before: the session before, if there is one.
    :arg bounded: variables that an expectation bounds; `Expectations.apply` adds those beyond it.
    :arg earlier: the session before that one, if there is one.
    """
    verdicts: list[Verdict] = []
    judged: list[tuple[Case, Value]] = []
    for case in sorted(session.cases, key=lambda case: case.where):
        if case.measured:
            judged += [(case, value) for value in case.values]
        else:
            verdicts.append(unmeasured(case, node=case.node, reference=NOTHING))
    comparisons = _compare(judged, before)
    if before and earlier:
        for place, comparison in _on_a_second_day(session, judged, before, earlier).items():
            comparisons[place] = comparison
    for (case, value), comparison in zip(judged, comparisons):
        verdict = _by_expectations(case, value, bounded.get(case.where, frozenset()))
        verdict = _by_comparison(verdict, case, value, comparison)
        verdicts.append(_as_expected(verdict, case, value))
    verdicts += lacking(session, reference=NOTHING)
    finds = [
        verdict.finds
        for verdict in verdicts
        if verdict.reference == SESSION_BEFORE and verdict.finds
    ]
    least = max(finds, default=two_sessions.LEAST)
    return GateReport(session, worst_first(verdicts), tuple(_notes(session, before, least)))


def _by_expectations(case: Case, value: Value, bounded: frozenset[str]) -> Verdict:
    """Of a disturbed case, all variables are disturbed: also those that no expectation bounds."""
    verdict = Verdict.unjudged(value, "", "ok", node=case.node, reference=EXPECTATION)
    if case.disturbed:
        return undisturbed(verdict, case)
    if value.variable in bounded:
        return verdict
    return replace(verdict, name="not judged", reason="no baseline, and no expectation bounds it")


#: A value of the session before, and the decision on the change since; None: not comparable.
Comparison = tuple[Value, Change | JudgeError] | None


def _compare(judged: list[tuple[Case, Value]], before: Session | None) -> list[Comparison]:
    """Each value compared with the session before. What a usual change is, all of them show."""
    earlier: dict[tuple[Where, str], Value] = {}
    for case in before.cases if before else ():
        if case.counts:
            for value in case.values:
                earlier.setdefault((case.where, value.variable), value)
    comparable, samples = {}, []
    for place, (case, now) in enumerate(judged):
        then = earlier.get((case.where, now.variable))
        if then and then.unit == now.unit:
            comparable[place] = then
            better = bool(now.lower_is_better)
            samples.append(two_sessions.Samples(then.samples, now.samples, better))
    comparisons: list[Comparison] = [None] * len(judged)
    # All at once: what most variables did between two sessions is no change of one of them.
    for (place, then), decision in zip(comparable.items(), two_sessions.judge(samples)):
        comparisons[place] = then, decision
    return comparisons


def _on_a_second_day(
    session: Session, judged: list[tuple[Case, Value]], before: Session, earlier: Session
) -> dict[int, Comparison]:
    """Of judged values that one day has changed and this session shows too: place -> comparison.

    They are compared with the session before that day: the one before the session is slow itself.
    """
    day = []
    for case in before.cases:
        if case.counts:
            day += [(case, value) for value in case.values]
    first = {}
    for (case, value), comparison in zip(day, _compare(day, earlier)):
        if comparison and isinstance(comparison[1], Change) and comparison[1].far:
            first[case.where, value.variable] = comparison[1]
    shown: dict[int, Comparison] = {}
    for place, comparison in enumerate(_compare(judged, earlier) if first else ()):
        case, value = judged[place]
        change = first.get((case.where, value.variable))
        if change is None or comparison is None:
            continue
        then, now = comparison
        if isinstance(now, Change) and now.shows(change):
            if session.time - before.time >= ANOTHER_DAY:
                now = replace(now, name="regressed", far=None)
            elif now.name != "regressed":
                now = replace(now, name="inconclusive", far=change.far)
            shown[place] = then, now
    return shown


def _by_comparison(verdict: Verdict, case: Case, value: Value, comparison: Comparison) -> Verdict:
    """The verdict, replaced by what the session before says."""
    if comparison is None:
        return verdict
    then, decision = comparison
    if isinstance(decision, JudgeError):
        if verdict.name == "not judged":
            return replace(verdict, reason=str(decision))
        return verdict
    if value.lower_is_better is not None:
        more = {"name": decision.name, "reason": "", "reference": SESSION_BEFORE}
        if decision.far:
            more["reason"] = ONE_DAY.format(100 * decision.far)
        verdict = compared(verdict, decision, then.value, **more)
    elif decision.name in CHANGED:
        unjudged = replace(
            verdict, reason=without_direction(verdict.unit), reference=SESSION_BEFORE
        )
        fix = f". Fix: {line_of_direction(verdict.unit)}"
        verdict = changed_without_direction(unjudged, decision, then.value, fix)
    return undisturbed(verdict, case)


def _as_expected(verdict: Verdict, case: Case, value: Value) -> Verdict:
    """The verdict; XFAIL, or incomplete for XPASS, as ReFrame marked the variable."""
    if value.expected == XFAIL:
        reason = case.xfail or EXPECTED
        return Verdict.unjudged(value, reason, XFAIL, node=case.node, reference=NOTHING)
    return unexpected_pass(verdict, value)


def _notes(session: Session, before: Session | None, least: float) -> Iterable[str]:
    """
    :arg least: the change, as a fraction, beyond which one against the session before counts.
    """
    record = f"`nearmetal baseline record --system {session.system}`"
    option = option_of_repeats(plan.LEVEL_REPEATS, session.cases)
    if before is None:
        yield (
            "no baseline, and no earlier session to compare with: judged against expectations "
            "alone. The next session is compared with this one"
        )
    else:
        yield (
            f"no baseline: judged against session {before.uuid} of {before.started}, and against "
            "expectations. How much sessions differ without a cause is unknown, so that only "
            f"changes of more than {100 * least:.0f} % count"
        )
        if least > DIFFERENT:
            yield (
                "Most variables changed since that session by more than "
                f"{100 * two_sessions.LEAST:.0f} %, so that nobody knows what a usual change is. "
                "Fix: run again on the unchanged system, and compare with this session"
            )
        there = {*session.by_where, *session.skipped}
        gone = [" | ".join(case.where) for case in before.cases if case.where not in there]
        if gone:
            yield (
                f"{len(gone)} of the {len(before.cases)} cases of session {before.uuid} are not in "
                f"this one: {shorten(gone)}"
            )
    yield (
        f"{plan.LEAST_LEVELS} sessions of {plan.LEVEL_REPEATS} repeats ({option}), at least "
        f"{plan.LEVEL_MINUTES} minutes apart, and {record} give a baseline that finds smaller "
        "changes; sessions on eight days also show how much days differ"
    )
    yield from session.notes
    if alone := note_on_foreign(session.cases):
        yield alone
