"""The rules of reframe_checks/references/causes.yaml, and how they rank the likely causes.

An error names the file and the key.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nearmetal.checkout import REFERENCES
from nearmetal.errors import NearmetalError
from nearmetal.judge.explain.symptoms import SAME, SUSPECT, WORSE, Observed, Quantity
from nearmetal.judge.verdict import Likely
from nearmetal.model import catalogue
from nearmetal.util import documents

RULES = REFERENCES / "causes.yaml"
SCHEMA = Path(__file__).with_name("causes-schema.yaml")
#: A layer that stands for all.
ANY = "any"
#: Support of a rule by a changed fact or a failure's text, by a quantity that disturbed repeats,
#: by one that moved, by each further one, by a sign, and by the pattern of layers alone.
FACT, DISTURBED, MOVED, FURTHER, SIGN, LAYERS = 3.0, 3.0, 2.0, 0.5, 1.0, 1.5
#: Factor of a score for each thing that speaks against the rule.
AGAINST = 0.5
#: Least score of a cause that is named. Below it the answer is "don't know".
LEAST = 1.0
#: Most causes of a partition that are named, and the least part of the best score that they have.
MOST, PART = 5, 0.25
#: Most characters of a failure's text among the evidence.
MOST_TEXT = 200
UNKNOWN = "unknown"


class RulesError(NearmetalError):
    """The rules are not usable. The message names file, key and fix."""


@dataclass(frozen=True)
class Pattern:
    """Layers and signs that support a rule without a fact."""

    #: one of these got worse
    worse: tuple[str, ...]
    #: all of these were measured, and did not
    same: tuple[str, ...]
    #: one of these holds
    signs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A possible cause. The names are keys of the file, whose head says what they mean."""

    name: str
    says: str
    moves: tuple[str, ...]
    apart: str
    weight: float
    still: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    failure: str = ""
    alone: Pattern | None = None
    shows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rules:
    """Causes, and the evidence for them."""

    evidence: Mapping[str, Quantity]
    rules: tuple[Rule, ...]


def covers(names: tuple[str, ...], layer: str) -> bool:
    """Whether one of the names is ANY, the layer, or the layer of which it is a part."""
    return not {ANY, layer, layer.partition("/")[0]}.isdisjoint(names)


@functools.cache
def load(path: Path = RULES) -> Rules:
    """The rules. Raises RulesError."""
    data = documents.read(path, SCHEMA, RulesError, "correct it")
    quantities = {name: Quantity(**_tuples(entry)) for name, entry in data["evidence"].items()}
    rules = Rules(quantities, tuple(map(_rule, data["rules"])))
    try:
        for place, fault in _faults(rules):
            raise RulesError(f"{path}: {place}: {fault}")
    except catalogue.CatalogueError as error:
        raise RulesError(str(error)) from None
    return rules


def _tuples(data: Mapping) -> dict[str, Any]:
    fields = dict(data)
    for key, value in data.items():
        if isinstance(value, list):
            fields[key] = tuple(value)
    return fields


def _rule(data: Mapping) -> Rule:
    fields = _tuples(data)
    if "alone" in data:
        fields["alone"] = Pattern(**_tuples(data["alone"]))
    return Rule(**fields)


def _faults(rules: Rules) -> Iterator[tuple[str, str]]:
    """Places and faults that a schema cannot see."""
    for name, quantity in rules.evidence.items():
        try:
            quantity.in_words(0.0, 0.0)
        except (KeyError, IndexError, ValueError) as error:
            yield f"evidence.{name}.says", f"{error!r}. Fix: use {{then}} and {{now}} alone"
    counts = Counter(rule.name for rule in rules.rules)
    known = {ANY}
    for name in catalogue.layers():
        known |= {name, name.partition("/")[0]}
    for number, rule in enumerate(rules.rules):
        place = f"rules.{number} ({rule.name})"
        if counts[rule.name] > 1:
            yield f"{place}.name", "another rule has it too. Fix: give one another name"
        named = [*rule.moves, *rule.still]
        if rule.alone:
            named += [*rule.alone.worse, *rule.alone.same]
        for layer in named:
            if layer not in known:
                yield place, f"the layer {layer!r} is unknown. Fix: one of {sorted(known)}"
        for counter in (*rule.evidence, *rule.beside, *rule.without):
            if counter not in rules.evidence:
                yield place, f"{counter!r} is not among `evidence`. Fix: add it there"


def likely_causes(observed: Sequence[Observed], rules: Rules) -> tuple[Likely, ...]:
    """The likely causes, best first on each partition; `unknown` where no rule counts.

    A cause of several partitions with the same proof is one.
    """
    merged: dict[tuple, Likely] = {}
    for seen in observed:
        layers = _layers(seen)
        for cause in of_partition(seen, rules):
            key = cause.name, tuple(line for line in cause.evidence if line not in layers)
            known = merged.setdefault(key, cause)
            if known is not cause:
                score = max(known.score, cause.score)
                merged[key] = replace(known, places=(*known.places, seen.place), score=score)
    places = [seen.place for seen in observed]
    return tuple(
        sorted(merged.values(), key=lambda cause: (places.index(cause.places[0]), -cause.score))
    )


def of_partition(seen: Observed, rules: Rules) -> list[Likely]:
    """The likely causes on one partition, best first."""
    scored = [(score(rule, seen), rule) for rule in rules.rules]
    scored.sort(key=lambda entry: entry[0], reverse=True)
    best: list[Likely] = []
    for points, rule in scored[:MOST]:
        if points < max(LEAST, PART * scored[0][0]):
            break
        shown = evidence(rule, seen)
        best.append(Likely(rule.name, rule.says, (seen.place,), round(points, 2), shown))
    return best or [_unknown(seen)]


def _unknown(seen: Observed) -> Likely:
    shown = []
    for name, (then, now) in seen.facts.items():
        shown.append(f"{name} changed: {then} -> {now}")
    shown += [*seen.signs.values(), *seen.evidence.values()]
    for text in list(dict.fromkeys(seen.failures))[:3]:
        shown.append(text[:MOST_TEXT])
    says = "don't know: no rule has enough support"
    return Likely(UNKNOWN, says, (seen.place,), 0.0, (*shown, *_layers(seen)))


def score(rule: Rule, seen: Observed) -> float:
    """Support of a rule; 0 if it has none, or explains no layer that got worse."""
    worse = seen.of(WORSE)
    explained = contradicted = 0
    for layer in worse:
        explained += covers(rule.moves, layer)
        contradicted += covers(rule.still, layer)
    if worse and not explained:
        return 0.0
    support = _support(rule, seen)
    if not support:
        return 0.0
    points = rule.weight * support
    # A rule that explains all layers explains more than one that explains some.
    if worse:
        points *= 0.5 + 0.5 * explained / len(worse)
    if contradicted:
        points *= AGAINST
    if seen.evidence.keys() & rule.without:
        points *= AGAINST
    if seen.signs.keys() & rule.against:
        points *= AGAINST
    return points


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
    if not support:
        return 0.0
    return support + signs


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
    if not parts:
        return False
    return all(_is_same(layer, parts, seen) for layer in rule.alone.same)


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
    return SAME in own and (not alike or alike == {SAME})


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _failures(rule: Rule, seen: Observed) -> list[str]:
    if not rule.failure:
        return []
    return list(filter(re.compile(rule.failure).search, seen.failures))


def evidence(rule: Rule, seen: Observed) -> tuple[str, ...]:
    """What supports the rule, in words."""
    facts = []
    for name, change in seen.facts.items():
        if _matches(name, (*rule.facts, *rule.shows)):
            facts.append(f"{name}: {' -> '.join(change)}")
    moved = map(seen.evidence.get, (*rule.evidence, *rule.beside))
    signs = map(seen.signs.get, rule.signs)
    shown = [*facts[:4], *filter(None, moved), *filter(None, signs)]
    if failures := _failures(rule, seen):
        shown.append(failures[0][:MOST_TEXT])
    return (*shown, *_layers(seen))


def _layers(seen: Observed) -> list[str]:
    """A sentence on the layers that got worse, and on those that did not."""
    worse, same = seen.of(WORSE), seen.of(SAME)
    if not worse:
        return []
    text = f"worse: {', '.join(_whole(worse, seen))}"
    if same:
        text += f"; not: {', '.join(_whole(same, seen))}"
    return [text]


def _whole(layers: Sequence[str], seen: Observed) -> list[str]:
    """The layers, with a whole in place of all of its measured parts."""
    others = {layer.partition("/")[0] for layer in seen.layers if layer not in layers}
    shortened: list[str] = []
    for layer in layers:
        whole = layer.partition("/")[0]
        if whole in others:
            whole = layer
        if whole not in shortened:
            shortened.append(whole)
    return shortened
