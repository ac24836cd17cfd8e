"""What `-S` sets in a check of others: it may be another workload, so it is a fact of the case."""

from __future__ import annotations

import functools

from nearmetal.util import command

#: Name of the fact, and its value where nothing is set.
FACT, NONE = "settings", "none"
#: Variables that choose where and how often a check runs, and not what it runs.
CHOOSING = {
    *("repeats", "spare_repeats", "again", "no_baseline"),
    *("valid_systems", "valid_prog_environs", "tags", "maintainers", "descr"),
}


def fact(line: str, check: str) -> dict[str, str]:
    """The fact of a check in a session; {} where the session's command cannot be read.

    :arg line: the command.
    :arg check: the name of the check's class. `-S` without a name is for all checks.
    """
    words = _all(line)
    if words is None:
        return {}
    given = {}
    for word in words:
        place, _, value = word.partition("=")
        test, _, name = place.rpartition(".")
        if test.split(".", 1)[0] in ("", check) and name not in CHOOSING:
            if test:
                name = place.split(".", 1)[1]
            given[name] = f"{name}={value}"
    return {FACT: " ".join(given[name] for name in sorted(given)) or NONE}


@functools.lru_cache
def _all(line: str) -> tuple[str, ...] | None:
    """The values of all `-S` of a command; None where it cannot be read, or may hold more."""
    if "-S" not in line and "--set" not in line and "--mode" not in line:
        # ReFrame's parser takes a second to load.
        return ()
    try:
        asked = command.parse(line)
    except command.CommandError:
        return None
    if asked.given("mode"):
        return None
    return tuple(asked.given("vars") or ())
