"""Measures how dense our Python is: `python3 -m bench.style nearmetal/ reframe_checks/`.

Prints a row for each given part of the checkout. Comprehensions and conditional expressions are
counted for a thousand lines that are not blank. A comprehension is nested if it holds another one,
or has two loops. A comment counts if it has a line of its own.
"""

import argparse
import ast
import subprocess
from collections import Counter
from pathlib import Path

from tabulate import tabulate

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def main(arguments: list[str] | None = None) -> int:
    """Print the table of the given directories and files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["nearmetal/", "reframe_checks/"])
    rows = []
    for part in parser.parse_args(arguments).parts:
        total: Counter[str] = Counter()
        for path in tracked(part):
            total += counts(path.read_text(encoding="utf-8"))
        rows.append([part, *figures(total)])
    headers = ["part", "lines", "not blank", "comprehensions", "nested", "conditional", "comments"]
    print(tabulate(rows, headers, floatfmt=".1f"))
    return 0


def tracked(part: str) -> list[Path]:
    """The Python files of git below a directory."""
    listed = ["git", "ls-files", "-z", "--", part]
    names = subprocess.run(listed, check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in names.split("\0") if name.endswith(".py")]


def counts(text: str) -> Counter[str]:
    """What one file holds: `lines`, `filled`, `comments`, and kinds of expressions."""
    total: Counter[str] = Counter()
    for line in text.splitlines():
        total["lines"] += 1
        total["filled"] += bool(line.strip())
        total["comments"] += line.lstrip().startswith("#")
    for node in ast.walk(ast.parse(text)):
        total["conditional"] += isinstance(node, ast.IfExp)
        if isinstance(node, COMPREHENSIONS):
            total["comprehensions"] += 1
            total["nested"] += is_nested(node)
    return total


def is_nested(node: ast.AST) -> bool:
    """Whether a comprehension has two loops or holds another comprehension."""
    loops = sum(isinstance(child, ast.comprehension) for child in ast.iter_child_nodes(node))
    inner = [child for child in ast.walk(node) if isinstance(child, COMPREHENSIONS)]
    return loops > 1 or len(inner) > 1


def figures(total: Counter[str]) -> list:
    """The cells of one row."""
    filled = max(1, total["filled"])
    kinds = ("comprehensions", "nested", "conditional")
    parts = [1000 * total[kind] / filled for kind in kinds]
    return [total["lines"], total["filled"], *parts, f"{100 * total['comments'] / filled:.1f} %"]


if __name__ == "__main__":
    raise SystemExit(main())
