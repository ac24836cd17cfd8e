"""The record of a lab, beside processes that come and go."""

import os

from nearmetal.lab import namespaces


def test_a_process_that_ends_while_processes_are_looked_through_is_passed_over(
    tmp_path, monkeypatch
):
    scandir = os.scandir
    gone = f"/proc/{os.getppid()}/fd"

    def without_parent(path="."):
        if str(path) == gone:
            raise FileNotFoundError(2, "No such file or directory", gone)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", without_parent)
    (tmp_path / "hold").touch()
    assert namespaces._holders(tmp_path / "hold") == []
