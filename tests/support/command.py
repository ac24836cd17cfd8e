"""The `nearmetal` command in tests."""

import io

import pytest

from nearmetal.cli import main


class Unread(io.StringIO):
    """Standard output whose reader has gone."""

    def write(self, text: str) -> int:
        raise BrokenPipeError


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Run a command without baselines; returns exit code, output and errors."""
    monkeypatch.setenv("RFM_REFERENCE_PREFIX", str(tmp_path))

    def command(*words) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["nearmetal", *map(str, words)])
        code = main()
        return code, *capsys.readouterr()

    return command
