"""What the cases of a session were like before: in its baseline, else in an earlier session."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from nearmetal.judge.baseline import Baseline, Entry
from nearmetal.judge.explain.symptoms import Before
from nearmetal.judge.verdict import Where
from nearmetal.model.facts import nodes_in
from nearmetal.results import Case, Session


def before(
    session: Session, baseline: Baseline | None, earlier: Iterable[Session]
) -> dict[Where, Before]:
    """What each case was like before; cases that nothing is known of are left out.

    :arg earlier: sessions of the system before this one, oldest first.
    """
    wanted = {case.where for case in session.cases}
    held: dict[Where, dict[str, Case]] = {}
    for one in earlier:
        for case in one.cases:
            if case.where in wanted and case.counts:
                held.setdefault(case.where, {})[one.uuid] = case
    found = {}
    for case in session.cases:
        entry = baseline.entries.get(case.key) if baseline else None
        known = _of_case(entry, held.get(case.where, {}))
        if known:
            found[case.where] = known
    return found


def _of_case(entry: Entry | None, held: Mapping[str, Case]) -> Before | None:
    """By the baseline, and by its sessions where the database has them; else by the last one."""
    last = list(held.values())[-1:]
    if entry is None:
        return _of_cases(last) if last else None
    recorded = [case for uuid, case in held.items() if uuid in entry.sessions]
    known = _of_cases(recorded or last)
    evidence = entry.evidence or known.evidence
    return Before({**_nodes(recorded), **entry.facts}, evidence, known.curves)


def _of_cases(cases: Sequence[Case]) -> Before:
    """Facts of the last case, and evidence and curves of all."""
    values: dict[str, list[float]] = {}
    curves: dict[str, dict[int, list[float]]] = {}
    for case in cases:
        for name, found in case.quantities.items():
            values.setdefault(name, []).extend(found)
        for name, curve in case.curves.items():
            for size, samples in curve.items():
                curves.setdefault(name, {}).setdefault(size, []).extend(samples)
    facts = {**cases[-1].facts, **_nodes(cases)} if cases else {}
    evidence = {name: (statistics.median(of), max(of)) for name, of in values.items()}
    return Before(facts, evidence, curves)


def _nodes(cases: Iterable[Case]) -> dict[str, str]:
    """The fact `nodes` of all cases together; {} if none is known."""
    names = sorted({name for case in cases for name in nodes_in(case.facts)})
    return {"nodes": ", ".join(names)} if names else {}
