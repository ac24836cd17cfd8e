"""The rungs below a baseline: expectations, and the session before.

A rung is what a variable is judged against. Each verdict names its rung:

- `expectation`: a bound that follows from a law, the node or a publication. It holds beside every
  other rung.
- `session before`: the same system, one session earlier (stats/two_sessions.py).
- `baseline of few days`: how much days differ is assumed (stats/plan.py).
- `baseline`: several sessions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nearmetal.expectations.judge import Deviation
from nearmetal.judge import foreign
from nearmetal.judge.session import (
    changed_without_direction,
    line_of_direction,
    undisturbed,
    unmeasured,
    without_direction,
)
from nearmetal.judge.verdict import (
    CHANGED,
    EXPECTED,
    VERDICT_NAMES,
    GateReport,
    Verdict,
    Where,
    lacking,
    unexpected_pass,
)
from nearmetal.model import naming
from nearmetal.results import XFAIL, Case, Session, Value
from nearmetal.stats import plan, two_sessions
from nearmetal.stats.judge import Decision, JudgeError
from nearmetal.util.suggest import shorten

EXPECTATION, SESSION_BEFORE = "expectation", "session before"
#: The change that counts where the typical one is two_sessions.LEAST.
DIFFERENT = math.expm1(two_sessions.DISTANCE * math.log1p(two_sessions.LEAST))
#: Variables by case that an expectation bounds.
Bounded = Mapping[Where, frozenset[str]]


def judge_without_baseline(
    session: Session, before: Session | None, bounded: Bounded
) -> GateReport:
    """Judge a session of a system that has no baseline.

    :arg before: the session before, if there is one.
    :arg bounded: variables that an expectation bounds; those beyond it are added by `held_against`.
    """
    earlier = {(case.where): case for case in before.cases} if before else {}
    cases = {case.where: case for case in session.cases}
    verdicts = []
    for case in sorted(session.cases, key=lambda case: case.where):
        if case.measured:
            verdicts += _of_expectations(case, bounded.get(case.where, frozenset()))
        else:
            verdicts.append(unmeasured(case, node=case.node, reference=""))
    verdicts = _with_the_session_before(verdicts, session, earlier)
    verdicts = [_with_expected(one, cases.get(one.where)) for one in verdicts]
    verdicts += lacking(session, reference="")
    finds = [one.finds for one in verdicts if one.reference == SESSION_BEFORE and one.finds]
    least = max(finds, default=two_sessions.LEAST)
    return GateReport(session, _sorted(verdicts), tuple(_notes(session, before, least)))


def _with_expected(one: Verdict, case: Case | None) -> Verdict:
    """The verdict; XFAIL, or incomplete for XPASS, as ReFrame marked the variable."""
    value = _value(case, one.variable) if case else None
    if value is None or case is None:
        return one
    if value.expected == XFAIL:
        return _verdict(case, value, XFAIL, "", reason=case.xfail or EXPECTED)
    return unexpected_pass(one, value)


def _notes(session: Session, before: Session | None, least: float) -> Iterable[str]:
    """
    :arg least: the change, as a fraction, beyond which one against the session before counts.
    """
    record = f"`nearmetal baseline record --system {session.system}`"
    option = foreign.repeats(plan.LEVEL_REPEATS, session.cases)
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
        there = {*(case.where for case in session.cases), *session.skipped}
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
    if alone := foreign.note(session.cases):
        yield alone


def _of_expectations(case: Case, bounded: frozenset[str]) -> list[Verdict]:
    """Of a disturbed case, all variables are disturbed: also those that no expectation bounds."""
    verdicts = [_verdict(case, value, "ok", EXPECTATION) for value in case.values]
    if case.disturbed:
        return [undisturbed(one, case) for one in verdicts]
    reason = "no baseline, and no expectation bounds it"
    return [
        one if one.variable in bounded else replace(one, name="not judged", reason=reason)
        for one in verdicts
    ]


def _verdict(case: Case, value: Value, name: str, reference: str, reason: str = "") -> Verdict:
    return Verdict.on(
        value,
        name,
        value=value.value,
        repeats=len(value.samples),
        node=case.node,
        reference=reference,
        reason=reason,
    )


def _with_the_session_before(
    verdicts: list[Verdict], session: Session, earlier: Mapping[Where, Case]
) -> list[Verdict]:
    """The verdicts, with those of variables that the session before has replaced."""
    cases = {case.where: case for case in session.cases}
    pairs, places = [], []
    for place, one in enumerate(verdicts):
        case = earlier.get(one.where)
        now = _value(cases[one.where], one.variable) if one.where in cases else None
        then = _value(case, one.variable) if case and case.counts else None
        if not now or not then or now.unit != then.unit:
            continue
        pairs.append((now, then))
        places.append(place)
    decisions = two_sessions.judge(
        [
            two_sessions.Samples(then.samples, now.samples, bool(now.lower_is_better))
            for now, then in pairs
        ]
    )
    found = list(verdicts)
    for place, (now, then), decision in zip(places, pairs, decisions):
        if isinstance(decision, Decision):
            one = _compared(verdicts[place], then, decision)
            if now.lower_is_better is None:
                one = _without_direction(verdicts[place], then, decision)
            found[place] = undisturbed(one, cases[one.where])
        elif isinstance(decision, JudgeError) and verdicts[place].name == "not judged":
            found[place] = replace(verdicts[place], reason=str(decision))
    return found


def _value(case: Case, variable: str) -> Value | None:
    return next((value for value in case.values if value.variable == variable), None)


def _compared(one: Verdict, then: Value, decision: Decision) -> Verdict:
    return replace(
        one,
        name=decision.name,
        baseline=then.value,
        change=decision.change,
        interval=decision.interval,
        p=decision.p,
        finds=decision.detectable,
        reason="",
        reference=SESSION_BEFORE,
    )


def _without_direction(one: Verdict, then: Value, decision: Decision) -> Verdict:
    """The verdict on a variable without direction: incomplete if it changed either way."""
    if decision.name not in CHANGED:
        return one
    unjudged = replace(one, reason=without_direction(one.unit), reference=SESSION_BEFORE)
    fix = f". Fix: {line_of_direction(one.unit)}"
    return changed_without_direction(unjudged, decision, then.value, fix)


def held_against(
    report: GateReport, deviations: Iterable[Deviation], broken: str = ""
) -> GateReport:
    """The report, with `deviates` in place of the verdicts on variables beyond an expectation.

    Of a disturbed case these are `disturbed`, with the deviation in the reason.

    :arg broken: why the session could not be held against expectations; it is incomplete then.
    """
    verdicts = list(report.verdicts)
    cases = {case.where: case for case in report.session.cases}
    places: dict[tuple, list[int]] = {}
    for place, verdict in enumerate(verdicts):
        places.setdefault(_of_verdict(verdict), []).append(place)
    for one in deviations:
        key = _of_deviation(one)
        if key not in places:
            places[key] = [len(verdicts)]
            verdicts.append(_of_case(one, cases))
            continue
        for place in places[key]:
            found = verdicts[place]
            verdicts[place] = _beyond(found, one, cases.get(found.where))
    if broken:
        reason = f"the session was not held against expectations: {broken}"
        verdicts.append(Verdict.incomplete(reason, reference=EXPECTATION))
    return replace(report, verdicts=_sorted(verdicts))


def _beyond(verdict: Verdict, one: Deviation, case: Case | None) -> Verdict:
    """The verdict on a variable beyond an expectation."""
    kept = verdict.reason if verdict.name in ("deviates", "disturbed") else ""
    causes = [cause.text for cause in case.disturbed] if case else []
    reasons = [one.said, kept, *(text for text in causes if text not in kept)]
    return replace(
        verdict,
        name="disturbed" if causes and one.of_values else "deviates",
        reason="; ".join(filter(None, reasons)),
        reference=EXPECTATION,
        of_repeats=one.of_repeats and (verdict.of_repeats or verdict.name != "deviates"),
    )


def _of_verdict(one: Verdict) -> tuple:
    """What a verdict shares with the deviations that are about it."""
    check = one.check.split(" ", 1)[0]
    parameters = frozenset(dict(naming.PARAMETER.findall(one.check)).items())
    return check, one.partition, one.node, one.environ, one.variable, parameters


def _of_deviation(one: Deviation) -> tuple:
    case = one.case
    parameters = frozenset(case.parameters.items())
    return case.check, case.partition, case.node, case.environ, one.variable, parameters


def _of_case(one: Deviation, cases: Mapping[Where, Case]) -> Verdict:
    """The verdict on a case whose deviation is of no single variable."""
    case = one.case
    name = " ".join([case.check, *(f"%{key}={value}" for key, value in case.parameters.items())])
    verdict = Verdict(
        check=name,
        partition=case.partition,
        environ=case.environ,
        variable=one.variable,
        unit="",
        name="deviates",
        node=case.node,
        reference=EXPECTATION,
    )
    return _beyond(verdict, one, cases.get(verdict.where))


def _sorted(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    return tuple(sorted(verdicts, key=lambda one: (VERDICT_NAMES.index(one.name), one.where)))
