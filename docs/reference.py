"""The generated reference: parts of pages that Sphinx makes, and the pages keys.md and commands.md.

The part of checks.md comes from docstrings and `#:` comments, the part of formats.md from a schema.
The page of the keys comes from the schema of a system's file and from the checks' files of facts,
the page of the commands from their parsers. `python -m docs.reference` writes both, as people read
them in a checkout.
The source of checks is read and not imported: the documentation's virtual environment has no
ReFrame.
"""

import argparse
import ast
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parent.parent
#: Where the classes of the checks are, and their bases.
SOURCES = (ROOT / "reframe_checks", ROOT / "nearmetal" / "checks")
#: The facts of each check, one file a check.
FACTS = ROOT / "reframe_checks" / "references" / "checks"
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

These tables are made from `nearmetal/site/schema.yaml` and `reframe_checks/references/checks/`,
which check every system's file.
The sentence beside a key is the fix that an error prints. `make docs-reference` writes them."""
#: The page of the commands, and its beginning.
COMMANDS = ROOT / "docs" / "commands.md"
HEAD_OF_COMMANDS = """# Commands

This page has what `nearmetal COMMAND --help` prints. `make docs-reference` writes it.
Each command also has `--debug`: with an unforeseen error, print the traceback as well.
`nearmetal --version` prints the version."""
#: Options that the sections omit.
OMITTED = ("--help", "--debug")
#: The schema of the gate's document.
GATE = ROOT / "nearmetal" / "judge" / "gate-schema.yaml"
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
    facts = {path.stem: yaml.safe_load(path.read_text("utf-8")) for path in FACTS.glob("*.yaml")}
    parts = [methods(facts), "## Every check", _table(common)]
    for one in sorted(checks, key=lambda one: one.is_duet):
        own = {name: told for name, told in variables(one, known).items() if name not in common}
        parts += [f"## {one.name}", _escaped(_labelled(one.docstring)), _table(own)]
        if one.name in facts:
            parts.append(_measured(facts[one.name]["variables"]))
    return "\n\n".join(parts) + "\n"


def methods(facts: dict[str, dict]) -> str:
    """A table of the checks with their methods."""
    rows = ["| check | method |", "|---|---|"]
    for name, of_check in sorted(facts.items()):
        rows.append(f"| `{name}` | {_escaped(of_check['method'])} |")
    return "\n".join(rows)


def _measured(variables: dict[str, dict]) -> str:
    """A table of what a check measures."""
    rows = ["| variable | unit | meaning |", "|---|---|---|"]
    for name, variable in variables.items():
        rows.append(f"| `{name}` | {variable['unit']} | {_escaped(variable['means'])} |")
    return "\n".join(rows)


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


def keys() -> str:
    """The page of the keys of a system's file, each with what to write."""
    from nearmetal.site import system  # not at the top: Sphinx's environment has no ReFrame

    document = system.schema()
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


def commands() -> str:
    """The page of the commands, from their parsers."""
    from nearmetal import cli, results  # not at the top: Sphinx's environment has no NumPy

    leaves = _leaves(cli.parser())
    rows = ["| command | result |", "|---|---|"]
    for parser, result in leaves:
        anchor = parser.prog.replace(" ", "-")
        rows.append(f"| [`{parser.prog}`](#{anchor}) | {_escaped(result)} |")
    codes = f"## Exit codes\n\n{_codes(cli.EPILOG)}\n\n`init` and `doctor` have codes of their own."
    sections = [_command(parser) for parser, _ in leaves]
    text = "\n\n".join([HEAD_OF_COMMANDS, "\n".join(rows), codes, *sections]) + "\n"
    # Defaults name this checkout's results, or those of RFM_PREFIX.
    return text.replace(str(results.default_database().parent), "results")


def _leaves(parser: argparse.ArgumentParser, result: str = "") -> list[tuple]:
    """The parsers that run something, each with its line of `--help`."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {one.dest: one.help for one in action._choices_actions}
            below = [_leaves(one, helps[name] or "") for name, one in action.choices.items()]
            return [leaf for leaves in below for leaf in leaves]
    return [(parser, result)]


def _command(parser: argparse.ArgumentParser) -> str:
    """The section of a command: what it does, its options, its own exit codes."""
    from nearmetal import cli

    actions = [one for one in parser._actions if not set(OMITTED) & set(one.option_strings)]
    rows = ["| option | meaning |", "|---|---|"]
    rows += [f"| {_escaped(_option(one))} | {_escaped(_meaning(one))} |" for one in actions]
    parts = [f"## {parser.prog}", _escaped(parser.description or ""), "\n".join(rows)]
    if parser.epilog != cli.EPILOG:
        parts.append(_codes(parser.epilog or ""))
    return "\n\n".join(parts)


def _option(action: argparse.Action) -> str:
    """An option as one writes it, such as `--session ID`."""
    if action.nargs == 0:
        return ", ".join(f"`{name}`" for name in action.option_strings)
    value = action.metavar or action.dest.upper()
    if action.choices:
        value = "{" + ",".join(action.choices) + "}"
    if action.option_strings:
        value = f"[{value}]" if action.nargs == "?" else value
    return f"`{' '.join([*action.option_strings, str(value)])}`"


def _meaning(action: argparse.Action) -> str:
    return (action.help or "") % vars(action)


def _codes(epilog: str) -> str:
    """A table of exit codes, from a text such as `exit codes: 0 done; 1 failed.`"""
    text = " ".join(epilog.split()).removeprefix("exit codes: ")
    listed, _, note = text.partition(". ")
    rows = ["| exit code | meaning |", "|---|---|"]
    for line in listed.rstrip(".").split("; "):
        code, _, meaning = line.partition(" ")
        rows.append(f"| {code} | {_escaped(meaning)} |")
    return "\n\n".join(filter(None, ["\n".join(rows), note]))


def fields(schema: Path = GATE) -> str:
    """The keys of the gate's document as a table."""
    rules = yaml.safe_load(schema.read_text(encoding="utf-8"))["$defs"]["system"]
    return "\n".join(["| key | values | meaning |", "|---|---|---|", *_rows(rules, "")])


def _rows(rule: dict, place: str) -> list[str]:
    """A row for each key at this place, and for the keys below it."""
    rows = []
    for name, one in rule.get("properties", {}).items():
        key = f"{place}{name}"
        rows.append(f"| `{key}` | {_values(one)} | {_escaped(one.get('description', ''))} |")
        rows += _rows(one, f"{key}.")
        rows += _rows(one.get("items", {}), f"{key}[].")
    return rows


def _values(rule: dict) -> str:
    """What a value may be, in the words of JSON Schema."""
    if "anyOf" in rule:
        return " or ".join(_values(one) for one in rule["anyOf"])
    if "const" in rule:
        return f"`{rule['const']}`"
    if "enum" in rule:
        return ", ".join(f"`{one}`" if one != "" else "empty" for one in rule["enum"])
    kind = rule["type"]
    return " or ".join(kind) if isinstance(kind, list) else kind


#: Page -> (the line that the reference replaces, what makes the reference).
PARTS = {
    "checks": ("<!-- The reference of checks: `make docs` puts it here. -->", page),
    "formats": ("<!-- The keys of the gate's document: `make docs` puts them here. -->", fields),
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
    COMMANDS.write_text(commands(), encoding="utf-8")
