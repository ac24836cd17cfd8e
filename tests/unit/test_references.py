"""References for suites that judge by ReFrame alone: `baseline record --since ... --as reframe`."""

import copy

import pytest
import yaml

from nearmetal import results
from nearmetal.cli import main
from nearmetal.judge import as_reframe
from nearmetal.judge.baseline import BaselineError
from tests.support.campaigns import campaign as ours
from tests.support.foreign_sessions import by_command, campaign
from tests.support.recorded import store


def parsed(data: dict) -> results.Session:
    return results.parse_session(data, "here")


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))

    def record(*words) -> tuple[int, str, str]:
        words = "baseline", "record", "--as", "reframe", *map(str, words)
        monkeypatch.setattr("sys.argv", ["nearmetal", *words])
        code = main()
        return code, *capsys.readouterr()

    return record


def test_a_ref_file_holds_medians_and_bounds_on_the_worse_side(run, tmp_path):
    database = store(tmp_path / "results.db", *(campaign(n, runs=1) for n in range(15)))
    code, out, err = run("--database", database)
    assert code == 0, out + err
    data = yaml.safe_load((tmp_path / "generic.references.yaml").read_text())
    found = data["stream_like"]
    assert found["$index"] == ["$partition", "$environ"]
    variables = found["generic:default"]["builtin"]
    assert set(variables) == {"copy_bw", "a:bw", "b:bw", "score", "marks"}
    value, lower, upper, unit = variables["copy_bw"]
    assert value == pytest.approx(5000, rel=0.02) and (lower, upper, unit) == (-0.25, None, "MB/s")
    assert variables["score"][1:3] == [-0.25, None]
    _, lower, upper, _ = variables["marks"]
    assert lower == -upper  # nothing says which values are better
    assert not (tmp_path / "generic.yaml").exists()


def test_a_file_of_python_holds_dictionaries_that_checks_take_in_any_version(run, tmp_path):
    database = store(tmp_path / "results.db", *(campaign(n, runs=1) for n in range(15)))
    assert run("--database", database, "--output", tmp_path / "refs.py")[0] == 0
    names: dict = {}
    exec((tmp_path / "refs.py").read_text(), names)
    reference = names["REFERENCES"]["stream_like"]["builtin"]
    assert reference["generic:default"]["copy_bw"][1:] == (-0.25, None, "MB/s")


def test_only_sessions_since_the_time_count(run, tmp_path):
    database = store(
        tmp_path / "results.db",
        *(campaign(n, runs=2, copy_bw=3.0) for n in range(10)),
        *(campaign(n, runs=2) for n in range(10, 20)),
    )
    assert run("--database", database, "--since", 1.76e9 + 86400 * 9.5)[0] == 0
    data = yaml.safe_load((tmp_path / "generic.references.yaml").read_text())
    value = data["stream_like"]["generic:default"]["builtin"]["copy_bw"][0]
    assert value == pytest.approx(5000, rel=0.02)


def test_parameters_are_in_the_index_and_a_failed_case_is_left_out():
    broken = copy.deepcopy(ours(3))
    for case in broken["runs"][0]["testcases"]:
        case |= {"result": "fail", "fail_phase": "sanity", "fail_reason": "broken"}
    sessions = [parsed(ours(number)) for number in range(3)]
    found, notes = as_reframe.entries([*sessions, parsed(broken)])
    assert {entry.parameters["placement"] for entry in found.values()} == {"internode"}
    assert {n.launches for entry in found.values() for n in entry.noise.values()} == {15}
    assert any("left out where they failed" in note and "pingpong" in note for note in notes)


def test_too_few_samples_are_an_error_with_the_fix():
    with pytest.raises(BaselineError, match=r"10 samples.*--since"):
        as_reframe.entries([parsed(by_command("4.10.4", "--repeat=3"))])


def test_a_baseline_is_of_all_sessions_since_the_time(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))
    database = store(tmp_path / "results.db", *(campaign(n, runs=3) for n in range(20)))
    words = ["--since", str(1.76e9 + 86400 * 3.5), "--database", str(database)]
    monkeypatch.setattr("sys.argv", ["nearmetal", "baseline", "record", *words])
    assert main() == 0 and "from 16 sessions" in capsys.readouterr().out
    words[1] = str(1.9e9)
    monkeypatch.setattr("sys.argv", ["nearmetal", "baseline", "record", *words])
    assert main() == 2 and "earlier --since" in capsys.readouterr().err
