"""The generated reference: the part of checks.md that Sphinx makes, and the page keys.md.

The checks' part comes from docstrings and `#:` comments.
The page of the keys comes from the schema of a system's file. `python -m docs.reference` writes it,
as people read it in a checkout.
The source is read and not imported: the documentation's virtual environment has no ReFrame.
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
#: Where the classes of the checks are, and their bases.
SOURCES = (ROOT / "reframe_checks", ROOT / "nearmetal" / "checks")
#: The schema of a system's file.
SCHEMA = ROOT / "nearmetal" / "site" / "schema.yaml"
#: The base of all checks, whose variables are listed once.
BASE = "NearmetalCheck"
#: What declares a variable of a check: a function's name, and its kind in the table.
DECLARED = {"setting": "setting", "parameter": "parameter", "variable": "variable"}
#: Sections of a system's file, by heading.
TITLES = {
    "Partition": "partition",
    "Extras of a partition": "extras",
    "Environment": "environment",
    "Extras of an environment": "environ_extras",
}
#: The page of these keys, and its beginning.
KEYS = ROOT / "docs" / "keys.md"
HEAD_OF_KEYS = """# Keys of a system's file

These tables are made from `nearmetal/site/schema.yaml`, which checks every system's file.
The sentence beside a key is the fix that an error prints. `make docs-keys` writes them."""
#: What is said of a key without a sentence of its own.
REFRAME = "as in ReFrame's configuration"
#: Dictionaries in a check that a setting chooses from.
TABLES = ("sizes",)


@dataclass(frozen=True)
class Variable:
    """A variable of a check as its source declares it."""

    kind: str  #: setting, parameter, variable, or table
    comment: str


@dataclass(frozen=True)
class Class:
    """A class as its source declares it."""

    name: str
    bases: tuple[str, ...]
    docstring: str
    variables: dict[str, Variable]
    is_check: bool  #: ReFrame instantiates it
    is_duet: bool  #: it is in reframe_checks/duet


def classes(sources=SOURCES) -> dict[str, Class]:
    """Name -> class, for all classes below some directories."""
    found = {}
    for path in sorted(path for source in sources for path in source.rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, ast.ClassDef):
                found[node.name] = _class(node, lines, path)
    return found


def _class(node: ast.ClassDef, lines: list[str], path: Path) -> Class:
    decorators = {ast.unparse(one) for one in node.decorator_list}
    return Class(
        name=node.name,
        bases=tuple(ast.unparse(base).rsplit(".", 1)[-1] for base in node.bases),
        docstring=ast.get_docstring(node) or "",
        variables=_variables(node, lines),
        is_check="rfm.simple_test" in decorators,
        is_duet=path.parent.name == "duet",
    )


def _variables(node: ast.ClassDef, lines: list[str]) -> dict[str, Variable]:
    """Name -> variable. A comment holds for the lines below it that have none of their own."""
    found = {}
    comment, end = "", 0
    for statement in node.body:
        kind = _kind(statement)
        above = _comment_above(lines, statement.lineno - 1)
        if above or statement.lineno != end + 1:
            comment = above
        end = statement.end_lineno
        if kind and comment:
            found[statement.targets[0].id] = Variable(kind, comment)
    return found


def _kind(statement: ast.stmt) -> str:
    """The kind of variable that a statement declares; "" for any other statement."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return ""
    if statement.targets[0].id in TABLES and isinstance(statement.value, ast.Dict):
        return "table"
    if not isinstance(statement.value, ast.Call):
        return ""
    return DECLARED.get(ast.unparse(statement.value.func).rsplit(".", 1)[-1], "")


def _comment_above(lines: list[str], number: int) -> str:
    """The block of `#:` comments that ends above a line (counted from 0)."""
    block = []
    while number and lines[number - 1].strip().startswith("#:"):
        number -= 1
        block.insert(0, lines[number].strip()[2:].strip())
    return " ".join(block)


def lineage(one: Class, known: dict[str, Class]) -> list[Class]:
    """A class and its bases, nearest first, each once."""
    found = [one]
    for base in one.bases:
        others = lineage(known[base], known) if base in known else []
        found += [other for other in others if other not in found]
    return found


def variables(one: Class, known: dict[str, Class]) -> dict[str, Variable]:
    """Variables of a class and its bases; the nearest declaration counts."""
    found: dict[str, Variable] = {}
    for other in lineage(one, known):
        found = {**other.variables, **found}
    return found


def page(sources=SOURCES) -> str:
    """The reference as Markdown."""
    known = classes(sources)
    common = variables(known[BASE], known)
    checks = sorted((one for one in known.values() if one.is_check), key=lambda one: one.name)
    parts = ["## Every check", _table(common)]
    for one in sorted(checks, key=lambda one: one.is_duet):
        own = {name: told for name, told in variables(one, known).items() if name not in common}
        parts += [f"## {one.name}", _escaped(_labelled(one.docstring)), _table(own)]
    return "\n\n".join(parts) + "\n"


def _labelled(docstring: str) -> str:
    """A docstring whose paragraphs begin with their labels in bold: Method, Why, ..."""
    return re.sub(r"^([A-Z]\w*(?: Java)?): ", r"**\1:** ", docstring, flags=re.MULTILINE)


def _table(of: dict[str, Variable]) -> str:
    """One row for all names with the same comment."""
    if not of:
        return "It has no settings of its own."
    names: dict[Variable, list[str]] = {}
    for name, variable in sorted(of.items()):
        names.setdefault(variable, []).append(f"`{name}`")
    rows = ["| name | kind | values | meaning |", "|---|---|---|---|"]
    for variable, group in names.items():
        meaning, values = _split(variable.comment)
        cells = [", ".join(group), variable.kind, values, meaning]
        rows.append(f"| {' | '.join(_escaped(cell) for cell in cells)} |")
    return "\n".join(rows)


def _split(comment: str) -> tuple[str, str]:
    """Meaning and allowed values of a comment, which ends with `:type: int` or `:values: ...`."""
    meaning, _, values = re.sub(r":types?:|:values?:", "\0", comment).partition("\0")
    return meaning.strip(), values.strip()


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def keys(schema: Path = SCHEMA) -> str:
    """The page of the keys of a system's file, each with what to write."""
    document = yaml.safe_load(schema.read_text(encoding="utf-8"))
    rules = document["$defs"]
    parts = [HEAD_OF_KEYS, "## System", _keys(document["properties"], rules)]
    for title, name in TITLES.items():
        parts += [f"## {title}", _keys(rules[name]["properties"], rules)]
    return "\n\n".join(parts) + "\n"


def _keys(properties: dict, rules: dict) -> str:
    rows = ["| key | what to write |", "|---|---|"]
    for name, rule in properties.items():
        named = rules.get(rule.get("$ref", "").rpartition("/")[2], {})
        told = rule.get("description") or named.get("description") or REFRAME
        rows.append(f"| `{name}` | {_escaped(told)} |")
    return "\n".join(rows)


#: Page -> (the line that the reference replaces, what makes the reference).
PARTS = {
    "checks": ("<!-- The reference of checks: `make docs` puts it here. -->", page),
}


def setup(app) -> dict:
    """Entry point of a Sphinx extension."""
    app.connect("source-read", _insert)
    return {"parallel_read_safe": True}


def _insert(app, name: str, source: list[str]) -> None:
    """Put a part of the reference into its page as Sphinx reads it."""
    if name not in PARTS:
        return
    mark, part = PARTS[name]
    if mark not in source[0]:
        raise ValueError(f"docs/{name}.md lacks the line {mark!r}: put it where the reference goes")
    source[0] = source[0].replace(mark, part())


if __name__ == "__main__":
    KEYS.write_text(keys(), encoding="utf-8")
