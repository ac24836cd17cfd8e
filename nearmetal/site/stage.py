"""Refuses a run in stage directories of another run: ReFrame empties them, whoever works there."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from reframe.core.exceptions import ReframeError
from reframe.core.logging import getlogger
from reframe.utility import osext

#: Directory of the records of runs, below the prefix of the stage directories. A record is locked
#: and there as long as its run lives.
RUNS = ".runs"


@contextmanager
def claimed(prefix: str, directories: set[str], dry: bool = False) -> Iterator[None]:
    """Hold stage directories. Raises ReframeError if another run works in one of them.

    :arg directories: their paths below the prefix.
    :arg dry: whether this is a dry run. It empties the directories too, but holds none.
    """
    runs, record = Path(prefix, RUNS), None
    try:
        record = _claim(runs, directories, dry)
    except OSError as error:
        getlogger().warning(
            f"{runs}: this run cannot be recorded ({error.strerror}), so a second run would empty "
            "its stage directories. Fix: let ReFrame's user write there, on a file system with "
            "locks, or give each run an RFM_PREFIX of its own"
        )
    try:
        yield
    finally:
        if record:
            with suppress(FileNotFoundError):  # somebody removed the stage directory
                record.close()


def _claim(runs: Path, directories: set[str], dry: bool) -> IO | None:
    """The open record of this run; None of a dry run. Raises ReframeError, OSError."""
    if dry and not runs.exists():
        return None
    runs.mkdir(parents=True, exist_ok=True)
    with open(runs / "lock", "w") as one_at_a_time:
        fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
        for file in runs.glob("*.json"):
            _refuse_shared(file, runs.parent, directories)
        if dry:
            return None
        return _record(runs, directories)


def _refuse_shared(file: Path, prefix: Path, directories: set[str]) -> None:
    """Raise ReframeError if a living run has one of the directories."""
    other = _living(file)
    for shared in sorted(directories & set(other.get("directories", ()))):
        raise ReframeError(
            f"another ReFrame works in {prefix / shared}, and this run would empty it: process "
            f"{other['pid']} of {other['user']} on {other['host']}, since {other['since']}. Fix: "
            "wait for it, end it, or give this run another RFM_PREFIX or --prefix"
        )


def _living(file: Path) -> dict:
    """What a run recorded; {} if it has ended. The record of a killed run is removed."""
    with suppress(FileNotFoundError), open(file) as record:
        try:
            fcntl.flock(record, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return json.load(record)
        file.unlink()
    return {}


def _record(runs: Path, directories: set[str]) -> IO:
    """A new record of this run, which is removed when it is closed. Raises OSError."""
    record = tempfile.NamedTemporaryFile("w", dir=runs, suffix=".json")  # noqa: SIM115
    fcntl.flock(record, fcntl.LOCK_EX)
    facts = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "user": osext.osuser() or os.getuid(),
        "since": time.strftime("%Y-%m-%d %H:%M:%S"),
        "directories": sorted(directories),
    }
    json.dump(facts, record)
    record.flush()
    return record
