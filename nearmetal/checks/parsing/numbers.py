"""Numbers in outputs: read from text, and compared where a program prints a quantity twice."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from nearmetal.checks.parsing import ParseError, damaged

NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
WHOLE = re.compile(r"\d{1,18}", re.ASCII)


def _parsed(text: str) -> float | None:
    """The number of a text, nan and inf too, which programs print; None for any other text."""
    try:
        number = float(text)
    except ValueError:
        return None
    # Python also reads 1_000, blanks and digits of other scripts.
    return number if NUMBER.fullmatch(text) or not math.isfinite(number) else None


def real(text: str, what: str, finite: bool = True) -> float:
    """A finite number. Raises ParseError, which names ``what``, for any other text.

    :arg finite: False lets nan and inf pass, for callers that handle them.
    """
    number = _parsed(text)
    if number is None:
        raise ParseError(f"{what} is {text!r}, not a number: rerun, and look at the job's stderr")
    if finite and not math.isfinite(number):
        raise _unmeasured(text, what)
    return number


def positive(text: str, what: str) -> float:
    """A finite number above zero. Raises ParseError, which names ``what``, for any other text."""
    number = real(text, what)
    if number <= 0:
        raise _unmeasured(text, what)
    return number


def _unmeasured(text: str, what: str) -> ParseError:
    return ParseError(
        f"{what} is {text}, which no measurement gives: raise the iterations and rerun"
    )


def whole(text: str, what: str, least: int = 0) -> int:
    """A whole number of at least ``least``. Raises ParseError, which names ``what``, for any other
    text."""
    if not WHOLE.fullmatch(text):
        raise ParseError(f"{what} is {text!r}, not a number: rerun, and look at the job's stderr")
    if int(text) < least:
        raise damaged(f"{what} is {text}, but the least is {least}")
    return int(text)


def positives(texts: Iterable[str], what: str) -> list[float]:
    """As `positive`, of several texts."""
    return [positive(text, what) for text in texts]


def wholes(texts: Iterable[str], what: str, least: int = 0) -> list[int]:
    """As `whole`, of several texts."""
    return [whole(text, what, least) for text in texts]


def unit(text: str) -> float:
    """The value of one unit in the last printed digit: 0.01 for ``1.96``.

    Raises ParseError for what is no number.
    """
    if not NUMBER.fullmatch(text):
        raise damaged(f"{text!r} is not a number")
    digits, _, exponent = text.lower().partition("e")
    decimals = len(digits.partition(".")[2])
    # `1.96e3` has the step 10.
    return 10.0 ** (int(exponent or 0) - decimals)


def decimals(text: str, count: int, what: str) -> None:
    """Raise ParseError unless a number is printed with `count` decimals: digits were lost."""
    if len(text.partition(".")[2]) != count:
        raise damaged(f"{what} is {text}, not printed with {count} decimals")


def agree(what: str, figure: float, other: float, within: float) -> None:
    """Raise ParseError if two figures of one quantity differ by more than their rounding."""
    # 1 % more, as the bound is itself computed from rounded figures. NaN agrees with nothing.
    if not abs(figure - other) <= within * 1.01 + 1e-9 * abs(figure):
        raise damaged(f"{what}: the output gives {figure:.9g} and {other:.9g} for it")


def powers_of_two(first: int, largest: int) -> list[int]:
    """`first`, which is a power of two, and the powers of two beyond it up to `largest`."""
    sizes = [first]
    while sizes[-1] * 2 <= largest:
        sizes.append(sizes[-1] * 2)
    return sizes
