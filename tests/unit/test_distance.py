"""How far processors are apart, and what that says of the host."""

import os
import subprocess

import pytest

from bench import distance
from tests.support.said import lacking


@pytest.mark.parametrize(
    "found, moved, words",
    [
        ([26, 27, 31, 25], False, ["25 to 31 ns", "stayed"]),
        ([26, 158, 160, 25], True, ["25 to 160 ns", "50 % of 4 times", "the host moves", "pin"]),
    ],
)
def test_processors_that_were_far_apart_at_times_have_moved(found, moved, words):
    assert distance.moved(found) is moved
    assert not lacking(distance.said(found), *words)


def test_two_processors_have_a_distance():
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two processors")
    found = distance.distances(1)
    assert len(found) == 2 and all(1 < one < 1e5 for one in found)


def test_what_is_not_known_is_said(monkeypatch, capsys):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
    assert "not known: this process has a single processor" in distance.watched(1)
    monkeypatch.setattr("sys.argv", ["distance", "1"])
    assert distance.main() == 2 and "single processor" in capsys.readouterr().err


def test_a_compiler_that_fails_is_quoted(monkeypatch):
    def refused(*_, **__):
        return subprocess.CompletedProcess("cc", 1, "", "cc: no space left\n")

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(subprocess, "run", refused)
    assert distance.watched(1).endswith("not known: cc: no space left")
