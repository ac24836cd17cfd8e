"""docs/coverage.md says of each thing that the documents measured what measures it here, and why
less."""

from dataclasses import replace

import pytest
import yaml

from docs import coverage
from nearmetal.compare import published
from tests.support.paths import CHECKOUT

ROWS, FIGURES, CHECKS = coverage.load(), published.load(), coverage.checks_of()


def faults(rows=ROWS, figures=FIGURES, checks=CHECKS) -> str:
    return "\n".join(coverage.faults(rows, figures, checks))


def changed(what: str, **values) -> list[coverage.Row]:
    """The rows, one of them changed."""
    rows = [replace(row, **values) if row.what.startswith(what) else row for row in ROWS]
    assert rows != ROWS
    return rows


def test_the_data_are_supported():
    assert faults() == ""


def test_the_page_is_what_the_data_make():
    written = coverage.PAGE.read_text(encoding="utf-8")
    assert written == coverage.page(ROWS, FIGURES), "run `make docs-coverage`, and commit the page"


def test_every_weaker_or_absent_row_has_its_reason():
    for row in ROWS:
        assert (row.covered == coverage.FULL) == (not row.why), row.what
    assert {row.covered for row in ROWS} == {"Full", "weaker", "absent"}


def test_every_document_is_cited_by_its_name():
    cited = (CHECKOUT / "docs/papers.md").read_text().lower()
    documents = {row.document: row.name for row in ROWS if row.document}
    assert set(documents) == {figure.document for figure in FIGURES}
    assert [name for name in documents.values() if f"- **{name.lower()}.**" not in cited] == []


@pytest.mark.parametrize(
    "what, values, message",
    [
        ("NAMD on APOA1", {"checks": ("nmad",)}, "there is no check nmad"),
        ("Hadoop", {"why": ""}, "neither a check nor a reason"),
        ("EC2's rank", {"why": ""}, "nothing is shown beside top500_rank"),
        ("LAMMPS", {"checks": (), "figures": ({"check": "npb"},)}, "figures without a check"),
        ("LINPACK", {"figures": ()}, "hpcc hpl_of_peak {} of slide 15, LINPACK Efficiency is in 0"),
        ("LINPACK", {"figures": ({"check": "hpcc"},)}, "is in 2 rows instead of one"),
        ("LINPACK", {"figures": ({"check": "tcp"},)}, "no published figure has {'check': 'tcp'}"),
        ("LINPACK", {"checks": ("lammps",)}, "HPC Cloud slides: covered by lammps, whose docs"),
        ("Noise", {"checks": ("nwchem",)}, "covered by nwchem, whose docstring does not name it"),
        ("NAMD on STMV", {"checks": ("vswitch",)}, "namd reproduces the ESX 4.1 NAMD post"),
    ],
)
def test_what_the_data_do_not_support_is_a_fault(what, values, message):
    rows = changed(what, **values)
    if what == "NAMD on STMV":
        rows = [r for r in rows if not r.what.startswith("Hyper-threading")]
    assert message in faults(rows)


def test_a_new_figure_and_a_new_check_need_a_row():
    figure = replace(FIGURES[0], variable="star_something")
    assert "star_something" in faults(figures=[*FIGURES, figure])
    checks = {**CHECKS, "new": "It is new.\n\nReproduces: the messaging paper's figure 7."}
    assert "new reproduces the messaging paper" in faults(checks=checks)
    checks["new"] = "It is new.\n\nReproduces: no figure. The messaging paper names it."
    assert faults(checks=checks) == ""


@pytest.mark.parametrize(
    "check, variable, is_one",
    [
        ("pingpong", "startup_latency", True),
        ("rdma", "peak_bandwidth", True),
        ("npb", "mops", True),
        ("npb_mz", "elapsed", True),
        ("stream", "triad_4", True),
        ("hpcc", "hpl_of_peak", True),
        ("npb", "scales_to", True),
        ("npb", "elapsed", False),
        ("eigen", "elapsed", False),
        ("hpcc", "top500_rank", False),
    ],
)
def test_variables_are_those_of_the_checks_sources(check, variable, is_one):
    figure = replace(FIGURES[0], check=check, variable=variable, relative_to=None, parameters={})
    assert coverage.shown(figure) == is_one


@pytest.mark.parametrize(
    "variable, relative_to, can",
    [
        ("overhead", "native", True),
        ("speedup", "4 processes", True),
        ("hpl_gain", "small pages", True),
        ("hpl_of_peak", "theoretical peak", True),
        ("hpl_gain", "EPT on", True),
        ("processes_outperformed", "native", False),
        ("overhead", "4 guests on 1 vSwitch", False),
    ],
)
def test_ratios_are_shown_that_a_session_can_have(variable, relative_to, can):
    assert coverage.shown(replace(FIGURES[0], variable=variable, relative_to=relative_to)) == can


@pytest.mark.parametrize("change", [{"wat": "x"}, {"where": None}])
def test_an_unknown_or_a_missing_key_is_refused_with_its_place(tmp_path, change):
    row = {"what": "A thing", "where": "here", "why": "no", **change}
    row = {key: value for key, value in row.items() if value is not None}
    path = tmp_path / "coverage.yaml"
    path.write_text(yaml.safe_dump([{"name": "a post", "rows": [row]}]))
    with pytest.raises(ValueError, match=r"coverage.yaml: a post: A thing: .* Fix: write what"):
        coverage.load(path)


def test_a_fault_leaves_the_page_as_it_is(tmp_path, monkeypatch, capsys):
    page = tmp_path / "coverage.md"
    monkeypatch.setattr(coverage, "load", list)
    monkeypatch.setattr(coverage, "PAGE", page)
    assert coverage.main() == 1 and not page.exists()
    assert "in 0 rows" in capsys.readouterr().err
