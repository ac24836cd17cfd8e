"""Records a baseline from sessions. An error names the unsuitable session and the reason."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np

from nearmetal import results
from nearmetal.judge import foreign, native_ratio
from nearmetal.judge.baseline import (
    MAY_DIFFER,
    Baseline,
    BaselineError,
    Entry,
    Key,
    Noise,
    line_of_direction,
    without_direction,
)
from nearmetal.judge.days import drifts, few_days
from nearmetal.model import metrics, settings
from nearmetal.model.facts import changed_facts, nodes_in
from nearmetal.results import FACTS, Case, Database, Session, Value
from nearmetal.stats import judge, plan, ranks
from nearmetal.util.sanitize import first_line


def choose(
    database: Path | Database, system: str, named: list[str] | None, since: float | None = None
) -> list[Session]:
    """The sessions to record from, oldest first: the named ones, or the last ones with the same
    cases as the newest. Sessions of few repeats are more than BASELINE_SESSIONS.

    :arg since: all of those that started since this time, in seconds since 1970.
    :raises ResultsError: there is none.
    """
    database = Database.of(database)
    if named:
        loaded = (results.load_session(database, uuid=uuid) for uuid in named)
        found = {one.uuid: one for one in loaded}  # two names may be of one session
        return sorted(found.values(), key=lambda one: one.order)
    results.newest(database, system)  # raises if the newest one is not readable
    keys: set[Key] = set()
    chosen: list[Session] = []
    for session in results.sessions(database, newest_first=True):
        if session.system != system or unfit(session):
            continue
        if since is not None and session.time < since:
            continue
        cases = {case.key for case in session.cases}
        keys = keys or cases
        if cases == keys:
            chosen.append(session)
        if (
            since is None
            and len(chosen) >= plan.BASELINE_SESSIONS
            and least_samples(chosen) >= plan.LEAST_BASELINE
        ):
            break
    if not chosen:
        results.load_session(database, system)  # raises, and names the known systems
        if since is not None:
            raise BaselineError("no session since then. Fix: give an earlier --since")
    return chosen[::-1]


def least_samples(sessions: list[Session]) -> int:
    """The least number of undisturbed samples that a variable has in all sessions together."""
    found: Counter[tuple] = Counter()
    for session in sessions:
        for case in session.cases:
            for value in case.values if case.measured else ():
                key = value.check, value.place, value.environ, value.variable
                found[key] += 0 if case.disturbed else len(value.samples)
    return min(found.values(), default=plan.LEAST_BASELINE)


def unfit(session: Session) -> str:
    """Why a session cannot be recorded; '' if it can."""
    if any(case.node for case in session.cases):
        return "was distributed over nodes (--distribute), but a baseline is of a partition"
    if any(case.varied for case in session.cases):
        return "set variables of its checks by -P, but a baseline is of the checks as they are"
    return ""


def record(
    sessions: list[Session], before: Baseline, leave_out_noisy: bool = False, add: bool = False
) -> tuple[Baseline, list[str]]:
    """The baseline with the cases of these sessions replaced, and notes for its reviewer.

    :arg add: add the sessions' samples to those of the baseline's cases, instead of replacing them.
    :raises BaselineError: a session failed, a session lacks a case, facts differ between sessions,
        a case was disturbed in all of them, or a variable is too noisy.
    """
    if not sessions:
        raise BaselineError(
            "no session to record from. "
            f"Fix: `reframe -c reframe_checks -r --system {before.system}` first"
        )
    sessions = [native_ratio.with_ratios(before.directed(session)) for session in sessions]
    found: dict[Key, list[tuple[Session, Case]]] = {}
    for session in sessions:
        for key, case in _first_cases(session).items():
            found.setdefault(key, []).append((session, case))
    for session in sessions:
        _refuse_unsuitable(session, set(found), before.system)
    entries, notes = {}, []
    for key in sorted(found):
        passed, failing, said = _expected_failures(key, found[key])
        notes += said
        if not passed:
            continue
        measured, left_out = _undisturbed(key, passed)
        notes += left_out
        kept = [session for session, _ in measured]
        cases = [_without(case, failing) for _, case in measured]
        notes += _refuse_changed_facts(key, cases, kept)
        earlier = before.entries.get(key) if add else None
        if earlier:
            earlier = _entry_without(earlier, failing)
        if earlier:
            notes += _refuse_other_facts(key, earlier, cases)
        entries[key] = _entry(key, cases, kept, earlier)
    after = Baseline(before.system, before.path, {**before.entries, **entries})
    after = _with_detectable_changes(after, leave_out_noisy, notes)
    every = [case for session in sessions for case in session.cases]
    option, lacking = foreign.repeats(plan.LEVEL_REPEATS, every), foreign.note(every)
    return after, list(dict.fromkeys(filter(None, [*notes, *_next_step(after, option), lacking])))


def _next_step(baseline: Baseline, option: str) -> list[str]:
    """A note on what more sessions would bring.

    :arg option: ReFrame's for as many repeats as a session of LEAST_LEVELS needs.
    """
    judged = [
        (key, name)
        for key, entry in baseline.entries.items()
        for name, noise in entry.noise.items()
        if noise.finds is not None
    ]
    few = few_days(baseline, judged)
    if not few:
        return []
    least = {one: baseline.entries[one[0]].least_drift(one[1]) for one in judged}
    finds = statistics.median(baseline.entries[key].noise[name].finds or 0 for key, name in judged)
    lines = [
        few,
        *_measured_drift(baseline, least),
        f"Half of the variables find {100 * finds:.0f} %",
    ]
    if plan.UNKNOWN_DRIFT in least.values():
        lines.append(
            f"Sessions that start within {plan.LEVEL_MINUTES} minutes do not show how hours differ "
            f"either. {plan.LEAST_LEVELS} sessions ({option}), at least {plan.LEVEL_MINUTES} "
            f"minutes apart, cost as much as one of {plan.LEAST_BASELINE} repeats and show it: "
            f"then {100 * plan.PRIOR_DRIFT:.0f} % is assumed"
        )
    lines.append(
        f"`nearmetal baseline record --system {baseline.system} --add` on other days adds sessions "
        "that are ok, and finds smaller changes"
    )
    return [". ".join(line[0].upper() + line[1:] for line in lines)]


def _measured_drift(baseline: Baseline, least: dict[tuple[Key, str], float]) -> list[str]:
    """A sentence on the variables that drift by more than is assumed of them."""
    found = {one: of for one, of in drifts(baseline).items() if one in least and of > least[one]}
    if not found:
        return []
    (key, name), most = max(found.items(), key=lambda one: one[1])
    where = f"{name} of {' | '.join(key)}"
    return [f"Its sessions differ in {len(found)} variables, most in {where}: {100 * most:.1f} %"]


def _refuse_unsuitable(session: Session, keys: set[Key], system: str) -> None:
    """Raise BaselineError for a session of another system, that failed or that lacks a case."""
    name = f"session {session.uuid}"
    if session.system != system:
        raise BaselineError(
            f"{name} is of system {session.system}, not of {system}. Fix: leave it out of "
            f"--session, or give --system {session.system}"
        )
    reason = unfit(session)
    if reason:
        raise BaselineError(f"{name} {reason}. Fix: name other sessions with --session")
    if reason := failed(session):
        raise BaselineError(f"{name} {reason}. Fix: name other sessions with --session")
    missing = keys - {case.key for case in session.cases}
    if missing:
        raise BaselineError(
            f"{name} is incomplete: {len(missing)} of {len(keys)} cases are not in it, "
            f"such as {' | '.join(min(missing))}. Fix: name sessions of one selection "
            "with --session"
        )


def failed(session: Session) -> str:
    """Which case of a session failed, and why; '' if none did."""
    for case in session.failures:
        if not _recordable(case):
            where = f"{case.check} on {case.partition} with {case.environ}"
            return f"failed: {where}: {first_line(case.failure or '').rstrip('.')}"
    return ""


def _recordable(case: Case) -> bool:
    """Whether a case failed only because the baseline lacks it, or by an expectation.

    The next baseline includes it. `nearmetal baseline record` warns of an expectation.
    """
    return case.measured and bool(case.unreferenced or case.unexpected)


def _first_cases(session: Session) -> dict[Key, Case]:
    """The session's cases by key; of several, the first."""
    return {case.key: case for case in reversed(session.cases)}


def _expected_failures(
    key: Key, measured: list[tuple[Session, Case]]
) -> tuple[list[tuple[Session, Case]], set[str], list[str]]:
    """The sessions with values of a case beside its expected failures; these failures as variables,
    and as notes.

    :arg measured: the case in each session.
    """
    cases = [case for _, case in measured]
    failing = {one.variable for case in cases for one in case.values if one.expected}
    passed = [
        (session, case)
        for session, case in measured
        if not case.xfail or _without(case, failing).values
    ]
    reasons = dict.fromkeys(case.xfail for case in cases if case.xfail)
    what = f"{', '.join(sorted(failing))} of {' | '.join(key)}" if failing else " | ".join(key)
    return passed, failing, [f"xfail: {what} is left out: {reason}" for reason in reasons]


def _without(case: Case, variables: set[str]) -> Case:
    """The case without some variables."""
    return replace(case, values=tuple(one for one in case.values if one.variable not in variables))


def _entry_without(entry: Entry, variables: set[str]) -> Entry:
    """The entry without the samples of some variables."""
    samples = {name: of for name, of in entry.samples.items() if name not in variables}
    return replace(entry, samples=samples)


def _undisturbed(
    key: Key, measured: list[tuple[Session, Case]]
) -> tuple[list[tuple[Session, Case]], list[str]]:
    """The sessions in which nothing disturbed the case, and a note on each of the others.

    Raises BaselineError if it was disturbed in all of them.

    :arg measured: the case in each session.
    """
    kept: list[tuple[Session, Case]] = []
    notes, why, name = [], "", " | ".join(key)
    for session, case in measured:
        if causes := case.disturbed:
            why = causes[0].text
            notes.append(
                f"{name}: session {session.uuid} is left out, since something else used the "
                f"nodes: {why}"
            )
        else:
            kept.append((session, case))
    if not kept:
        raise BaselineError(
            f"{name}: something else used the nodes in all sessions: {why}. Fix: end it, and run "
            "the check again"
        )
    return kept, notes


def _refuse_changed_facts(key: Key, cases: list[Case], sessions: list[Session]) -> list[str]:
    """Raise BaselineError if a fact differs between cases. Returns notes on facts that may."""
    notes = []
    strict = (*FACTS, settings.FACT)
    others = {fact for case in cases[1:] for fact in changed_facts(cases[0].facts, case.facts)}
    for fact in (*strict, *sorted(others - {*strict})):
        values = list(dict.fromkeys(case.facts.get(fact, "absent") for case in cases))
        if len(values) == 1:
            continue
        if fact in strict and fact not in MAY_DIFFER:
            told = [str(case.facts.get(fact, "absent")) for case in cases]
            raise BaselineError(
                f"{' | '.join(key)}: {fact} is not the same in all sessions: {'; '.join(values)}."
                f"{_outlier(told, sessions)} "
                "Fix: record from sessions of one state of the system (--session)"
            )
        notes.append(f"{fact} differs between the sessions: {', '.join(map(str, values))}")
    return notes


def _outlier(told: list[str], sessions: list[Session]) -> str:
    """A sentence on the one session that differs from all others; '' if it is not one."""
    alone = [place for place, value in enumerate(told) if told.count(value) == 1]
    if len(alone) != 1 or len(told) < 3 or len(set(told)) != 2:
        return ""
    session = sessions[alone[0]]
    return f" Only session {session.uuid} of {session.started} has {told[alone[0]]}."


def _refuse_other_facts(key: Key, earlier: Entry, cases: list[Case]) -> list[str]:
    """Raise BaselineError if facts differ from the baseline's. Returns notes on those that may."""
    changed = [
        (fact, *change)
        for case in cases
        for fact, change in changed_facts(earlier.facts, case.facts).items()
    ]
    notes = []
    for fact, then, now in dict.fromkeys(changed):
        if fact not in MAY_DIFFER:
            raise BaselineError(
                f"{' | '.join(key)}: {fact} was {then} in the baseline and is {now}. Fix: record a "
                "new baseline, without --add"
            )
        notes.append(f"{fact} differs between the sessions: {then}, {now}")
    return notes


def _entry(
    key: Key, cases: list[Case], sessions: list[Session], earlier: Entry | None = None
) -> Entry:
    """The entry of a case.

    :arg earlier: the baseline's entry whose samples it keeps.
    """
    noise: dict[str, Noise] = {}
    before = earlier.samples if earlier else {}
    own = {value.variable for value in cases[0].values if not native_ratio.is_ratio(value.variable)}
    if before and {name for name in before if not native_ratio.is_ratio(name)} != own:
        raise BaselineError(
            f"{' | '.join(key)}: the sessions have other variables than the baseline. Fix: record "
            "a new baseline, without --add"
        )
    samples: dict[str, list[list[float]]] = {}
    values: dict[str, float] = {}
    by_variable: dict[str, list[Value]] = {}
    for case in cases:
        for value in case.values:
            by_variable.setdefault(value.variable, []).append(value)
    for value in cases[0].values:
        variable = value.variable
        found = by_variable[variable]
        where = f"{' | '.join(key)}: {variable}"
        # A ratio that a session or the earlier baseline lacks is left out.
        lacks = len(found) != len(cases) or (earlier and variable not in before)
        if native_ratio.is_ratio(variable) and lacks:
            continue
        if len(found) != len(cases) or not all(other.samples for other in found):
            raise BaselineError(
                f"{where}: a session lacks its samples. Fix: name other sessions with --session"
            )
        samples[variable] = [
            *before.get(variable, []),
            *(list(other.samples) for other in found),
        ]
        together = [one for of_session in samples[variable] for one in of_session]
        if len(together) < plan.LEAST_BASELINE:
            raise BaselineError(
                f"{where}: {len(together)} samples in {len(found)} sessions, but a rank test needs "
                f"at least {plan.LEAST_BASELINE}; with 60 it finds smaller changes. Fix: record "
                "from more sessions, or run with more repeats "
                f"({foreign.repeats(plan.LEAST_BASELINE, cases)})"
            )
        values[variable] = float(f"{statistics.median(together):.6g}")
        noise[variable] = Noise(
            float(f"{ranks.spread(np.log(together)[None])[0]:.3g}") if min(together) > 0 else 0.0,
            len(together),
            _rounded(between_repeats([parts for other in found for parts in other.within])),
            None,
        )
    return Entry(
        recorded=date.today().isoformat(),
        sessions={
            **(earlier.sessions if earlier else {}),
            **{session.uuid: session.started for session in sessions},
        },
        facts={**_facts(cases[-1]), **_nodes(cases, earlier)},
        parameters=cases[0].parameters,
        units={value.variable: value.unit for value in cases[0].values if value.variable in values},
        values=values,
        noise=noise,
        samples=samples,
        evidence=_evidence(cases, earlier),
        better={
            value.variable: value.better
            for value in cases[0].values
            if value.variable in values and _needs_direction(value)
        },
    )


def _needs_direction(value: Value) -> bool:
    """Whether the value has a direction that its unit does not give."""
    return bool(value.better) and metrics.unit(value.unit).lower_is_better is None


def _facts(case: Case) -> dict[str, str]:
    return {fact: value for fact, value in case.facts.items() if isinstance(value, str)}


def _nodes(cases: list[Case], earlier: Entry | None) -> dict[str, str]:
    """The fact `nodes`: those of all sessions; {} if none is known."""
    before = nodes_in(earlier.facts) if earlier else ()
    found = sorted({*before, *(node for case in cases for node in nodes_in(case.facts))})
    return {"nodes": ", ".join(found)} if found else {}


def _evidence(cases: list[Case], earlier: Entry | None) -> dict[str, tuple[float, float]]:
    """Each quantity of evidence: median of the sessions' medians, and the largest of them."""
    known = earlier.evidence if earlier else {}
    weight = len(earlier.sessions) if earlier else 0
    found: dict[str, tuple[float, float]] = {}
    counted = [case.quantities for case in cases]
    for name in sorted({*known, *(name for one in counted for name in one)}):
        medians = [statistics.median(one[name]) for one in counted if name in one]
        most = max([*medians, *known.get(name, ())[1:]])
        middle = statistics.median([*medians, *known.get(name, ())[:1] * weight])
        found[name] = float(f"{middle:.3g}"), float(f"{most:.3g}")
    return found


def _with_detectable_changes(baseline: Baseline, leave_out: bool, notes: list[str]) -> Baseline:
    """The baseline with each variable's minimum detectable change. Raises BaselineError."""
    drift = drifts(baseline)
    count = sum(len(entry.noise) for entry in baseline.entries.values())
    entries = {}
    for key, entry in baseline.entries.items():
        noise = {}
        for name, one in entry.noise.items():
            detectable = None
            if entry.lower_is_better(name) is None:
                notes.append(
                    f"{name} of {' | '.join(key)} stays unjudged: "
                    f"{without_direction(entry.units[name])}. "
                    f"Fix: {line_of_direction(entry.units[name])}, and record anew"
                )
            elif not entry.is_positive(name):
                notes.append(
                    f"{name} of {' | '.join(key)} stays unjudged: it has a value of 0 or less"
                )
            else:
                detectable = judge.detectable_change(entry.by_day(name), count, drift[key, name])
                if detectable is None:
                    cause = _noisy_session(entry, name, count, drift[key, name])
                    where = f"{' | '.join(key)}: {name}"
                    notes.append(_too_noisy(where, one, drift[key, name], cause, leave_out))
            noise[name] = replace(one, finds=_rounded(detectable))
        entries[key] = replace(entry, noise=noise)
    return replace(baseline, entries=entries)


def _noisy_session(entry: Entry, name: str, variables: int, drift: float) -> str:
    """A sentence on the one session that makes a variable too noisy; '' if it is not one."""
    samples = entry.samples[name]
    if len(samples) != len(entry.sessions) or len(samples) < 3:
        return ""
    found = []
    for place, uuid in enumerate(entry.sessions):
        others = [*samples[:place], *samples[place + 1 :]]
        try:
            if judge.detectable_change(others, variables, drift) is not None:
                found.append(uuid)
        except judge.JudgeError:
            return ""
    return f". Without session {found[0]} it is not" if len(found) == 1 else ""


def _too_noisy(variable: str, noise: Noise, drift: float, cause: str, leave_out: bool) -> str:
    """A note on a variable that is too noisy. Raises BaselineError unless `leave_out`."""
    days = f" and by {100 * drift:.1f} % between days" if drift else ""
    what = (
        f"{variable} is too noisy to be judged: it varies by {100 * noise.spread:.0f} % between "
        f"repeats{days}. {plan.ANALYSES[-1]} repeats do not find a change of "
        f"{100 * plan.DETECTABLE[1]:.0f} %{cause}"
    )
    if not leave_out:
        raise BaselineError(
            f"{what}. Fix: quieten the nodes, or leave it unjudged with --leave-out-noisy"
        )
    return f"{what}; it stays unjudged"


def between_repeats(repeats: list[tuple[float, ...]]) -> float | None:
    """Fraction of a variable's variance between repeats, from the parts of each; None: unknown.

    These are the variance components of a one-way layout on logarithms (Kalibera and Jones,
    Rigorous benchmarking in reasonable time, ISMM 2013, section 6). Medians of squares replace
    means, so that an outlier counts once.
    """
    if any(min(parts, default=1.0) <= 0 for parts in repeats):
        return None  # it has no logarithm
    logs = [np.log(parts) for parts in repeats if len(parts) > 1]
    if len(logs) < 2:
        return None
    within = float(np.median([np.var(parts, ddof=1) for parts in logs]))
    of_means = float(ranks.spread(np.array([[parts.mean() for parts in logs]]))[0]) ** 2
    between = max(0.0, of_means - within * float(np.mean([1 / len(parts) for parts in logs])))
    return between / (between + within) if between + within else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")
