"""A test's tier is the directory that it is in."""

from pathlib import Path

import pytest

TIERS = ("unit", "node", "lab", "browser")


def pytest_collection_modifyitems(items):
    """Mark each test by its tier, for `-m` and for reports."""
    for item in items:
        tier = item.path.relative_to(Path(__file__).parent).parts[0]
        if tier in TIERS:
            item.add_marker(getattr(pytest.mark, tier))
