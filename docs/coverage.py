"""`make docs-coverage`: write docs/coverage.md: what the documents measured, and our checks of it.

The data are reframe_checks/references/coverage.yaml, the published figures and the checks' sources.
Each row is full, weaker or absent. What the data do not support is a fault, and nothing is written.
"""

import ast
import functools
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from docs import reference
from nearmetal.checkout import REFERENCES
from nearmetal.compare import published, published_ratios, scaling
from nearmetal.compare.published import Figure
from nearmetal.util import documents

DATA = REFERENCES / "coverage.yaml"
PAGE = Path(__file__).with_name("coverage.md")
CHECKS = reference.ROOT / "reframe_checks"
#: Modules with variables that several checks have.
SHARED = [reference.ROOT / "nearmetal/checks" / name for name in ("link.py", "scaling.py")]
FULL, WEAKER, ABSENT = "Full", "weaker", "absent"
#: Keys of a document and of a row, with whether they are required.
OF_DOCUMENT = {"document": False, "name": True, "rows": True}
OF_ROW = {
    "what": True,
    "where": True,
    "checks": False,
    "with": False,
    "why": False,
    "figures": False,
}


@dataclass(frozen=True)
class Row:
    """Something that a document measured."""

    document: str  #: title; '' without published figures
    name: str  #: of the document, as docs/papers.md has it
    what: str
    where: str
    checks: tuple[str, ...] = ()
    settings: str = ""
    why: str = ""
    figures: tuple[dict, ...] = ()

    @property
    def covered(self) -> str:
        if not self.checks:
            return ABSENT
        return WEAKER if self.why else FULL

    def has(self, figure: Figure) -> bool:
        """Whether a published figure belongs to the row."""
        return figure.document == self.document and any(
            _matches(figure, wanted) for wanted in self.figures
        )


def _matches(figure: Figure, wanted: dict) -> bool:
    parameters = wanted.get("parameters", {})
    own = {key: value for key, value in wanted.items() if key != "parameters"}
    return all(getattr(figure, key) == value for key, value in own.items()) and all(
        figure.parameters.get(key) == value for key, value in parameters.items()
    )


def load(path: Path = DATA) -> list[Row]:
    """The rows, in the file's order. Raises ValueError for an unknown or a missing key."""
    rows = []
    for document in documents.read(path):
        _expect(document, OF_DOCUMENT, f"{path.name}: {document.get('name')}")
        for row in document["rows"]:
            _expect(row, OF_ROW, f"{path.name}: {document['name']}: {row.get('what')}")
            rows.append(
                Row(
                    document.get("document", ""),
                    document["name"],
                    row["what"],
                    row["where"],
                    tuple(row.get("checks", ())),
                    row.get("with", ""),
                    row.get("why", "").strip(),
                    tuple(row.get("figures", ())),
                )
            )
    return rows


def _expect(mapping: dict, keys: dict[str, bool], where: str) -> None:
    unknown = set(mapping) - set(keys)
    missing = {key for key, required in keys.items() if required} - set(mapping)
    if unknown or missing:
        raise ValueError(
            f"{where}: unknown keys: {sorted(unknown)}; missing keys: {sorted(missing)}. "
            f"Fix: write {', '.join(keys)}"
        )


def shown(figure: Figure) -> bool:
    """Whether the suite shows a published figure beside a value or a ratio of its own."""
    if figure.variable in (*published.BENDS, *scaling.QUANTITIES, published.COMPILERS):
        return True
    if figure.relative_to is not None:
        return published_ratios.can_show(figure)
    return any(
        _is_variable(one.check, re.sub(r"_\d+$", "", one.variable))
        for one in published.per_step([figure])
    )


def _is_variable(check: str, name: str) -> bool:
    """Whether the sources of a check name this variable, or the first part of its name."""
    word = re.compile(rf"(?<![A-Za-z]){name}(?![A-Za-z])")
    paths = [CHECKS / f"{check}.py", *SHARED]
    return any(word.search(text) for path in paths if path.is_file() for text in _names(path))


@functools.cache
def _names(path: Path) -> list[str]:
    """Names of functions, assigned names and texts in a module, without docstrings."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    names = []
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.Constant) and "\n" not in str(node.value):
            names.append(str(node.value))
    return names


def faults(rows: list[Row], figures: list[Figure], checks: dict[str, str]) -> list[str]:
    """What the data do not support: a sentence for each fault, with its fix.

    :arg checks: name of a check -> its docstring.
    """
    found = []
    for row in rows:
        where = f"{row.name}: {row.what}"
        found += [f"{where}: there is no check {name}" for name in row.checks if name not in checks]
        if not row.checks and not row.why:
            found.append(f"{where}: neither a check nor a reason. Fix: give `checks` or `why`")
        if row.figures and not row.checks:
            found.append(f"{where}: figures without a check. Fix: give `checks`")
        own = [figure for figure in figures if row.has(figure)]
        hidden = sorted({figure.variable for figure in own if not shown(figure)})
        if row.covered == FULL and hidden:
            found.append(f"{where}: nothing is shown beside {', '.join(hidden)}. Fix: say `why`")
        found += [
            f"{where}: no published figure has {wanted}. Fix: remove it"
            for wanted in row.figures
            if not any(_matches(one, wanted) and one.document == row.document for one in figures)
        ]
    for figure in figures:
        of = [row.what for row in rows if row.has(figure)]
        if len(of) != 1:
            found.append(
                f"{figure.document}: {figure.check} {figure.variable} {figure.parameters} of "
                f"{figure.where} is in {len(of)} rows instead of one: {of}"
            )
    return [*found, *_undeclared(rows, checks)]


def _undeclared(rows: list[Row], checks: dict[str, str]) -> list[str]:
    """Faults between the rows and what the checks say that they reproduce."""
    found = []
    for name in dict.fromkeys(row.name for row in rows if row.document):
        by_rows = {check for row in rows if row.name == name for check in row.checks}
        by_checks = {check for check, text in checks.items() if _reproduces(text, name)}
        found += [
            f"{check} reproduces the {name}, by its docstring. Fix: add a row to {DATA.name}"
            for check in sorted(by_checks - by_rows)
        ]
        found += [
            f"{name}: covered by {check}, whose docstring does not name it. Fix: say it under "
            "`Reproduces:`"
            for check in sorted(by_rows - by_checks)
            if check in checks and name not in checks[check]
        ]
    return found


def _reproduces(docstring: str, name: str) -> bool:
    found = re.search(r"^Reproduces: (.*?)(?=\n\n\w+:|\Z)", docstring, re.S | re.M)
    return bool(found) and not found[1].startswith("no figure") and name in _line(found[1])


def _line(text: str) -> str:
    return " ".join(text.split())


def checks_of(sources=reference.SOURCES) -> dict[str, str]:
    """Name of each check but the duets -> its docstring on one line a paragraph."""
    return {
        name: "\n\n".join(_line(part) for part in one.docstring.split("\n\n"))
        for name, one in reference.classes(sources).items()
        if one.is_check and not one.is_duet
    }


def page(rows: list[Row], figures: list[Figure]) -> str:
    """The page as Markdown."""
    parts = [
        "# What the documents measured, and what measures it here",
        (
            "`make docs-coverage` writes this page from `reframe_checks/references/coverage.yaml`, "
            "the published figures and the checks.\nA test fails where they disagree. "
            "The [papers](papers.md) are cited in full on a page of their own."
        ),
        (
            "- *Full*: the suite measures it as the document did, by default or with the settings "
            "named.\n- *weaker*: it measures something less, for the reason given.\n"
            "- *absent*: it does not measure it."
        ),
        "## Documents by check",
        _matrix(rows),
    ]
    for name in dict.fromkeys(row.name for row in rows):
        of = [row for row in rows if row.name == name]
        parts += [f"## {name[0].upper()}{name[1:]}", _table(of, figures)]
    return "\n\n".join(parts) + "\n"


def _matrix(rows: list[Row]) -> str:
    """A row for each check, a column for each document: the number of rows by how covered."""
    names = list(dict.fromkeys(row.name for row in rows if row.document))
    checks = sorted({check for row in rows for check in row.checks})
    lines = [_cells("check", *names), _cells(*["---"] * (len(names) + 1))]
    for check in checks:
        counts = [
            Counter(r.covered for r in rows if r.name == n and check in r.checks) for n in names
        ]
        lines.append(_cells(f"`{check}`", *map(_counted, counts)))
    totals = [Counter(row.covered for row in rows if row.name == name) for name in names]
    lines.append(_cells("all rows", *map(_counted, totals)))
    return "\n".join(lines)


def _counted(counts: Counter) -> str:
    return ", ".join(f"{counts[word]} {word}" for word in (FULL, WEAKER, ABSENT) if counts[word])


def _table(rows: list[Row], figures: list[Figure]) -> str:
    lines = [
        _cells("measured", "where", "covered", "by", "published figures", "remark"),
        _cells(*["---"] * 6),
    ]
    for row in rows:
        own = [figure for figure in figures if row.has(figure)]
        beside = sum(map(shown, own))
        by = ", ".join(f"`{name}`" for name in row.checks)
        remark = " ".join(filter(None, [row.why, row.settings and f"With `{row.settings}`."]))
        count = f"{beside} of {len(own)} shown" if own else ""
        lines.append(_cells(row.what, row.where, row.covered, by, count, remark))
    return "\n".join(lines)


def _cells(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def main() -> int:
    """Write the page. Returns the exit code."""
    rows, figures = load(), published.load()
    if wrong := faults(rows, figures, checks_of()):
        print("\n".join(f"coverage: {sentence}" for sentence in wrong), file=sys.stderr)
        return 1
    PAGE.write_text(page(rows, figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
