"""From sessions to a baseline, or to the sentence that says which session won't do and why."""
import hashlib
import json
import math
import statistics
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import yaml

from . import judge, ranks, results, sequential
from .baseline import Baseline, BaselineError, Entry, Key, Noise
from .results import FACTS, Case, Session

#: Facts that may differ between the sessions of a baseline: another revision of the suite is noted, not refused.
MAY_DIFFER = {"revision"}
#: A reference's bound, which ReFrame judges by at once, is this many times the spread, and at least the second: what is
#: beyond is broken; what is within is the gate's, which has the launches to tell.
BOUND = 8, 0.25
#: A rate can't fall by more than this.
LOWEST = 0.9
#: Sessions that a baseline is recorded from, unless they are named: what `make bench-gate` promises for.
SESSIONS = 12
HEADER = """# The baseline of {}, written by `nearmetal baseline record`; read and commit its diff.
# At the end are ReFrame's references: [median over all launches, lower and upper bound as fractions, unit].
"""


def choose(database: Path, system: str, named: list[str] | None) -> list[Session]:
    """The sessions to record from, oldest first: those named, or the last with the same cases as the newest. ResultsError."""
    if named:
        return sorted((results.load_session(database, uuid=uuid) for uuid in dict.fromkeys(named)), key=lambda one: one.time)
    newest, chosen = None, []
    for session in results.sessions(database, newest_first=True):
        keys = {case.key for case in session.cases}
        if session.system == system and keys == (newest := newest or keys):
            chosen.append(session)
        if len(chosen) == SESSIONS:
            break
    return chosen[::-1]


def record(sessions: list[Session], before: Baseline, leave_out_noisy: bool = False) -> tuple[Baseline, list[str]]:
    """The baseline with the cases of these sessions in place of its own, and notes for whoever reviews it.

    :raises BaselineError: a session failed, lacks a case, was measured on something else, or a variable is too noisy.
    """
    if not sessions:
        raise BaselineError(f"no session to record from. Fix: `reframe -c reframe_checks -r --system {before.system}` first")
    whole = {case.key for session in sessions for case in session.cases}
    for session in sessions:
        if session.failures:
            case = session.failures[0]
            raise BaselineError(f"session {session.uuid} failed: {case.check} on {case.partition} with {case.environ}: "
                                f"{case.failure.splitlines()[0]}. Fix: name other sessions with --session")
        if missing := whole - {case.key for case in session.cases}:
            raise BaselineError(f"session {session.uuid} is incomplete: {len(missing)} of {len(whole)} cases are not in it, "
                                f"such as {' | '.join(min(missing))}. Fix: name sessions of one selection with --session")
    cases = {key: [next(case for case in session.cases if case.key == key) for session in sessions] for key in sorted(whole)}
    entries, notes = {}, []
    for key, found in cases.items():
        entries[key], said = _entry(key, found, sessions)
        notes += said
    after = Baseline(before.system, before.path, {**before.entries, **entries})
    return _with_resolution(after, leave_out_noisy, notes), notes


def _entry(key: Key, cases: list[Case], sessions: list[Session]) -> tuple[Entry, list[str]]:
    name, notes = " | ".join(key), []
    for fact in (fact for fact in FACTS if len({case.facts.get(fact) for case in cases}) > 1):
        values = list(dict.fromkeys(case.facts.get(fact, "absent") for case in cases))
        if fact not in MAY_DIFFER:
            raise BaselineError(f"{name}: {fact} is not the same in all sessions: {'; '.join(values)}. "
                                "Fix: record from sessions of one state of the system (--session)")
        notes.append(f"{name}: {fact} differs between the sessions: {', '.join(values)}")
    noise, launches, values, units = {}, {}, {}, {}
    for value in cases[0].values:
        variable = value.variable
        found = [other for case in cases for other in case.values if other.variable == variable]
        if len(found) != len(cases) or not all(other.samples for other in found):
            raise BaselineError(f"{name}: not every session has launches of {variable}. Fix: name others with --session")
        launches[variable], units[variable] = [list(other.samples) for other in found], value.unit
        together = sum(launches[variable], [])
        if len(together) < judge.LEAST_BASELINE:
            raise BaselineError(
                f"{name}: {variable}: {len(together)} launches in {len(found)} sessions, but a rank test needs at least "
                f"{judge.LEAST_BASELINE}, and 60 find more. Fix: record from more sessions, or run with more launches "
                "(-S repeats=10)")
        values[variable] = float(f"{statistics.median(together):.6g}")
        noise[variable] = Noise(_rounded(float(ranks.spread(np.log(together)[None])[0])), len(together),
                                _rounded(between_launches([parts for other in found for parts in other.within])), None)
    facts = {fact: value for fact, value in cases[-1].facts.items() if isinstance(value, str)}
    return Entry(date.today().isoformat(), {session.uuid: session.started for session in sessions}, facts,
                 cases[0].parameters, units, values, noise, launches), notes


def _with_resolution(baseline: Baseline, leave_out: bool, notes: list[str]) -> Baseline:
    """With what the gate finds in each variable's noise, now that all are known. Raises BaselineError."""
    day = baseline.drift
    count = sum(len(entry.noise) for entry in baseline.entries.values())
    entries = {}
    for key, entry in baseline.entries.items():
        noise = {}
        for name, one in entry.noise.items():
            errors = sequential.Errors(np.array([one.spread]), one.launches, day, len(entry.sessions))
            size = float(np.expm1(errors.size(judge.CAMPAIGN_ERROR / count / len(sequential.LOOKS))[0]))
            noise[name] = replace(one, finds=_rounded(size))
            if math.isnan(size):
                what = (f"{' | '.join(key)}: {name} is too noisy to be judged: it varies by {100 * one.spread:.0f} % between "
                        f"launches{f' and all by {100 * day:.1f} % between sessions' if day else ''}, in which "
                        f"{sequential.LOOKS[-1]} launches find no change of {100 * sequential.SIZES[1]:.0f} %")
                if not leave_out:
                    raise BaselineError(f"{what}. Fix: quieten the nodes, or let it stay unjudged with --leave-out-noisy")
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


def bounds(unit: str, spread: float) -> list[float | None]:
    """Lower and upper bound of a reference as fractions: of a time only the upper, of a rate only the lower."""
    reach = max(BOUND[1], BOUND[0] * spread)
    return [-_rounded(min(LOWEST, reach)), None] if unit.endswith("/s") else [None, _rounded(reach)]


def _rounded(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(f"{value:.3g}")


def save(baseline: Baseline) -> None:
    """Write both files, the launches first, so that a reader never finds newer references than launches."""
    entries = dict(sorted(baseline.entries.items()))
    launches = "{\n" + ",\n".join(
        f"{json.dumps(' | '.join(key))}: {{\n" + ",\n".join(
            f" {json.dumps(name)}: {json.dumps(sessions)}" for name, sessions in sorted(entry.launches.items())) + "}"
        for key, entry in entries.items()) + "}\n"
    common = {partition: _common([entry.facts for key, entry in entries.items() if key[1] == partition])
              for partition in sorted({key[1] for key in entries})}
    document = {"baseline": {
        "system": baseline.system,
        "launches_sha256": hashlib.sha256(launches.encode()).hexdigest(),
        "sessions": dict(sorted({uuid: when for entry in entries.values() for uuid, when in entry.sessions.items()}.items(),
                                key=lambda item: item[1])),
        "facts": common,
        "cases": {" | ".join(key): {
            "recorded": entry.recorded, "sessions": list(entry.sessions), "parameters": entry.parameters,
            "facts": {name: value for name, value in entry.facts.items() if name not in common[key[1]]},
            "noise": {name: vars(noise) for name, noise in sorted(entry.noise.items())},
        } for key, entry in entries.items()}}}
    for key, entry in entries.items():
        place = document.setdefault(key[0].split()[0], {"$index": ["$partition", "$environ", *entry.parameters]})
        for step in (f"{baseline.system}:{key[1]}", key[2], *entry.parameters.values()):
            place = place.setdefault(step, {})
        for name in sorted(entry.values):
            place[name] = [entry.values[name], *bounds(entry.units[name], entry.noise[name].spread), entry.units[name]]
    baseline.path.parent.mkdir(parents=True, exist_ok=True)
    for path, text in ((baseline.path.with_name(f"{baseline.system}.launches.json"), launches),
                       (baseline.path, HEADER.format(baseline.system) + yaml.dump(
                           document, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True))):
        partial = path.with_name(f".{path.name}.partial")
        partial.write_text(text)
        partial.replace(path)


def _common(facts: list[dict[str, str]]) -> dict[str, str]:
    """What is the same in all."""
    return {name: value for name, value in facts[0].items() if all(other.get(name) == value for other in facts)}


class _Dumper(yaml.SafeDumper):
    """Without anchors: a reader of a diff should not have to look elsewhere."""

    def ignore_aliases(self, data):
        return True
