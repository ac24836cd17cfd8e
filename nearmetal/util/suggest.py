"""Hints for an unknown name: the known names, and the nearest of them."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable

#: Most names in a hint.
MOST = 12


def some(names: list[str], most: int = 3) -> str:
    """The first few names, and the number of the others."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def unknown(name: str | None, known: Iterable[str], are: str = "known are") -> str:
    """End of a sentence on an unknown name: `known are a, b; did you mean b?`."""
    names = sorted(set(known))
    if not names:
        return "there is none"
    guess = did_you_mean(name, names)
    return f"{are} {some(names, MOST)}" + (f"; {guess}" if guess else "")


def unknown_value(what: str, value, known: Iterable) -> str:
    """Sentence on an unknown value: `the key 'b' is unknown; did you mean a? Known: a, c`.

    Of many known values, it has the ones most similar to the unknown one.
    """
    guess = did_you_mean(value, known)
    ending = f"; {guess}" if guess else "."
    names = [str(one) for one in known]
    if len(names) > MOST:
        names.sort(key=lambda name: _likeness(name, str(value)), reverse=True)
    return f"{what} {value!r} is unknown{ending} Known: {some(names, MOST)}"


def did_you_mean(name, known: Iterable) -> str:
    """`did you mean a or b?`; empty if no known name is similar."""
    close = nearest(name, known)
    return f"did you mean {' or '.join(close)}?" if close else ""


def nearest(name, known: Iterable, cutoff: float = 0.6) -> list[str]:
    """The known names most similar to this one, whatever their case; [] if none is similar."""
    by_name = {str(one): _likeness(str(one), str(name)) for one in known}
    best = max(by_name.values(), default=0)
    return [one for one, ratio in by_name.items() if ratio == best] if best >= cutoff else []


@functools.lru_cache(maxsize=1 << 14)  # a file may have one wrong name in many places
def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.lower(), other.lower()).ratio()
