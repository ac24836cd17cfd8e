"""Hints for an unknown name: the known names, and the nearest of them."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable

#: Most names in a hint.
MOST = 12


def shorten(names: Iterable[str], most: int = 3) -> str:
    """The first few names, and the number of the others."""
    names = list(names)
    text = ", ".join(names[:most])
    if len(names) > most:
        text += f" and {len(names) - most} more"
    return text


def unknown(name: str | None, known: Iterable[str], are: str = "known are") -> str:
    """End of a sentence on an unknown name: `known are a, b; did you mean b?`."""
    names = sorted(set(known))
    if not names:
        return "there is none"
    text = f"{are} {shorten(names, MOST)}"
    if guess := did_you_mean(name, names):
        text += f"; {guess}"
    return text


def unknown_value(what: str, value, known: Iterable) -> str:
    """Sentence on an unknown value: `the key 'b' is unknown; did you mean a? Known: a, c`.

    Of many known values, it has the ones most similar to the unknown one.
    """
    names = list(map(str, known))
    ending = "."
    if guess := did_you_mean(value, names):
        ending = f"; {guess}"
    if len(names) > MOST:
        names.sort(key=lambda name: _likeness(name, str(value)), reverse=True)
    return f"{what} {value!r} is unknown{ending} Known: {shorten(names, MOST)}"


def did_you_mean(name, known: Iterable) -> str:
    """`did you mean a or b?`; empty if no known name is similar."""
    close = nearest(name, known)
    if not close:
        return ""
    return f"did you mean {' or '.join(close)}?"


def nearest(name, known: Iterable, cutoff: float = 0.6) -> list[str]:
    """The known names most similar to this one, whatever their case; [] if none is similar."""
    likeness = {other: _likeness(other, str(name)) for other in map(str, known)}
    best = max(likeness.values(), default=0)
    if best < cutoff:
        return []
    return [other for other, ratio in likeness.items() if ratio == best]


@functools.lru_cache(maxsize=1 << 14)  # a file may have one wrong name in many places
def _likeness(name: str, other: str) -> float:
    return difflib.SequenceMatcher(None, name.lower(), other.lower()).ratio()
