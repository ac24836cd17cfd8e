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
    held: dict[Where, dict[str, Case]] = {}
    for one in earlier:
        for case in one.cases:
            if case.where in session.by_where and case.counts:
                held.setdefault(case.where, {})[one.uuid] = case
    known = {}
    for case in session.cases:
        entry = baseline.entries.get(case.key) if baseline else None
        cases = held.get(case.where, {})
        if entry:
            known[case.where] = _of_entry(entry, cases)
        elif cases:
            known[case.where] = _of_cases([list(cases.values())[-1]])
    return known


def _of_entry(entry: Entry, held: Mapping[str, Case]) -> Before:
    """By the baseline, and by its sessions where the database has them; else by the last one.

    :arg held: the case by session, oldest first.
    """
    recorded = [case for uuid, case in held.items() if uuid in entry.sessions]
    before = _of_cases(recorded or list(held.values())[-1:])
    evidence = entry.evidence or before.evidence
    return Before({**_nodes(recorded), **entry.facts}, evidence, before.curves)


def _of_cases(cases: Sequence[Case]) -> Before:
    """Facts of the last case, and evidence and curves of all."""
    values: dict[str, list[float]] = {}
    curves: dict[str, dict[int, list[float]]] = {}
    facts: dict[str, str] = {}
    for case in cases:
        facts = case.facts
        for name, repeats in case.quantities.items():
            values.setdefault(name, []).extend(repeats)
        for name, curve in case.curves.items():
            for size, samples in curve.items():
                curves.setdefault(name, {}).setdefault(size, []).extend(samples)
    evidence = {name: (statistics.median(one), max(one)) for name, one in values.items()}
    return Before({**facts, **_nodes(cases)}, evidence, curves)


def _nodes(cases: Iterable[Case]) -> dict[str, str]:
    """The fact `nodes` of all cases together; {} if none is known."""
    names: set[str] = set()
    for case in cases:
        names.update(nodes_in(case.facts))
    return {"nodes": ", ".join(sorted(names))} if names else {}
