"""What a judged session shows on each partition: layers, facts, evidence, signs and failures.

Pure functions of a gate's report, and of what the cases were like before (`Before`): in the
baseline, else in an earlier session.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from nearmetal.judge import native_ratio
from nearmetal.judge.baseline import Baseline, Entry
from nearmetal.judge.verdict import GateReport, Verdict, Where
from nearmetal.model import catalogue
from nearmetal.model.facts import changed_facts, nodes_in
from nearmetal.results import Case, Session
from nearmetal.stats.plan import THRESHOLD
from nearmetal.util.text import rounded

#: States of a variable or layer, from the most to the least telling.
WORSE, SUSPECT, BETTER, SAME, UNKNOWN = "worse", "suspect", "better", "same", "unknown"
ORDER = (WORSE, SUSPECT, BETTER, SAME, UNKNOWN)
#: Verdicts that call for an explanation.
EXPLAINED = ("regressed", "deviates", "disturbed")
#: Prefix of an incomplete verdict on a case that ran and failed.
FAILED = "failed: "
#: Smallest change of a variable that the gate does not decide, to be suspected.
SUSPECTED = 0.05
#: Facts that hold variables of the job's environment.
SETTINGS = ("mpi_settings", "program_settings")
#: Layers that an MPI library decides.
OF_MPI = {"mpi", "within", "collectives"}
#: Least ratio of the medians at a message size that got slower, and the most at one that did not.
SLOWER, AS_FAST = 1.15, 1.08
#: Largest message that counts as short, in bytes.
SHORT = 1024
#: Samples by message size.
Curve = Mapping[int, Sequence[float]]
#: A verdict, the state of its variable, and its layers.
Judged = tuple[Verdict, str, set[str]]


@dataclass(frozen=True)
class Quantity:
    """When a quantity of evidence moved. The names are keys of causes.yaml."""

    least: float
    factor: float
    says: str
    percent: bool = False
    #: where it counts; (): everywhere
    link_classes: tuple[str, ...] = ()

    def counts(self, link_class: str) -> bool:
        """Whether it is evidence on partitions of a class of link."""
        return not self.link_classes or link_class in self.link_classes

    def in_words(self, then: float, now: float) -> str:
        """The change in words."""
        return self.says.format(then=self._number(then), now=self._number(now))

    def _number(self, value: float) -> str:
        if self.percent:
            return f"{rounded(100 * value, 2)} %"
        return rounded(value)


@dataclass(frozen=True)
class Before:
    """What a case was like in the baseline, or in the session before."""

    facts: Mapping[str, str] = field(default_factory=dict)
    #: quantity -> median, and the largest
    evidence: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    #: by name
    curves: Mapping[str, Curve] = field(default_factory=dict)


def before(
    session: Session, baseline: Baseline | None, earlier: Iterable[Session]
) -> dict[Where, Before]:
    """What each case was like before; cases that nothing is known of are left out.

    :arg earlier: sessions of the system before this one, oldest first.
    """
    held: dict[Where, dict[str, Case]] = {}
    for past in earlier:
        for case in past.cases:
            if case.where in session.by_where and case.counts:
                held.setdefault(case.where, {})[past.uuid] = case
    known = {}
    for case in session.cases:
        entry = baseline.entries.get(case.key) if baseline else None
        cases = held.get(case.where, {})
        if entry:
            known[case.where] = _of_entry(entry, cases)
        elif cases:
            known[case.where] = _of_cases(list(cases.values())[-1:])
    return known


def _of_entry(entry: Entry, held: Mapping[str, Case]) -> Before:
    """By the baseline, and by its sessions where the database has them; else by the last one.

    :arg held: the case by session, oldest first.
    """
    recorded = [case for uuid, case in held.items() if uuid in entry.sessions]
    before = _of_cases(recorded or list(held.values())[-1:])
    evidence = entry.evidence or before.evidence
    return Before({**_fact_of_nodes(recorded), **entry.facts}, evidence, before.curves)


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
    evidence = {
        name: (statistics.median(repeats), max(repeats)) for name, repeats in values.items()
    }
    return Before({**facts, **_fact_of_nodes(cases)}, evidence, curves)


def _fact_of_nodes(cases: Iterable[Case]) -> dict[str, str]:
    """The fact `nodes` of all cases together; {} if none is known."""
    names: set[str] = set()
    for case in cases:
        names.update(case.nodes)
    return {"nodes": ", ".join(sorted(names))} if names else {}


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
        return tuple(layer for layer, own in self.layers.items() if own == state)


def observe(
    report: GateReport,
    before: Mapping[Where, Before],
    quantities: Mapping[str, Quantity],
    other_nodes: Mapping[str, Mapping[str, str]] | None = None,
) -> list[Observed]:
    """What each partition shows on which something calls for an explanation.

    :arg quantities: those that may be evidence.
    :arg other_nodes: further signs by partition, of what other nodes showed (`confirm.signs`).
    """
    verdicts = _without_ratios(report.verdicts)
    by_partition: dict[str, list[Verdict]] = {}
    for verdict in filter(calls, verdicts):
        by_partition[verdict.partition] = []
    for verdict in verdicts:
        if verdict.partition in by_partition:
            by_partition[verdict.partition].append(verdict)
    observed = []
    for partition, own in by_partition.items():
        seen = _partition(partition, own, report.session.by_where, before, quantities)
        further = (other_nodes or {}).get(partition, {})
        observed.append(replace(seen, signs={**seen.signs, **further}))
    return observed


def _without_ratios(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts on variables; a ratio that got worse stands in for one that did not show it."""
    plain, worse = [], {}
    for verdict in verdicts:
        if not native_ratio.is_ratio(verdict.variable):
            plain.append(verdict)
        elif calls(verdict):
            name = native_ratio.plain(verdict.variable)
            worse[verdict.where, name] = replace(verdict, variable=name)
    for place, verdict in enumerate(plain):
        if not calls(verdict):
            plain[place] = worse.get((verdict.where, verdict.variable), verdict)
    return plain


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
    quantities: Mapping[str, Quantity],
) -> Observed:
    worse = list(filter(calls, verdicts))
    pairs = []
    for where in dict.fromkeys(verdict.where for verdict in worse):
        if where in cases:
            pairs.append((cases[where], before.get(where, Before())))
    disturbed: dict[str, str] = {}
    for case, _ in pairs:
        disturbed.update((cause.rule, cause.text) for cause in case.disturbed)
    judged: list[Judged] = []
    failures: list[str] = []
    deviating: list[str] = []
    for verdict in verdicts:
        judged.append((verdict, state(verdict), _layers_of(verdict)))
        if _has_failed(verdict):
            failures.append(verdict.reason.removeprefix(FAILED))
        elif verdict.name == "deviates":
            deviating.append(verdict.reason)
    return Observed(
        partition,
        _layers(judged),
        tuple(map(in_one_line, worse)),
        _facts(pairs),
        {**_evidence(pairs, quantities), **disturbed},
        frozenset(disturbed),
        {
            **_nodes(judged, cases, before),
            **_environments(judged),
            **_collectives(judged),
            **_sizes(cases, before, partition),
        },
        (*failures, *deviating),
    )


def in_one_line(verdict: Verdict) -> str:
    """The variable of a verdict with its case, or the case alone."""
    return " ".join(filter(None, [*verdict.where, verdict.variable]))


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


def _layers_of(verdict: Verdict) -> set[str]:
    """The layer of a variable; of a case that failed, those of its check."""
    if _has_failed(verdict):
        return catalogue.layers(verdict.check)
    return {catalogue.layer(verdict.check, verdict.variable)} - {catalogue.NONE}


def _layers(judged: Iterable[Judged]) -> dict[str, str]:
    """The state of each layer that was measured: the most telling of its variables."""
    states: dict[str, str] = {}
    for _, own, layers in judged:
        for layer in layers:
            states[layer] = min(own, states.get(layer, own), key=ORDER.index)
    return states


def _facts(pairs: Iterable[tuple[Case, Before]]) -> dict[str, tuple[str, str]]:
    """Facts that changed in the cases; each variable of the job's environment is one."""
    facts: dict[str, tuple[str, str]] = {}
    for case, then in pairs:
        if not then.facts or not case.facts:
            continue
        for name, change in changed_facts(_comparable(then.facts, case), case.facts).items():
            if name in SETTINGS:
                facts |= _settings(name, *change)
            else:
                facts.setdefault(name, change)
    return facts


def _comparable(then: Mapping[str, str], case: Case) -> dict[str, str]:
    """The facts of before; beside a case that failed, those that it had come to record."""
    if case.failure is None:
        return dict(then)
    return {name: value for name, value in then.items() if name in case.facts}


def _settings(fact: str, then: str, now: str) -> dict[str, tuple[str, str]]:
    """Variables of the environment that differ: {mpi_settings.NAME: (then, now)}."""
    before, after = _variables(then), _variables(now)
    changed = {}
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            change = before.get(name, "unset"), after.get(name, "unset")
            changed[f"{fact}.{name}"] = change
    return changed


def _variables(settings: str) -> dict[str, str]:
    """`A=1; B=2` by name; nodes that differ are set apart by ` | `."""
    words = re.split(r"; | \| ", settings)
    return dict(word.split("=", 1) for word in words if "=" in word)


def _evidence(
    pairs: Iterable[tuple[Case, Before]], quantities: Mapping[str, Quantity]
) -> dict[str, str]:
    """Quantities that moved in a case, in the words of the case that moved most."""
    texts: dict[str, str] = {}
    most_growth: dict[str, float] = {}
    for case, then in pairs:
        for name, values in case.quantities.items():
            rule, known = quantities.get(name), then.evidence.get(name)
            if rule is None or known is None or not values or not rule.counts(case.link_class):
                continue
            (middle, most), now = known, statistics.median(values)
            if now <= most or now < rule.least or now < rule.factor * middle:
                continue
            growth = now / max(middle, rule.least / rule.factor, 1e-9)
            if growth > most_growth.get(name, 0.0):
                most_growth[name], texts[name] = growth, rule.in_words(middle, now)
    return texts


def _nodes(
    judged: Iterable[Judged], cases: Mapping[Where, Case], before: Mapping[Where, Before]
) -> dict[str, str]:
    """Signs that a node is the cause, or that the nodes are others."""
    states: dict[Where, set[str]] = {}
    for verdict, own, _ in judged:
        states.setdefault(verdict.where, set()).add(own)
    worse: list[frozenset[str]] = []
    others: set[str] = set()
    same: set[str] = set()
    for where, states_of_case in states.items():
        nodes = _nodes_of(cases.get(where))
        then = set(nodes_in(dict(before[where].facts))) if where in before else set()
        if WORSE in states_of_case:
            worse.append(nodes)
            # Repeats of others may be jobs of their own. Where some ran on each earlier node, these
            # changed too.
            if not nodes >= then:
                others |= nodes - then
        elif SAME in states_of_case:
            same |= nodes
    signs = {}
    if others:
        signs["other nodes"] = f"{', '.join(sorted(others))} did not measure it before"
    common = frozenset.intersection(*worse) if worse else frozenset()
    if len(common - same) == 1 and same - common:
        [node] = common - same
        signs["one node"] = f"every case that got worse used {node}, and no other did"
    return signs


def _nodes_of(case: Case | None) -> frozenset[str]:
    if case is None:
        return frozenset()
    return frozenset([case.node] if case.node else case.nodes)


def _environments(judged: Iterable[Judged]) -> dict[str, str]:
    """Signs that one MPI library got worse, or all of several."""
    states: dict[str, set[str]] = {}
    for verdict, own, layers in judged:
        if not OF_MPI.isdisjoint(layer.partition("/")[0] for layer in layers):
            states.setdefault(verdict.environ, set()).add(own)
    worse, same = [], []
    for name, states_of_environment in sorted(states.items()):
        if WORSE in states_of_environment:
            worse.append(name)
        elif SUSPECT not in states_of_environment and SAME in states_of_environment:
            same.append(name)
    if len(worse) == 1 and same:
        return {"one environment": f"{worse[0]} got worse, {', '.join(same)} did not"}
    if len(worse) > 1 and not same:
        return {"all environments": f"{', '.join(worse)} got worse alike"}
    return {}


def _collectives(judged: Iterable[Judged]) -> dict[str, str]:
    """The sign that some collectives got worse, and others did not."""
    states: dict[str, set[str]] = {}
    for verdict, own, layers in judged:
        for layer in layers:
            whole, _, part = layer.partition("/")
            # A case that failed has no variable: nothing says which collective failed.
            if verdict.variable and whole == "collectives" and part:
                states.setdefault(part, set()).add(own)
    worse, same = [], []
    for name, states_of_part in states.items():
        if WORSE in states_of_part:
            worse.append(name)
        elif states_of_part == {SAME}:
            same.append(name)
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
            if sign := sign_of_sizes(curve, then):
                return sign
    return {}


def sign_of_sizes(now: Curve, then: Curve) -> dict[str, str]:
    """`only from a size` or `only between sizes`, in words; {} if neither holds."""
    sizes = sorted(set(now) & set(then))
    states = [_slower(now[size], then[size]) for size in sizes]
    if len(sizes) < 3 or True not in states or states[0] is None:
        return {}
    first = states.index(True)
    last = len(states) - 1 - states[::-1].index(True)
    if sizes[first] <= SHORT or states[:first].count(False) < 2:
        return {}
    slow = f"messages of {_bytes(sizes[first])}"
    if states[last:].count(False) >= 2:
        return {"only between sizes": f"{slow} to {_bytes(sizes[last])} alone got slower"}
    return {"only from a size": f"{slow} and more alone got slower"}


def _slower(now: Sequence[float], then: Sequence[float]) -> bool | None:
    """Whether times got longer; None if that is not clear."""
    if len(now) < 3 or len(then) < 3:
        return None
    ratio = statistics.median(now) / statistics.median(then)
    apart = statistics.quantiles(now, n=4)[0] > statistics.quantiles(then, n=4)[2]
    if ratio > SLOWER and apart:
        return True
    return False if ratio < AS_FAST else None


def _bytes(size: int) -> str:
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"
