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
    over_own: bool = False  #: whether it reads other variables of the case

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
    names: set[str] = set()
    own = _check(tree, names)
    return Expression(text, tree, frozenset(names), own)


def _check(node: ast.expr, names: set[str]) -> bool:
    """Collect the names of a tree; whether it reads own variables. Raises ExpressionError."""
    match node:
        case ast.Constant(value=value):
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ExpressionError(f"{value!r} is not a number")
            if not abs(value) <= LARGEST:
                raise ExpressionError(f"{value!r} is too large")
            return False
        case ast.Name(id=name):
            names.add(name)
            return False
        case ast.Attribute(value=ast.Name(id=whose)) if whose == OWN:
            return True
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _check(operand, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return _check_all([left, right], names)
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
            return _check_call(name, args, names)
    raise ExpressionError(
        f"{ast.unparse(node)!r} is not allowed: use numbers, names, {OWN}.VARIABLE, + - * /, "
        f"{', '.join([*FUNCTIONS, *OVER_VARIABLES])}"
    )


def _check_all(nodes: list[ast.expr], names: set[str]) -> bool:
    """Checks all of them, so that the names of all are collected."""
    own = [_check(node, names) for node in nodes]
    return any(own)


def _check_call(name: str, args: list[ast.expr], names: set[str]) -> bool:
    if name in FUNCTIONS:
        if len(args) < 2:
            raise ExpressionError(f"{name} needs two values or more")
        return _check_all(args, names)
    if name in OVER_VARIABLES:
        match args:
            case [ast.Constant(value=str(pattern))] if re.fullmatch(r"[\w*?]+", pattern):
                return True
        raise ExpressionError(f"{name} needs one pattern of variables, such as 'triad_*'")
    known = ", ".join([*FUNCTIONS, *OVER_VARIABLES])
    raise ExpressionError(f"the function {name!r} is unknown. Known: {known}")


def _value(node: ast.expr, names: Names) -> float:
    """The number of a tree that `_check` allows."""
    match node:
        case ast.Constant(value=int(value) | float(value)):
            return value
        case ast.Name(id=name):
            return names.number(name)
        case ast.Attribute(attr=name):
            return names.variable(name)
        case ast.UnaryOp(op=op, operand=operand):
            value = _value(operand, names)
            return -value if isinstance(op, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right):
            return OPERATORS[type(op)](_value(left, names), _value(right, names))
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(pattern))]):
            return OVER_VARIABLES[name](names.matching(pattern))
        case ast.Call(func=ast.Name(id=name), args=args):
            return FUNCTIONS[name](*[_value(one, names) for one in args])
    raise ExpressionError(f"{ast.unparse(node)!r} is not allowed")
