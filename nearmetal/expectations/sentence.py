"""A sentence with expressions in braces: `{value} Gb/s is {100 * value / link} % of it`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearmetal.expectations import expression
from nearmetal.expectations.expression import Expression, Names, UnknownValue

FIELD = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Sentence:
    """Texts and expressions in turn."""

    parts: tuple[str | Expression, ...]

    @property
    def expressions(self) -> list[Expression]:
        return [part for part in self.parts if isinstance(part, Expression)]

    def said(self, names: Names) -> str:
        """The sentence with its numbers to three digits; `?` for one that is not known."""
        return "".join(
            part if isinstance(part, str) else _printed(part, names) for part in self.parts
        )


def _printed(part: Expression, names: Names) -> str:
    try:
        return number(part.value(names))
    except UnknownValue:
        return "?"


def number(value: float, digits: int = 3) -> str:
    """A number to so many digits, and no power of ten below a million."""
    rounded = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e+" in rounded and abs(value) < 1e6 else rounded


def parse(text: str) -> Sentence:
    """Raises ExpressionError: a brace without its pair, or no expression between them."""
    parts: list[str | Expression] = []
    for number, part in enumerate(FIELD.split(text)):
        if number % 2:
            parts.append(expression.parse(part))
        elif "{" in part or "}" in part:
            raise expression.ExpressionError(f"{part!r} has a brace without its pair")
        else:
            parts.append(part)
    return Sentence(tuple(parts))
