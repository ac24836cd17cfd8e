"""Arithmetic over names, and sentences that hold it in braces.

Expressions are read by a whitelist over `ast`. Nothing is ever evaluated as code.
"""

from __future__ import annotations

import ast
import fnmatch
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from nearmetal.util.text import rounded

#: Longest expression, and the largest number in one.
LONGEST, LARGEST = 300, 1e15
#: Functions over numbers. `most_of` and `least_of` take a pattern of the case's own variables.
FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max}
OF_ONE_VALUE: dict[str, Callable[..., float]] = {"log2": math.log2}
OVER_VARIABLES: dict[str, Callable[..., float]] = {"most_of": max, "least_of": min}
KNOWN = (*FUNCTIONS, *OF_ONE_VALUE, *OVER_VARIABLES)
OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
#: An expression within a sentence.
IN_BRACES = re.compile(r"\{([^{}]*)\}")
#: `own.NAME` is another variable of the same case.
OWN = "own"


class ExpressionError(ValueError):
    """The text is no allowed expression. The message says what is wrong in it."""


class UnknownValue(Exception):
    """A name has no number here, so that the expression says nothing."""


@dataclass(frozen=True)
class Names:
    """What the names of an expression mean."""

    numbers: Mapping[str, object] = field(default_factory=dict)  #: by name; texts have no value
    own: Mapping[str, float] = field(default_factory=dict)  #: the case's variables
    texts: Mapping[str, str] = field(default_factory=dict)  #: for sentences alone

    def number(self, name: str) -> float:
        """Raises UnknownValue."""
        value = self.numbers.get(name)
        # True is an int in Python.
        if value is None:
            raise UnknownValue(f"{name} is not known")
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UnknownValue(f"{name} is {str(value)!r}")
        return value

    def variable(self, name: str) -> float:
        """Raises UnknownValue."""
        if name not in self.own:
            raise UnknownValue(f"the case has no variable {name}")
        return self.own[name]

    def matching(self, pattern: str) -> list[float]:
        """Raises UnknownValue where no variable of the case matches."""
        values = [value for name, value in self.own.items() if fnmatch.fnmatchcase(name, pattern)]
        if not values:
            raise UnknownValue(f"the case has no variable {pattern}")
        return values


@dataclass(frozen=True)
class Expression:
    """A parsed expression."""

    text: str
    tree: ast.expr = field(compare=False, repr=False)
    names: frozenset[str] = frozenset()  #: but for the case's own variables
    own: frozenset[str] = frozenset()  #: names of `own.NAME`
    patterns: frozenset[str] = frozenset()  #: of `most_of` and `least_of`

    @property
    def over_own(self) -> bool:
        """Whether it reads other variables of the case."""
        return bool(self.own or self.patterns)

    def value(self, names: Names) -> float:
        """Its number. Raises UnknownValue where a name has none, or it divides by zero."""
        try:
            value = _value(self.tree, names)
        except (ValueError, ArithmeticError) as error:
            raise UnknownValue(f"{self.text}: {error}") from None
        if not math.isfinite(value):
            raise UnknownValue(f"{self.text} is {value}")
        return value


@dataclass(frozen=True)
class Sentence:
    """Texts and expressions in turn: `{value} Gb/s is {100 * value / link} % of it`."""

    parts: Sequence[str | Expression]

    @property
    def expressions(self) -> list[Expression]:
        return [part for part in self.parts if isinstance(part, Expression)]

    def filled(self, names: Names) -> str:
        """The sentence with its numbers to three digits; `?` for one that is not known."""
        text = ""
        for part in self.parts:
            if isinstance(part, Expression):
                try:
                    part = names.texts.get(part.text) or rounded(part.value(names))
                except UnknownValue:
                    part = "?"
            text += part
        return text


def parse_sentence(text: str) -> Sentence:
    """Raises ExpressionError: a brace without its pair, or no expression between them."""
    parts: list[str | Expression] = []
    for number, part in enumerate(IN_BRACES.split(text)):
        if number % 2:
            parts.append(parse(part))
        elif "{" in part or "}" in part:
            raise ExpressionError(f"{part!r} has a brace without its pair")
        else:
            parts.append(part)
    return Sentence(tuple(parts))


def parse(text: object) -> Expression:
    """The expression of a text or number. Raises ExpressionError."""
    if isinstance(text, bool) or not isinstance(text, (int, float, str)):
        raise ExpressionError(f"{text!r} is neither a number nor an expression")
    text = str(text)
    # Expressions come from site files, too: nothing in them may take long.
    if len(text) > LONGEST:
        raise ExpressionError(f"it has {len(text)} characters; at most {LONGEST} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"{text!r} is not arithmetic") from None
    leaves = _Leaves()
    _check(tree, leaves)
    return Expression(
        text, tree, frozenset(leaves.names), frozenset(leaves.own), frozenset(leaves.patterns)
    )


@dataclass
class _Leaves:
    """What the leaves of a tree name."""

    names: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)


def _check(node: ast.expr, leaves: _Leaves) -> None:
    """Collect what a tree names. Raises ExpressionError."""
    # No `match`: Python 3.9, which the nodes' systems have, lacks it.
    if isinstance(node, ast.Constant):
        _check_number(node.value)
    elif isinstance(node, ast.Name):
        leaves.names.add(node.id)
    elif isinstance(node, ast.Attribute) and _is_own(node.value):
        leaves.own.add(node.attr)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        _check(node.operand, leaves)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        _check(node.left, leaves)
        _check(node.right, leaves)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        _check_call(node.func.id, node.args, leaves)
    else:
        raise ExpressionError(
            f"{ast.unparse(node)!r} is not allowed: use numbers, names, {OWN}.VARIABLE, "
            f"+ - * /, {', '.join(KNOWN)}"
        )


def _check_number(value) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ExpressionError(f"{value!r} is not a number")
    if not abs(value) <= LARGEST:
        raise ExpressionError(f"{value!r} is too large")


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == OWN


def _pattern(args: list[ast.expr]) -> str:
    """The text that is the only argument; '' if it is none."""
    if len(args) == 1 and isinstance(args[0], ast.Constant) and isinstance(args[0].value, str):
        return args[0].value
    return ""


def _check_call(name: str, args: list[ast.expr], leaves: _Leaves) -> None:
    if name in FUNCTIONS:
        if len(args) < 2:
            raise ExpressionError(f"{name} needs two values or more")
        for argument in args:
            _check(argument, leaves)
    elif name in OF_ONE_VALUE:
        if len(args) != 1:
            raise ExpressionError(f"{name} needs one value")
        _check(args[0], leaves)
    elif name in OVER_VARIABLES:
        pattern = _pattern(args)
        if not re.fullmatch(r"[\w*?]+", pattern):
            raise ExpressionError(f"{name} needs one pattern of variables, such as 'triad_*'")
        leaves.patterns.add(pattern)
    else:
        raise ExpressionError(f"the function {name!r} is unknown. Known: {', '.join(KNOWN)}")


def _value(node: ast.expr, names: Names) -> float:
    """The number of a tree that `_check` allows."""
    # `_check` has refused all other nodes.
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        return names.number(node.id)
    if isinstance(node, ast.Attribute):
        return names.variable(node.attr)
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, names)
        if isinstance(node.op, ast.USub):
            return -value
        return value
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if pattern := _pattern(node.args):
            return OVER_VARIABLES[node.func.id](names.matching(pattern))
        function = {**FUNCTIONS, **OF_ONE_VALUE}[node.func.id]
        return function(*(_value(argument, names) for argument in node.args))
    raise ExpressionError(f"{ast.unparse(node)!r} is not allowed")
