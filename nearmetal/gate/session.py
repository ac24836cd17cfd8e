"""Judges a session against the baseline of its system."""

import statistics
from dataclasses import dataclass, replace

from nearmetal.compare import gist
from nearmetal.facts import changed_facts
from nearmetal.gate import relative
from nearmetal.gate.baseline import Baseline, Entry, Key
from nearmetal.gate.selection import promised
from nearmetal.gate.verdict import CHANGED, RUNGS, VERDICT_NAMES, GateReport, Verdict
from nearmetal.naming import parse
from nearmetal.results import Case, Session, Value
from nearmetal.stats import drift, judge, plan

#: Fresh samples of a session's confirmations, by check, place, environment and variable.
Fresh = dict[tuple[str, str, str, str], list[float]]


_FEW_DAYS = (
    f"the baseline is of {{days}}, fewer than {plan.LEAST_DAYS}: how much days differ is not "
    f"known, and {100 * plan.PRIOR_DRIFT:.0f} % is assumed. Where they differ more, a day is "
    "called a change. `nearmetal baseline record --system {system} --add` on other days extends it"
)


#: Drift of each variable between days, as a fraction.
Drifts = dict[tuple[Key, str], float]


@dataclass(frozen=True)
class _Campaign:
    """Settings that the verdicts on all variables share."""

    variables: int
    drifts: Drifts
    fresh: Fresh


def judge_session(session: Session, baseline: Baseline, fresh: Fresh | None = None) -> GateReport:
    """Judge every variable that the session should hold, with the fresh samples that confirm it."""
    session = relative.with_ratios(session)
    expected, note = promised(session, baseline)
    campaign = _Campaign(_variables(session, baseline), drifts(baseline), fresh or {})
    # A case that `-P` varied is not in the baseline, but it is in the selection.
    found = {(parse(case.check).plain, case.partition, case.environ) for case in session.cases}
    verdicts = [_missing(key) for key in sorted(expected - found)]
    for case in sorted(session.cases, key=lambda case: case.where):
        entry = baseline.entries.get(case.key)
        verdicts += [replace(one, node=case.node) for one in _case(case, entry, campaign)]
    verdicts = _without_natives_changes(verdicts, relative.native_partition(session))
    lacking = session.promised - len(session.cases) - len(session.skipped)
    if lacking > 0:
        reason = (
            f"the session lacks {lacking} of the {session.promised} cases that ReFrame selected"
        )
        verdicts.append(Verdict("", "", "", "", "", "incomplete", reason=reason))
    if any(one.rung == RUNGS[-2] for one in verdicts):
        days = "one day" if baseline.days == 1 else f"{baseline.days} days"
        few = _FEW_DAYS.format(days=days, system=session.system)
        note = "; ".join(filter(None, [note, few]))
    notes = [note, *(f"skipped by its check: {' | '.join(key)}" for key in session.skipped)]
    return GateReport(
        session,
        tuple(sorted(verdicts, key=lambda one: (VERDICT_NAMES.index(one.name), one.where))),
        tuple(filter(None, notes)),
    )


def _without_natives_changes(verdicts: list[Verdict], native: str) -> list[Verdict]:
    """The verdicts; a ratio that changed because the native variable did is not judged."""
    changed = {
        (one.check, one.environ, one.variable): one.name
        for one in verdicts
        if one.partition == native and one.name in CHANGED
    }
    found = []
    for one in verdicts:
        cause = changed.get((one.check, one.environ, relative.plain(one.variable)))
        if relative.is_ratio(one.variable) and one.name in CHANGED and cause:
            reason = f"the {native} variable itself {cause}"
            one = replace(one, name="not judged", reason=reason)
        found.append(one)
    return found


def drifts(baseline: Baseline) -> Drifts:
    """Drift of each variable between days, beyond their samples' noise.

    At least PRIOR_DRIFT where the baseline has few days.
    """
    keys = [(key, name) for key, entry in baseline.entries.items() for name in entry.samples]
    least = plan.PRIOR_DRIFT if baseline.days < plan.LEAST_DAYS else 0.0
    found: Drifts = {}
    # The native median of a session shifts all of its ratios: they are a mixture of their own.
    for ratios in (False, True):
        part = [(key, name) for key, name in keys if relative.is_ratio(name) == ratios]
        days = [baseline.entries[key].by_day(name) for key, name in part]
        drifting = drift.effective(days, max(1, len(keys)))
        found |= {one: max(float(of), least) for one, of in zip(part, drifting)}
    return found


def _variables(session: Session, baseline: Baseline) -> int:
    """Number of judged variables. With `--distribute`, a variable counts once for each node."""
    known = [baseline.entries[case.key] for case in session.cases if case.key in baseline.entries]
    return max(baseline.variables, sum(entry.judged for entry in known))


def _missing(key: Key) -> Verdict:
    reason = "the selection promises this case, but the session lacks it"
    return Verdict(*key, "", "", "incomplete", reason=reason)


def _case(case: Case, entry: Entry | None, campaign: _Campaign) -> list[Verdict]:
    """The verdicts on a case's variables."""
    if not case.measured:
        reason = f"failed: {gist(case.failure or '')}"
        return [Verdict(*case.key, "", "", "incomplete", reason=reason)]
    if entry is None and case.varied:
        reason = "-P set variables of its check, and a baseline holds no such case"
        return [_unjudged(value, reason) for value in case.values]
    own = [value for value in case.values if not relative.is_ratio(value.variable)]
    if entry is None:
        return [_unrecorded(value, case, "this case") for value in own]
    facts = changed_facts(entry.facts, case.facts)
    verdicts = []
    # A baseline of an older version, or of one partition, has no ratios.
    ratios = [value for value in case.values if value.variable in entry.noise and value not in own]
    for value in [*own, *ratios]:
        if value.variable in entry.noise:
            verdicts.append(undisturbed(_value(value, entry, campaign, facts), case))
        else:
            verdicts.append(_unrecorded(value, case, "this variable"))
    return verdicts + _lost(case, entry)


def undisturbed(verdict: Verdict, case: Case) -> Verdict:
    """The verdict, or `disturbed` if something disturbed a repeat whose sample counts."""
    if not case.disturbed or verdict.name in ("incomplete", "not judged"):
        return verdict
    return replace(
        verdict, name="disturbed", wanted=None, reason="; ".join(one.text for one in case.disturbed)
    )


def _lost(case: Case, entry: Entry) -> list[Verdict]:
    """Verdicts on the baseline's variables that the case lacks."""
    found = {value.variable for value in case.values}
    return [
        Verdict(
            *case.key,
            name,
            entry.units[name],
            "not judged" if relative.is_ratio(name) else "incomplete",
            baseline=entry.values[name],
            reason=(
                "the session has no undisturbed native case to compare with"
                if relative.is_ratio(name)
                else "the baseline has this variable, but the session lacks it"
            ),
        )
        for name in entry.noise
        if name not in found and not (case.node and relative.is_ratio(name))
    ]


def _value(value: Value, entry: Entry, campaign: _Campaign, facts: dict) -> Verdict:
    variable, unit = value.variable, entry.units[value.variable]
    if value.lower_is_better is None:
        return _unjudged(value, f"its unit {value.unit!r} does not say whether less is better")
    if entry.noise[variable].finds is None:
        reason = "too noisy when the baseline was recorded (`nearmetal baseline show`)"
        return _unjudged(value, reason)
    if value.unit != unit:
        return _incomplete(value, f"its unit is {value.unit}, the baseline's {unit}")
    if not value.samples:
        return _incomplete(value, "the session holds none of its samples")
    fresh = campaign.fresh.get((value.check, value.place, value.environ, variable), [])
    try:
        decision = _decision(value, entry, campaign, fresh)
    except judge.JudgeError as error:
        return _incomplete(value, str(error))
    return Verdict(
        value.check,
        value.partition,
        value.environ,
        variable,
        value.unit,
        decision.name,
        statistics.median([*value.samples, *fresh]),
        entry.values[variable],
        decision.change,
        decision.interval,
        decision.p,
        len(value.samples) + len(fresh),
        decision.detectable,
        decision.wanted,
        facts=facts,
        rung=RUNGS[-2] if len(entry.by_day(variable)) < plan.LEAST_DAYS else RUNGS[-1],
        fresh=decision.fresh,
    )


def _decision(
    value: Value, entry: Entry, campaign: _Campaign, fresh: list[float]
) -> judge.Decision:
    recorded, better = entry.by_day(value.variable), bool(value.lower_is_better)
    own = campaign.drifts[(value.check, value.partition, value.environ), value.variable]
    terms = max(1, campaign.variables), own
    if fresh:
        return judge.judge_in_two_stages(recorded, value.samples, fresh, better, *terms)
    return judge.judge(recorded, value.samples, better, *terms)


def _unrecorded(value: Value, case: Case, what: str) -> Verdict:
    """Verdict on a value that the baseline lacks: `incomplete`, unless the check itself gives a
    reason."""
    if case.no_baseline:
        return _unjudged(value, case.no_baseline)
    reason = f"the baseline lacks {what}: `nearmetal baseline record` adds it"
    return replace(_unjudged(value, reason), name="incomplete")


def _incomplete(value: Value, reason: str) -> Verdict:
    where = value.check, value.partition, value.environ, value.variable, value.unit
    return Verdict(*where, "incomplete", reason=reason)


def _unjudged(value: Value, reason: str) -> Verdict:
    return Verdict(
        value.check,
        value.partition,
        value.environ,
        value.variable,
        value.unit,
        "not judged",
        value.value,
        repeats=len(value.samples),
        reason=reason,
    )
