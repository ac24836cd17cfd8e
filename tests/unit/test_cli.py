"""What a command imports and how often it reads the database; the version."""

import errno
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections import Counter

import pytest

from nearmetal import results
from nearmetal.checkout import CHECKOUT
from nearmetal.cli import main
from nearmetal.errors import of_system
from nearmetal.judge import baseline, record
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.campaign import Campaign
from nearmetal.results import decode
from tests.support.campaigns import campaign
from tests.support.recorded import store

#: Libraries that take long to import.
HEAVY = ("numpy", "scipy", "otava", "plotly", "jinja2", "reframe", "prometheus_client")


def imported(*words) -> set[str]:
    """The modules that a command of `nearmetal` imports."""
    code = (
        "import json, sys; from nearmetal.cli import main; main(); "
        "print('modules', json.dumps(list(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True
    )
    assert "modules" in done.stdout, done.stderr
    return set(json.loads(done.stdout.rpartition("modules ")[2]))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A database of twelve campaigns and a newer one, and beside it their baseline."""
    place = tmp_path_factory.mktemp("sites")
    sessions = [*map(campaign, range(12)), campaign(12, launches=10)]
    parsed = [results.parse_session(data, "here") for data in sessions[:12]]
    after, _ = record.record(parsed, Baseline("lab", place / "lab.yaml", {}))
    baseline.save(after)
    return store(place / "results.db", *sessions)


@pytest.fixture
def sites(made, monkeypatch):
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(made.parent))
    return made


@pytest.mark.parametrize(
    "words", [["--help"], ["gate", "--help"], ["init", "--help"], ["--version"]]
)
def test_help_and_version_import_no_large_library(words):
    found = imported(*words)
    assert not found & {*HEAVY, "tabulate", "yaml", "jsonschema"}


@pytest.mark.parametrize("words", [["compare"], ["baseline", "show"], ["progress"]])
def test_a_command_imports_only_what_it_uses(sites, words):
    assert not imported(*words, "--database", sites) & set(HEAVY)


@pytest.fixture
def reads(monkeypatch):
    """Counts how often a database is opened, and how often each session is decoded."""
    counts = Counter()
    connect, parse = sqlite3.connect, decode.parse_session

    def counted_connect(*arguments, **options):
        counts["open"] += 1
        return connect(*arguments, **options)

    def counted_parse(data, origin):
        counts[data["session_info"]["uuid"]] += 1
        return parse(data, origin)

    monkeypatch.setattr(sqlite3, "connect", counted_connect)
    monkeypatch.setattr(decode, "parse_session", counted_parse)
    return counts


@pytest.mark.parametrize(
    "command, sessions",
    [
        (["gate"], 13),
        (["history"], 13),
        (["report"], 13),
        (["compare"], 1),
        (["baseline", "check"], 1),
    ],
)
def test_a_command_opens_the_database_once_and_decodes_each_session_once(
    sites, tmp_path, monkeypatch, reads, command, sessions
):
    words = [*command, "--database", str(sites)]
    if command == ["report"]:
        words += ["--output", str(tmp_path / "report.html")]
    monkeypatch.setattr("sys.argv", ["nearmetal", *words])
    assert main() == 0
    assert reads.pop("open") == 1
    assert len(reads) == sessions and set(reads.values()) == {1}


def test_after_a_confirmation_only_the_new_session_is_read(sites, tmp_path, reads):
    """ReFrame is a program that stores one more session, which confirms the newest."""
    [session] = [one for one in results.sessions(sites) if one.uuid.startswith("00000012")]
    again = campaign(20)
    again["session_info"][results.CONFIRMS] = session.uuid
    copy = store(tmp_path / "again.db", again)
    sites = shutil.copy(sites, tmp_path)
    reads.clear()
    database = results.Database(sites)
    assert Campaign(session, history=database).stored().samples == {}
    with sqlite3.connect(sites) as connection:
        connection.execute("ATTACH ? AS other", (str(copy),))
        connection.execute("INSERT INTO sessions SELECT * FROM other.sessions")
        connection.execute("INSERT INTO testcases SELECT * FROM other.testcases")
    database.refresh()
    fresh = Campaign(session, history=database).stored().samples
    assert fresh and set(map(len, fresh.values())) == {5} and not database.bad
    assert reads == {"open": 2, again["session_info"]["uuid"]: 1}  # one is this test's own


@pytest.mark.parametrize(
    "words",
    [
        ["gate", "--json", "{out}", "--markdown", "{out}"],
        ["fleet", "--json", "{out}", "--nhc", "{out}"],
        ["export", "--csv", "{out}", "--openmetrics", "{out}"],
    ],
    ids=lambda words: words[0],
)
def test_two_outputs_of_one_name_are_refused(sites, tmp_path, monkeypatch, capsys, words):
    out = tmp_path / "out"
    given = [word.format(out=out) for word in words]
    monkeypatch.setattr("sys.argv", ["nearmetal", *given, "--database", str(sites)])
    assert main() == 3 and not out.exists()
    assert "two outputs have one name" in capsys.readouterr().err


def test_the_version_is_that_of_the_project(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["nearmetal", "--version"])
    assert main() == 0
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    assert capsys.readouterr().out == f"nearmetal {project['version']}\n"


@pytest.mark.parametrize(
    ("number", "path", "fix"),
    [
        (errno.EACCES, "/site/out", "name another place"),
        (errno.ENOSPC, "/site/out", "make space"),
        (errno.ENOENT, b"/site/\xff", "correct the path"),
        (errno.EIO, None, ""),
    ],
)
def test_an_error_of_the_system_names_the_file_and_the_fix(number, path, fix):
    said = of_system(OSError(number, os.strerror(number), path))
    assert os.strerror(number) in said and "Errno" not in said
    assert (os.fsdecode(path) if path else "") in said
    assert said.partition(". Fix: ")[2].startswith(fix) and bool(fix) == ("Fix" in said)


def test_a_place_that_cannot_be_written_ends_a_command_with_3(monkeypatch, capsys, tmp_path):
    def refuse(arguments):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path))

    monkeypatch.setattr("nearmetal.commands.doctor.run", refuse)
    monkeypatch.setattr("sys.argv", ["nearmetal", "doctor", "lab"])
    assert main() == 3 and f"{tmp_path}: Permission denied. Fix: " in capsys.readouterr().err


def test_a_command_of_another_checkout_is_refused(tmp_path, monkeypatch, capsys):
    """It would judge the results of its own checkout, whoever stands in this one."""
    for name in ("reframe_checks", "nearmetal", "docs"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "docs")
    monkeypatch.setattr(sys, "argv", ["nearmetal", "gate"])
    assert main() == 3
    said = capsys.readouterr().err
    assert f"the checkout {CHECKOUT}" in said and f"-e {tmp_path}" in said
    (tmp_path / "reframe_checks").rmdir()
    assert main() == 2 or "another one" not in capsys.readouterr().err
