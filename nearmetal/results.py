"""ReFrame's results database as plain data. Reads only; the database is ReFrame's.

Sessions are ordered by their storage (`Session.stored`), not by their clock: a clock that was ahead for one session would
make that session the newest for a year. A session that cannot be read is skipped and named, and no older one is taken
for the newest in its place.
"""

import contextlib
import functools
import json
import math
import os
import re
import sqlite3
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import orjson

from nearmetal import choices, clean, command, metrics, naming, shape
from nearmetal.checkout import CHECKOUT
from nearmetal.shape import ShapeError

#: Major version of the session format that this reads (ReFrame 4.x writes 4.y).
DATA_VERSION = "4"
#: What a case says it was measured on, beside the further `facts` of its nodes (nearmetal/checks/base.py).
FACTS = (
    "kernel",
    "hypervisor",
    "cpu_model",
    "governor",
    "smt",
    "thp",
    "nic_driver",
    "mtu",
    "mpi_library",
    "transport",
    "compiler",
    "image",
    "revision",
)
#: What is said of a result that comes without a reason.
FAILED = {"fail_deps": "what it needs failed"}
#: Key of a session's extras that names the session which it confirms.
CONFIRMS = "nearmetal_confirms"
#: What a case ran, by ReFrame's name for it and by that of published figures (published.py).
WORKLOAD = {"num_tasks": "processes", "num_nodes": "nodes", "megabytes": "megabytes"}
#: Why ReFrame ended a case when the time of its `--duration` was over.
OUT_OF_TIME = "aborted due to RunSessionTimeout"
#: Outcomes of a case, as ReFrame names them.
OUTCOMES = ("pass", "fail", "xfail", "xpass", "abort", "skip", "fail_deps", "<unknown>")
#: Seconds by which clocks of two machines may differ.
CLOCKS_DIFFER = 60
#: A value is the median of its samples to six significant digits, or as Python computes it.
DIGITS, EXACT = 6, 1e-9


class ResultsError(ValueError):
    """The database or a session in it can't be used; the message says what to do."""


class NewestError(ResultsError):
    """The newest run is not in the database, or its session cannot be read; an older one must not stand for it."""


@dataclass(frozen=True)
class Value:
    """One performance variable of one test case."""

    check: str  #: as of its Case
    environ: str
    partition: str
    variable: str
    value: float
    unit: str
    samples: tuple[float, ...] = ()  #: one a fresh launch, of which the value is the median
    within: tuple[
        tuple[float, ...], ...
    ] = ()  #: of each launch the parts that it was measured in; () where it has none
    node: str = ""  #: as of its Case

    @property
    def place(self) -> str:
        """As of its Case."""
        return place(self.partition, self.node)

    @property
    def lower_is_better(self) -> bool | None:
        """True for times and losses, False for rates, None where the unit (metrics.py) does not say."""
        return metrics.unit(self.unit).lower_is_better


@dataclass(frozen=True)
class Case:
    """One test case: a check on a partition with an environment, and with `--distribute` on a node.

    These four distinguish it from the other cases of a session. All that ReFrame ran of it are one case:
    the clones of `--repeat`, and the further runs of `--reruns` and `--duration`. Their launches are its
    samples, and where one of them failed, the case failed. Of retries (`--max-retries`) the last counts.
    """

    check: str  #: display name, e.g. `pingpong %placement=internode`; `-P` adds `%.VARIABLE=VALUE`
    partition: str
    environ: str
    values: tuple[Value, ...]
    facts: dict[
        str, str
    ]  #: what it was measured on: FACTS and those of its nodes; to be read only, as cases share it
    curves: dict[
        str, dict[int, tuple[float, ...]]
    ]  #: such as {"half_round_trip_us": {bytes: a value a launch}}
    failure: str | None  #: why it failed; None: it passed
    phase: (
        str | None
    )  #: in which phase of ReFrame's pipeline; "performance": measured whole, beyond its reference
    parameters: dict = field(
        default_factory=dict
    )  #: of the check, as its name gives them: {"placement": "internode"}
    no_baseline: str = ""  #: why the check itself needs no reference, whatever the baseline has
    ended: float = 0.0  #: when its job did, in seconds since 1970; 0: not told
    fixture: bool = False  #: whether it measures nothing, but made what others need (nearmetal/checks/spack_install.py)
    unreferenced: tuple[str, ...] = ()  #: variables for which it failed: the baseline lacks them
    workload: dict = field(default_factory=dict)  #: numbers by the values of WORKLOAD
    node: str = (
        ""  #: the node that `--distribute` gave it; empty: Slurm chose among the partition's
    )
    runs: int = 1  #: how often ReFrame ran it in this session

    @property
    def key(self) -> tuple[str, str, str]:
        """By what a baseline knows it, whichever node it ran on."""
        return self.check, self.partition, self.environ

    @property
    def place(self) -> str:
        """Where it ran, as tables show it: the partition, or `PARTITION@NODE` of `--distribute`."""
        return place(self.partition, self.node)

    @property
    def where(self) -> tuple[str, str, str]:
        """What distinguishes it from the other cases of a session."""
        return self.check, self.place, self.environ

    @property
    def varied(self) -> bool:
        """Whether `-P` set variables of its check, so that it is none of a baseline's cases."""
        return any(name.startswith(".") for name in self.parameters)

    @property
    def duet(self) -> bool:
        """Whether it measured A and B by turns (reframe_checks/duet)."""
        return "duet" in self.facts

    @property
    def measured(self) -> bool:
        """Whether its values may be judged: it passed, or was whole and only beyond its reference."""
        return self.failure is None or (self.phase == "performance" and bool(self.values))


@dataclass(frozen=True)
class Session:
    uuid: str
    started: str  #: as ReFrame writes it, 20261121T061529+0000
    system: str
    cases: tuple[Case, ...]
    time: float = 0.0  #: of the start, seconds since 1970
    command: str = ""  #: with which ReFrame was called
    skipped: tuple[tuple[str, str, str], ...] = ()  #: cases that their check skipped
    promised: int = 0  #: cases that ReFrame selected
    directory: str = ""  #: where ReFrame was called
    confirms: str = ""  #: id of the session of which it measured some cases again (confirm.py)
    #: what it was to select, as its checks recorded it (reframe_checks/selection.py); {}: they did not
    selection: dict = field(default_factory=dict)
    host: str = ""  #: name of the host on which ReFrame was called
    stored: int = 0  #: its place in the order in which sessions were stored; 0: not from a database

    @property
    def order(self) -> tuple[int, float]:
        """Key that sorts sessions of one database by their storage, and others by their start."""
        return self.stored, self.time

    @property
    def ahead(self) -> bool:
        """Whether it started later than now: the clock was ahead then, or is behind now."""
        return self.time > time.time() + CLOCKS_DIFFER

    @property
    def kind(self) -> str:
        """`campaign`; `confirmation` of one; `duet`, if it holds nothing else: each has its own command."""
        duet = self.cases and all(case.duet for case in self.cases if not case.fixture)
        if self.confirms:
            return "confirmation"
        return "duet" if duet else "campaign"

    @property
    def values(self) -> list[Value]:
        """Of all cases that passed."""
        return [value for case in self.cases if case.failure is None for value in case.values]

    @property
    def failures(self) -> list[Case]:
        return [case for case in self.cases if case.failure is not None]


def place(partition: str, node: str) -> str:
    """A partition, or `PARTITION@NODE`."""
    return f"{partition}@{node}" if node else partition


def database() -> Path:
    """Where ReFrame keeps results: RFM_SQLITE_DB_FILE, else under RFM_PREFIX, else the checkout's results/."""
    if file := os.environ.get("RFM_SQLITE_DB_FILE"):
        return Path(file)
    return Path(os.environ.get("RFM_PREFIX", CHECKOUT / "results")) / "results.db"


@dataclass(frozen=True)
class BadSession:
    """A stored session, or the report of a run, that cannot be used."""

    uuid: str
    stored: int
    reason: str
    systems: frozenset[str] = frozenset()  #: that it ran on; empty: not known
    kind: str = ""  #: `confirmation`, or empty: not known

    def may_be(self, system: str | None, kinds: tuple[str, ...]) -> bool:
        """Whether it may be a session of these kinds on the system."""
        return (not self.kind or self.kind in kinds) and (
            system is None or not self.systems or system in self.systems
        )

    def __str__(self) -> str:
        where = f" on {', '.join(sorted(self.systems))}" if self.systems else ""
        return f"session {self.uuid}{where}: {self.reason}"


class Database:
    """A results database that is read, and what was found wrong in it so far."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self.bad: dict[int, BadSession] = {}
        self.ahead: dict[int, Session] = {}
        self.told: set[int] = set()  #: places of bad sessions that an error has named already
        self.strict = False

    @classmethod
    def of(cls, path: "Path | Database") -> "Database":
        """The database of a path. Nobody asks it for its notes: a bad session in it is an error at once."""
        if isinstance(path, Database):
            return path
        database = cls(path)
        database.strict = True
        return database

    def __str__(self) -> str:
        return str(self.path)

    def notes(self) -> list[str]:
        """A sentence for each session that was skipped, and one on those whose time is ahead of now."""
        notes = [
            f"skipped {one}. Fix: delete it (`reframe --delete-stored-sessions={one.uuid}`)"
            for place, one in sorted(self.bad.items())
            if place not in self.told
        ]
        if self.ahead:
            ahead = [f"{one.uuid} of {one.started}" for _, one in sorted(self.ahead.items())]
            named = ", ".join(ahead[:3]) + (f" and {len(ahead) - 3} more" if ahead[3:] else "")
            notes.append(
                f"started ahead of now: session {named}. The clock was wrong then, or is now; "
                "sessions stand in the order of their storage"
            )
        return notes

    def read(self, newest_first=False, after=0, uuid="") -> Iterator["Session | BadSession"]:
        """All sessions stored after that place, in the order of their storage. Raises ResultsError."""
        with self.opened() as connection:
            order = "DESC" if newest_first else "ASC"
            rows = connection.execute(
                "SELECT rowid FROM sessions WHERE rowid > ? AND substr(uuid, 1, ?) = ? "
                f"ORDER BY rowid {order}",
                (after, len(uuid), uuid),
            ).fetchall()
            cases = _stored_cases(connection) if rows else {}
            for (stored,) in rows:
                found = self._session(connection, stored, cases)
                if isinstance(found, BadSession):
                    self.bad[stored] = found
                    if self.strict:
                        raise ResultsError(f"{self}: {found}")
                elif found and found.ahead:
                    self.ahead[stored] = found
                if found:
                    yield found

    def _session(
        self, connection, stored: int, cases: dict | None
    ) -> "Session | BadSession | None":
        """One session; None where it was deleted meanwhile."""
        blob, uuid = b"", f"number {stored}"
        try:
            row = connection.execute(
                "SELECT uuid, session_start_unix, json_blob FROM sessions WHERE rowid = ?",
                (stored,),
            ).fetchone()
            if row is None:
                return None
            uuid, start, blob = _text(row[0]), row[1], row[2]
            data = orjson.loads(blob)
            session = replace(parse_session(data, self.path), stored=stored)
            _agree(session, data, uuid, start, cases)
            return session
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_CORRUPT:
                raise
            return BadSession(uuid, stored, f"its place in the file is damaged ({error})")
        except (ResultsError, orjson.JSONDecodeError) as error:
            reason = str(error).removeprefix(f"{self.path}: ")
            if isinstance(error, orjson.JSONDecodeError):
                reason = f"not valid JSON ({error})"
            systems, kind = _about(blob)
            known = {case[1] for case in (cases or {}).get(uuid, ())}
            return BadSession(uuid, stored, reason, frozenset(known) or systems, kind)

    @contextlib.contextmanager
    def opened(self) -> Iterator[sqlite3.Connection]:
        """A connection that only reads. Raises ResultsError, which says why where it cannot be read."""
        if not self.path.is_file():
            raise ResultsError(
                f"{self}: no results database; run `reframe -c reframe_checks -r` first"
            )
        if self.path.stat().st_size == 0:
            raise ResultsError(
                f"{self}: is empty (0 bytes), and ReFrame stores nothing in such a file. "
                "Fix: remove it; ReFrame then makes a new one"
            )
        # As a URI, in which `%`, `#` and `?` of a path are quoted.
        uri = f"{self.path.resolve().as_uri()}?mode=ro"
        try:
            with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
                # A text that is not UTF-8 is its session's fault, and found when that one is decoded.
                connection.text_factory = bytes
                yield connection
        except sqlite3.Error as error:
            raise ResultsError(f"{self}: {_cause(error)}") from error


def _text(value) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


#: Why SQLite cannot read a file, by its primary error code: what is wrong, and the fix.
CAUSES = {
    sqlite3.SQLITE_BUSY: "is locked by another process. Fix: try again when no ReFrame stores results",
    sqlite3.SQLITE_LOCKED: "is locked by another process. Fix: try again when no ReFrame stores results",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened. Fix: let this user read the file and its directory",
    sqlite3.SQLITE_PERM: "cannot be opened. Fix: let this user read the file and its directory",
    sqlite3.SQLITE_IOERR: "cannot be read from the disk. Fix: look at the file system's log",
    sqlite3.SQLITE_CORRUPT: "is damaged or truncated. Fix: restore it from a copy, or remove it",
    sqlite3.SQLITE_NOTADB: "is not a results database of ReFrame's. Fix: name another file",
    sqlite3.SQLITE_ERROR: "is not a results database of ReFrame's. Fix: name another file",
}


def _cause(error: sqlite3.Error) -> str:
    """What is wrong with a database, in words, with SQLite's own behind it."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    return f"{CAUSES.get(code, 'cannot be read')} (SQLite: {error})"


def _stored_cases(connection: sqlite3.Connection) -> dict[str, list[tuple[str, ...]]] | None:
    """What ReFrame's second table says of each session: (name, system, partition, environment) of its cases.

    None where there is no such table, so that nothing can be compared with it.
    """
    found: dict[str, list[tuple[str, ...]]] = {}
    try:
        rows = connection.execute(
            "SELECT session_uuid, name, system, partition, environ FROM testcases"
        )
        for uuid, *case in rows:
            found.setdefault(_text(uuid), []).append(tuple(map(_text, case)))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_ERROR:
            raise
        return None
    return found


def _agree(session: "Session", data: dict, uuid: str, start, cases: dict | None) -> None:
    """Raises ResultsError where a session's text differs from what is stored beside it."""
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
    if cases is None:
        return
    names = ("name", "system", "partition", "environ")
    inside = [
        tuple(str(case.get(name)) for name in names)
        for run in data["runs"]
        for case in run["testcases"]
    ]
    beside = cases.get(uuid, [])
    if sorted(inside) != sorted(beside):
        differing = sorted(set(inside) ^ set(beside))
        named = f", such as {' | '.join(differing[0])}" if differing else ""
        raise ResultsError(
            f"it has {len(inside)} cases, but {len(beside)} are stored with it, or others{named}"
        )


def _about(blob) -> tuple[frozenset[str], str]:
    """Systems and kind of a session that cannot be used, as far as they can be told."""
    try:
        # The standard library's decoder takes NaN, Infinity and lone surrogates.
        data = json.loads(blob)
        systems = {case["system"] for run in data["runs"] for case in run["testcases"]}
        kind = "confirmation" if data["session_info"].get(CONFIRMS) else ""
        return frozenset(one for one in systems if isinstance(one, str)), kind
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return frozenset(), ""


def sessions(
    database: Path | Database,
    newest_first: bool = False,
    kinds: tuple[str, ...] = ("campaign",),
    after: int = 0,
) -> Iterator[Session]:
    """Every session of these kinds with at least one case, in the order of their storage.

    :arg database: bad sessions are in its notes; with a path alone, they raise ResultsError.
    :arg after: only sessions stored after this place.
    """
    for session in Database.of(database).read(newest_first, after):
        if isinstance(session, Session) and session.cases and session.kind in kinds:
            yield session


def load_session(
    path: Path | Database, system: str | None = None, uuid: str | None = None
) -> Session:
    """The session of that id, or the newest campaign (on that system). Raises ResultsError, NewestError."""
    database = Database.of(path)
    if uuid is None:
        session = newest(database, system)
    else:
        session = _named_session(database, uuid, system)
    if session:
        return session
    kinds = ("campaign",) if uuid is None else ("campaign", "duet")
    others = list(sessions(Database(database.path), newest_first=True, kinds=kinds))
    raise ResultsError(no_session(database, system, uuid, others))


def no_session(
    path: Path | Database, system: str | None, uuid: str | None, others: list[Session]
) -> str:
    """What to say where no session has that id or is on that system: which ones there are."""
    if not others:
        return f"{path}: no session with a case that ran; run `reframe -c reframe_checks -r` first"
    if uuid is None:
        known = choices.unknown(
            system or "", (session.system for session in others), "the systems are"
        )
        return f"{path}: no session on system {system or 'of an empty name'}: {known}"
    ids = [session.uuid[: max(8, len(uuid))] for session in others]
    close = choices.nearest(uuid, ids)
    return (
        f"{path}: no session {uuid or 'of an empty id'}: the newest are {', '.join(ids[:3])}"
        + (f"; did you mean {close}?" if close else "")
        + "; `reframe --list-stored-sessions` lists all"
    )


def newest(
    path: Path | Database,
    system: str | None = None,
    kinds: tuple[str, ...] = ("campaign",),
    chosen=lambda session: True,
) -> Session | None:
    """The session of these kinds (on that system) that was stored last and ran at least one case.

    :arg chosen: tells of a session whether it is meant.
    :raises NewestError: the newest run's session is not in the database, or it cannot be read.
    """
    database = Database.of(path)
    for session in Database(database.path).read(newest_first=True):
        if isinstance(session, BadSession):
            if session.may_be(system, kinds):
                database.told.add(session.stored)
                raise NewestError(
                    f"{database}: the newest session cannot be read: {session}. Fix: delete it "
                    f"(`reframe --delete-stored-sessions={session.uuid}`) and run again, or name "
                    "another with --session"
                )
            database.bad[session.stored] = session
            continue
        if not session.cases or session.kind not in kinds or not chosen(session):
            continue
        if system in (None, session.system):
            if session.ahead:
                database.ahead[session.stored] = session
            _refuse_if_a_newer_run_was_not_stored(database, session, system, kinds)
            return session
    return None


def _named_session(database: Database, uuid: str, system: str | None) -> Session | None:
    """The newest session whose id begins so. Raises ResultsError."""
    if not uuid:
        return None
    for session in Database(database.path).read(newest_first=True, uuid=uuid):
        if isinstance(session, BadSession):
            raise ResultsError(f"{database}: {session}. Fix: name another session")
        if not session.cases or session.kind not in ("campaign", "duet"):
            continue
        if system not in (None, session.system):
            raise ResultsError(
                f"{database}: session {session.uuid} is of system {session.system}, not of {system}: "
                "leave one of --session and --system away"
            )
        if session.ahead:
            database.ahead[session.stored] = session
        return session
    return None


def _refuse_if_a_newer_run_was_not_stored(
    database: Database, session: Session, system: str | None, kinds: tuple[str, ...]
) -> None:
    """Raises NewestError where ReFrame's reports know a later run of these kinds on that system."""
    for file, run in _unstored_runs(database, session):
        if isinstance(run, BadSession):
            if not run.may_be(system, kinds):
                continue
            what = f"the report of a later run is damaged: {run.reason}"
        else:
            if not run.cases or run.kind not in kinds or system not in (None, run.system):
                continue
            what = f"the session of a later run is not stored: {run.uuid}, started {run.started}"
        raise NewestError(
            f"{database}: {what} ({file}). Fix: let ReFrame's user write the database and run "
            f"again; --session {session.uuid[:8]} takes the newest that is stored. If the session "
            "was deleted on purpose, remove that report"
        )


#: How many bytes of a report are read for its session's id, which is at its beginning.
HEAD = 4096


def _unstored_runs(
    database: Database, session: Session
) -> Iterator[tuple[Path, "Session | BadSession"]]:
    """Reports of runs after the session, newest first, whose sessions the database lacks; each with what it holds.

    ReFrame numbers its reports upwards, whatever the clock says.
    """
    unstored, after = [], False
    with database.opened() as connection:
        for file in _reports(database, connection):
            uuid = _uuid_of_report(file)
            place = connection.execute(
                "SELECT rowid FROM sessions WHERE uuid = ?", (uuid,)
            ).fetchone()
            if place is None:
                unstored.append(file)
            elif place[0] <= session.stored:
                after = True
                break
    for file in unstored:
        run = _run_of_report(file)
        # Without a report of the session, or of an older one, only the times tell which came later.
        later = run.time if isinstance(run, Session) else _modified(file)
        if run and (after or later > session.time):
            yield file, run


def _reports(database: Database, connection: sqlite3.Connection) -> list[Path]:
    """ReFrame's reports beside the database and where it put the newest session's, the highest number first."""
    row = connection.execute(
        "SELECT report_file FROM sessions ORDER BY rowid DESC LIMIT 1"
    ).fetchone()
    directories = [database.path.parent / "reports"]
    if row and row[0] and Path(_text(row[0])).is_absolute():
        directories.append(Path(_text(row[0])).parent)
    numbered = {}
    for directory in directories:
        for file in directory.glob("*.json") if directory.is_dir() else ():
            number = re.fullmatch(r".*?(\d+)", file.stem)
            if number and not file.is_symlink():
                numbered[file.resolve()] = int(number[1])
    return sorted(numbered, key=lambda file: numbered[file], reverse=True)


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _uuid_of_report(file: Path) -> str:
    """The id of a report's session; empty where it does not say."""
    try:
        with open(file, "rb") as opened:
            found = re.search(rb'"uuid": ?"([^"]+)"', opened.read(HEAD))
    except OSError:
        return ""
    return _text(found[1]) if found else ""


def _run_of_report(file: Path) -> "Session | BadSession | None":
    """What a report holds; None for a dry run, which ReFrame reports and does not store."""
    blob = b""
    try:
        blob = file.read_bytes()
        data = orjson.loads(blob)
        return None if _is_dry(data) else parse_session(data, file)
    except FileNotFoundError:  # deleted meanwhile
        return None
    except (OSError, ResultsError, orjson.JSONDecodeError) as error:
        return BadSession("", 0, str(error), *_about(blob))


def _is_dry(data) -> bool:
    """Whether a report is of a command with `--dry-run`, which may be shortened."""
    info = data.get("session_info") if isinstance(data, dict) else None
    command = info.get("cmdline") if isinstance(info, dict) else None
    words = command.split() if isinstance(command, str) else []
    return any(len(word) > 4 and "--dry-run".startswith(word) for word in words)


def confirmations(database: Path | Database, session: Session) -> list[Session]:
    """What measured some of the session's cases again, in that order. Raises ResultsError."""
    return [
        one
        for one in sessions(database, kinds=("confirmation",), after=session.stored)
        if one.confirms == session.uuid
    ]


def parse_session(data: dict, origin) -> Session:
    """A session's report as ReFrame stores it. Raises ResultsError, which names what is not as declared."""
    try:
        return _parse_session(shape.mapping(data, "the session"), origin)
    except ShapeError as error:
        raise ResultsError(f"{origin}: {error}") from None


def _parse_session(data: Mapping, origin) -> Session:
    """Raises ShapeError, ResultsError."""
    info = shape.mapping(data.get("session_info", {}), "session_info")
    version = str(info.get("data_version", "none"))
    if version.split(".", maxsplit=1)[0] != DATA_VERSION:
        raise ResultsError(
            f"{origin}: session format {version}, but {DATA_VERSION}.x is needed: "
            "use the ReFrame that requirements.lock pins"
        )
    places = {}
    for place, case in _placed(data):
        for name in ("display_name", "name", "partition", "environ", "system"):
            shape.name(case, name, place)
        if case.get("result") not in OUTCOMES:
            raise shape.wrong(f"{place}.result", "an outcome of a case", case.get("result"))
        places[id(case)] = place
    line = shape.text(info, "cmdline", "session_info", "")
    found = _outcomes(data["runs"], line)
    every = [outcome for outcomes in found.values() for outcome in outcomes]
    systems = {case["system"] for case in every}
    # A fixture that did what it was to do says nothing; one that did not, why others could not be measured.
    done = {
        key
        for key, outcomes in found.items()
        if all(case.get("fixture") and case["result"] == "pass" for case in outcomes)
    }
    missing = max(0, int(shape.number(info, "num_cases", "session_info", 0)) - len(found))
    remaining = [case for key in found if key not in done for case in found[key]]
    cases, skipped = _cases(remaining, places)
    return Session(
        clean.name(shape.name(info, "uuid", "session_info")),
        clean.name(shape.name(info, "time_start", "session_info")),
        clean.name(",".join(sorted(systems))),
        tuple(cases),
        shape.number(info, "time_start_unix", "session_info"),
        clean.line(line),
        skipped,
        len(cases) + len(skipped) + missing,
        shape.text(info, "workdir", "session_info", ""),
        shape.text(info, CONFIRMS, "session_info", ""),
        next((_selection(case, places) for case in every if case.get("selection")), {}),
        clean.name(shape.text(info, "hostname", "session_info", "")),
    )


def _selection(case: Mapping, places: dict[int, str]) -> dict:
    """What the run was to select, as its checks recorded it. Raises ShapeError."""
    found = case["selection"]
    if found == shape.UNDEFINED:
        return {}
    return dict(shape.mapping(found, f"{places[id(case)]}.selection"))


def _placed(data: Mapping) -> Iterator[tuple[str, Mapping]]:
    """Each test case of each run, with its place. Raises ShapeError."""
    for number, run in enumerate(shape.sequence(data.get("runs"), "runs")):
        run = shape.mapping(run, f"runs.{number}")
        place = f"runs.{number}.testcases"
        for index, case in enumerate(shape.sequence(run.get("testcases"), place)):
            yield f"{place}.{index}", shape.mapping(case, f"{place}.{index}")


@functools.lru_cache
def parameters(check: str) -> Mapping[str, str]:
    """Those in a check's display name, as text: `pingpong %placement=internode` has placement."""
    return MappingProxyType(dict(naming.PARAMETER.findall(check)))


def parse_case(case: dict, place: str = "case") -> Case:
    """A test case as ReFrame stores it. Raises ShapeError."""
    texts = [shape.name(case, key, place) for key in ("display_name", "environ", "partition")]
    name = naming.parse(clean.name(texts[0]))
    where = name.check, clean.name(texts[1]), clean.name(texts[2])
    passed = case["result"] == "pass"
    named = list(map(case.get, FACTS))
    failure = shape.text(case, "fail_reason", place, "") or FAILED.get(
        case["result"], case["result"]
    )
    return Case(
        where[0],
        where[2],
        where[1],
        _values(case, where, name.node, place),
        _facts(orjson.dumps([_ours(case, "facts", place), named])),
        _curves(case, place),
        None if passed else clean.text(failure),
        None if passed else clean.line(shape.text(case, "fail_phase", place, "")) or None,
        clean.every({key: case.get(key, text) for key, text in parameters(where[0]).items()}),
        _own_exemption(case, place),
        shape.number(case, "job_completion_time_unix", place, 0.0),
        bool(case.get("fixture")),
        _unreferenced(case, place),
        _workload(case, place),
        name.node,
    )


def _unreferenced(case: Mapping, place: str) -> tuple[str, ...]:
    found = case.get("unreferenced")
    if found is None or found == shape.UNDEFINED:
        return ()
    names = shape.sequence(found, f"{place}.unreferenced")
    if not all(type(one) is str for one in names):
        raise shape.wrong(f"{place}.unreferenced", "a list of texts", found)
    return tuple(map(clean.line, names))


def _workload(case: Mapping, place: str) -> dict:
    found = {name: shape.number(case, key, place, 0) for key, name in WORKLOAD.items()}
    return {name: value for name, value in found.items() if value}


def _own_exemption(case: Mapping, place: str) -> str:
    """Why the check needs no reference; "" where the partition said so, which lasts until the baseline."""
    # Sessions of older versions do not say who gave the reason. There only duets had one of their own.
    duet = "duet" in _ours(case, "facts", place)
    own = case.get("no_baseline_of", "check" if duet else "partition") == "check"
    return clean.line(shape.text(case, "no_baseline", place, "")) if own else ""


def _ours(case: Mapping, name: str, place: str) -> Mapping:
    """An object that the suite's base check stores; empty in a stranger's case, which may have a variable of that name.

    The base check stores facts and samples alike, so that one alone is damage.
    """
    found = case.get(name)
    if type(found) is dict:
        return found
    if type(case.get("facts")) is dict and type(case.get("samples")) is dict:
        if found is None or found == shape.UNDEFINED:
            return {}  # of a session before this was stored
        raise shape.wrong(f"{place}.{name}", "an object", found)
    if type(case.get("facts")) is dict or type(case.get("samples")) is dict:
        raise shape.wrong(
            f"{place}.{name}", "an object, though the case has facts or samples", found
        )
    return {}


def _values(case: Mapping, where: tuple[str, str, str], node: str, place: str) -> tuple[Value, ...]:
    """The performance variables of a case, each of which agrees with its samples. Raises ShapeError."""
    all_samples, all_within = _ours(case, "samples", place), _ours(case, "within", place)
    values = []
    for key, entry in shape.items(case, "perfvalues", place):
        here = f"{place}.perfvalues.{key}"
        # ReFrame before 4.9 stores five: value, reference, bounds and unit.
        if type(entry) is not list or len(entry) not in (5, 6):
            raise shape.wrong(here, "a list of five or six", entry)
        value, unit, name = entry[0], entry[4], key.rsplit(":", 1)[-1]
        if value is None and case["result"] != "pass":
            continue  # ReFrame names the variables of a case that failed before it had values
        if type(value) not in shape.NUMBERS:
            raise shape.wrong(f"{here}.0", "a number", value)
        if type(unit) is not str:
            raise shape.wrong(f"{here}.4", "a unit", unit)
        samples = shape.numbers(all_samples.get(name, []), f"{place}.samples.{name}")
        within: tuple[tuple[float, ...], ...] = ()
        if name in all_within:
            within = shape.rows(all_within[name], f"{place}.within.{name}")
        values.append(
            Value(*where, clean.name(name), value, clean.name(unit), samples, within, node)
        )
    _refuse_values_beside_their_samples(values, place)
    lost = sorted(set(map(clean.name, all_samples)) - {value.variable for value in values})
    if lost and case["result"] == "pass":
        raise ShapeError(f"{place}.perfvalues lacks {', '.join(lost)}, which has samples")
    return tuple(values)


def _refuse_values_beside_their_samples(values: list[Value], place: str) -> None:
    """Raises ShapeError unless each value is the median of its samples, or each their mean, as in the first sessions."""
    for middle in (statistics.median, statistics.fmean):
        other = [value for value in values if value.samples and not _is(value, middle)]
        if not other:
            return
        if middle is statistics.median:
            first = other[0]
    raise ShapeError(
        f"{place}.perfvalues: {first.variable} is {first.value!r}, which is not the median of its samples"
    )


def _is(value: Value, middle) -> bool:
    whole = middle(value.samples)
    if value.value == whole:
        return True
    rounded = float(f"{whole:.{DIGITS}g}")
    return any(math.isclose(value.value, one, rel_tol=EXACT) for one in (whole, rounded))


def _curves(case: Mapping, place: str) -> dict[str, dict[int, tuple[float, ...]]]:
    """What was measured over message sizes. Raises ShapeError."""
    return {
        name: shape.curve(curve, f"{place}.curves.{name}")
        for name, curve in _ours(case, "curves", place).items()
    }


@functools.lru_cache(maxsize=4096)
def _facts(packed: bytes) -> dict[str, str]:
    """A case's facts from JSON. Equal ones are one dictionary: large databases hold few, and are read sooner and in less."""
    facts, named = orjson.loads(packed)
    return clean.every(
        {**(facts or {}), **{name: value for name, value in zip(FACTS, named) if value}}
    )


def _outcomes(runs: list[dict], line: str) -> dict[tuple[str, str, str], list[dict]]:
    """What became of each test case: once for each of ReFrame's further runs, and of retries the last.

    A run of ReFrame is a retry as long as `--max-retries` allows one and it holds nothing but what failed
    in the run before. Each of `--reruns` and `--duration` holds everything.

    :arg line: the session's command line.
    """
    found: dict[tuple[str, str, str], list[dict]] = {}
    failed: set = set()
    retries = _most_retries(line) if len(runs) > 1 else 0
    for number, run in enumerate(runs):
        cases = {(c["display_name"], c["partition"], c["environ"]): c for c in run["testcases"]}
        retry = 0 < number <= retries and set(cases) <= failed
        for key, case in cases.items():
            outcomes = found.setdefault(key, [])
            if outcomes and case.get("fail_reason") == OUT_OF_TIME:
                continue  # nothing is known of it, and its earlier runs stand
            if retry:
                outcomes.clear()
            outcomes.append(case)
        failed = {key for key, case in cases.items() if case["result"] != "pass"}
    return found


def _most_retries(line: str) -> float:
    """How many retries a session's command allows; infinitely many where it can't be told."""
    try:
        asked = command.parse(line)
    except command.CommandError:
        return math.inf
    if asked.given("mode"):  # it may hold further options
        return math.inf
    return asked.given("max_retries") or 0


def _cases(
    outcomes: list[dict], places: dict[int, str]
) -> tuple[list[Case], tuple[tuple[str, str, str], ...]]:
    """The cases that these make, and those that their check skipped."""
    grouped: dict[tuple[str, str, str], list[Case]] = {}
    skipped = []
    for outcome in outcomes:
        case = parse_case(outcome, places[id(outcome)])
        if outcome["result"] == "skip":
            skipped.append(case.where)
        else:
            grouped.setdefault(case.where, []).append(case)
    return [_together(runs) for runs in grouped.values()], tuple(dict.fromkeys(skipped))


def _together(runs: Sequence[Case]) -> Case:
    """One case from all that ReFrame ran of it. All launches are its samples; where one failed, it failed."""
    if len(runs) == 1:
        return runs[0]
    failed = {number: run for number, run in enumerate(runs, 1) if run.failure is not None}
    phases = {run.phase for run in failed.values()}
    told = [f"run {number} of {len(runs)}: {run.failure}" for number, run in failed.items()]
    curves: dict[str, dict[int, tuple[float, ...]]] = {}
    for run in runs:
        for name, points in run.curves.items():
            curve = curves.setdefault(name, {})
            for size, launches in points.items():
                curve[size] = curve.get(size, ()) + launches
    return replace(
        runs[0],
        values=_all_launches(runs),
        facts=_common_facts([run.facts for run in runs if run.facts]),
        curves=curves,
        failure="; ".join(told) or None,
        phase=min(phases - {"performance"}, key=str, default=min(phases, key=str, default=None)),
        no_baseline=next((run.no_baseline for run in runs if run.no_baseline), ""),
        ended=max(run.ended for run in runs),
        unreferenced=tuple(dict.fromkeys(name for run in runs for name in run.unreferenced)),
        runs=len(runs),
    )


def _all_launches(runs: Sequence[Case]) -> tuple[Value, ...]:
    """Each variable with the launches of all runs. A run that stored none counts as one launch."""
    grouped: dict[str, list[Value]] = {}
    for run in runs:
        for value in run.values:
            grouped.setdefault(value.variable, []).append(value)
    found = []
    for values in grouped.values():
        samples = sum((value.samples or (value.value,) for value in values), ())
        parts = [value.within for value in values]
        found.append(
            replace(
                values[0],
                value=float(f"{statistics.median(samples):.6g}"),
                samples=samples,
                within=sum(parts, ()) if all(parts) else (),
            )
        )
    return tuple(found)


def _common_facts(found: Sequence[dict]) -> dict:
    """Facts of several runs: what differs as `a | b`, as a run says it of its nodes; lists together."""
    facts: dict[str, Any] = {}
    for name in dict.fromkeys(name for one in found for name in one):
        values = [one[name] for one in found if name in one]
        if all(isinstance(value, list) for value in values):
            facts[name] = sorted({str(item) for value in values for item in value})
        elif all(value == values[0] for value in values):
            facts[name] = values[0]
        else:
            facts[name] = " | ".join(dict.fromkeys(map(str, values)))
    return facts
