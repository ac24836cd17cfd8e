"""One file with results, as ReFrame stores them: opened once, at the first query, never written."""

from __future__ import annotations

import contextlib
import json
import math
import operator
import sqlite3
import time
import weakref
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import orjson

from nearmetal.results import decode
from nearmetal.results.session import (
    CLOCKS_DIFFER,
    CONFIRMS,
    BadSession,
    ResultsError,
    Session,
)
from nearmetal.util import files

#: SQLite's primary error codes. Python names them, and its errors have them, since 3.11.
ERROR, PERM, BUSY, LOCKED, INTERRUPT, IOERR, CORRUPT = 1, 3, 5, 6, 9, 10, 11
CANTOPEN, TOOBIG, NOTADB = 14, 18, 26
#: Words of an error's text, for a Python without its code.
BY_TEXT = {
    "locked": BUSY,
    "interrupted": INTERRUPT,
    "malformed": CORRUPT,
    "unable to open": CANTOPEN,
    "too big": TOOBIG,
    "I/O": IOERR,
}
#: Seconds of a query, and SQLite's steps after which they are looked at.
PATIENCE, STEPS = 60.0, 100_000
#: Most bytes of a session.
MOST_BYTES = 256 << 20
#: ReFrame's tables.
TABLES = ("sessions", "testcases")
#: Ends of the names of files that SQLite reads beside a database.
BESIDE = ("-journal", "-wal", "-shm")
#: Error code -> what is wrong with the file, and the fix.
_LOCKED = "is locked by another process. Fix: try again when no ReFrame stores results"
_CLOSED = "cannot be opened. Fix: let this user read the file and its directory"
_FOREIGN = "is not a results database of ReFrame's. Fix: name another file"
CAUSES = {
    BUSY: _LOCKED,
    LOCKED: _LOCKED,
    CANTOPEN: _CLOSED,
    PERM: _CLOSED,
    INTERRUPT: f"answers no query within {PATIENCE:.0f} s. Fix: restore it from a copy",
    IOERR: "cannot be read from the disk. Fix: read the file system's log",
    CORRUPT: "is damaged or truncated. Fix: restore it from a copy, or remove it",
    NOTADB: _FOREIGN,
    ERROR: _FOREIGN,
}


class ResultsFile:
    """The sessions of one file, by their rows, which ascend in the order of storage."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._begun = False  #: whether a session was read
        self._stored_cases: dict[str, list[tuple[str, ...]]] | None = None
        self._last_case = 0

    def __str__(self) -> str:
        return str(self.path)

    def rows(self, after: int = 0) -> list[tuple[int, str, float]]:
        """Row, id and start of each session after this row, in ascending order.

        The start is in seconds since 1970; NaN if there is none. Raises ResultsError.
        """
        query = (
            "SELECT rowid, uuid, session_start_unix FROM sessions WHERE rowid > ? ORDER BY rowid"
        )
        rows = []
        for row, uuid, start in self._rows(query, (after,)):
            if not isinstance(start, (int, float)):
                start = math.nan
            rows.append((row, _text(uuid), float(start)))
        # Cases of new sessions are in the second table by now.
        if after and self._begun:
            self._read_stored_cases()
        return rows

    def holds(self, uuid: str, after: int = 0) -> bool:
        """Whether a session of this id is stored after this row. Raises ResultsError."""
        return any(uuid == stored for _, stored, _ in self.rows(after))

    def newest_report(self) -> str:
        """Path of the report file that ReFrame wrote for the newest session; may be empty."""
        query = "SELECT report_file FROM sessions ORDER BY rowid DESC LIMIT 1"
        for (path,) in self._rows(query):
            return _text(path or "")
        return ""

    def has_same(self, row: int, other: ResultsFile, other_row: int) -> bool:
        """Whether a session of another file has the same content. Raises ResultsError."""
        try:
            stored, copy = self._row_of_session(row), other._row_of_session(other_row)
            if stored is None or copy is None or stored[2] == copy[2]:
                return True
            return decode.loads(stored[2]) == decode.loads(copy[2])
        except (sqlite3.DatabaseError, orjson.JSONDecodeError):
            return False

    def read(self, row: int) -> Session | BadSession | None:
        """The session of a row; None if it was deleted meanwhile. Raises ResultsError."""
        # Not before: a query that reads no session needs no cases.
        if not self._begun:
            self._begun = True
            self._read_stored_cases()
        blob, uuid = b"", f"number {row}"
        try:
            stored = self._row_of_session(row)
            if stored is None:
                return None
            uuid, start, blob = _text(stored[0]), stored[1], stored[2]
            data = decode.loads(blob)
            session = replace(decode.parse_session(data, self.path), stored=row)
            _refuse_contradictions(session, data, uuid, start, self._stored_cases)
            return session
        except sqlite3.DatabaseError as error:
            if _code(error) != TOOBIG:
                return BadSession(uuid, row, f"its place in the file is damaged ({error})")
            [(name,)] = self._rows("SELECT uuid FROM sessions WHERE rowid = ?", (row,))
            uuid, reason = _text(name), f"it has more than {MOST_BYTES} bytes"
        except orjson.JSONDecodeError as error:
            reason = f"not valid JSON ({error})"
        except ResultsError as error:
            reason = str(error).removeprefix(f"{self.path}: ")
        systems, kind = systems_and_kind(blob)
        stored_cases = (self._stored_cases or {}).get(uuid, ())
        known = frozenset(map(operator.itemgetter(1), stored_cases))
        return BadSession(uuid, row, reason, known or systems, kind)

    def _row_of_session(self, row: int) -> tuple | None:
        """One row. Raises sqlite3.DatabaseError if the row is damaged, and ResultsError if the file
        is."""
        query = "SELECT uuid, session_start_unix, json_blob FROM sessions WHERE rowid = ?"
        return next(iter(self._rows(query, (row,), but=(CORRUPT, TOOBIG))), None)

    def _read_stored_cases(self) -> None:
        """Read ReFrame's second table: (name, system, partition, environment) of each case.

        None if the file has no such table.
        """
        query = (
            "SELECT rowid, session_uuid, name, system, partition, environ FROM testcases "
            "WHERE rowid > ?"
        )
        try:
            rows = self._rows(query, (self._last_case,), but=(ERROR,))
        except sqlite3.OperationalError:
            self._stored_cases = None
            return
        stored_cases = self._stored_cases or {}
        for place, uuid, *case in rows:
            stored_cases.setdefault(_text(uuid), []).append(tuple(map(_text, case)))
            self._last_case = max(self._last_case, place)
        self._stored_cases = stored_cases

    def _rows(self, query: str, values: tuple = (), but: tuple[int, ...] = ()) -> list[tuple]:
        """Raises ResultsError, and sqlite3.Error of these primary codes."""
        with self._errors(but):
            return self._answer(self._connected(), query, values)

    def _answer(self, connection: sqlite3.Connection, query: str, values: tuple) -> list[tuple]:
        """All rows of a query, which ends after PATIENCE. Raises sqlite3.Error."""
        until = time.monotonic() + PATIENCE
        connection.set_progress_handler(lambda: time.monotonic() > until, STEPS)
        return connection.execute(query, values).fetchall()

    @contextlib.contextmanager
    def _errors(self, but: tuple[int, ...]) -> Iterator[None]:
        """Raise ResultsError for each error of SQLite, except for these primary error codes."""
        try:
            yield
        except sqlite3.Error as error:
            code = _code(error)
            if code in but:
                raise
            cause = CAUSES.get(code, "cannot be read")
            raise ResultsError(f"{self}: {cause} (SQLite: {error})") from error

    def _connected(self) -> sqlite3.Connection:
        """The connection, which only reads. Raises ResultsError, sqlite3.Error."""
        if self._connection is None:
            self._refuse_unusable_file()
            # A URI, with `%`, `#` and `?` of the path quoted.
            uri = f"{self.path.resolve().as_uri()}?mode=ro"
            connection = sqlite3.connect(uri, uri=True)
            # Bytes: text that is not UTF-8 is then an error of its session only.
            connection.text_factory = bytes
            weakref.finalize(self, connection.close)
            if hasattr(connection, "setlimit"):  # novermin: since Python 3.11
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
            self._refuse_computed_tables(connection)
            self._connection = connection
        return self._connection

    def _refuse_computed_tables(self, connection: sqlite3.Connection) -> None:
        """Raise ResultsError for a view, a virtual table or a generated column: it may be endless.
        Raises sqlite3.Error."""
        query = "SELECT type = 'table' AND rootpage > 0 FROM sqlite_master WHERE lower(name) = ?"
        of_columns = "SELECT 0 FROM pragma_table_xinfo(?) WHERE hidden"
        for name in TABLES:
            plain = self._answer(connection, query, (name,))
            if (1,) in plain:
                plain += self._answer(connection, of_columns, (name,))
            if (0,) in plain:
                raise ResultsError(f"{self}: {_FOREIGN} ({name} is computed, and no plain table)")

    def _refuse_unusable_file(self) -> None:
        if not self.path.exists():
            raise ResultsError(
                f"{self}: no results database; run `reframe -c reframe_checks -r` first"
            )
        self._refuse_unfit_files()
        if self.path.stat().st_size == 0:
            raise ResultsError(
                f"{self}: is empty (0 bytes), and ReFrame stores nothing in such a file. "
                "Fix: remove it; ReFrame then makes a new one"
            )

    def _refuse_unfit_files(self) -> None:
        """Raise ResultsError for what SQLite would wait for."""
        beside = [Path(f"{self.path.resolve()}{end}") for end in BESIDE]
        for path in (self.path, *beside):
            try:
                files.refuse_unfit(path)
            except files.UnfitFileError as error:
                raise ResultsError(str(error)) from None
            except OSError:
                continue  # it is not there, or SQLite says what is wrong with it


def _text(value) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value)


def _refuse_contradictions(
    session: Session, data: dict, uuid: str, start, stored_cases: dict | None
) -> None:
    """Raise ResultsError if a session's JSON contradicts the columns stored beside it."""
    inside = data["session_info"]["uuid"]
    if inside != uuid:
        raise ResultsError(f"session_info.uuid is {inside!r}, but it is stored as {uuid!r}")
    # ReFrame fills both columns from one number.
    if session.time != start:
        raise ResultsError(
            f"session_info.time_start_unix is {session.time!r}, but it is stored as {start!r}"
        )
    try:
        started = datetime.strptime(session.started, "%Y%m%dT%H%M%S%z").timestamp()
    except ValueError:
        started = math.nan
    if not abs(started - session.time) <= CLOCKS_DIFFER:
        raise ResultsError(
            f"session_info.time_start is {session.started!r}, which is not the time_start_unix "
            f"{session.time!r}"
        )
    if stored_cases is not None:
        _refuse_other_cases(data, stored_cases.get(uuid, []))


def _refuse_other_cases(data: dict, stored: list[tuple[str, ...]]) -> None:
    """Raise ResultsError if a session's cases are not those in ReFrame's second table."""
    inside = []
    for run in data["runs"]:
        for case in run["testcases"]:
            names = map(case.get, ("name", "system", "partition", "environ"))
            inside.append(tuple(map(str, names)))
    if sorted(inside) != sorted(stored):
        counts = f"it has {len(inside)} cases, but {len(stored)} are stored with it, or others"
        for case in sorted(set(inside) ^ set(stored))[:1]:
            counts += f", such as {' | '.join(case)}"
        raise ResultsError(counts)


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary error code."""
    guess = ERROR
    for words, code in BY_TEXT.items():
        if words in str(error):
            guess = code
            break
    return getattr(error, "sqlite_errorcode", guess) & 0xFF


def systems_and_kind(blob) -> tuple[frozenset[str], str]:
    """Systems and kind of an unusable session, as far as they are readable."""
    try:
        # The standard library's decoder accepts NaN, Infinity and lone surrogates.
        data = json.loads(blob)
        systems: set[str] = set()
        for run in data["runs"]:
            for case in run["testcases"]:
                if isinstance(case["system"], str):
                    systems.add(case["system"])
        kind = ""
        if data["session_info"].get(CONFIRMS):
            kind = "confirmation"
        return frozenset(systems), kind
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return frozenset(), ""
