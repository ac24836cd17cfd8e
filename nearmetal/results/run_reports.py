"""Finds runs that the database lacks, from the report files that ReFrame writes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import orjson

from nearmetal.results.database import Database
from nearmetal.results.decode import loads, parse_session
from nearmetal.results.file import ResultsFile, systems_and_kind
from nearmetal.results.session import BadSession, ResultsError, Session

#: Number of bytes at the beginning of a report that hold the id of its session.
HEAD = 4096


def unstored_runs(
    database: Database, session: Session
) -> Iterator[tuple[Path, Session | BadSession]]:
    """Yield (report file, run) of each run after the session that the database lacks, newest first.

    ReFrame numbers its reports in ascending order, so that the clock does not matter.
    """
    own = database.file_of(session)
    seen: set[Path] = set()
    for source in sorted(database.files, key=lambda one: one is not own):
        for directory in _directories(source):
            reports = [file for file in _reports(directory) if file not in seen]
            seen.update(reports)
            yield from _unstored(database, session, reports, source is own)


def _unstored(
    database: Database, session: Session, reports: list[Path], are_own: bool
) -> Iterator[tuple[Path, Session | BadSession]]:
    """The runs of one directory's reports, newest first.

    :arg are_own: whether the session's own file is the reports' database.
    """
    unstored, after = [], False
    for file in reports:
        place = database.place(_uuid_of_report(file))
        if place is None:
            unstored.append(file)
        elif place <= session.stored:
            after = are_own
            break
    for file in unstored:
        run = _run_of_report(file)
        # If no report is of this session or one before it in its file, only the start times give
        # the order.
        started = run.time if isinstance(run, Session) else _modified(file)
        if run and (after or started > session.time):
            yield file, run


def _directories(source: ResultsFile) -> list[Path]:
    """Directories of report files: beside the database, and of the newest session's report."""
    found = [source.path.parent / "reports"]
    newest = Path(source.newest_report())
    if newest.is_absolute():
        found.append(newest.parent)
    return list(filter(Path.is_dir, found))


def _reports(directory: Path) -> list[Path]:
    """The report files of a directory, highest number first. Each directory has its own numbers."""
    numbered = {}
    for file in directory.glob("*.json"):
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
    """The id of a report's session; empty if it has none."""
    try:
        with open(file, "rb") as opened:
            found = re.search(rb'"uuid": ?"([^"]+)"', opened.read(HEAD))
    except OSError:
        return ""
    return found[1].decode(errors="replace") if found else ""


def _run_of_report(file: Path) -> Session | BadSession | None:
    """The run of a report; None for a dry run, which ReFrame reports but does not store."""
    blob = b""
    try:
        blob = file.read_bytes()
        data = loads(blob)
        return None if _is_dry(data) else parse_session(data, file)
    except FileNotFoundError:  # deleted meanwhile
        return None
    except (OSError, ResultsError, orjson.JSONDecodeError) as error:
        return BadSession("", 0, str(error), *systems_and_kind(blob))


def _is_dry(data) -> bool:
    """Whether the command of a report has the option `--dry-run`, or an abbreviation of it."""
    info = data.get("session_info") if isinstance(data, dict) else None
    command = info.get("cmdline") if isinstance(info, dict) else None
    words = command.split() if isinstance(command, str) else []
    return any(len(word) > 4 and "--dry-run".startswith(word) for word in words)
