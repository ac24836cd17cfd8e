"""Merges several runs of one case (`--reruns`, `--duration`, `--max-retries`, `--repeat`)."""

from __future__ import annotations

import itertools
import operator
import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nearmetal.results.outcome import Identity, Outcome
from nearmetal.results.session import XFAIL, Case, Value
from nearmetal.util import command

#: ReFrame's reason for ending a case at the end of its `--duration`.
OUT_OF_TIME = "aborted due to RunSessionTimeout"


def counted(runs: list[list[Outcome]], line: str) -> dict[Identity, list[Outcome]]:
    """The runs of each test case that count: all runs, but only the last of several retries.

    A run is a retry if `--max-retries` allows one, and it holds only cases that failed in the
    previous run. The runs of `--reruns` and `--duration` hold all cases. Where the number of
    retries is unknown, a run of all cases is none: a failure counts rather than to be lost.

    :arg line: the session's command line.
    """
    counted: dict[Identity, list[Outcome]] = {}
    failed: set[Identity] = set()
    # ReFrame's parser takes a second to import.
    retries = _most_retries(line) if len(runs) > 1 else 0
    for number, run in enumerate(runs):
        outcomes = {outcome.identity: outcome for outcome in run}
        allowed = len(outcomes) < len(counted)
        if retries is not None:
            allowed = 0 < number <= retries
        # A retry runs nothing but what failed before.
        retry = allowed and set(outcomes) <= failed
        failed = set()
        for identity, outcome in outcomes.items():
            if outcome.data["result"] not in ("pass", XFAIL):
                failed.add(identity)
            earlier = counted.setdefault(identity, [])
            if earlier and outcome.data.get("fail_reason") == OUT_OF_TIME:
                continue  # it was cut off; its earlier runs count
            if retry:
                earlier.clear()
            earlier.append(outcome)
    return counted


def _most_retries(line: str) -> int | None:
    """Most retries of a session's command; None if unknown."""
    try:
        asked = command.parse(line)
    except command.CommandError:
        return None
    if asked.given("mode"):  # a mode may hold further options
        return None
    return asked.given("max_retries") or 0


def merged(runs: Sequence[Case]) -> Case:
    """One case from several runs, with the samples of all. If one run failed, the case failed."""
    if len(runs) == 1:
        return runs[0]
    failed, reasons = [], []
    for number, run in enumerate(runs, 1):
        if run.failure is not None:
            failed.append(run)
            reasons.append(f"run {number} of {len(runs)}: {run.failure}")
    return replace(
        runs[0],
        values=_all_samples(runs),
        facts=_common_facts(runs),
        curves=_all_curves(runs),
        failure="; ".join(reasons) or None,
        phase=_phase(failed),
        xfail="; ".join(_distinct(runs, "xfail")),
        no_baseline=_first(runs, "no_baseline"),
        ended=max(run.ended for run in runs),
        unreferenced=tuple(dict.fromkeys(_joined(runs, "unreferenced"))),
        unexpected=_all_unexpected(failed),
        runs=len(runs),
        disturbances=_joined(runs, "disturbances"),
        evidence=_joined(runs, "evidence"),
        unknown_evidence=_joined(runs, "unknown_evidence"),
        foreign=all(run.foreign for run in runs),
        # Of several sweeps, the newest counts.
        links=_first(runs[::-1], "links"),
        node_values=_first(runs[::-1], "node_values"),
        congestion=_first(runs[::-1], "congestion"),
    )


def _first(runs: Sequence[Case], field: str) -> Any:
    """The first value of a field that is not empty; else an empty one."""
    for run in runs:
        if value := getattr(run, field):
            return value
    return getattr(runs[0], field)


def _distinct(runs: Sequence[Case], field: str) -> list:
    """The values of a field that are not empty, each once."""
    return list(dict.fromkeys(filter(None, map(operator.attrgetter(field), runs))))


def _joined(runs: Sequence[Case], field: str) -> tuple:
    """The values of a field of all runs, one after the other."""
    joined: tuple = ()
    for run in runs:
        joined += getattr(run, field)
    return joined


def _phase(failed: Sequence[Case]) -> str | None:
    """The phase of the failures: `performance` if no run failed in another one."""
    phases = [run.phase for run in failed]
    # A failure beyond a reference has values, any other one does not.
    return min(phases, key=lambda phase: (phase == "performance", str(phase)), default=None)


def _all_unexpected(failed: Sequence[Case]) -> tuple[str, ...]:
    """The expectations that runs failed by; () if one of them failed by something else."""
    if not all(run.unexpected for run in failed):
        return ()
    return tuple(dict.fromkeys(_joined(failed, "unexpected")))


def _all_curves(runs: Sequence[Case]) -> dict[str, dict[int, tuple[float, ...]]]:
    curves: dict[str, dict[int, tuple[float, ...]]] = {}
    for run in runs:
        for name, points in run.curves.items():
            curve = curves.setdefault(name, {})
            for size, samples in points.items():
                curve[size] = curve.get(size, ()) + samples
    return curves


def _all_samples(runs: Sequence[Case]) -> tuple[Value, ...]:
    """Each variable with the samples of all runs."""
    by_variable: dict[str, list[Value]] = {}
    for run in runs:
        for value in run.values:
            by_variable.setdefault(value.variable, []).append(value)
    return tuple(map(_merged_value, by_variable.values()))


def _merged_value(values: Sequence[Value]) -> Value:
    """A variable's values of several runs. A run without samples counts as one sample."""
    samples: tuple[float, ...] = ()
    within: tuple[tuple[float, ...], ...] = ()
    better, expected = "", ""
    for value in values:
        samples += value.samples or (value.value,)
        within += value.within
        better = better or value.better
        # XPASS comes last by name: one run that passed unexpectedly is a failure.
        expected = max(expected, value.expected)
    # Parts of some samples alone would be taken for parts of others.
    if not all(value.within for value in values):
        within = ()
    return replace(
        values[0],
        value=float(f"{statistics.median(samples):.6g}"),
        samples=samples,
        within=within,
        better=better,
        expected=expected,
    )


def _common_facts(runs: Sequence[Case]) -> dict:
    """Facts of several runs. Different texts become `a | b`, as for several nodes. Lists are
    joined."""
    by_name: dict[str, list] = {}
    for run in runs:
        for name, value in run.facts.items():
            by_name.setdefault(name, []).append(value)
    common: dict[str, Any] = {}
    for name, values in by_name.items():
        if set(map(type, values)) == {list}:
            items = itertools.chain.from_iterable(values)
            common[name] = sorted(set(map(str, items)))
        elif values.count(values[0]) == len(values):
            common[name] = values[0]
        else:
            common[name] = " | ".join(dict.fromkeys(map(str, values)))
    return common
