"""Units of performance variables: better direction, conversion, and printed name.

A unit is read by its parts, which units.yaml lists: `MBytes/sec` is an amount over a time. A unit
with an unknown part has no direction, so that nothing is judged by it. tests/unit/test_metrics.py
fails for a check with such a unit.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

FILE = Path(__file__).with_name("units.yaml")
#: Which values of a unit are better; "" where the unit alone does not say.
LESS, MORE, UNKNOWN = "less", "more", ""
#: What separates the parts of a unit.
SEPARATOR = re.compile(r"\s*/\s*|\s+per\s+")
#: Letters from which a spelling counts in any case. Shorter ones differ by it: `B` and `b`.
ANY_CASE = 4


def of_bounds(lower: float | None, upper: float | None) -> str:
    """The better values by a reference's bounds: the side that only one bound leaves open."""
    if (lower is None) == (upper is None):
        return UNKNOWN
    if lower is None:
        return LESS
    return MORE


@dataclass(frozen=True)
class Unit:
    name: str = field(compare=False)  #: as a check's performance function gives it
    better: str  #: LESS, MORE or UNKNOWN
    quantity: str  #: units of one quantity convert into each other
    scale: float = 1.0  #: in the quantity's base unit, such as 1e-6 for us in seconds

    @property
    def lower_is_better(self) -> bool | None:
        """None where the unit does not say."""
        return self.lower_is_better_or(UNKNOWN)

    def lower_is_better_or(self, better: str) -> bool | None:
        """The same, with LESS or MORE where the unit does not say."""
        return {LESS: True, MORE: False}.get(self.better or better)


@dataclass(frozen=True)
class _Part:
    """What a part of a unit is: `MB` and `s` in MB/s."""

    kind: str  #: time, amount, rate, place, energy or power
    quantity: str
    scale: float


@functools.lru_cache(maxsize=4096)
def unit(name) -> Unit:
    """The unit of that name, read by its parts; one without direction where a part is unknown."""
    text = str(name)
    return _whole(text) or _by_parts(text) or Unit(text, UNKNOWN, text)


def is_known(name) -> bool:
    """Whether the unit can be read, with or without a direction."""
    text = str(name)
    return bool(_whole(text) or _by_parts(text))


def printed(name) -> str:
    """A unit's name as reports print it: `µs` for us, nothing for 1."""
    return _data()["printed"].get(str(name), str(name))


@functools.cache
def _data() -> dict:
    from nearmetal.util import documents  # not at the top: PyYAML, which few commands use

    return documents.read(FILE)


def _whole(text: str) -> Unit | None:
    entry = _data()["whole"].get(text)
    if entry is None:
        return None
    return Unit(text, *entry)


def _by_parts(text: str) -> Unit | None:
    """The unit; None if one of its parts is unknown."""
    parts = []
    for word in SEPARATOR.split(text.strip()):
        part = _part(word)
        if part is None:
            return None
        parts.append(part)
    kinds = [part.kind for part in parts]
    if kinds[:2] == ["rate", "time"]:
        del parts[1]  # `Gflops/s`: the plural of an amount is spelled as a rate
    scale = parts[0].scale
    for part in parts[1:]:
        scale /= part.scale
    better = _data()["better"].get("/".join(kinds), UNKNOWN)
    return Unit(text, better, "/".join(part.quantity for part in parts), scale)


def _part(text: str) -> _Part | None:
    """A part of a unit, with its prefix; None if it is unknown."""
    for prefix, factor, stem in _split(text):
        entry = _spellings().get(_spelled(stem))
        if entry is not None and prefix in _prefixes(entry):
            return _Part(entry["kind"], entry["quantity"], factor * entry.get("scale", 1.0))
    return None


def _split(text: str) -> Iterator[tuple[str, float, str]]:
    """Each prefix that the text may begin with, its factor and the rest; first without prefix."""
    yield "", 1.0, text
    for prefixes in _data()["prefixes"].values():
        for prefix, factor in prefixes.items():
            head, rest = text[: len(prefix)], text[len(prefix) :]
            if _spelled(head) == prefix:
                yield prefix, factor, rest


def _spelled(text: str) -> str:
    """A part or prefix as it is looked up: in lower case, unless it is short."""
    if len(text) < ANY_CASE:
        return text
    return text.lower()


def _prefixes(entry: dict) -> set[str]:
    """The prefixes that a part takes; "" is none."""
    taken = {""}
    for name in entry.get("prefixes", ()):
        taken.update(_data()["prefixes"][name])
    return taken


@functools.cache
def _spellings() -> dict[str, dict]:
    """Spelling of a part -> its entry."""
    entries = {}
    for entry in _data()["parts"]:
        for spelling in entry["spellings"]:
            entries[_spelled(spelling)] = entry
    return entries
