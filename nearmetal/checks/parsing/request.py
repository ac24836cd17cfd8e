"""Compares the parameters that a check requested with those that the program reports (`did` of a
launch), for every check."""

from __future__ import annotations

import math
import re
from collections import deque

from nearmetal.checks.parsing import ParseError

OPTION = re.compile(r"--?[a-z]")


def options(words: list[str]) -> dict:
    """The options of a command line by name. Further words are in ``arguments``."""
    asked: dict = {}
    arguments = []
    rest = deque(map(str, words))
    while rest:
        word = rest.popleft()
        if not OPTION.match(word):
            arguments.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        # A word behind an option is its value, unless it is an option itself.
        if not equals and rest and not OPTION.match(rest[0]):
            value = rest.popleft()
        asked[name.replace("-", "_")] = value
    if arguments:
        asked["arguments"] = " ".join(arguments)
    return asked


def expect(asked: dict, did: dict) -> None:
    """Raise ParseError unless the program did what it was asked to do."""
    wrong = differences(asked, did)
    if wrong:
        raise ParseError(
            f"the program did not do what it was asked to: {'; '.join(wrong)}. Was its output "
            "damaged? Does an environment variable change it, or did another program of its name "
            "run?"
        )


def differences(asked: dict, did: dict) -> list[str]:
    """A phrase for each parameter that differs from the request, or that the program does not
    report."""
    phrases = []
    for name, value in asked.items():
        if name not in did:
            phrases.append(f"the program does not report its {name}, which should be {value}")
        elif not _same(value, did[name]):
            phrases.append(f"{name} was {did[name]} instead of {value}")
    return phrases


def _same(asked, did) -> bool:
    try:
        # Programs print fewer digits than they are given.
        return math.isclose(float(asked), float(did), rel_tol=1e-4)
    except (TypeError, ValueError, OverflowError):
        return str(asked) == str(did)
