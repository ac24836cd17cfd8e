"""Values of bound and of unbound processes or threads, side by side."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearmetal.results import Session, Value

#: Parameter of a check that says bound or unbound, in a check's name.
PARAMETER = re.compile(r" %(?:threads_are|binding)=(bound|unbound)(?= |$)")


@dataclass(frozen=True)
class Pair:
    """A variable of one case, bound and unbound."""

    check: str  #: without the parameter
    bound: Value
    unbound: Value


def pairs(session: Session | None) -> list[Pair]:
    """The variables that the session measured both bound and unbound, in their order."""
    found: dict[tuple, dict[str, Value]] = {}
    for value in session.values if session else ():
        if kind := PARAMETER.search(value.check):
            check = PARAMETER.sub("", value.check)
            key = check, value.environ, value.place, value.variable, value.unit
            found.setdefault(key, {})[kind[1]] = value
    return [
        Pair(key[0], both["bound"], both["unbound"])
        for key, both in found.items()
        if len(both) == 2
    ]
