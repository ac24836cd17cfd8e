"""Records a baseline from sessions. An error names the unsuitable session and the reason."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import date

import numpy as np

from nearmetal.judge import native_ratio
from nearmetal.judge.baseline import (
    MAY_DIFFER,
    Baseline,
    BaselineError,
    Entry,
    Key,
    Noise,
    day_of,
    line_of_direction,
    without_direction,
)
from nearmetal.judge.baseline_sessions import failed, unfit
from nearmetal.judge.days import Series, drifts, few_days, steps
from nearmetal.judge.verdict import note_on_foreign, option_of_repeats
from nearmetal.model import metrics, settings
from nearmetal.model.facts import changed_facts, nodes_in
from nearmetal.results import FACTS, Case, Session, Value
from nearmetal.stats import judge, plan, ranks

#: A case in each session that holds it.
Measured = list[tuple[Session, Case]]


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
    held: dict[Key, Measured] = {}
    cases: list[Case] = []
    for session in sessions:
        cases += session.cases
        for key, case in session.by_key.items():
            held.setdefault(key, []).append((session, case))
    # Before anything is computed: a damaged session should not cost a minute.
    for session in sessions:
        _refuse_unsuitable(session, set(held), before.system)
    entries: dict[Key, Entry] = {}
    notes: list[str] = []
    for key, measured in sorted(held.items()):
        earlier = None
        if add:
            earlier = before.entries.get(key)
        if entry := _recorded(key, measured, earlier, notes):
            entries[key] = entry
    after = Baseline(before.system, before.path, {**before.entries, **entries})
    after = _with_detectable_changes(after, leave_out_noisy, notes)
    notes += _next_step(after, option_of_repeats(plan.LEVEL_REPEATS, cases))
    notes.append(_least_repeats(after, cases))
    notes += _steps(entries)
    notes.append(note_on_foreign(cases))
    return after, list(dict.fromkeys(filter(None, notes)))


def _recorded(
    key: Key, measured: Measured, earlier: Entry | None, notes: list[str]
) -> Entry | None:
    """The entry of a case; None if nothing of it passed.

    :arg earlier: the entry whose samples are kept.
    :arg notes: receives notes for the reviewer.
    """
    passed, failing = _expected_failures(key, measured, notes)
    if not passed:
        return None
    sessions, cases = [], []
    for session, case in _undisturbed(key, passed, notes):
        sessions.append(session)
        cases.append(_without(case, failing))
    _refuse_changed_facts(key, cases, sessions, notes)
    if earlier:
        samples = dict(earlier.samples)
        for name in failing:
            samples.pop(name, None)
        earlier = replace(earlier, samples=samples)
        _refuse_other_facts(key, earlier, cases, notes)
    return _entry(key, cases, sessions, earlier)


def _next_step(baseline: Baseline, option: str) -> list[str]:
    """A note on what more sessions would bring.

    :arg option: ReFrame's for as many repeats as a session of LEAST_LEVELS needs.
    """
    least: dict[Series, float] = {}
    finds: list[float] = []
    for key, entry in baseline.entries.items():
        for name, noise in entry.noise.items():
            if noise.finds is not None:
                least[key, name] = entry.assumed_drift(name)
                finds.append(noise.finds)
    few = few_days(baseline, least)
    if not few:
        return []
    lines = [
        few[0].upper() + few[1:],
        *_measured_drift(baseline, least),
        f"Half of the variables find {100 * statistics.median(finds):.0f} %",
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
    return [". ".join(lines)]


def _least_repeats(baseline: Baseline, cases: list[Case]) -> str:
    """A note on how many repeats a session needs; '' if the default number is enough."""
    counts = []
    for entry in baseline.entries.values():
        for name, noise in entry.noise.items():
            if noise.finds is not None:
                counts.append(sum(map(len, entry.anchored_by_day(name))))
    least = plan.least_repeats(min(counts, default=0), max(1, baseline.variables))
    if not counts or least <= plan.REPEATS:
        return ""
    return (
        f"{plan.REPEATS} repeats against {min(counts)} of the baseline are never significant in "
        f"{baseline.variables} variables, unless all differ by more than a factor of "
        f"{plan.HUGE:.0f}. Fix: run sessions with {option_of_repeats(least, cases)}, or use "
        "`nearmetal gate --confirm`"
    )


def _steps(entries: dict[Key, Entry]) -> list[str]:
    """A note on each session from which on variables have another level."""
    notes = []
    for session, changes in steps(entries).items():
        (key, name), change = max(changes.items(), key=lambda entry: abs(entry[1]))
        start = entries[key].sessions[session]
        notes.append(
            f"{len(changes)} variable(s) changed within the baseline, from session {session} of "
            f"{start} on, most {name} of {' | '.join(key)}: {100 * change:+.1f} %. Across a "
            "change, the gate finds less. Fix: `nearmetal history` shows what else changed; record "
            "from sessions of one level (--since or --session)"
        )
    return notes


def _measured_drift(baseline: Baseline, least: dict[Series, float]) -> list[str]:
    """A sentence on the variables that drift by more than is assumed of them."""
    more = {}
    for series, drift in drifts(baseline).items():
        if series in least and drift > least[series]:
            more[series] = drift
    if not more:
        return []
    (key, name), most = max(more.items(), key=lambda entry: entry[1])
    where = f"{name} of {' | '.join(key)}"
    return [f"Its sessions differ in {len(more)} variables, most in {where}: {100 * most:.1f} %"]


def _refuse_unsuitable(session: Session, keys: set[Key], system: str) -> None:
    """Raise BaselineError for a session of another system, that failed or that lacks a case."""
    name = f"session {session.uuid}"
    if session.system != system:
        raise BaselineError(
            f"{name} is of system {session.system}, not of {system}. Fix: leave it out of "
            f"--session, or give --system {session.system}"
        )
    if reason := unfit(session) or failed(session):
        raise BaselineError(f"{name} {reason}. Fix: name other sessions with --session")
    missing = keys - session.by_key.keys()
    if missing:
        raise BaselineError(
            f"{name} is incomplete: {len(missing)} of {len(keys)} cases are not in it, "
            f"such as {' | '.join(min(missing))}. Fix: name sessions of one selection "
            "with --session"
        )


def _expected_failures(key: Key, measured: Measured, notes: list[str]) -> tuple[Measured, set[str]]:
    """The sessions with values beside expected failures, and these failures as variables."""
    failing: set[str] = set()
    for _, case in measured:
        for value in case.values:
            if value.expected:
                failing.add(value.variable)
    passed: Measured = []
    what = " | ".join(key)
    if failing:
        what = f"{', '.join(sorted(failing))} of {what}"
    for session, case in measured:
        if not case.xfail or _without(case, failing).values:
            passed.append((session, case))
        if case.xfail:
            notes.append(f"xfail: {what} is left out: {case.xfail}")
    return passed, failing


def _without(case: Case, variables: set[str]) -> Case:
    """The case without some variables."""
    values = filter(lambda value: value.variable not in variables, case.values)
    return replace(case, values=tuple(values))


def _undisturbed(key: Key, measured: Measured, notes: list[str]) -> Measured:
    """The sessions in which nothing disturbed the case. Raises BaselineError if there is none."""
    kept: Measured = []
    why, name = "", " | ".join(key)
    for session, case in measured:
        if not case.disturbed:
            kept.append((session, case))
            continue
        why = case.disturbed[0].text
        notes.append(
            f"{name}: session {session.uuid} is left out, since something else used the nodes: "
            f"{why}"
        )
    if not kept:
        raise BaselineError(
            f"{name}: something else used the nodes in all sessions: {why}. Fix: end it, and run "
            "the check again"
        )
    return kept


def _refuse_changed_facts(
    key: Key, cases: list[Case], sessions: list[Session], notes: list[str]
) -> None:
    """Raise BaselineError if a fact differs between cases that may not."""
    strict = (*FACTS, settings.FACT)
    others: set[str] = set()
    for case in cases[1:]:
        others.update(changed_facts(cases[0].facts, case.facts))
    for fact in (*strict, *sorted(others - {*strict})):
        texts = [str(case.facts.get(fact, "absent")) for case in cases]
        values = list(dict.fromkeys(texts))
        if len(values) == 1:
            continue
        if fact in strict and fact not in MAY_DIFFER:
            raise BaselineError(
                f"{' | '.join(key)}: {fact} is not the same in all sessions: {'; '.join(values)}."
                f"{_outlier(texts, sessions)} "
                "Fix: record from sessions of one state of the system (--session)"
            )
        notes.append(f"{fact} differs between the sessions: {', '.join(values)}")


def _outlier(texts: list[str], sessions: list[Session]) -> str:
    """A sentence on the one session that differs from all others; '' if it is not one."""
    counts = Counter(texts)
    rare, times = counts.most_common()[-1]
    if times != 1 or len(texts) < 3 or len(counts) != 2:
        return ""
    session = sessions[texts.index(rare)]
    return f" Only session {session.uuid} of {session.started} has {rare}."


def _refuse_other_facts(key: Key, earlier: Entry, cases: list[Case], notes: list[str]) -> None:
    """Raise BaselineError if facts differ from the baseline's that may not."""
    for case in cases:
        for fact, (then, now) in changed_facts(earlier.facts, case.facts).items():
            if fact not in MAY_DIFFER:
                raise BaselineError(
                    f"{' | '.join(key)}: {fact} was {then} in the baseline and is {now}. Fix: "
                    "record a new baseline, without --add"
                )
            notes.append(f"{fact} differs between the sessions: {then}, {now}")


def _entry(
    key: Key, cases: list[Case], sessions: list[Session], earlier: Entry | None = None
) -> Entry:
    """The entry of a case.

    :arg earlier: the baseline's entry whose samples it keeps.
    """
    before: dict[str, list[list[float]]] = {}
    recorded: dict[str, str] = {}
    if earlier:
        before, recorded = earlier.samples, dict(earlier.sessions)
    by_variable: dict[str, list[Value]] = {}
    for case in cases:
        for value in case.values:
            by_variable.setdefault(value.variable, []).append(value)
    own = [value.variable for value in cases[0].values]
    if before and _plain(before) != _plain(own):
        raise BaselineError(
            f"{' | '.join(key)}: the sessions have other variables than the baseline. Fix: record "
            "a new baseline, without --add"
        )
    recorded |= {session.uuid: session.started for session in sessions}
    entry = Entry(
        recorded=date.today().isoformat(),
        sessions=recorded,
        facts=_facts(cases, earlier),
        parameters=cases[0].parameters,
        units={},
        values={},
        noise={},
        samples={},
        evidence=_evidence(cases, earlier),
        anchor=_anchor(recorded, earlier),
    )
    for name in own:
        values = by_variable[name]
        # A ratio that a session or the earlier baseline lacks is left out.
        lacks = len(values) != len(cases) or (earlier and name not in before)
        if native_ratio.is_ratio(name) and lacks:
            continue
        samples = list(before.get(name, ()))
        parts: list[tuple[float, ...]] = []
        for value in values:
            samples.append(list(value.samples))
            parts += value.within
        if len(values) != len(cases) or not all(samples):
            raise BaselineError(
                f"{' | '.join(key)}: {name}: a session lacks its samples. Fix: name other sessions "
                "with --session"
            )
        _add_variable(entry, values[0], samples, parts)
        count = entry.noise[name].launches
        if count < plan.LEAST_BASELINE:
            raise BaselineError(
                f"{' | '.join(key)}: {name}: {count} samples in {len(values)} sessions, but a rank "
                f"test needs at least {plan.LEAST_BASELINE}; with 60 it finds smaller changes. "
                "Fix: record from more sessions, or run with more repeats "
                f"({option_of_repeats(plan.LEAST_BASELINE, cases)})"
            )
    return entry


def _anchor(sessions: dict[str, str], earlier: Entry | None) -> int:
    """Number of first sessions that stay the anchor: those of the earlier entry, and further ones
    up to BASELINE_SESSIONS days; 0: all."""
    if earlier is None:
        return 0
    days = list(map(day_of, sessions.values()))
    count = earlier.anchor or len(earlier.sessions)
    while len(set(days[:count])) < plan.BASELINE_SESSIONS and count < len(days):
        count += 1
    return count % len(days)


def _plain(names: Iterable[str]) -> set[str]:
    """The variables that are no ratios."""
    return set(itertools.filterfalse(native_ratio.is_ratio, names))


def _add_variable(
    entry: Entry, value: Value, samples: list[list[float]], parts: list[tuple[float, ...]]
) -> None:
    """Add a variable to an entry.

    :arg samples: of each session.
    :arg parts: of each repeat.
    """
    name = value.variable
    anchored = list(itertools.chain(*samples[: entry.anchor or None]))
    count = sum(map(len, samples))
    spread = 0.0
    if min(anchored) > 0:
        spread = float(f"{ranks.spread(np.log(anchored)[None])[0]:.3g}")
    entry.samples[name] = samples
    entry.units[name] = value.unit
    entry.values[name] = float(f"{statistics.median(anchored):.6g}")
    entry.noise[name] = Noise(spread, count, _rounded(between_repeats(parts)), None)
    if value.better and metrics.unit(value.unit).lower_is_better is None:
        entry.better[name] = value.better


def _facts(cases: list[Case], earlier: Entry | None) -> dict[str, str]:
    """The facts of the newest case, and the nodes of all."""
    facts: dict[str, str] = {}
    nodes: set[str] = set()
    for fact, text in cases[-1].facts.items():
        if isinstance(text, str):
            facts[fact] = text
    if earlier:
        nodes.update(nodes_in(earlier.facts))
    for case in cases:
        nodes.update(case.nodes)
    if nodes:
        facts["nodes"] = ", ".join(sorted(nodes))
    return facts


def _evidence(cases: list[Case], earlier: Entry | None) -> dict[str, tuple[float, float]]:
    """Each quantity of evidence: median of the sessions' medians, and the largest of them."""
    medians: dict[str, list[float]] = {}
    largest: dict[str, float] = {}
    if earlier:
        # A baseline keeps one number for each quantity, which stands for all of its sessions.
        for name, (middle, most) in earlier.evidence.items():
            medians[name] = [middle] * len(earlier.sessions)
            largest[name] = most
    for case in cases:
        for name, values in case.quantities.items():
            medians.setdefault(name, []).append(statistics.median(values))
    evidence = {}
    for name, middles in sorted(medians.items()):
        most = max([*middles, largest.get(name, -math.inf)])
        evidence[name] = float(f"{statistics.median(middles):.3g}"), float(f"{most:.3g}")
    return evidence


def _with_detectable_changes(baseline: Baseline, leave_out: bool, notes: list[str]) -> Baseline:
    """The baseline with each variable's minimum detectable change. Raises BaselineError."""
    drift = drifts(baseline)
    count = sum(len(entry.noise) for entry in baseline.entries.values())
    entries = {}
    for key, entry in baseline.entries.items():
        noise = {}
        for name, unjudged in entry.noise.items():
            finds, why = _detectable(entry, name, count, drift[key, name])
            noise[name] = replace(unjudged, finds=_rounded(finds))
            if why and entry.is_positive(name) and entry.lower_is_better(name) is not None:
                if not leave_out:
                    raise BaselineError(
                        f"{' | '.join(key)}: {name} {why}. Fix: quieten the nodes, or leave it "
                        "unjudged with --leave-out-noisy"
                    )
                notes.append(f"{' | '.join(key)}: {name} {why}; it stays unjudged")
            elif why:
                notes.append(f"{name} of {' | '.join(key)} stays unjudged: {why}")
        entries[key] = replace(entry, noise=noise)
    return replace(baseline, entries=entries)


def _detectable(entry: Entry, name: str, variables: int, drift: float) -> tuple[float | None, str]:
    """The minimum detectable change of a variable; else None, and why it is not judged."""
    unit = entry.units[name]
    if entry.lower_is_better(name) is None:
        fix = f"Fix: {line_of_direction(unit)}, and record anew"
        return None, f"{without_direction(unit)}. {fix}"
    if not entry.is_positive(name):
        return None, "it has a value of 0 or less"
    finds = judge.detectable_change(entry.anchored_by_day(name), variables, drift)
    if finds is not None:
        return finds, ""
    days = ""
    if drift:
        days = f" and by {100 * drift:.1f} % between days"
    return None, (
        f"is too noisy to be judged: it varies by {100 * entry.noise[name].spread:.0f} % between "
        f"repeats{days}. {plan.ANALYSES[-1]} repeats do not find a change of "
        f"{100 * plan.DETECTABLE[1]:.0f} %{_noisy_session(entry, name, variables, drift)}"
    )


def _noisy_session(entry: Entry, name: str, variables: int, drift: float) -> str:
    """A sentence on the one session that makes a variable too noisy; '' if it is not one."""
    samples = entry.samples[name]
    if len(samples) != len(entry.sessions) or len(samples) < 3:
        return ""
    noisy = []
    for place, uuid in enumerate(entry.sessions):
        others = [*samples[:place], *samples[place + 1 :]]
        try:
            if judge.detectable_change(others, variables, drift) is not None:
                noisy.append(uuid)
        except judge.JudgeError:
            return ""
    if len(noisy) != 1:
        return ""
    return f". Without session {noisy[0]} it is not"


def between_repeats(repeats: list[tuple[float, ...]]) -> float | None:
    """Fraction of a variable's variance between repeats, from the parts of each; None: unknown.

    These are the variance components of a one-way layout on logarithms (Kalibera and Jones,
    Rigorous benchmarking in reasonable time, ISMM 2013, section 6). Medians of squares replace
    means, so that an outlier counts once.
    """
    means, variances, counts = [], [], []
    for parts in repeats:
        # A value of 0 or less has no logarithm.
        if min(parts, default=1.0) <= 0:
            return None
        if len(parts) > 1:
            logs = np.log(parts)
            means.append(logs.mean())
            variances.append(np.var(logs, ddof=1))
            counts.append(len(parts))
    if len(means) < 2:
        return None
    within = float(np.median(variances))
    of_means = float(ranks.spread(np.array([means]))[0]) ** 2
    between = max(0.0, of_means - within * float(np.mean(1 / np.array(counts))))
    if not between + within:
        return None
    return between / (between + within)


def _rounded(value: float | None) -> float | None:
    if value is None:
        return None
    return float(f"{value:.3g}")
