"""Failed tests of a stage that measures run once more, and are named."""

import sys

import pytest

import tests.stages as stages

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


@pytest.fixture
def stage(tmp_path):
    """A stage of tests that fail as often as its arguments say."""

    def stage_of(*times, repeated=True):
        directory = tmp_path / "tests" / "lab"
        directory.mkdir(parents=True)
        (directory / "test_made_up.py").write_text(TESTS.format(times=times))
        words = ["-m", "pytest", "--rootdir", str(tmp_path), "-o", "addopts=", str(directory)]
        command = [sys.executable, *words]
        return stages.Stage(
            "made up",
            [*command, stages.FORGET],
            again=[*command, stages.FAILED] if repeated else (),
            cache=tmp_path / ".pytest_cache",
        )

    return stage_of


def test_tests_of_an_earlier_run_are_forgotten(stage, tmp_path):
    last = tmp_path / ".pytest_cache" / "v" / "cache" / "lastfailed"
    last.parent.mkdir(parents=True)
    last.write_text('{"tests/lab/test_gone.py::test_it": true}')
    assert stages.run(stage(1)).unsteady == ["tests/lab/test_made_up.py::test_it[0-1]"]


def test_what_fails_once_runs_again_and_is_named(stage):
    end = stages.run(stage(0, 1))
    assert end.result == "passed"
    assert end.unsteady == ["tests/lab/test_made_up.py::test_it[1-1]"]


def test_what_fails_twice_fails(stage):
    end = stages.run(stage(0, 1, 2))
    assert (end.result, end.unsteady) == ("failed", [])


def test_many_failures_are_no_accident(stage):
    end = stages.run(stage(*[1] * (stages.MOST_REPEATED + 1)))
    assert (end.result, end.unsteady) == ("failed", [])


def test_a_stage_that_measures_nothing_runs_once(stage):
    end = stages.run(stage(0, 1, repeated=False))
    assert (end.result, end.unsteady) == ("failed", [])


def test_what_passes_runs_once(stage):
    end = stages.run(stage(0))
    assert (end.result, end.unsteady) == ("passed", [])
