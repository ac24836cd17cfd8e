"""Arithmetic over names, read by a whitelist over `ast`. Nothing is ever evaluated as code."""

import ast
import fnmatch
import math
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

#: Longest expression, and the largest number in one.
LONGEST, LARGEST = 300, 1e15
#: Functions over numbers. `most_of` and `least_of` take a pattern of the case's own variables.
FUNCTIONS: dict[str, Callable[..., float]] = {"min": min, "max": max}
OVER_VARIABLES: dict[str, Callable[..., float]] = {"most_of": max, "least_of": min}
OPERATORS: dict[type, Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
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

    def number(self, name: str) -> float:
        """Raises UnknownValue."""
        value = self.numbers.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise UnknownValue(
                f"{name} is not known" if value is None else f"{name} is {str(value)!r}"
            )
        return value

    def variable(self, name: str) -> float:
        """Raises UnknownValue."""
        if name not in self.own:
            raise UnknownValue(f"the case has no variable {name}")
        return self.own[name]

    def matching(self, pattern: str) -> list[float]:
        """Raises UnknownValue where no variable of the case matches."""
        found = [value for name, value in self.own.items() if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            raise UnknownValue(f"the case has no variable {pattern}")
        return found


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
            found = _value(self.tree, names)
        except (ZeroDivisionError, OverflowError) as error:
            raise UnknownValue(f"{self.text}: {error}") from None
        if not math.isfinite(found):
            raise UnknownValue(f"{self.text} is {found}")
        return found


def parse(text: object) -> Expression:
    """The expression of a text or number. Raises ExpressionError."""
    if isinstance(text, bool) or not isinstance(text, (int, float, str)):
        raise ExpressionError(f"{text!r} is neither a number nor an expression")
    text = str(text)
    if len(text) > LONGEST:
        raise ExpressionError(f"it has {len(text)} characters; at most {LONGEST} are read")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExpressionError(f"{text!r} is not arithmetic") from None
    found = _Found()
    _check(tree, found)
    return Expression(
        text, tree, frozenset(found.names), frozenset(found.own), frozenset(found.patterns)
    )


@dataclass
class _Found:
    """What the leaves of a tree name."""

    names: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    patterns: set[str] = field(default_factory=set)


def _check(node: ast.expr, found: _Found) -> None:
    """Collect what a tree names. Raises ExpressionError."""
    # No `match`: Python 3.9, which the nodes' systems have, lacks it.
    if isinstance(node, ast.Constant):
        _check_number(node.value)
    elif isinstance(node, ast.Name):
        found.names.add(node.id)
    elif isinstance(node, ast.Attribute) and _is_own(node.value):
        found.own.add(node.attr)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        _check(node.operand, found)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        _check(node.left, found)
        _check(node.right, found)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        _check_call(node.func.id, node.args, found)
    else:
        raise ExpressionError(
            f"{ast.unparse(node)!r} is not allowed: use numbers, names, {OWN}.VARIABLE, "
            f"+ - * /, {', '.join([*FUNCTIONS, *OVER_VARIABLES])}"
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
    only = args[0] if len(args) == 1 else None
    return only.value if isinstance(only, ast.Constant) and isinstance(only.value, str) else ""


def _check_call(name: str, args: list[ast.expr], found: _Found) -> None:
    if name in FUNCTIONS:
        if len(args) < 2:
            raise ExpressionError(f"{name} needs two values or more")
        for one in args:
            _check(one, found)
    elif name in OVER_VARIABLES:
        pattern = _pattern(args)
        if not re.fullmatch(r"[\w*?]+", pattern):
            raise ExpressionError(f"{name} needs one pattern of variables, such as 'triad_*'")
        found.patterns.add(pattern)
    else:
        known = ", ".join([*FUNCTIONS, *OVER_VARIABLES])
        raise ExpressionError(f"the function {name!r} is unknown. Known: {known}")


def _value(node: ast.expr, names: Names) -> float:
    """The number of a tree that `_check` allows."""
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.Name):
        return names.number(node.id)
    if isinstance(node, ast.Attribute):
        return names.variable(node.attr)
    if isinstance(node, ast.UnaryOp):
        value = _value(node.operand, names)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        return OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if pattern := _pattern(node.args):
            return OVER_VARIABLES[node.func.id](names.matching(pattern))
        return FUNCTIONS[node.func.id](*[_value(one, names) for one in node.args])
    raise ExpressionError(f"{ast.unparse(node)!r} is not allowed")
