"""Judges a session against the baseline of its system."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nearmetal.compare.side_by_side import first_line
from nearmetal.judge import foreign, native_ratio
from nearmetal.judge.baseline import Baseline, Entry, Key, directory
from nearmetal.judge.selection import promised
from nearmetal.judge.verdict import (
    CHANGED,
    EXPECTED,
    REFERENCES,
    VERDICT_NAMES,
    GateReport,
    Verdict,
    lacking,
    unexpected_pass,
)
from nearmetal.model.facts import changed_facts
from nearmetal.model.naming import parse
from nearmetal.results import FILE_OF_DIRECTIONS, XFAIL, Case, Session, Value
from nearmetal.stats import drift, judge, plan, ranks

#: Fresh samples of a session's confirmations, by check, place, environment and variable.
Fresh = dict[tuple[str, str, str, str], list[float]]


_FEW_DAYS = (
    "{few}. Where they differ more, a day is called a change. "
    "`nearmetal baseline record --system {system} --add` on other days extends it"
)


_BAD_DAY = (
    "this day shifted variables {factor:.1f} times as far as the baseline's days, those that got "
    "better too. The gate allows for it, and finds only larger changes. Run again on another day"
)


#: Drift of each variable between days, as a fraction.
Drifts = dict[tuple[Key, str], float]


@dataclass(frozen=True)
class Day:
    """How far the day of a session may shift its variables."""

    drifts: Drifts
    note: str = ""  #: in words, if that is farther than the baseline's days did


@dataclass(frozen=True)
class _Campaign:
    """Settings that the verdicts on all variables share."""

    known: Baseline
    weight: float  #: of all judged variables together
    drifts: Drifts
    fresh: Fresh

    def variables(self, check: str, variable: str) -> float:
        """Number of variables with which this one shares the campaign's error, by its weight."""
        return max(1.0, self.weight / self.known.weigh(check, variable))

    def also_unjudged(self, check: str, variable: str) -> float:
        """The same, where the variables that the baseline does not judge count too."""
        entries = self.known.entries.values()
        unjudged = sum(len(entry.noise) - entry.judged for entry in entries)
        return self.variables(check, variable) + unjudged

    def drift(self, value: Value) -> float:
        """Drift of the value's variable between days."""
        return self.drifts[(value.check, value.partition, value.environ), value.variable]

    def fresh_of(self, value: Value) -> list[float]:
        """The variable's fresh samples."""
        return self.fresh.get((value.check, value.place, value.environ, value.variable), [])


def judge_session(
    session: Session,
    baseline: Baseline,
    fresh: Fresh | None = None,
    day: Day | None = None,
) -> GateReport:
    """Judge every variable that the session should hold, with the fresh samples that confirm it.

    :arg day: `day_of` the session, for a caller that has it.
    """
    day = day or day_of(session, baseline)
    session = native_ratio.with_ratios(baseline.directed(session))
    expected, note = promised(session, baseline)
    campaign = _Campaign(baseline, weight_of(session, baseline), day.drifts, fresh or {})
    # A case that `-P` varied is not in the baseline, but it is in the selection.
    found = {(parse(case.check).plain, case.partition, case.environ) for case in session.cases}
    verdicts = [_missing(key) for key in sorted(expected - found)]
    for case in sorted(session.cases, key=lambda case: case.where):
        entry = baseline.entries.get(case.key)
        verdicts += [replace(one, node=case.node) for one in _case(case, entry, campaign)]
    verdicts = _without_natives_changes(verdicts, native_ratio.native_partition(session))
    verdicts += lacking(session)
    few = few_days(baseline, [(one.key, one.variable) for one in verdicts])
    if few:
        few = _FEW_DAYS.format(few=few, system=session.system)
        note = "; ".join(filter(None, [note, few]))
    notes = [
        day.note,
        note,
        foreign.note(session.cases),
        *session.notes,
    ]
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
        cause = changed.get((one.check, one.environ, native_ratio.plain(one.variable)))
        if native_ratio.is_ratio(one.variable) and one.name in CHANGED and cause:
            reason = f"the {native} variable itself {cause}"
            one = replace(one, name="not judged", reason=reason)
        found.append(one)
    return found


def few_days(baseline: Baseline, variables: Iterable[tuple[Key, str]]) -> str:
    """What is assumed of those of the baseline's variables that have few days; '' if none has."""
    known = baseline.entries
    entries = [
        (known[key], name) for key, name in variables if key in known and name in known[key].samples
    ]
    few = [(entry, name) for entry, name in entries if entry.least_drift(name)]
    if not few:
        return ""
    part = "" if len(few) == len(entries) else f" of {len(few)} of {len(entries)} variables"
    days = sorted({len(entry.by_day(name)) for entry, name in few})
    drift = sorted({100 * entry.least_drift(name) for entry, name in few})
    said = "one day" if days == [1] else f"{_range(days)} days"
    if not part:
        count = len(baseline.sessions)
        said = f"{count} session{'s' * (count != 1)} on {said}"
    return (
        f"the baseline{part} is of {said}, fewer than {plan.LEAST_DAYS} days: how much days differ "
        f"is not known, and at least {_range(drift)} % is assumed"
    )


def _range(values: Sequence[float]) -> str:
    """`1` or `1 to 3`, of sorted values."""
    return " to ".join(f"{one:.0f}" for one in dict.fromkeys((values[0], values[-1])))


def drifts(baseline: Baseline) -> Drifts:
    """Drift of each variable between days or hours, beyond their samples' noise.

    Sessions of one day share its shift, and differ by their hours: the larger drift counts, of days
    and of levels. What is assumed of a variable with few days is added: hours do not show how days
    differ.
    """
    entries = baseline.whole or baseline.entries
    every = [(key, name) for key, entry in entries.items() for name in entry.samples]
    keys = [(key, name) for key, name in every if entries[key].is_positive(name)]
    weight = baseline.weight(baseline.entries)
    found: Drifts = dict.fromkeys(set(every) - set(keys), 0.0)  # never judged
    # The native median of a session shifts all of its ratios: they are a mixture of their own.
    for ratios in (False, True):
        part = [(key, name) for key, name in keys if native_ratio.is_ratio(name) == ratios]
        days = [entries[key].by_day(name) for key, name in part]
        levels = [entries[key].by_level(name) for key, name in part]
        least = [entries[key].least_drift(name) for key, name in part]
        weights = [baseline.weigh(key[0], name) for key, name in part]
        for own in set(weights):  # each weight has its own part of the days' error
            variables = max(1.0, weight / own)
            drifting = drift.effective(days, variables)
            if levels != days:
                drifting = np.maximum(drifting, drift.effective(levels, variables))
            found |= {
                one: math.hypot(float(of), assumed)
                for one, of, assumed, its in zip(part, drifting, least, weights)
                if its == own
            }
    return found


def day_of(session: Session, baseline: Baseline) -> Day:
    """The drifts of the baseline, raised where the session's day is unlike the baseline's."""
    found, worst = dict(drifts(baseline)), 1.0
    session = native_ratio.with_ratios(baseline.directed(session))
    for ratios, shifts in _shifts(session, baseline).items():
        keys, far, within = zip(*shifts)
        own = np.array([found[key] for key in keys])
        factor = drift.of_day(np.array(far), np.array(within), own)
        worst = max(worst, factor)
        found |= {
            key: factor * of for key, of in found.items() if native_ratio.is_ratio(key[1]) == ratios
        }
    return Day(found, _BAD_DAY.format(factor=worst) if worst > 1 else "")


def _shifts(session: Session, baseline: Baseline) -> dict[bool, list[tuple]]:
    """Key, shift towards worse values and standard error of each judged variable; ratios apart."""
    found: dict[bool, list[tuple]] = {}
    for case in session.cases:
        entry = baseline.entries.get(case.key)
        if entry is None or not case.measured or case.disturbed:
            continue
        for value in case.values:
            shift = _shift(value, entry)
            if shift:
                key = case.key, value.variable
                found.setdefault(native_ratio.is_ratio(value.variable), []).append((key, *shift))
    return found


def _shift(value: Value, entry: Entry) -> tuple[float, float] | None:
    """None for a variable that is not judged."""
    noise = entry.noise.get(value.variable)
    if value.expected or noise is None or noise.finds is None or value.lower_is_better is None:
        return None
    recorded = [one for day in entry.by_day(value.variable) for one in day]
    if value.unit != entry.units[value.variable] or not all(one > 0 for one in value.samples):
        return None
    if not recorded or not value.samples:
        return None
    base, new = np.log(recorded), np.log(value.samples)
    shift = float(np.median(new) - np.median(base))
    error = ranks.median_error(float(ranks.spread(base)), len(base), len(new))
    return (shift if value.lower_is_better else -shift), error


def weight_of(session: Session, baseline: Baseline) -> float:
    """Weight of the judged variables. With `--distribute`, one counts once for each node."""
    known = [case.key for case in session.cases if case.key in baseline.entries]
    return max(baseline.weight(baseline.entries), baseline.weight(known))


def _missing(key: Key) -> Verdict:
    reason = "the selection promises this case, but the session lacks it"
    return Verdict.incomplete(reason, key)


def _case(case: Case, entry: Entry | None, campaign: _Campaign) -> list[Verdict]:
    """The verdicts on a case's variables."""
    if not case.measured:
        return [unmeasured(case)]
    if entry is None and case.varied:
        reason = "-P set variables of its check, and a baseline holds no such case"
        return [_unjudged(value, reason) for value in case.values]
    own = [value for value in case.values if not native_ratio.is_ratio(value.variable)]
    if entry is None:
        return [
            _unjudged(value, case.xfail or EXPECTED, XFAIL)
            if value.expected == XFAIL
            else unexpected_pass(_unrecorded(value, case, "this case"), value)
            for value in own
        ]
    facts = changed_facts(entry.facts, case.facts)
    verdicts = []
    # A baseline of an older version, or of one partition, has no ratios.
    ratios = [value for value in case.values if value.variable in entry.noise and value not in own]
    for value in [*own, *ratios]:
        if value.expected == XFAIL:
            verdicts.append(_unjudged(value, case.xfail or EXPECTED, XFAIL))
        elif value.variable in entry.noise:
            one = undisturbed(_value(value, entry, campaign), case)
            verdicts.append(unexpected_pass(one, value))
        else:
            verdicts.append(_unrecorded(value, case, "this variable"))
    # Also of a variable that is not judged: what changed on the nodes is no less true.
    return [replace(one, facts=facts) for one in verdicts + _lost(case, entry)]


def unmeasured(case: Case, **more) -> Verdict:
    """The verdict on a case without values: it failed, or failed as expected."""
    if case.failure is None:
        unit = variable = ""
        return Verdict(*case.key, variable, unit, XFAIL, reason=case.xfail, **more)
    return Verdict.incomplete(f"failed: {first_line(case.failure)}", case.key, **more)


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
            variable=name,
            unit=entry.units[name],
            name="not judged" if native_ratio.is_ratio(name) else "incomplete",
            baseline=entry.values[name],
            reason=(
                "the session has no undisturbed native case to compare with"
                if native_ratio.is_ratio(name)
                else "the baseline has this variable, but the session lacks it"
            ),
        )
        for name in entry.noise
        if name not in found and not (case.node and native_ratio.is_ratio(name))
    ]


def _value(value: Value, entry: Entry, campaign: _Campaign) -> Verdict:
    variable, unit = value.variable, entry.units[value.variable]
    if value.lower_is_better is None:
        unjudged = _unjudged(value, without_direction(value.unit))
        return _unless_it_changed(unjudged, value, entry, campaign)
    if not entry.is_positive(variable):
        return _unjudged(value, "its baseline holds a value of 0 or less, which has no ratio")
    if _had_no_direction(value, entry, campaign):
        reason = "its direction was not known when the baseline was recorded. Fix: record it anew"
        return _unless_it_changed(_unjudged(value, reason), value, entry, campaign)
    if entry.noise[variable].finds is None:
        reason = "too noisy when the baseline was recorded (`nearmetal baseline show`)"
        return _unjudged(value, reason)
    if value.unit != unit:
        return _incomplete(value, f"its unit is {value.unit}, the baseline's {unit}")
    if value.lower_is_better is not entry.lower_is_better(variable):
        here, there = ("less", "more") if value.lower_is_better else ("more", "less")
        return _incomplete(value, f"{here} is better, but {there} in the baseline")
    if not value.samples:
        return _incomplete(value, "the session holds none of its samples")
    fresh, variables = campaign.fresh_of(value), campaign.variables(value.check, variable)
    try:
        decision = _decision(value, entry, campaign, variables)
    except judge.JudgeError as error:
        return _incomplete(value, str(error))
    return Verdict.on(
        value,
        decision.name,
        value=statistics.median(fresh if decision.set_aside else [*value.samples, *fresh]),
        baseline=entry.values[variable],
        change=decision.change,
        interval=decision.interval,
        p=decision.p,
        repeats=len(value.samples) + len(fresh),
        finds=decision.detectable,
        wanted=decision.wanted,
        reference=REFERENCES[-2]
        if len(entry.by_day(variable)) < plan.LEAST_DAYS
        else REFERENCES[-1],
        fresh=decision.fresh,
        later=decision.later,
        set_aside=decision.set_aside,
        reason=OPPOSED if decision.opposed else "",
    )


#: Why no further repeats are asked for.
OPPOSED = (
    "fresh repeats show the opposite of the session's, so that more repeats decide nothing. Fix: "
    "find what changes from hour to hour, and run a new session"
)


def _had_no_direction(value: Value, entry: Entry, campaign: _Campaign) -> bool:
    """Whether the baseline does not judge the variable for want of a direction alone."""
    variable = value.variable
    if entry.lower_is_better(variable) is None:
        return True
    if entry.noise[variable].finds is not None:
        return False
    count = campaign.also_unjudged(value.check, variable)
    drift = campaign.drift(value)
    return judge.detectable_change(entry.by_day(variable), count, drift) is not None


def _unless_it_changed(
    unjudged: Verdict, value: Value, entry: Entry, campaign: _Campaign
) -> Verdict:
    """The verdict on a variable without direction; incomplete if it changed either way."""
    variable = value.variable
    if value.unit != entry.units[variable]:
        return unjudged
    try:
        count = campaign.also_unjudged(value.check, variable)
        decision = _decision(value, entry, campaign, count)
    except judge.JudgeError:
        return unjudged
    if decision.name not in CHANGED:
        return unjudged
    fix = ""
    if value.lower_is_better is None:
        fix = f". Fix: {line_of_direction(value.unit)}"
    return changed_without_direction(unjudged, decision, entry.values[variable], fix)


def without_direction(unit: str) -> str:
    """Why a variable of this unit is not judged."""
    return f"neither its unit {unit!r} nor a reference says whether less is better"


def line_of_direction(unit: str) -> str:
    """What gives a unit its direction."""
    return f"write `{unit}: less` or `{unit}: more` into {directory() / FILE_OF_DIRECTIONS}"


def changed_without_direction(
    unjudged: Verdict, decision: judge.Decision, before: float, fix: str
) -> Verdict:
    """The verdict `incomplete` on a variable that changed, for better or for worse.

    :arg before: the value that it is compared with.
    """
    reason = f"it changed, and {unjudged.reason}{fix}"
    return replace(
        unjudged,
        name="incomplete",
        baseline=before,
        change=decision.change,
        interval=decision.interval,
        p=decision.p,
        finds=decision.detectable,
        reason=reason,
    )


def _decision(value: Value, entry: Entry, campaign: _Campaign, variables: float) -> judge.Decision:
    """The decision on a value, with its fresh samples.

    :arg variables: number of variables that share the error.
    """
    recorded, better = entry.by_day(value.variable), bool(value.lower_is_better)
    terms = variables, campaign.drift(value)
    fresh = campaign.fresh_of(value)
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
    return Verdict.on(value, "incomplete", reason=reason)


def _unjudged(value: Value, reason: str, name: str = "not judged") -> Verdict:
    return Verdict.on(value, name, value=value.value, repeats=len(value.samples), reason=reason)
