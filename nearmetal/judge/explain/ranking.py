"""Scores the rules on what partitions show, and orders the likely causes."""

import re
from collections.abc import Sequence
from dataclasses import replace

from nearmetal.judge.explain.rules import Rule, Rules, covers
from nearmetal.judge.explain.symptoms import SAME, SUSPECT, WORSE, Observed
from nearmetal.judge.verdict import Likely

#: Support of a rule by a changed fact or a failure's text, by a quantity that disturbed repeats,
#: by one that moved, by each further one, by a sign, and by the pattern of layers alone.
FACT, DISTURBED, MOVED, FURTHER, SIGN, LAYERS = 3.0, 3.0, 2.0, 0.5, 1.0, 1.5
#: Factor of a score for each thing that speaks against the rule.
AGAINST = 0.5
#: Least score of a cause that is named. Below it the answer is "don't know".
LEAST = 1.0
#: Most causes of a partition that are named, and the least part of the best score that they have.
MOST, PART = 5, 0.25
UNKNOWN = "unknown"


def likely_causes(found: Sequence[Observed], rules: Rules) -> tuple[Likely, ...]:
    """The likely causes, best first on each partition; `unknown` where no rule counts.

    A cause of several partitions with the same proof is one.
    """
    merged: dict[tuple, Likely] = {}
    for seen in found:
        for cause in of_partition(seen, rules):
            layers = _layers(seen)
            key = cause.name, tuple(line for line in cause.evidence if line not in layers)
            known = merged.setdefault(key, cause)
            if known is not cause:
                score = max(known.score, cause.score)
                merged[key] = replace(known, places=(*known.places, seen.place), score=score)
    first = {seen.place: number for number, seen in enumerate(found)}
    return tuple(sorted(merged.values(), key=lambda one: (first[one.places[0]], -one.score)))


def of_partition(seen: Observed, rules: Rules) -> list[Likely]:
    """The likely causes on one partition, best first."""
    scored = [(score(rule, seen), rule) for rule in rules.rules]
    scored.sort(key=lambda one: -one[0])
    best: list[Likely] = []
    for points, rule in scored[:MOST]:
        if points < max(LEAST, PART * scored[0][0]):
            break
        shown = evidence(rule, seen)
        best.append(Likely(rule.name, rule.says, (seen.place,), round(points, 2), shown))
    return best or [_unknown(seen)]


def _unknown(seen: Observed) -> Likely:
    facts = [f"{name} changed: {then} -> {now}" for name, (then, now) in seen.facts.items()]
    moved = [*seen.signs.values(), *seen.evidence.values()]
    says = "don't know: no rule has enough support"
    failed = [text[:200] for text in dict.fromkeys(seen.failures)][:3]
    return Likely(UNKNOWN, says, (seen.place,), 0.0, (*facts, *moved, *failed, *_layers(seen)))


def score(rule: Rule, seen: Observed) -> float:
    """Support of a rule; 0 if it has none, or explains no layer that got worse."""
    worse = seen.of(WORSE)
    explained = sum(covers(rule.moves, layer) for layer in worse)
    if worse and not explained:
        return 0.0
    support = _support(rule, seen)
    if not support:
        return 0.0
    found = rule.weight * support
    # A rule that explains all layers explains more than one that explains some.
    if worse:
        found *= 0.5 + 0.5 * explained / len(worse)
    if any(covers(rule.still, layer) for layer in worse):
        found *= AGAINST
    if seen.evidence.keys() & rule.without:
        found *= AGAINST
    if seen.signs.keys() & rule.against:
        found *= AGAINST
    return found


def _support(rule: Rule, seen: Observed) -> float:
    moved = seen.evidence.keys() & rule.evidence
    # A fact or a suspected layer explains nothing where nothing got worse.
    worse = bool(seen.of(WORSE))
    support = 0.0
    if worse and any(_matches(name, rule.facts) for name in seen.facts):
        support += FACT
    if moved:
        support += DISTURBED if moved & seen.disturbed else MOVED
        support += FURTHER * (len(moved) - 1)
    if _failures(rule, seen):
        support += FACT
    if worse and fits_alone(rule, seen):
        support += LAYERS
    if support:
        support += FURTHER * len(seen.evidence.keys() & rule.beside)
    signs = SIGN * len(seen.signs.keys() & rule.signs)
    if not (rule.facts or rule.evidence or rule.alone):
        # A sign counts by itself only where it is all that the rule has.
        return support + 2 * signs
    return support + signs if support else 0.0


def fits_alone(rule: Rule, seen: Observed) -> bool:
    """Whether the pattern of layers supports the rule."""
    if rule.alone is None:
        return False
    signs = rule.alone.signs
    if signs and not seen.signs.keys() & signs:
        return False
    parts = set()
    for layer in (*seen.of(WORSE), *seen.of(SUSPECT)):
        if covers(rule.alone.worse, layer):
            parts.add(layer.partition("/")[2])
    return bool(parts) and all(_is_same(layer, parts, seen) for layer in rule.alone.same)


def _is_same(layer: str, parts: set[str], seen: Observed) -> bool:
    """Whether a layer was measured and did not get worse.

    Where it has the parts that got worse elsewhere, such as large messages, those count.
    """
    own, alike = set(), set()
    for name, state in seen.layers.items():
        if covers((layer,), name):
            own.add(state)
            if name.partition("/")[2] in parts:
                alike.add(state)
    if WORSE in own or SUSPECT in own:
        return False
    return alike == {SAME} if alike else SAME in own


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _failures(rule: Rule, seen: Observed) -> list[str]:
    if not rule.failure:
        return []
    return [text for text in seen.failures if re.search(rule.failure, text)]


def evidence(rule: Rule, seen: Observed) -> tuple[str, ...]:
    """What supports the rule, in words."""
    facts = []
    for name, change in seen.facts.items():
        if _matches(name, (*rule.facts, *rule.shows)):
            facts.append(f"{name}: {' -> '.join(change)}")
    quantities = (*rule.evidence, *rule.beside)
    moved = [seen.evidence[name] for name in quantities if name in seen.evidence]
    signs = [seen.signs[name] for name in rule.signs if name in seen.signs]
    failures = [text[:200] for text in dict.fromkeys(_failures(rule, seen))][:1]
    return (*facts[:4], *moved, *signs, *failures, *_layers(seen))


def _layers(seen: Observed) -> list[str]:
    """A sentence on the layers that got worse, and on those that did not."""
    worse, same = seen.of(WORSE), seen.of(SAME)
    if not worse:
        return []
    text = f"worse: {', '.join(_whole(worse, seen))}"
    return [f"{text}; not: {', '.join(_whole(same, seen))}" if same else text]


def _whole(layers: Sequence[str], seen: Observed) -> list[str]:
    """The layers, with a whole in place of all of its measured parts."""
    found = []
    for layer in layers:
        whole = layer.partition("/")[0]
        parts = [name for name in seen.layers if name.partition("/")[0] == whole]
        found.append(whole if set(parts) <= set(layers) else layer)
    return list(dict.fromkeys(found))
