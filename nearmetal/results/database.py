"""ReFrame's results database: opened once, each session read at most once, never written.

Sessions are in the order of their storage (`Session.stored`), not of their start. Otherwise, a
session whose clock was a year ahead would stay the newest for a year. An unreadable session is
skipped and named; no older session replaces it.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sqlite3
import weakref
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import orjson

from nearmetal.checkout import CHECKOUT
from nearmetal.results import decode
from nearmetal.results.directions import Directions
from nearmetal.results.session import (
    CLOCKS_DIFFER,
    CONFIRMS,
    BadSession,
    ResultsError,
    Session,
)

#: SQLite's primary error codes. Python names them, and its errors have them, since 3.11.
OK, ERROR, PERM, BUSY, LOCKED, IOERR, CORRUPT, CANTOPEN, NOTADB = 0, 1, 3, 5, 6, 10, 11, 14, 26
#: Words of an error's text, for a Python without its code.
BY_TEXT = {"locked": BUSY, "malformed": CORRUPT, "unable to open": CANTOPEN, "I/O": IOERR}
#: Error code -> what is wrong with the file, and the fix.
_LOCKED = "is locked by another process. Fix: try again when no ReFrame stores results"
_CLOSED = "cannot be opened. Fix: let this user read the file and its directory"
_FOREIGN = "is not a results database of ReFrame's. Fix: name another file"
CAUSES = {
    BUSY: _LOCKED,
    LOCKED: _LOCKED,
    CANTOPEN: _CLOSED,
    PERM: _CLOSED,
    IOERR: "cannot be read from the disk. Fix: read the file system's log",
    CORRUPT: "is damaged or truncated. Fix: restore it from a copy, or remove it",
    NOTADB: _FOREIGN,
    ERROR: _FOREIGN,
}


def default_database() -> Path:
    """ReFrame's database: RFM_SQLITE_DB_FILE, else below RFM_PREFIX, else below results/."""
    if file := os.environ.get("RFM_SQLITE_DB_FILE"):
        return Path(file)
    return Path(os.environ.get("RFM_PREFIX", CHECKOUT / "results")) / "results.db"


class Database:
    """The sessions of one database file, and the faults found in it so far.

    The file is opened once, at the first query. A session is read when it is first needed, and
    kept. `refresh` adds the sessions that were stored since.
    """

    def __init__(self, path: Path, directions: Directions | None = None):
        self.path = Path(path)
        self.directions = directions or Directions()  #: of what has none by itself
        self.bad: dict[int, BadSession] = {}  #: unreadable sessions so far, by place
        self.ahead: dict[int, Session] = {}  #: sessions that started ahead of now, by place
        self.named: set[int] = set()  #: places of bad sessions that an error has named already
        self.strict = False  #: whether a bad session raises ResultsError at once
        self._connection: sqlite3.Connection | None = None
        self._uuids: dict[int, str] | None = None  #: all sessions by place, in ascending order
        self._sessions: dict[int, Session | BadSession | None] = {}
        self._stored_cases: dict[str, list[tuple[str, ...]]] | None = None
        self._last_case = 0

    @classmethod
    def of(cls, path: Path | Database) -> Database:
        """The database, or that at a path. With a path, a bad session is an error."""
        if isinstance(path, Database):
            return path
        database = cls(path)
        database.strict = True
        return database

    def __str__(self) -> str:
        return str(self.path)

    def notes(self) -> list[str]:
        """One sentence for each skipped session, and one for all sessions ahead of now."""
        notes = [
            f"skipped {bad}. Fix: delete it (`reframe --delete-stored-sessions={bad.uuid}`)"
            for place, bad in sorted(self.bad.items())
            if place not in self.named
        ]
        if self.ahead:
            ahead = [f"{one.uuid} of {one.started}" for _, one in sorted(self.ahead.items())]
            more = f" and {len(ahead) - 3} more" if len(ahead) > 3 else ""
            notes.append(
                f"started ahead of now: session {', '.join(ahead[:3])}{more}. The clock was wrong "
                "then or is wrong now; sessions are in the order of their storage"
            )
        return notes

    def entries(
        self, newest_first: bool = False, after: int = 0, uuid: str = ""
    ) -> Iterator[Session | BadSession]:
        """Yield the sessions in the order of their storage. Each is read when it is needed.

        :arg after: only sessions stored after this place.
        :arg uuid: only sessions whose id begins with this text.
        :raises ResultsError: the file is unreadable.
        """
        places = [
            place
            for place, name in self._index().items()
            if place > after and name.startswith(uuid)
        ]
        for place in reversed(places) if newest_first else places:
            found = self._entry(place)
            if found is not None:
                yield found

    def note(self, found: Session | BadSession) -> None:
        """Add an unreadable session, or one ahead of now, to the notes. Raises if strict."""
        if isinstance(found, BadSession):
            self.bad[found.stored] = found
            if self.strict:
                raise ResultsError(f"{self}: {found}")
        elif found.ahead:
            self.ahead[found.stored] = found

    def place(self, uuid: str) -> int | None:
        """The place of a session; None if it is not stored."""
        places = (place for place, name in self._index().items() if name == uuid)
        return next(places, None)

    def newest_report(self) -> str:
        """Path of the report file that ReFrame wrote for the newest session; may be empty."""
        rows = self._rows("SELECT report_file FROM sessions ORDER BY rowid DESC LIMIT 1")
        return _text(rows[0][0]) if rows and rows[0][0] else ""

    def refresh(self) -> None:
        """Add the sessions stored since the last query. Known sessions are not read again."""
        known = self._index()
        known |= self._uuids_after(max(known, default=0))
        if self._sessions:
            self._read_stored_cases()

    def _index(self) -> dict[int, str]:
        if self._uuids is None:
            self._uuids = self._uuids_after(0)
        return self._uuids

    def _uuids_after(self, place: int) -> dict[int, str]:
        rows = self._rows(
            "SELECT rowid, uuid FROM sessions WHERE rowid > ? ORDER BY rowid", (place,)
        )
        return {stored: _text(uuid) for stored, uuid in rows}

    def _entry(self, place: int) -> Session | BadSession | None:
        if place not in self._sessions:
            if not self._sessions:
                self._read_stored_cases()
            self._sessions[place] = self._read(place)
        return self._sessions[place]

    def _read(self, place: int) -> Session | BadSession | None:
        """One session; None if it was deleted meanwhile."""
        blob, uuid = b"", f"number {place}"
        try:
            row = self._row_of_session(place)
            if row is None:
                return None
            uuid, start, blob = _text(row[0]), row[1], row[2]
            data = orjson.loads(blob)
            session = replace(decode.parse_session(data, self.path), stored=place)
            session = self.directions.of_session(session)
            _refuse_contradictions(session, data, uuid, start, self._stored_cases)
            return session
        except sqlite3.DatabaseError as error:
            return BadSession(uuid, place, f"its place in the file is damaged ({error})")
        except orjson.JSONDecodeError as error:
            reason = f"not valid JSON ({error})"
        except ResultsError as error:
            reason = str(error).removeprefix(f"{self.path}: ")
        systems, kind = systems_and_kind(blob)
        known = {case[1] for case in (self._stored_cases or {}).get(uuid, ())}
        return BadSession(uuid, place, reason, frozenset(known) or systems, kind)

    def _row_of_session(self, place: int) -> tuple | None:
        """One row. Raises sqlite3.DatabaseError if the row is damaged, and ResultsError if the file
        is."""
        query = "SELECT uuid, session_start_unix, json_blob FROM sessions WHERE rowid = ?"
        with self._errors(but=CORRUPT):
            return self._connected().execute(query, (place,)).fetchone()

    def _read_stored_cases(self) -> None:
        """Read ReFrame's second table: (name, system, partition, environment) of each case.

        None if the file has no such table.
        """
        query = (
            "SELECT rowid, session_uuid, name, system, partition, environ FROM testcases "
            "WHERE rowid > ?"
        )
        with self._errors():
            try:
                rows = self._connected().execute(query, (self._last_case,)).fetchall()
            except sqlite3.OperationalError as error:
                if _code(error) != ERROR:
                    raise
                self._stored_cases = None
                return
        found = self._stored_cases or {}
        for place, uuid, *case in rows:
            found.setdefault(_text(uuid), []).append(tuple(map(_text, case)))
            self._last_case = max(self._last_case, place)
        self._stored_cases = found

    def _rows(self, query: str, values: tuple = ()) -> list[tuple]:
        with self._errors():
            return self._connected().execute(query, values).fetchall()

    @contextlib.contextmanager
    def _errors(self, but: int = OK) -> Iterator[None]:
        """Raise ResultsError for each error of SQLite, except for this primary error code."""
        try:
            yield
        except sqlite3.Error as error:
            code = _code(error)
            if code == but:
                raise
            cause = CAUSES.get(code, "cannot be read")
            raise ResultsError(f"{self}: {cause} (SQLite: {error})") from error

    def _connected(self) -> sqlite3.Connection:
        """The connection, which only reads. Raises ResultsError, sqlite3.Error."""
        if self._connection is None:
            self._refuse_missing_or_empty_file()
            # A URI, with `%`, `#` and `?` of the path quoted.
            uri = f"{self.path.resolve().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(uri, uri=True)
            # Bytes: text that is not UTF-8 is then an error of its session only.
            self._connection.text_factory = bytes
            weakref.finalize(self, self._connection.close)
        return self._connection

    def _refuse_missing_or_empty_file(self) -> None:
        if not self.path.is_file():
            raise ResultsError(
                f"{self}: no results database; run `reframe -c reframe_checks -r` first"
            )
        if self.path.stat().st_size == 0:
            raise ResultsError(
                f"{self}: is empty (0 bytes), and ReFrame stores nothing in such a file. "
                "Fix: remove it; ReFrame then makes a new one"
            )


def _text(value) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _refuse_contradictions(
    session: Session, data: dict, uuid: str, start, stored_cases: dict | None
) -> None:
    """Raise ResultsError if a session's JSON contradicts the columns stored beside it."""
    inside = data["session_info"]["uuid"]
    if inside != uuid:
        raise ResultsError(f"session_info.uuid is {inside!r}, but it is stored as {uuid!r}")
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
    names = ("name", "system", "partition", "environ")
    cases = [case for run in data["runs"] for case in run["testcases"]]
    inside = [tuple(str(case.get(name)) for name in names) for case in cases]
    if sorted(inside) != sorted(stored):
        differing = sorted(set(inside) ^ set(stored))
        named = f", such as {' | '.join(differing[0])}" if differing else ""
        raise ResultsError(
            f"it has {len(inside)} cases, but {len(stored)} are stored with it, or others{named}"
        )


def _code(error: sqlite3.Error) -> int:
    """SQLite's primary error code."""
    guess = (code for words, code in BY_TEXT.items() if words in str(error))
    return getattr(error, "sqlite_errorcode", next(guess, ERROR)) & 0xFF


def systems_and_kind(blob) -> tuple[frozenset[str], str]:
    """Systems and kind of an unusable session, as far as they are readable."""
    try:
        # The standard library's decoder accepts NaN, Infinity and lone surrogates.
        data = json.loads(blob)
        systems = {case["system"] for run in data["runs"] for case in run["testcases"]}
        kind = "confirmation" if data["session_info"].get(CONFIRMS) else ""
        return frozenset(one for one in systems if isinstance(one, str)), kind
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return frozenset(), ""
