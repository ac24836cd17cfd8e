"""From sessions to a baseline, or to the sentence that says which session won't do and why."""

import statistics
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np

from nearmetal import metrics, results
from nearmetal.gate.baseline import Baseline, BaselineError, Entry, Key, Noise
from nearmetal.results import FACTS, Case, Session
from nearmetal.stats import judge, ranks, sequential

#: Facts that may differ between the sessions of a baseline: another revision of the suite is noted, not refused.
MAY_DIFFER = {"revision"}
#: Sessions that a baseline is recorded from, unless they are named: what `make bench-gate` promises for.
SESSIONS = 12


def choose(database: Path, system: str, named: list[str] | None) -> list[Session]:
    """The sessions to record from, oldest first: those named, or the last with the same cases as the newest. ResultsError."""
    if named:
        return sorted(
            (results.load_session(database, uuid=uuid) for uuid in dict.fromkeys(named)),
            key=lambda one: one.order,
        )
    results.newest(database, system)  # raises where an older one would stand for it
    newest, chosen = None, []
    for session in results.sessions(database, newest_first=True):
        keys = {case.key for case in session.cases}
        if unfit(session):
            continue
        if session.system == system and keys == (newest := newest or keys):
            chosen.append(session)
        if len(chosen) == SESSIONS:
            break
    if not chosen:
        results.load_session(database, system)  # says which systems there are
    return chosen[::-1]


def unfit(session: Session) -> str:
    """Why a baseline can't be recorded from a session, which measured something else; empty: it can."""
    if any(case.node for case in session.cases):
        return "was distributed over nodes (--distribute), but a baseline is of a partition"
    if any(case.varied for case in session.cases):
        return "set variables of its checks by -P, but a baseline is of the checks as they are"
    return ""


def record(
    sessions: list[Session], before: Baseline, leave_out_noisy: bool = False
) -> tuple[Baseline, list[str]]:
    """The baseline with the cases of these sessions in place of its own, and notes for whoever reviews it.

    :raises BaselineError: a session failed, lacks a case, was measured on something else, or a variable is too noisy.
    """
    if not sessions:
        raise BaselineError(
            f"no session to record from. Fix: `reframe -c reframe_checks -r --system {before.system}` first"
        )
    whole = {case.key for session in sessions for case in session.cases}
    for session in sessions:
        if reason := unfit(session):
            raise BaselineError(
                f"session {session.uuid} {reason}. Fix: name other sessions with --session"
            )
        if failures := [case for case in session.failures if not _only_new(case)]:
            case = failures[0]
            raise BaselineError(
                f"session {session.uuid} failed: {case.check} on {case.partition} with {case.environ}: "
                f"{(case.failure or '').splitlines()[0]}. Fix: name other sessions with --session"
            )
        if missing := whole - {case.key for case in session.cases}:
            raise BaselineError(
                f"session {session.uuid} is incomplete: {len(missing)} of {len(whole)} cases are not in it, "
                f"such as {' | '.join(min(missing))}. Fix: name sessions of one selection with --session"
            )
    cases = {
        key: [next(case for case in session.cases if case.key == key) for session in sessions]
        for key in sorted(whole)
    }
    entries, notes = {}, []
    for key, found in cases.items():
        entries[key], said = _entry(key, found, sessions)
        notes += said
    after = Baseline(before.system, before.path, {**before.entries, **entries})
    notes = list(dict.fromkeys(notes))
    return _with_resolution(after, leave_out_noisy, notes), notes


def _only_new(case: Case) -> bool:
    """Whether a case failed for nothing but that the baseline lacks it: what its next one is recorded from."""
    return case.measured and bool(case.unreferenced)


def _entry(key: Key, cases: list[Case], sessions: list[Session]) -> tuple[Entry, list[str]]:
    name, notes = " | ".join(key), []
    for fact in (fact for fact in FACTS if len({case.facts.get(fact) for case in cases}) > 1):
        values = list(dict.fromkeys(case.facts.get(fact, "absent") for case in cases))
        if fact not in MAY_DIFFER:
            raise BaselineError(
                f"{name}: {fact} is not the same in all sessions: {'; '.join(values)}. "
                "Fix: record from sessions of one state of the system (--session)"
            )
        notes.append(f"{fact} differs between the sessions: {', '.join(values)}")
    noise: dict[str, Noise] = {}
    launches: dict[str, list[list[float]]] = {}
    medians: dict[str, float] = {}
    units: dict[str, str] = {}
    for value in cases[0].values:
        variable = value.variable
        found = [other for case in cases for other in case.values if other.variable == variable]
        if len(found) != len(cases) or not all(other.samples for other in found):
            raise BaselineError(
                f"{name}: not every session has launches of {variable}. Fix: name others with --session"
            )
        launches[variable], units[variable] = [list(other.samples) for other in found], value.unit
        together = [sample for samples in launches[variable] for sample in samples]
        if len(together) < judge.LEAST_BASELINE:
            raise BaselineError(
                f"{name}: {variable}: {len(together)} launches in {len(found)} sessions, but a rank test needs at least "
                f"{judge.LEAST_BASELINE}, and 60 find more. Fix: record from more sessions, or run with more launches "
                "(-S repeats=10)"
            )
        medians[variable] = float(f"{statistics.median(together):.6g}")
        noise[variable] = Noise(
            float(f"{ranks.spread(np.log(together)[None])[0]:.3g}"),
            len(together),
            _rounded(between_launches([parts for other in found for parts in other.within])),
            None,
        )
    facts = {fact: value for fact, value in cases[-1].facts.items() if isinstance(value, str)}
    return Entry(
        date.today().isoformat(),
        {session.uuid: session.started for session in sessions},
        facts,
        cases[0].parameters,
        units,
        medians,
        noise,
        launches,
    ), notes


def _with_resolution(baseline: Baseline, leave_out: bool, notes: list[str]) -> Baseline:
    """With what the gate finds in each variable's noise, now that all are known. Raises BaselineError."""
    day = baseline.drift
    count = sum(len(entry.noise) for entry in baseline.entries.values())
    entries = {}
    for key, entry in baseline.entries.items():
        noise = {}
        for name, one in entry.noise.items():
            unit = entry.units[name]
            if metrics.unit(unit).lower_is_better is None:
                noise[name] = replace(one, finds=None)
                notes.append(
                    f"{name} of {' | '.join(key)} stays unjudged: nearmetal/metrics.py does not say whether more or less "
                    f"{unit!r} is better"
                )
                continue
            size = judge.finds(entry.launches[name], count, day)
            noise[name] = replace(one, finds=_rounded(size))
            if size is None:
                what = (
                    f"{' | '.join(key)}: {name} is too noisy to be judged: it varies by {100 * one.spread:.0f} % between "
                    f"launches{f' and all by {100 * day:.1f} % between sessions' if day else ''}, in which "
                    f"{sequential.LOOKS[-1]} launches find no change of {100 * sequential.SIZES[1]:.0f} %"
                )
                if not leave_out:
                    raise BaselineError(
                        f"{what}. Fix: quieten the nodes, or let it stay unjudged with --leave-out-noisy"
                    )
                notes.append(f"{what}; it stays unjudged")
        entries[key] = replace(entry, noise=noise)
    return replace(baseline, entries=entries)


def between_launches(launches: list[tuple[float, ...]]) -> float | None:
    """Share of a variable's variance that lies between launches, from the parts of each; None where it can't be told.

    The variance components of a one-way layout, on logarithms and with medians of squares in place of their means, so
    that an outlier counts once (Kalibera and Jones, Rigorous benchmarking in reasonable time, ISMM 2013, section 6).
    """
    logs = [np.log(parts) for parts in launches if len(parts) > 1]
    if len(logs) < 2:
        return None
    within = float(np.median([np.var(parts, ddof=1) for parts in logs]))
    of_means = float(ranks.spread(np.array([[parts.mean() for parts in logs]]))[0]) ** 2
    between = max(0.0, of_means - within * float(np.mean([1 / len(parts) for parts in logs])))
    return between / (between + within) if between + within else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")
