"""Places for tests in which another user takes part."""

import shutil
import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def open_path():
    """A directory that every user can enter; tmp_path is root's own.

    Not below pytest's: each start of pytest on this machine closes that one to other users again.
    """
    directory = Path(tempfile.mkdtemp(prefix="nearmetal-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)
