"""Sentences on a name that is not known: what is known, and the nearest to it."""

import difflib
from collections.abc import Iterable

#: Known names that a sentence lists at most.
MOST = 12


def unknown(name: str, known: Iterable[str], what: str = "known are") -> str:
    """`known are a, b; did you mean b?`: the end of a sentence that says what is unknown."""
    names = sorted(set(known))
    if not names:
        return "there is none"
    listed = ", ".join(names[:MOST])
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    close = nearest(name, names)
    return f"{what} {listed}{more}" + (f"; did you mean {close}?" if close else "")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like this one; "" where none is."""
    lowered = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return lowered[found[0]] if found else ""
