"""`nearmetal report --all`: a page for each system, and an index of them."""

import re

import pytest

from nearmetal.model import naming
from nearmetal.report.index import file_of
from tests.support.campaigns import campaign
from tests.support.command import run  # noqa: F401 (a fixture)
from tests.support.recorded import store


def on(system: str, number: int) -> dict:
    data = campaign(number)
    for case in data["runs"][0]["testcases"]:
        case["system"] = system
    return data


def test_each_system_has_a_page_and_a_row(run, tmp_path):
    sessions = [on("lab", 1), on("other", 2), on("lab", 3), on("<b>x/../y", 4)]
    database = store(tmp_path / "results.db", *sessions)
    code, said, errors = run("report", "--database", database, "--all", tmp_path / "pages")
    assert code == 0 and not errors, errors
    assert said.strip().endswith("index.html")
    names = {path.name for path in (tmp_path / "pages").iterdir()}
    index = (tmp_path / "pages" / "index.html").read_text()
    linked = set(re.findall(r'href="([^"]+)"', index))
    assert names == linked | {"index.html"} and len(linked) == 3
    assert "<b>x" not in index and "&lt;b&gt;x/../y" in index
    assert "2 sessions" in index and "<script" not in index


def test_a_database_without_a_session_is_said(run, tmp_path):
    database = store(tmp_path / "results.db")
    code, _, errors = run("report", "--database", database, "--all", tmp_path / "pages")
    assert code == 3 and errors and not (tmp_path / "pages").exists()


@pytest.mark.parametrize(
    "system, taken, file",
    [
        ("ec2", [], "ec2.html"),
        ("index", [], "index-2.html"),
        ("a/b", ["a_b.html"], "a_b-2.html"),
        ("", [], "_.html"),
    ],
)
def test_files_are_names_of_their_own(system, taken, file):
    assert file_of(system, taken) == file


@pytest.mark.parametrize("name", ["../x", "/x", "a/b", "..", "", "a.b", "a b", "a\0b", "x" * 81])
def test_a_name_that_is_no_files_is_refused(name):
    assert naming.stem(name) != name
    with pytest.raises(naming.NoFileNameError, match="Fix: "):
        naming.file_of(name, ".yaml")


def test_a_plain_name_is_the_files():
    assert naming.file_of("lab_2-b", ".yaml") == "lab_2-b.yaml"


@pytest.mark.parametrize("system", ["../x", "{}/x", "a/b"])
def test_no_baseline_is_written_elsewhere(run, tmp_path, system):
    system = system.format(tmp_path)
    sessions = [on(system, number) for number in range(12)]
    database = store(tmp_path / "results.db", *sessions)
    before = sorted(tmp_path.parent.rglob("*"))
    for options in ([], ["--as", "reframe"], ["--only-bounds"]):
        words = ["baseline", "record", *options, "--database", database]
        code, _, errors = run(*words, "--directory", tmp_path / "baselines")
        assert code == 2 and "is no name of a file. Fix: " in errors
        assert sorted(tmp_path.parent.rglob("*")) == before
