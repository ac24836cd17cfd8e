"""What a judged session shows on each partition: layers, facts, evidence, signs and failures.

Pure functions of a gate's report, and of what the cases were like before (`Before`).
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nearmetal.judge import native_ratio
from nearmetal.judge.explain import curves
from nearmetal.judge.explain.rules import Rules
from nearmetal.judge.verdict import GateReport, Verdict, Where
from nearmetal.model import catalogue
from nearmetal.model.facts import changed_facts, nodes_in
from nearmetal.results import Case
from nearmetal.stats.plan import THRESHOLD

#: States of a variable or layer, from the most to the least telling.
WORSE, SUSPECT, BETTER, SAME, UNKNOWN = "worse", "suspect", "better", "same", "unknown"
ORDER = (WORSE, SUSPECT, BETTER, SAME, UNKNOWN)
#: Verdicts that call for an explanation.
EXPLAINED = ("regressed", "deviates", "disturbed")
#: Prefix of an incomplete verdict on a case that ran and failed.
FAILED = "failed: "
#: Smallest change of a variable that the gate does not decide, to be suspected.
SUSPECTED = 0.05
#: Layers that an MPI library decides.
OF_MPI = ("mpi", "within", "collectives")


@dataclass(frozen=True)
class Before:
    """What a case was like in the baseline, or in the session before."""

    facts: Mapping[str, str] = field(default_factory=dict)
    #: quantity -> median, and the largest
    evidence: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: samples by curve and message size
    curves: Mapping[str, Mapping[int, Sequence[float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Observed:
    """What one partition shows."""

    place: str
    #: layer -> state
    layers: dict[str, str]
    #: variables that got worse, or their cases if they failed, in words
    worse: tuple[str, ...]
    #: changed: then, now
    facts: dict[str, tuple[str, str]] = field(default_factory=dict)
    #: quantity that moved -> in words
    evidence: dict[str, str] = field(default_factory=dict)
    #: quantities by which repeats were disturbed
    disturbed: frozenset[str] = frozenset()
    #: sign -> in words
    signs: dict[str, str] = field(default_factory=dict)
    failures: tuple[str, ...] = ()

    def of(self, state: str) -> tuple[str, ...]:
        """The layers of a state."""
        return tuple(layer for layer, found in self.layers.items() if found == state)


def observe(
    report: GateReport,
    before: Mapping[Where, Before],
    rules: Rules,
    other_nodes: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Observed]:
    """What each partition shows on which something calls for an explanation.

    :arg other_nodes: further signs by partition, of what other nodes showed (judge/other_nodes.py).
    """
    verdicts = _without_ratios(report.verdicts)
    cases = report.session.by_where
    found = []
    for partition in dict.fromkeys(verdict.partition for verdict in verdicts if calls(verdict)):
        own = [verdict for verdict in verdicts if verdict.partition == partition]
        seen = _partition(partition, own, cases, before, rules)
        further = (other_nodes or {}).get(partition, {})
        found.append(replace(seen, signs={**seen.signs, **further}))
    return found


def _without_ratios(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts on variables; a ratio that got worse stands in for one that did not show it."""
    plain, worse = [], {}
    for verdict in verdicts:
        if not native_ratio.is_ratio(verdict.variable):
            plain.append(verdict)
        elif calls(verdict):
            name = native_ratio.plain(verdict.variable)
            worse[verdict.where, name] = replace(verdict, variable=name)
    return [
        verdict if calls(verdict) else worse.get((verdict.where, verdict.variable), verdict)
        for verdict in plain
    ]


def calls(verdict: Verdict) -> bool:
    """Whether a verdict calls for an explanation.

    A value that deviates as it did in the baseline does not: nothing changed.
    """
    if verdict.name == "deviates" and verdict.interval:
        return state(verdict) == WORSE
    return verdict.name in EXPLAINED or _has_failed(verdict)


def _has_failed(verdict: Verdict) -> bool:
    return (
        verdict.name == "incomplete" and not verdict.variable and verdict.reason.startswith(FAILED)
    )


def _partition(
    partition: str,
    verdicts: list[Verdict],
    cases: Mapping[Where, Case],
    before: Mapping[Where, Before],
    rules: Rules,
) -> Observed:
    worse = [verdict for verdict in verdicts if calls(verdict)]
    pairs = []
    for where in dict.fromkeys(verdict.where for verdict in worse):
        if where in cases:
            pairs.append((cases[where], before.get(where, Before())))
    evidence = _evidence(pairs, rules)
    disturbed: dict[str, str] = {}
    for case, _ in pairs:
        disturbed.update((cause.rule, cause.text) for cause in case.disturbed)
    failures = [verdict.reason.removeprefix(FAILED) for verdict in verdicts if _has_failed(verdict)]
    failures += [verdict.reason for verdict in verdicts if verdict.name == "deviates"]
    return Observed(
        partition,
        _layers(verdicts),
        tuple(" ".join(filter(None, [*verdict.where, verdict.variable])) for verdict in worse),
        _facts(pairs),
        {**evidence, **disturbed},
        frozenset(disturbed),
        {
            **_nodes(verdicts, cases, before),
            **_environments(verdicts),
            **_collectives(verdicts),
            **_sizes(cases, before, partition),
        },
        tuple(failures),
    )


def state(verdict: Verdict) -> str:
    """The state of one variable."""
    if verdict.name == "regressed" or _has_failed(verdict):
        return WORSE
    if verdict.name == "deviates" and not verdict.interval:
        return UNKNOWN if verdict.of_repeats else WORSE
    if verdict.name in ("ok", "watched"):
        return SAME
    if verdict.name == "improved":
        return BETTER
    undecided = ("deviates", "disturbed", "inconclusive")
    if verdict.name not in undecided or not verdict.interval or verdict.change is None:
        return UNKNOWN
    sign = 1 if verdict.lower_is_better else -1
    least, most = sorted(sign * end for end in verdict.interval)
    if least > THRESHOLD and sign * verdict.change > SUSPECTED:
        return SUSPECT if verdict.name == "inconclusive" else WORSE
    return SAME if most < SUSPECTED else UNKNOWN


def _layers(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """The state of each layer that was measured: the most telling of its variables."""
    found: dict[str, str] = {}
    for verdict in verdicts:
        own = state(verdict)
        for layer in _layers_of(verdict):
            found[layer] = min(own, found.get(layer, own), key=ORDER.index)
    return found


def _layers_of(verdict: Verdict) -> set[str]:
    """The layer of a variable; of a case that failed, those of its check."""
    if verdict.variable or not _has_failed(verdict):
        return {catalogue.layer(verdict.check, verdict.variable)} - {catalogue.NONE}
    return catalogue.layers(verdict.check)


def _facts(pairs: Iterable[tuple[Case, Before]]) -> dict[str, tuple[str, str]]:
    """Facts that changed in the cases; each variable of `mpi_settings` is one."""
    found: dict[str, tuple[str, str]] = {}
    for case, then in pairs:
        if not then.facts or not case.facts:
            continue
        for name, change in changed_facts(_comparable(then.facts, case), case.facts).items():
            if name == "mpi_settings":
                found |= _settings(*change)
            else:
                found.setdefault(name, change)
    return found


def _comparable(then: Mapping[str, str], case: Case) -> dict[str, str]:
    """The facts of before; beside a case that failed, those that it had come to record."""
    if case.failure is None:
        return dict(then)
    return {name: value for name, value in then.items() if name in case.facts}


def _settings(then: str, now: str) -> dict[str, tuple[str, str]]:
    """Variables of the environment that differ: {mpi_settings.NAME: (then, now)}."""
    before, after = _variables(then), _variables(now)
    changed = {}
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            change = before.get(name, "unset"), after.get(name, "unset")
            changed[f"mpi_settings.{name}"] = change
    return changed


def _variables(settings: str) -> dict[str, str]:
    """`A=1; B=2` by name; nodes that differ are set apart by ` | `."""
    words = re.split(r"; | \| ", settings)
    return dict(word.split("=", 1) for word in words if "=" in word)


def _evidence(pairs: Iterable[tuple[Case, Before]], rules: Rules) -> dict[str, str]:
    """Quantities that moved in a case, in the words of the case that moved most."""
    texts: dict[str, str] = {}
    most_growth: dict[str, float] = {}
    for case, then in pairs:
        for name, values in case.quantities.items():
            rule, known = rules.evidence.get(name), then.evidence.get(name)
            if rule is None or known is None or not values or not rule.counts(case.link_class):
                continue
            (middle, most), now = known, statistics.median(values)
            if now <= most or now < rule.least or now < rule.factor * middle:
                continue
            growth = now / max(middle, rule.least / rule.factor, 1e-9)
            if growth > most_growth.get(name, 0.0):
                most_growth[name], texts[name] = growth, rule.said(middle, now)
    return texts


def _nodes(
    verdicts: Iterable[Verdict], cases: Mapping[Where, Case], before: Mapping[Where, Before]
) -> dict[str, str]:
    """Signs that a node is the cause, or that the nodes are others."""
    states: dict[Where, set[str]] = {}
    for verdict in verdicts:
        states.setdefault(verdict.where, set()).add(state(verdict))
    worse: list[frozenset[str]] = []
    others: set[str] = set()
    same: set[str] = set()
    for where, found_states in states.items():
        nodes = _nodes_of(cases.get(where))
        then = set(nodes_in(dict(before[where].facts))) if where in before else set()
        if WORSE in found_states:
            worse.append(nodes)
            # Repeats of others may be jobs of their own. Where some ran on each earlier node, these
            # changed too.
            if not nodes >= then:
                others |= nodes - then
        elif SAME in found_states:
            same |= nodes
    found = {}
    if others:
        found["other nodes"] = f"{', '.join(sorted(others))} did not measure it before"
    common = frozenset.intersection(*worse) if worse else frozenset()
    if len(common - same) == 1 and same - common:
        [node] = common - same
        found["one node"] = f"every case that got worse used {node}, and no other did"
    return found


def _nodes_of(case: Case | None) -> frozenset[str]:
    if case is None:
        return frozenset()
    return frozenset([case.node] if case.node else nodes_in(case.facts))


def _environments(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """Signs that one MPI library got worse, or all of several."""
    found: dict[str, set[str]] = {}
    for verdict in verdicts:
        if any(layer.partition("/")[0] in OF_MPI for layer in _layers_of(verdict)):
            found.setdefault(verdict.environ, set()).add(state(verdict))
    worse, same = [], []
    for name, states in sorted(found.items()):
        if WORSE in states:
            worse.append(name)
        elif SUSPECT not in states and SAME in states:
            same.append(name)
    if len(worse) == 1 and same:
        return {"one environment": f"{worse[0]} got worse, {', '.join(same)} did not"}
    if len(worse) > 1 and not same:
        return {"all environments": f"{', '.join(worse)} got worse alike"}
    return {}


def _collectives(verdicts: Iterable[Verdict]) -> dict[str, str]:
    """The sign that some collectives got worse, and others did not."""
    found: dict[str, set[str]] = {}
    for verdict in verdicts:
        layer = catalogue.layer(verdict.check, verdict.variable)
        if verdict.variable and layer.startswith("collectives/"):
            found.setdefault(layer.partition("/")[2], set()).add(state(verdict))
    worse = [name for name, states in found.items() if WORSE in states]
    same = [name for name, states in found.items() if states == {SAME}]
    if worse and same:
        return {"one collective": f"{', '.join(worse)} got worse, {', '.join(same)} did not"}
    return {}


def _sizes(
    cases: Mapping[Where, Case], before: Mapping[Where, Before], partition: str
) -> dict[str, str]:
    """Signs that messages of some sizes alone got slower, from the curves of the ping-pong."""
    for where, case in cases.items():
        if case.partition != partition or not case.check.startswith("pingpong"):
            continue
        for name, curve in case.curves.items():
            then = before.get(where, Before()).curves.get(name, {})
            if found := curves.sign(curve, then):
                return found
    return {}
