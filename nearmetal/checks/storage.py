"""Fail a run whose session ReFrame cannot store. ReFrame itself only warns, and ends with 0."""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import logging
import os
import shlex
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import reframe.core.logging as reframe_logging
from reframe.core.runtime import runtime
from reframe.utility import osext

#: Time at which this process began to load checks. Its session starts later.
LOADED = time.time()
#: Disk space for a session, in sizes of the newest one: for database, journal and report.
SESSIONS = 3
#: Least disk space for a session, in bytes. A campaign of the whole suite takes about 1 MB.
LEAST_SPACE = 4 << 20


def database() -> Path | None:
    """ReFrame's results database. None if storing is switched off."""
    if not runtime().get_option("storage/0/enable"):
        return None
    return Path(osext.expandvars(runtime().get_option("storage/0/sqlite_db_file")))


@functools.cache  # one run stores one session
def fault(path: Path) -> str:
    """The reason why no session can be stored in that database, and the fix. '' if one can."""
    try:
        size = _try_to_write(path) if path.exists() else 0
        _try_for_space(path, max(LEAST_SPACE, SESSIONS * size))
    except sqlite3.Error as error:
        return f"{path}: no session can be stored ({error}). Fix: {_fix(error)}"
    except OSError as error:
        return (
            f"{path}: no session can be stored ({error.strerror}: "
            f"{error.filename or path.parent}). Fix: make space and let ReFrame's user write "
            "there, or name another place with RFM_SQLITE_DB_FILE"
        )
    return ""


def _try_to_write(path: Path) -> int:
    """Begin to write to the database and undo it. Returns the bytes of the newest session.

    Raises sqlite3.Error, OSError.
    """
    if path.stat().st_size == 0:
        # ReFrame creates its tables only in a new file.
        raise sqlite3.DatabaseError("the file is empty, 0 bytes")
    lock = path.parent / ".db.lock"  # ReFrame opens it for writing
    if lock.exists():
        lock.open("ab").close()
    patience = runtime().get_option("storage/0/sqlite_conn_timeout") or 60
    uri = f"{path.resolve().as_uri()}?mode=rw"
    with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=patience)) as connection:
        connection.isolation_level = None
        connection.execute("BEGIN IMMEDIATE")
        newest = connection.execute(
            "SELECT length(CAST(json_blob AS BLOB)) FROM sessions ORDER BY rowid DESC LIMIT 1"
        ).fetchone()
        [version] = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version}")  # opens the journal
        connection.execute("ROLLBACK")
    return (newest and newest[0]) or 0


def _fix(error: sqlite3.Error) -> str:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return "run again when no other process holds it"
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return "let ReFrame's user write the file and its directory, or set RFM_SQLITE_DB_FILE"
    if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        return "make space, or set RFM_SQLITE_DB_FILE to a file elsewhere"
    return "move the file away, or restore it from a copy. Without one, ReFrame creates a new file"


def _try_for_space(path: Path, size: int) -> None:
    """Allocate `size` bytes beside the database for a moment. Raises OSError."""
    place = path.parent.absolute()
    while not place.exists():
        place = place.parent
    # A quota shows only where space is taken.
    with tempfile.TemporaryFile(dir=place) as file:
        os.posix_fallocate(file.fileno(), 0, size)


@functools.cache
def watch(path: Path) -> None:
    """Make this process end with 1 unless its session is then in the database."""
    if "reframe.frontend.cli" not in sys.modules:  # a program that stores nothing
        return
    mine = {"cmdline": shlex.join(sys.argv), "log_files": list(reframe_logging.log_files())}
    atexit.register(_refuse_unless_stored, path, mine, time.time(), os.getpid())


def _reading(path: Path):
    uri = f"{path.resolve().as_uri()}?mode=ro"
    return contextlib.closing(sqlite3.connect(uri, uri=True, timeout=60))


def _refuse_unless_stored(path: Path, mine: dict, until: float, process: int) -> None:
    if os.getpid() != process:  # a child of this process
        return
    try:
        with _reading(path) as connection:
            rows = connection.execute(
                "SELECT json_blob FROM sessions WHERE session_start_unix BETWEEN ? AND ?",
                (LOADED, until),
            ).fetchall()
        infos = [json.loads(text)["session_info"] for (text,) in rows]
        why = "it is not there"
    except (sqlite3.Error, ValueError) as error:
        infos, why = [], str(error)
    if any(mine == {name: info.get(name, mine[name]) for name in mine} for info in infos):
        return
    print(
        f"ERROR: {path}: ReFrame did not store this run's session ({why}), so no command can "
        "judge it. Fix: see its warning above; make the file writable, and run again",
        file=sys.stderr,
    )
    sys.stdout.flush()
    sys.stderr.flush()
    logging.shutdown()
    # Only this changes the exit code here.
    os._exit(1)
