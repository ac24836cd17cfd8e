"""ReFrame's results as one history: the sessions of a database file, or of several.

Sessions are in the order of their storage (`Session.stored`), not of their start. Otherwise, a
session whose clock was a year ahead would stay the newest for a year. Several files are merged by
start, each in its own order. An unreadable session is skipped and named; no older session replaces
it.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearmetal.checkout import CHECKOUT
from nearmetal.results.directions import Directions
from nearmetal.results.file import ResultsFile
from nearmetal.results.session import BadSession, ResultsError, Session
from nearmetal.util import suggest


def default_database() -> Path:
    """ReFrame's database: RFM_SQLITE_DB_FILE, else below RFM_PREFIX, else below results/."""
    if file := os.environ.get("RFM_SQLITE_DB_FILE"):
        return Path(file)
    return Path(os.environ.get("RFM_PREFIX", CHECKOUT / "results")) / "results.db"


@dataclass
class _Stored:
    """A session, and its row in each file that holds it."""

    uuid: str
    rows: dict[ResultsFile, int] = field(default_factory=dict)


class Database:
    """The sessions of one database file or of several, and the faults found in them so far.

    Each file is opened once, at the first query. A session is read when it is first needed, and
    kept. A session that several files hold counts once. `refresh` adds the sessions that were
    stored since.
    """

    def __init__(self, path: Path | Iterable[Path], directions: Directions | None = None):
        if isinstance(path, (str, Path)):
            path = [Path(path)]
        self.files = list(map(ResultsFile, _distinct(map(Path, path))))
        #: Of what has none by itself.
        self.directions = directions or Directions()
        #: Unreadable sessions so far, and sessions that started ahead of now, by place.
        self.bad: dict[int, BadSession] = {}
        self.ahead: dict[int, Session] = {}
        #: Places of bad sessions that an error has named already.
        self.named: set[int] = set()
        #: Whether a bad session raises ResultsError at once.
        self.strict = False
        #: All sessions by place, from 1.
        self._places: dict[int, _Stored] | None = None
        self._by_uuid: dict[str, int] = {}
        #: Last known rows.
        self._last: dict[ResultsFile, int] = dict.fromkeys(self.files, 0)
        self._sessions: dict[int, Session | BadSession | None] = {}
        #: Sentences on sessions whose copies differ, by place.
        self._differing: dict[int, str] = {}

    @classmethod
    def of(cls, path: Path | Database) -> Database:
        """The database, or that at a path. With a path, a bad session is an error."""
        if isinstance(path, Database):
            return path
        database = cls(path)
        database.strict = True
        return database

    def __str__(self) -> str:
        return ", ".join(map(str, self.files))

    def notes(self) -> list[str]:
        """A sentence for each skipped session and for each one whose copies differ, and one for all
        sessions ahead of now."""
        notes = []
        for place, bad in sorted(self.bad.items()):
            if place not in self.named:
                fix = f"`reframe --delete-stored-sessions={bad.uuid}`"
                notes.append(f"skipped {bad}. Fix: delete it ({fix})")
        notes += dict(sorted(self._differing.items())).values()
        ahead = []
        for _, session in sorted(self.ahead.items()):
            ahead.append(f"{session.uuid} of {session.started}")
        if ahead:
            notes.append(
                f"started ahead of now: session {suggest.shorten(ahead)}. The clock was wrong then "
                "or is wrong now; sessions are in the order of their storage"
            )
        return notes

    def entries(
        self, newest_first: bool = False, after: int = 0, uuid: str = ""
    ) -> Iterator[Session | BadSession]:
        """Yield the sessions in the order of their storage. Each is read when it is needed.

        :arg after: only sessions stored after this place.
        :arg uuid: only sessions whose id begins with this text.
        :raises ResultsError: a file is unreadable.
        """
        places = range(after + 1, len(self._index()) + 1)
        for place in places[::-1] if newest_first else places:
            if self._index()[place].uuid.startswith(uuid):
                entry = self._entry(place)
                # It was deleted meanwhile.
                if entry is not None:
                    yield entry

    def note(self, entry: Session | BadSession) -> None:
        """Add an unreadable session, or one ahead of now, to the notes. Raises if strict."""
        if isinstance(entry, BadSession):
            self.bad[entry.stored] = entry
            if self.strict:
                raise ResultsError(f"{self}: {entry}")
        elif entry.ahead:
            self.ahead[entry.stored] = entry

    def place(self, uuid: str) -> int | None:
        """The place of a session; None if it is not stored."""
        self._index()
        return self._by_uuid.get(uuid)

    def stores_by_now(self, uuid: str) -> bool:
        """Whether a file has stored this session since its rows were read."""
        return any(file.holds(uuid, self._last[file]) for file in self.files)

    def file_of(self, session: Session) -> ResultsFile:
        """The first file that holds the session, else the first of all."""
        if len(self.files) > 1 and (stored := self._index().get(session.stored)):
            return _first_to_last(stored, self.files)[0][0]
        return self.files[0]

    def refresh(self) -> None:
        """Add the sessions stored since the last query. Known sessions are not read again."""
        known = self._index()
        for file in self.files:
            for row, uuid, _ in file.rows(self._last[file]):
                self._add(known, file, row, uuid)

    def _index(self) -> dict[int, _Stored]:
        if self._places is None:
            places: dict[int, _Stored] = {}
            for file, row, uuid in _merged(self.files):
                self._add(places, file, row, uuid)
            self._places = places
        return self._places

    def _add(self, known: dict[int, _Stored], file: ResultsFile, row: int, uuid: str) -> None:
        """Add a row: to the session if another file holds it too, else as the next session."""
        self._last[file] = max(row, self._last[file])
        place = self._by_uuid.get(uuid)
        # An id that one file holds twice is two sessions: ReFrame makes no such file.
        if place is None or file in known[place].rows:
            place = len(known) + 1
            known[place] = _Stored(uuid)
            self._by_uuid.setdefault(uuid, place)
        known[place].rows[file] = row

    def _entry(self, place: int) -> Session | BadSession | None:
        if place not in self._sessions:
            self._sessions[place] = self._read(place)
        return self._sessions[place]

    def _read(self, place: int) -> Session | BadSession | None:
        """One session, from the first file where it is readable; None if it was deleted."""
        bad: BadSession | None = None
        copies = _first_to_last(self._index()[place], self.files)
        # A damaged copy does not hide a readable one.
        for file, row in copies:
            entry = file.read(row)
            if isinstance(entry, Session):
                self._compare(place, file, row, copies)
                return self.directions.of_session(replace(entry, stored=place))
            if entry is not None and bad is None:
                bad = replace(entry, stored=place)
                if len(self.files) > 1:
                    bad = replace(bad, file=str(file))
        return bad

    def _compare(
        self, place: int, counts: ResultsFile, row: int, copies: list[tuple[ResultsFile, int]]
    ) -> None:
        """Note it if copies of a session differ from the one that counts."""
        differing = []
        for file, other in copies:
            if file is not counts and not counts.has_same(row, file, other):
                differing.append(str(file))
        if differing:
            self._differing[place] = (
                f"session {self._index()[place].uuid} has other content in {', '.join(differing)} "
                f"than in {counts}, which counts. Fix: find out which is right; leave the other "
                "file out, or delete the session there"
            )


def _distinct(paths: Iterable[Path]) -> list[Path]:
    """The paths, each file once."""
    distinct: dict[Path, Path] = {}
    for path in paths:
        distinct.setdefault(path.resolve(), path)
    return list(distinct.values())


def _first_to_last(stored: _Stored, files: Sequence[ResultsFile]) -> list[tuple[ResultsFile, int]]:
    """The files that hold the session, as they were given, with its row."""
    return [(file, stored.rows[file]) for file in files if file in stored.rows]


def _merged(files: Sequence[ResultsFile]) -> list[tuple[ResultsFile, int, str]]:
    """File, row and id of all sessions: by start, but of each file in the order of storage."""
    every = []
    for number, file in enumerate(files):
        rows = file.rows()
        times = ascending([start for _, _, start in rows])
        for time, (row, uuid, _) in zip(times, rows):
            # The number of the file comes before its rows, so that sorting keeps their order.
            every.append((time, number, row, uuid))
    return [(files[number], row, uuid) for _, number, row, uuid in sorted(every)]


def ascending(starts: Sequence[float]) -> list[float]:
    """The starts in ascending order: where a clock was wrong, the start of the session before.

    The longest non-decreasing subsequence is taken for right.
    """
    #: By length: the least last start of such a sequence.
    least: list[float] = []
    #: Where that start is.
    ends: list[int] = []
    #: Where the start before it in its sequence is.
    before: dict[int, int] = {}
    for at, start in enumerate(starts):
        if math.isnan(start):
            continue
        length = bisect_right(least, start)
        least[length : length + 1], ends[length : length + 1] = [start], [at]
        if length:
            before[at] = ends[length - 1]
    right = ends[-1:]
    while right and right[-1] in before:
        right.append(before[right[-1]])
    times: list[float] = []
    last = 0.0
    if right:
        last = starts[right[-1]]
    kept = set(right)
    for at, start in enumerate(starts):
        if at in kept:
            last = start
        times.append(last)
    return times
