"""Finds runs that the database lacks, from the report files that ReFrame writes."""

from __future__ import annotations

import contextlib
import math
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from nearmetal.results.database import Database
from nearmetal.results.decode import loads, parse_session
from nearmetal.results.file import ResultsFile, systems_and_kind
from nearmetal.results.session import CLOCKS_DIFFER, BadSession, ResultsError, Session
from nearmetal.util import command, files

#: Number of bytes at the beginning of a report that hold the id of its session.
HEAD = 4096
#: Most bytes of a report.
MOST_BYTES = 256 << 20
#: Seconds after the last change of a report in which ReFrame stores the session.
STORES_WITHIN = 5


def unstored_runs(
    database: Database, session: Session
) -> Iterator[tuple[Path, Session | BadSession]]:
    """Yield (report file, run) of each run after the session that no database holds, newest first.

    The times and ids inside the reports decide, whatever their names are. Runs of other suites are
    left out, and those that another database holds.
    """
    seen: set[Path] = set()
    for source in database.files:
        for directory in _directories(source):
            reports = [file for file in _reports(directory) if file.resolve() not in seen]
            seen.update(map(Path.resolve, reports))
            yield from _unstored(database, session, reports, source)


def _unstored(
    database: Database, session: Session, reports: list[Path], source: ResultsFile
) -> Iterator[tuple[Path, Session | BadSession]]:
    """The runs of one directory's reports, newest first.

    :arg source: the reports' database.
    """
    began = min(session.time, time.time()) - CLOCKS_DIFFER
    unstored = []
    # A clock that was wrong then does not matter where the session has a report, too.
    own = math.inf
    for file in reports:
        if _modified(file) < began:
            break  # they are the newest first
        uuid = _uuid_of_report(file)
        if uuid == session.uuid:
            own = min(own, _modified(file))
        if database.place(uuid) is None:
            unstored.append(file)
    for file in unstored:
        run = _run_of_report(file)
        started = _modified(file)
        if isinstance(run, Session):
            started = run.time
        # Either clock may be wrong, that inside the report or that of the file system.
        is_later = started > session.time or _modified(file) > own
        if run and is_later and not _is_of_others(run, session, source):
            yield file, run


def _is_of_others(run: Session | BadSession, session: Session, source: ResultsFile) -> bool:
    """Whether a run is of another suite than the session, or stored in another database."""
    if isinstance(run, BadSession):
        return False
    return _suite(run) != _suite(session) or _is_stored_elsewhere(run, source)


def _suite(session: Session) -> frozenset[Path] | None:
    """The files of the checks of others that a session ran; None: it ran ours."""
    # A suite with one case of ours is ours.
    if not session.cases or not all(case.foreign for case in session.cases):
        return None
    try:
        paths = command.parse(session.command).given("checkpath") or ()
    except command.CommandError:
        paths = ()
    return frozenset(Path(os.path.abspath(Path(session.directory, path))) for path in paths)


def _is_stored_elsewhere(run: Session, source: ResultsFile) -> bool:
    """Whether another database holds the run: one beside this one, or the one that it names."""
    others = set(source.path.parent.glob("*.db"))
    if named := run.selection.get("database", ""):
        others.add(Path(named))
    # Several databases may share a directory of reports.
    for path in others - {source.path}:
        with contextlib.suppress(ResultsError):  # it is no database
            if ResultsFile(path).holds(run.uuid):
                return True
    return False


def is_stored_by_now(database: Database, file: Path) -> bool:
    """Whether the session of a report is stored, now or soon: ReFrame writes the report first."""
    if not file.is_file():  # ReFrame writes no other
        return False
    patience = min(STORES_WITHIN, STORES_WITHIN - (time.time() - _modified(file)))
    until = time.monotonic() + patience
    while not (stored := database.stores_by_now(_uuid_of_report(file))):
        if time.monotonic() > until:
            break
        time.sleep(0.1)
    return stored


def _directories(source: ResultsFile) -> list[Path]:
    """Directories of report files: beside the database, and of the newest session's report."""
    directories = [source.path.parent / "reports"]
    newest = Path(source.newest_report())
    if newest.is_absolute():
        directories.append(newest.parent)
    return list(filter(Path.is_dir, directories))


def _reports(directory: Path) -> list[Path]:
    """The report files of a directory, the newest first, without ReFrame's link to the newest."""
    files = [file for file in directory.glob("*.json") if not file.is_symlink()]
    return sorted(files, key=_modified, reverse=True)


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _uuid_of_report(file: Path) -> str:
    """The id of a report's session; empty if it has none."""
    try:
        with files.opened(file, most=None) as opened:
            match = re.search(rb'"uuid": ?"([^"]+)"', opened.read(HEAD))
    except OSError:
        return ""
    if match is None:
        return ""
    return match[1].decode(errors="replace")


def _run_of_report(file: Path) -> Session | BadSession | None:
    """The run of a report; None for a dry run, which ReFrame reports but does not store."""
    blob = b""
    try:
        blob = files.read(file, MOST_BYTES)
        data = loads(blob)
        if _is_dry(data):
            return None
        return parse_session(data, file)
    except FileNotFoundError:  # deleted meanwhile
        return None
    except (OSError, orjson.JSONDecodeError, ResultsError) as error:
        reason = str(error)
    return BadSession("", 0, reason, *systems_and_kind(blob))


def _is_dry(data) -> bool:
    """Whether the command of a report has the option `--dry-run`, or an abbreviation of it."""
    try:
        words = data["session_info"]["cmdline"].split()
    except (LookupError, TypeError, AttributeError):
        return False  # parse_session says what is wrong
    # Two letters or more are no other option.
    return any(len(word) > 4 and "--dry-run".startswith(word) for word in words)
