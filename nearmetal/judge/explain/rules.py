"""The rules of reframe_checks/references/causes.yaml. An error names the file and the key."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmetal.checkout import REFERENCES
from nearmetal.errors import NearmetalError
from nearmetal.model import catalogue
from nearmetal.util import documents
from nearmetal.util.text import rounded

RULES = REFERENCES / "causes.yaml"
SCHEMA = Path(__file__).with_name("causes-schema.yaml")
#: A layer that stands for all.
ANY = "any"


class RulesError(NearmetalError):
    """The rules are not usable. The message names file, key and fix."""


@dataclass(frozen=True)
class Quantity:
    """When a quantity of evidence moved. The names are keys of the file."""

    least: float
    factor: float
    says: str
    percent: bool = False
    #: where it counts; (): everywhere
    link_classes: tuple[str, ...] = ()

    def counts(self, link_class: str) -> bool:
        """Whether it is evidence on partitions of a class of link."""
        return link_class in (self.link_classes or [link_class])

    def said(self, then: float, now: float) -> str:
        """The change in words."""
        return self.says.format(then=self._number(then), now=self._number(now))

    def _number(self, value: float) -> str:
        return f"{rounded(100 * value, 2)} %" if self.percent else rounded(value)


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
    return any(name in (ANY, layer, layer.partition("/")[0]) for name in names)


@functools.cache
def load(path: Path = RULES) -> Rules:
    """The rules. Raises RulesError."""
    data = documents.read(path, SCHEMA, RulesError, "correct it")
    found = Rules(
        {name: Quantity(**_tuples(one)) for name, one in data["evidence"].items()},
        tuple(_rule(one) for one in data["rules"]),
    )
    try:
        for place, fault in _faults(found):
            raise RulesError(f"{path}: {place}: {fault}")
    except catalogue.CatalogueError as error:
        raise RulesError(str(error)) from None
    return found


def _tuples(data: Mapping) -> dict[str, Any]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}


def _rule(data: Mapping) -> Rule:
    fields = _tuples(data)
    if "alone" in data:
        fields["alone"] = Pattern(**{key: tuple(of) for key, of in data["alone"].items()})
    return Rule(**fields)


def _faults(found: Rules) -> Iterator[tuple[str, str]]:
    """Places and faults that a schema cannot see."""
    for name, quantity in found.evidence.items():
        try:
            quantity.said(0.0, 0.0)
        except (KeyError, IndexError, ValueError) as error:
            yield f"evidence.{name}.says", f"{error!r}. Fix: use {{then}} and {{now}} alone"
    names = [rule.name for rule in found.rules]
    layers = catalogue.layers()
    known = {ANY, *layers, *(name.partition("/")[0] for name in layers)}
    for number, rule in enumerate(found.rules):
        place = f"rules.{number} ({rule.name})"
        if names.count(rule.name) > 1:
            yield f"{place}.name", "another rule has it too. Fix: give one another name"
        alone = (*rule.alone.worse, *rule.alone.same) if rule.alone else ()
        for layer in (*rule.moves, *rule.still, *alone):
            if layer not in known:
                yield place, f"the layer {layer!r} is unknown. Fix: one of {sorted(known)}"
        for counter in (*rule.evidence, *rule.beside, *rule.without):
            if counter not in found.evidence:
                yield place, f"{counter!r} is not among `evidence`. Fix: add it there"
