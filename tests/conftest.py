"""A test's tier is the directory that it is in; `whole` marks what `make test` leaves out."""

from pathlib import Path

import pytest

TIERS = ("unit", "node", "lab", "browser")
LEFT_OUT = pytest.StashKey[int]()


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
