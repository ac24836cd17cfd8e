"""The benches of what evidence costs: in time, and in stored bytes."""

import shlex
import sqlite3

import orjson
import pytest

from bench import evidence, stored
from tests.support.campaigns import campaign
from tests.support.said import lacking

#: Prints another number at each launch.
PROGRAM = ["sh", "-c", "echo took 1.$$"]


def test_a_program_is_measured_in_pairs(capsys):
    code = evidence.main(["--pairs", "2", "--value", r"took ([0-9.]+)", "--", *PROGRAM])
    out = capsys.readouterr().out
    assert code in (0, 1, 2) and not lacking(out, "one record takes", "with evidence", "2")


@pytest.mark.parametrize(
    ("pattern", "words"), [("gave (.*)", "matches nothing"), ("took (1)", "in all launches")]
)
def test_a_pattern_that_finds_no_measurement_is_refused(pattern, words, monkeypatch):
    monkeypatch.setattr(evidence, "record", lambda: 0.0)
    with pytest.raises(SystemExit, match=words):
        evidence.main(["--pairs", "2", "--value", pattern, "--", *PROGRAM])


def test_a_program_needs_a_pattern(capsys):
    with pytest.raises(SystemExit):
        evidence.main(["true"])
    assert "belong together" in capsys.readouterr().err


def test_our_programs_are_built_with_usage_and_without(tmp_path, monkeypatch):
    compiler = tmp_path / "mpicc"
    compiler.write_text(f'#!/bin/sh\necho "$@" >> {shlex.quote(str(tmp_path))}/said\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    paths = evidence.built("npb/cg.c", str(tmp_path))
    with_it, without = (tmp_path / "said").read_text().splitlines()
    assert "-O3" in with_it and "USAGE" not in with_it and paths[True] in with_it
    assert not lacking(without, *evidence.WITHOUT, "-O3", paths[False])
    header = (evidence.SOURCES / "usage.h").read_text()
    assert "#ifndef NEARMETAL_USAGE_H" in header and "void begin_usage(void)" in header


def test_stored_sessions_are_weighed_with_evidence_and_without(tmp_path, capsys):
    data = campaign(1)
    bare = len(orjson.dumps(data))
    data["runs"][0]["testcases"][0].update(evidence={"waited": [0.1, 0.2]}, disturbed=[])
    path = tmp_path / "results.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE sessions (json_blob TEXT)")
        connection.execute("INSERT INTO sessions VALUES (?)", [orjson.dumps(data)])
    assert stored.main([str(path)]) == 0
    out = capsys.readouterr().out
    assert not lacking(out, data["session_info"]["uuid"], str(bare), str(len(orjson.dumps(data))))
