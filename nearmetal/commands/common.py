"""What several commands do: find their session, refuse an old one, print what is missing."""

from __future__ import annotations

import copy
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable
from datetime import datetime
from pathlib import Path

from nearmetal import results
from nearmetal.errors import Incomplete, NearmetalError
from nearmetal.judge.verdict import GateReport, Verdict
from nearmetal.results import Session
from nearmetal.util import files

#: Options that name one system's session, or run its ReFrame.
OF_ONE_SYSTEM = ("session", "confirm")
#: A smaller number of --since is an ISO date such as 20261121.
LEAST_SECONDS = 1e9
#: Exit codes, the worst first: a regression is certain, whatever else is unknown.
WORST = (1, 3, 2, 0)


def of_each_system(
    arguments,
    act: Callable[[Namespace], int],
    failed: Callable[[str, NearmetalError], None] = lambda system, error: None,
) -> int:
    """The worst exit code of a command over the systems of --system.

    Of several systems, an error of one is printed, and the others follow.

    :arg act: the command for one system, or for the newest session's if none is given.
    :arg failed: receives each of several systems with its error.
    :raises ResultsError: an option is of one system, but several are given.
    """
    systems = list(dict.fromkeys(arguments.system or [None]))
    if len(systems) > 1:
        refuse_options_of_one_system(arguments)
    codes = []
    for system in systems:
        of_one = copy.copy(arguments)
        of_one.system = system
        try:
            codes.append(act(of_one))
        except NearmetalError as error:
            if len(systems) == 1:
                raise
            warn(f"{system}: {error.prefix}{error}")
            failed(system, error)
            codes.append(error.exit_code)
    return min(codes, key=WORST.index)


def judge_each(
    arguments,
    reports: list[GateReport],
    judge: Callable[[Namespace], int],
    write: Callable[[int], None],
    failed: Callable[[int], None] = lambda code: None,
) -> int:
    """The worst exit code of a command that judges the systems of --system.

    :arg reports: receives the report on each system, also on one with an error.
    :arg judge: the command for one system. It adds its report before it prints.
    :arg write: writes the files of the reports, with the exit code: also after an error, as files
        of yesterday would say what is not known today.
    :arg failed: called with the exit code of an error that ends the command.
    """

    def not_judged(system: str, error: Exception) -> None:
        unknown = Verdict.incomplete(str(error) or repr(error))
        reports.append(GateReport(Session("", "", system, ()), (unknown,)))

    # That of an interruption.
    code = 3
    try:
        code = of_each_system(arguments, judge, not_judged)
    except BrokenPipeError:
        # Nobody reads the tables, and nothing is wrong.
        raise
    except Exception as error:
        code = getattr(error, "exit_code", 3)
        if not reports:
            not_judged((arguments.system or [""])[0], error)
        failed(code)
        raise
    finally:
        # Also if nobody reads the tables.
        if reports:
            write(code)
    return code


def refuse_options_of_one_system(arguments) -> None:
    """Raise ResultsError for an option that makes no sense with several systems."""
    for name in OF_ONE_SYSTEM:
        if getattr(arguments, name, None):
            raise results.ResultsError(
                f"--{name} is of one system, but {len(arguments.system)} are given. Fix: leave "
                f"--{name} out, or give --system once"
            )


def system_of(arguments) -> str:
    """The system of `--system`, else that of the newest session."""
    return arguments.system or results.load_session(arguments.database).system


def session_of(arguments) -> Session:
    """The session of `--session`, else the newest. Raises ResultsError, Incomplete."""
    session = results.load_session(arguments.database, arguments.system, arguments.session)
    refuse_older(session, arguments)
    return session


def sessions_of_system(arguments) -> list[Session]:
    """All sessions of one system, in the order of their storage. Raises ResultsError."""
    system = system_of(arguments)
    stored = results.sessions(arguments.database)
    sessions = [session for session in stored if session.system == system]
    if not sessions:
        # It raises, and names the known systems.
        results.load_session(arguments.database, system)
    return sessions


def newest_is_missing(database: results.Database, system: str) -> str:
    """The error, printed too, if the system's newest session is not stored or not readable."""
    try:
        results.newest(database, system)
    except results.NewestError as error:
        print(f"nearmetal: incomplete: {error}", file=sys.stderr)
        return str(error)
    return ""


def refuse_older(session: Session, arguments) -> None:
    """Raise Incomplete unless the session certainly started after `--since`."""
    if not arguments.since:
        return
    if session.time < seconds(arguments.since):
        raise Incomplete(
            f"no session on {arguments.system or 'any system'} since {arguments.since}: the newest "
            f"is {session.uuid} of {session.started}. Did the selection match nothing, or did "
            "ReFrame end before it ran?"
        )
    if session.ahead:
        raise Incomplete(
            f"session {session.uuid} started at {session.started}, which is ahead of now. Whether "
            f"that was since {arguments.since} is unknown. Fix: set the clock and run again, or "
            "leave out --since"
        )


def seconds(text: str) -> float:
    """Seconds since 1970 of the text of `--since`.

    Raises ResultsError: neither seconds since 1970 nor an ISO date."""
    try:
        if text.replace(".", "", 1).isdecimal() and float(text) >= LEAST_SECONDS:
            return float(text)
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        raise results.ResultsError(
            f"--since {text}: give seconds since 1970 (`date +%s`) or a date and time such as "
            "2026-11-21T02:00"
        ) from None


def print_missing(missing: Iterable[str]) -> None:
    for line in missing:
        print(f"missing: {line}", file=sys.stderr)


def warn(text: str) -> None:
    """Print beside the output."""
    print(f"nearmetal: {text}", file=sys.stderr)


def refuse_same(paths: Iterable[Path | None]) -> None:
    """Raise ResultsError if two outputs have one name."""
    named = list(filter(None, paths))
    if len(set(named)) < len(named):
        raise results.ResultsError("two outputs have one name. Fix: give each a file of its own")


def write(path: Path | None, render) -> None:
    """Write what `render` returns, if there is a path. All output files are written here."""
    if path:
        files.write(path, render())


def write_parts(path: Path | None, render: Callable[[], Iterable[bytes]]) -> None:
    """Write the parts that `render` returns as one file, if there is a path."""
    if path:
        files.write_parts(path, render())
