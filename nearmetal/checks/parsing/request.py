"""What was asked of a program against what it says it did (`did` of a launch): in one place, for
every check."""

import math
import re

from nearmetal.checks.parsing import ParseError


def options(words: list[str]) -> dict:
    """The options of a command line by name, as numbers where they are such; further words as
    ``arguments``."""
    asked: dict = {}
    arguments = []
    rest = [str(word) for word in words]
    while rest:
        word = rest.pop(0)
        if not re.match(r"--?[a-z]", word):
            arguments.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals and rest and not re.match(r"--?[a-z]", rest[0]):
            value = rest.pop(0)
        asked[name.replace("-", "_")] = value
    return {**asked, **({"arguments": " ".join(arguments)} if arguments else {})}


def _same(asked, did) -> bool:
    try:
        return math.isclose(float(asked), float(did), rel_tol=1e-4)
    except (TypeError, ValueError):
        return str(asked) == str(did)


def differences(asked: dict, did: dict) -> list[str]:
    """A phrase for each thing that was done otherwise than asked, or that the program does not
    say."""
    return [
        f"{name} was {did[name]} instead of {value}"
        if name in did
        else f"the program does not say its {name}, which should be {value}"
        for name, value in asked.items()
        if name not in did or not _same(value, did[name])
    ]


def expect(asked: dict, did: dict) -> None:
    """ParseError where the program did something else than it was asked to."""
    wrong = differences(asked, did)
    if wrong:
        raise ParseError(
            f"the program did not do what it was asked to: {'; '.join(wrong)}. Was its output "
            "damaged, or does an environment variable or another program of its name change what "
            "it does?"
        )
