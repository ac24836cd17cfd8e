"""The units of the checks' variables, read from the checks' sources.

They are not read from a run, because some checks name their variables only once they have measured.
Places whose unit cannot be read are returned too, so that a test fails for them.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import CHECKOUT

CHECKS = (CHECKOUT / "reframe_checks", CHECKOUT / "nearmetal" / "checks")
#: Functions that take a unit -> position of the unit among their arguments.
TAKES = {
    "performance_function": 0,
    "Variable": 0,
    "make_performance_function": 1,
    "name_values": 1,
    "define": 1,
    "_add": 2,
}


@dataclass
class Found:
    units: dict[str, set[str]] = field(default_factory=dict)  #: unit -> places
    unread: set[str] = field(default_factory=set)  #: places whose unit could not be read


def units(*directories: Path) -> Found:
    """All units in directories of checks (default: ours)."""
    found = Found()
    for directory, path in _sources(directories or CHECKS):
        module = ast.parse(path.read_text())
        for unit, line in _of_problems(module):
            found.units.setdefault(unit, set()).add(f"{path.relative_to(directory)}:{line}")
        for call, scopes in _calls(module, [module]):
            place = f"{path.relative_to(directory)}:{call.lineno}"
            for unit in _values(_unit(call), scopes):
                if unit is None:
                    found.unread.add(place)
                else:
                    found.units.setdefault(unit, set()).add(place)
    return found


def _of_problems(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield units that classes assign to `unit`, alone or in a tuple, with their lines."""
    for node in ast.walk(module):
        for statement in node.body if isinstance(node, ast.ClassDef) else ():
            if not isinstance(statement, ast.Assign):
                continue
            steps = _steps(statement.targets[0], "unit")
            value: ast.expr | None = statement.value if steps is not None else None
            for step in steps or ():
                value = value.elts[step] if isinstance(value, ast.Tuple) else None
            if isinstance(value, ast.Constant) and value.value:
                yield value.value, statement.lineno


def _sources(directories) -> Iterator[tuple[Path, Path]]:
    for directory in directories:
        for path in sorted(directory.rglob("*.py")):
            yield directory, path


def _calls(node: ast.AST, scopes: list) -> Iterator[tuple[ast.Call, list]]:
    """Yield calls of functions that take a unit, with their enclosing functions and loops."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and _name(child) in TAKES and _unit(child) is not None:
            yield child, scopes
        inner = isinstance(child, (ast.FunctionDef, ast.DictComp, ast.For))
        yield from _calls(child, [*scopes, child] if inner else scopes)


def _name(call: ast.Call) -> str:
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _unit(call: ast.Call) -> ast.expr | None:
    named = [keyword.value for keyword in call.keywords if keyword.arg == "unit"]
    place = TAKES[_name(call)]
    if named:
        return named[0]
    return call.args[place] if len(call.args) > place else None


def _values(node: ast.expr, scopes: list) -> Iterator[str | None]:
    """Yield the texts that an expression can be, or None if they are unknown."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.Name):
        yield from _bound(node.id, scopes)
    elif ast.unparse(node) in ("problem.unit", "self.unit"):
        return  # the classes of problems, and the calls of Variable, have the texts
    else:
        yield None


def _bound(name: str, scopes: list) -> Iterator[str | None]:
    """Yield the texts that the innermost loop or function around a name binds it to."""
    for depth in range(len(scopes) - 1, -1, -1):
        scope, outer = scopes[depth], scopes[:depth]
        loops = getattr(scope, "generators", [scope] if isinstance(scope, ast.For) else [])
        for loop in loops:
            steps = _steps(loop.target, name)
            if steps is not None:
                yield from _looped(loop.iter, steps, scopes[: depth + 1])
                return
        takes = isinstance(scope, ast.FunctionDef) and scope.name in TAKES
        if takes and name in [argument.arg for argument in scope.args.args]:
            return  # its calls have the texts
        assigned = [
            statement.value
            for statement in getattr(scope, "body", [])
            if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == name
        ]
        if assigned:
            yield from _values(assigned[-1], outer)
            return
    yield None


def _steps(target: ast.expr, name: str) -> list[int] | None:
    """Position of a name in a loop's target: [1, 0] for `a` in `kind, (a, b)`; None: not in it."""
    if isinstance(target, ast.Name):
        return [] if target.id == name else None
    for index, part in enumerate(getattr(target, "elts", [])):
        steps = _steps(part, name)
        if steps is not None:
            return [index, *steps]
    return None


def _looped(iterated: ast.expr, steps: list[int], scopes: list) -> Iterator[str | None]:
    """Yield the texts at this position in each element of a literal, or of a dictionary's items."""
    if isinstance(iterated, ast.Call) and _name(iterated) == "items":
        dictionary = _literal(iterated.func.value, scopes)
        if not isinstance(dictionary, ast.Dict):
            yield None
            return
        elements = [ast.Tuple([*pair]) for pair in zip(dictionary.keys, dictionary.values)]
    else:
        elements = getattr(_literal(iterated, scopes), "elts", [None])
    for element in elements:
        for step in steps:
            parts = getattr(element, "elts", [])
            element = parts[step] if step < len(parts) else None
        yield from [None] if element is None else _values(element, scopes)


def _literal(node: ast.expr, scopes: list) -> ast.expr | None:
    """A literal, or the literal that a function or module around a name assigns to it."""
    if not isinstance(node, ast.Name):
        return node
    for scope in reversed(scopes):
        for statement in getattr(scope, "body", []):
            if isinstance(statement, ast.Assign) and (
                getattr(statement.targets[0], "id", "") == node.id
            ):
                return statement.value
    return None
