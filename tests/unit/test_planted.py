"""A FIFO, a directory or a device in place of a file: each reader ends with its own error."""

import contextlib
import os
import signal

import pytest

from nearmetal import results
from nearmetal.checks import disturbance
from nearmetal.compare import published
from nearmetal.expectations import entries
from nearmetal.judge import baseline, record
from nearmetal.judge.baseline import Baseline, BaselineError
from nearmetal.judge.explain import rules
from nearmetal.site import system
from tests.support.campaigns import campaign
from tests.support.command import run  # noqa: F401 (a fixture)
from tests.support.recorded import store

KINDS = ["fifo", "directory", "device"]


def plant(path, kind: str) -> None:
    """Put a FIFO, a directory, or a link to a device in a file's place."""
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "directory":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero")


@contextlib.contextmanager
def at_most(seconds: float):
    """Fail where the body waits for longer."""

    def end(*_):
        raise AssertionError(f"it took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def sessions_of(path) -> list:
    return list(results.sessions(results.Database(path)))


def beside_it(path) -> list:
    return sessions_of(path.with_suffix(".db"))


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A directory of results: a database, reports and baselines."""
    where = tmp_path_factory.mktemp("results")
    found = [results.parse_session(campaign(number), "here") for number in range(12)]
    (where / "baselines").mkdir()
    path = where / "baselines" / "lab.yaml"
    baseline.save(record.record(found, Baseline("lab", path, {}))[0])
    return where


@pytest.fixture
def place(recorded, tmp_path):
    """A copy of it, which a test may spoil."""
    for name in ("lab.yaml", "lab.launches.json"):
        (tmp_path / name).write_bytes((recorded / "baselines" / name).read_bytes())
    (tmp_path / "reports").mkdir()
    store(tmp_path / "results.db", campaign(100, launches=10))
    return tmp_path


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name, read, own",
    [
        ("x.yaml", lambda path: system.System.read(path, {}), system.SystemFileError),
        ("x.yaml", system.read_environments, system.SystemFileError),
        ("x.yaml", results.Directions.read, results.DirectionsError),
        ("x.yaml", rules.load, rules.RulesError),
        ("x.yaml", disturbance.rules, disturbance.EvidenceError),
        ("x.yaml", lambda path: published.load(path.parent), published.PublishedError),
        ("x.yaml", lambda path: entries.load(path.parent), entries.ExpectationError),
        ("lab.yaml", lambda path: baseline.load("lab", path.parent), BaselineError),
        ("lab.launches.json", lambda path: baseline.load("lab", path.parent), BaselineError),
        ("results.db", sessions_of, results.ResultsError),
        ("results.db-journal", beside_it, results.ResultsError),
        ("results.db-wal", beside_it, results.ResultsError),
    ],
)
def test_each_reader_ends_with_its_own_error(place, name, read, own, kind):
    if name == "x.yaml":
        (place / "lab.yaml").unlink()
    plant(place / name, kind)
    with at_most(2), pytest.raises(own, match=name) as error:
        read(place / name)
    assert "Fix: " in str(error.value)


COMMANDS = [
    ["gate"],
    ["report", "--output", "page.html"],
    ["explain"],
    ["compare"],
    ["duet"],
    ["export", "--csv", "all.csv"],
    ["baseline", "show"],
    ["baseline", "check"],
    ["expect", "lab", "--judge"],
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "planted, says",
    [
        (["better.yaml"], "better.yaml"),
        (["lab.yaml", "reports/run-report-999.json", "systems/other.yaml"], ""),
    ],
)
def test_commands_end_over_planted_files(run, place, monkeypatch, planted, says, kind):
    monkeypatch.chdir(place)
    monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", str(place / "systems"))
    (place / "systems").mkdir()
    for name in planted:
        plant(place / name, kind)
    for words in COMMANDS:
        with at_most(30):
            code, out, err = run(*words, "--database", place / "results.db")
        assert code in (0, 2, 3) and says in err, (words, code, out, err)
        assert "unforeseen" not in err, (words, err)
        if words in (["gate"], ["baseline", "show"]):
            assert code > 1, (words, out, err)


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_a_planted_report_is_one_of_a_damaged_run(place, kind):
    plant(place / "reports" / "run-report-999.json", kind)
    with at_most(2), pytest.raises(results.NewestError, match=r"damaged: .*999\.json: is "):
        results.newest(place / "results.db", "lab")


@pytest.mark.parametrize("kind", KINDS)
def test_a_planted_file_of_another_system_is_said_and_left_out(run, place, monkeypatch, kind):
    monkeypatch.setenv("NEARMETAL_SYSTEMS_PATH", str(place / "systems"))
    (place / "systems").mkdir()
    plant(place / "systems" / "other.yaml", kind)
    with at_most(30):
        code, out, err = run("expect", "lab")
    assert code == 0 and out.startswith("lab:")
    assert "other.yaml: cannot be read as YAML" in err and len(err.splitlines()) == 1
