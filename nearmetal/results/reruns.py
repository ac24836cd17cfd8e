"""Merges several runs of one case (`--reruns`, `--duration`, `--max-retries`, `--repeat`)."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from nearmetal.results.session import XFAIL, Case, Value
from nearmetal.util import command

#: ReFrame's reason for ending a case at the end of its `--duration`.
OUT_OF_TIME = "aborted due to RunSessionTimeout"


#: Display name, partition, environment and ReFrame's unique name of a test case. Two tests of one
#: display name differ in the last one, which versions before 4.0 lack.
Identity = tuple[str, str, str, str]


def outcomes(runs: list[dict], line: str) -> dict[Identity, list[dict]]:
    """The runs of each test case that count: all runs, but only the last of several retries.

    A run is a retry if `--max-retries` allows one, and it holds only cases that failed in the
    previous run. The runs of `--reruns` and `--duration` hold all cases. Where the number of
    retries is unknown, a run of all cases is none: a failure counts rather than to be lost.

    :arg line: the session's command line.
    """
    found: dict[Identity, list[dict]] = {}
    failed: set = set()
    retries = _most_retries(line) if len(runs) > 1 else 0
    for number, run in enumerate(runs):
        cases = {_identity(case): case for case in run["testcases"]}
        allowed = len(cases) < len(found) if retries is None else 0 < number <= retries
        retry = allowed and set(cases) <= failed
        for key, case in cases.items():
            earlier = found.setdefault(key, [])
            if earlier and case.get("fail_reason") == OUT_OF_TIME:
                continue  # it was cut off; its earlier runs count
            if retry:
                earlier.clear()
            earlier.append(case)
        failed = {key for key, case in cases.items() if case["result"] not in ("pass", XFAIL)}
    return found


def _identity(case: dict) -> Identity:
    unique = case.get("unique_name")
    place = case["display_name"], case["partition"], case["environ"]
    return (*place, unique if isinstance(unique, str) else "")


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
    failed = {number: run for number, run in enumerate(runs, 1) if run.failure is not None}
    phases = {run.phase for run in failed.values()}
    reasons = [f"run {number} of {len(runs)}: {run.failure}" for number, run in failed.items()]
    curves: dict[str, dict[int, tuple[float, ...]]] = {}
    for run in runs:
        for name, points in run.curves.items():
            curve = curves.setdefault(name, {})
            for size, samples in points.items():
                curve[size] = curve.get(size, ()) + samples
    return replace(
        runs[0],
        values=_all_samples(runs),
        facts=_common_facts([run.facts for run in runs if run.facts]),
        curves=curves,
        failure="; ".join(reasons) or None,
        phase=min(phases - {"performance"}, key=str, default=min(phases, key=str, default=None)),
        xfail="; ".join(dict.fromkeys(run.xfail for run in runs if run.xfail)),
        no_baseline=next((run.no_baseline for run in runs if run.no_baseline), ""),
        ended=max(run.ended for run in runs),
        unreferenced=tuple(dict.fromkeys(name for run in runs for name in run.unreferenced)),
        unexpected=_all_unexpected(list(failed.values())),
        runs=len(runs),
        disturbances=sum((run.disturbances for run in runs), ()),
        evidence=sum((run.evidence for run in runs), ()),
        unknown_evidence=sum((run.unknown_evidence for run in runs), ()),
        foreign=all(run.foreign for run in runs),
        links=next((run.links for run in reversed(runs) if run.links), {}),
        node_values=next((run.node_values for run in reversed(runs) if run.node_values), {}),
        congestion=next((run.congestion for run in reversed(runs) if run.congestion), {}),
    )


def _all_unexpected(failed: list[Case]) -> tuple[str, ...]:
    """The expectations that runs failed by; () if one of them failed by something else."""
    if not all(run.unexpected for run in failed):
        return ()
    return tuple(dict.fromkeys(text for run in failed for text in run.unexpected))


def _all_samples(runs: Sequence[Case]) -> tuple[Value, ...]:
    """Each variable with the samples of all runs. A run without samples counts as one sample."""
    grouped: dict[str, list[Value]] = {}
    for run in runs:
        for value in run.values:
            grouped.setdefault(value.variable, []).append(value)
    found = []
    for values in grouped.values():
        samples = sum((value.samples or (value.value,) for value in values), ())
        parts = [value.within for value in values]
        found.append(
            replace(
                values[0],
                value=float(f"{statistics.median(samples):.6g}"),
                samples=samples,
                within=sum(parts, ()) if all(parts) else (),
                better=next((value.better for value in values if value.better), ""),
                # XPASS comes last by name: one run that passed unexpectedly is a failure.
                expected=max(value.expected for value in values),
            )
        )
    return tuple(found)


def _common_facts(found: Sequence[dict]) -> dict:
    """Facts of several runs. Different texts become `a | b`, as for several nodes. Lists are
    joined."""
    facts: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in found for name in one):
        values = [one[name] for one in found if name in one]
        if all(isinstance(value, list) for value in values):
            facts[name] = sorted({str(item) for value in values for item in value})
        elif all(value == values[0] for value in values):
            facts[name] = values[0]
        else:
            facts[name] = " | ".join(dict.fromkeys(map(str, values)))
    return facts
