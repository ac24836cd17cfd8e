"""The tests' own order: a test imports no other test, and what several use is in tests/support."""

import ast

from tests.support.paths import CHECKOUT

FILES = sorted((CHECKOUT / "tests").rglob("*.py"))
TIERS = {"unit", "host", "node", "lab", "browser"}


def imported(path) -> set[str]:
    """Names of all modules that a file imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            found |= (
                {f"tests.{name.name}" for name in node.names} if module == "tests" else {module}
            )
    return found


def test_no_test_imports_another():
    names = [(path, name) for path in FILES for name in imported(path)]
    for path, name in names:
        assert not name.startswith("."), f"{path}: {name}: import from tests.support by full name"
        parts = name.split(".")
        assert parts[0] != "tests" or parts[1] not in TIERS, f"{path}: {name}: see tests/support"


def test_every_test_is_in_a_tier():
    tests = [path for path in FILES if path.name.startswith("test_")]
    assert {path.parent.name for path in tests} == TIERS
