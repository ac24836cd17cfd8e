"""A test's tier is the directory that it is in; `whole` marks what `make test` leaves out."""

import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from nearmetal import cli

TIERS = ("unit", "host", "node", "lab", "browser")

# A background job of a shell ignores SIGINT, and so would every program that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

#: Longest text that is part of a test's name as it stands.
LONGEST_ID = 300
LEFT_OUT = pytest.StashKey[int]()

#: Seconds. A set-up, test or teardown that took longer is named as it ends.
LONG = 60


@pytest.fixture(autouse=True)
def stays_root(monkeypatch):
    """A command within a test's process leaves that process the user that it is."""
    monkeypatch.setattr(cli, "_become_owner", lambda arguments: None)


@pytest.fixture
def open_path():
    """A directory that every user can enter; tmp_path is root's own.

    Not below pytest's: each start of pytest on this machine closes that one to other users again.
    """
    directory = Path(tempfile.mkdtemp(prefix="nearmetal-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


def pytest_collection_modifyitems(items):
    """Mark each test by its tier, for `-m` and for reports."""
    for item in items:
        tier = item.path.relative_to(Path(__file__).parent).parts[0]
        if tier in TIERS:
            item.add_marker(getattr(pytest.mark, tier))


def pytest_deselected(items):
    """Count the tests that are left out for their length."""
    whole = [item for item in items if item.get_closest_marker("whole")]
    if whole:
        stash = whole[0].config.stash
        stash[LEFT_OUT] = stash.get(LEFT_OUT, 0) + len(whole)


def pytest_terminal_summary(terminalreporter, config):
    if count := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(
            f"left out: {count} tests marked `whole`; `make test-all` runs them"
        )


class LongTests:
    """Names what took long as it ends: a run that is killed prints no durations."""

    def __init__(self, reporter):
        self.reporter = reporter

    def pytest_runtest_logreport(self, report):
        if report.duration > LONG:
            self.reporter.write(f" {report.when} of {report.nodeid}: {report.duration:.0f} s ")


def pytest_sessionstart(session):
    # When pytest_configure is called here, there is no reporter yet.
    manager = session.config.pluginmanager
    if reporter := manager.get_plugin("terminalreporter"):
        manager.register(LongTests(reporter))


def pytest_make_parametrize_id(config, val, argname):
    """A long text's part of a test's name: its length, not its megabytes."""
    if isinstance(val, (str, bytes)) and len(val) > LONGEST_ID:
        return f"{argname} of {len(val)}"
    return None
