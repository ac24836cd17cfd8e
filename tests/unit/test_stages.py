"""Failed tests of a stage that measures run once more, and are named."""

import os
import re
import subprocess
import sys

import pytest

import tests.stages as stages
from tests.support.paths import CHECKOUT

#: Each test fails as often as its number says.
TESTS = """
import pathlib, pytest

@pytest.mark.parametrize("number, times", enumerate({times}))
def test_it(number, times):
    file = pathlib.Path(__file__).with_name(f"failed{{number}}")
    failed = len(file.read_text()) if file.exists() else 0
    file.write_text("x" * (failed + 1))
    assert failed >= times
"""
#: Stands in for pytest: its runs fail so many tests each.
RUNS = """
import json, pathlib, sys
cache, *runs = sys.argv[1:]
done = pathlib.Path(cache, "done")
number = len(done.read_text()) if done.exists() else 0
done.write_text("x" * (number + 1))
failed = [f"test {one}" for one in range(int(runs[number]))]
last = pathlib.Path(cache, "v", "cache", "lastfailed")
last.parent.mkdir(parents=True, exist_ok=True)
last.write_text(json.dumps(dict.fromkeys(failed, True)))
raise SystemExit(bool(failed))
"""


@pytest.fixture
def stage(tmp_path):
    """A stage of tests that fail as often as its arguments say."""

    def stage_of(*times):
        directory = tmp_path / "tests" / "lab"
        directory.mkdir(parents=True)
        (directory / "test_made_up.py").write_text(TESTS.format(times=times))
        words = ["-m", "pytest", "--rootdir", str(tmp_path), "-o", "addopts=", str(directory)]
        command = [sys.executable, *words]
        return stages.Stage(
            "made up",
            [*command, stages.FORGET],
            again=[*command, stages.FAILED],
            cache=tmp_path / ".pytest_cache",
        )

    return stage_of


@pytest.fixture
def runs(tmp_path):
    """A stage whose runs fail so many tests each."""

    def stage_of(*failures, repeated=True):
        command = [sys.executable, "-S", "-c", RUNS, str(tmp_path), *map(str, failures)]
        return stages.Stage("made up", command, again=command if repeated else (), cache=tmp_path)

    return stage_of


def test_a_long_part_of_a_test_is_named_as_it_ends(tmp_path):
    (tmp_path / "conftest.py").write_text(
        "from tests import conftest\n"
        "from tests.conftest import pytest_sessionstart\n"
        "conftest.LONG = 0.1\n"
    )
    (tmp_path / "test_made_up.py").write_text(
        "import time\ndef test_short(): pass\ndef test_long(): time.sleep(0.2)\n"
    )
    words = ["-m", "pytest", "--rootdir", str(tmp_path), "-o", "addopts=", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
    )
    [named] = re.findall(r" (\w+) of \S+::(\w+): \d+ s ", done.stdout)
    assert named == ("call", "test_long") and done.returncode == 0, done.stdout


def test_what_fails_once_runs_again_and_tests_of_an_earlier_run_are_forgotten(stage, tmp_path):
    last = tmp_path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    last.parent.mkdir(parents=True)
    last.write_text('{"tests/lab/test_gone.py::test_it": true}')
    end = stages.run(stage(0, 1))
    assert end.result == "passed"
    assert end.unsteady == ["tests/lab/test_made_up.py::test_it[1-1]"]


@pytest.mark.parametrize(
    "failures, repeated",
    [
        ((2, 1), True),
        ((stages.MOST_REPEATED + 1, 0), True),  # no accident
        ((1, 0), False),  # it measures nothing
    ],
)
def test_what_fails_twice_and_what_is_not_repeated_fails(runs, failures, repeated):
    end = stages.run(runs(*failures, repeated=repeated))
    assert (end.result, end.unsteady) == ("failed", [])


def test_what_passes_runs_once(runs):
    end = stages.run(runs(0))
    assert (end.result, end.unsteady) == ("passed", [])


def test_a_stage_beside_others_ends_before_the_one_that_waits_for_it(tmp_path, capfd):
    def stage(name, code, **settings):
        return stages.Stage(name, [sys.executable, "-c", code], **settings)

    there = f"{str(tmp_path / 'there')!r}"
    wait = f"import os, time\nwhile not os.path.exists({there}): time.sleep(0.01)\n"
    ends = stages.run_all(
        [
            stage("beside", f"{wait}print('built'); raise SystemExit(1)", beside=True),
            stage("first", f"open({there}, 'w')"),
            stage("second", "print('tested')", waits=True),
        ]
    )
    assert [(end.stage, end.result) for end in ends] == [
        ("first", "passed"),
        ("beside", "failed"),
        ("second", "passed"),
    ]
    printed = capfd.readouterr().out
    assert printed.index("built") < printed.index("tested")
