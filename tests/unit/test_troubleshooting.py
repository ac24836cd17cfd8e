"""docs/troubleshooting.md quotes only messages that the code prints."""

import ast
import re

import yaml

from tests.support.paths import CHECKOUT

PAGE = CHECKOUT / "docs" / "troubleshooting.md"
SOURCES = ("nearmetal", "reframe_checks", "site-config")
#: What a quotation has for a part that differs from message to message.
GAP = "..."


def quotations() -> list[str]:
    """The messages of the page: code in the first column of its tables."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return [quoted for row in rows for quoted in re.findall("`([^`]+)`", row.split(" | ")[0])]


def texts_of(source: str) -> list[str]:
    """The strings of a Python module; a formatted value within one is `{}`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            found.append("".join(parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
    return found


def strings_in(data) -> list[str]:
    """All strings in the values of a YAML document."""
    if isinstance(data, dict):
        data = list(data.values())
    if isinstance(data, list):
        return [text for one in data for text in strings_in(one)]
    return [data] if isinstance(data, str) else []


def printed() -> str:
    """All strings of the sources, one a line."""
    found = []
    for directory in SOURCES:
        for path in (CHECKOUT / directory).rglob("*.py"):
            found += texts_of(path.read_text())
        for path in (CHECKOUT / directory).rglob("*.yaml"):
            found += strings_in(yaml.safe_load(path.read_text()))
    return "\n".join(" ".join(text.split()) for text in found)


def test_the_code_prints_each_message():
    quoted = quotations()
    assert len(quoted) >= 20
    parts = [part.strip() for one in quoted for part in one.split(GAP)]
    sources = printed()
    assert [part for part in parts if part not in sources] == [], "quote what the code prints"
