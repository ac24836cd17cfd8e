"""`nearmetal compare`."""

from __future__ import annotations

import functools
import sys

from nearmetal import results
from nearmetal.commands.common import print_missing, refuse_older
from nearmetal.compare import nearness, published, side_by_side
from nearmetal.errors import Incomplete
from nearmetal.results import Session


def run(arguments) -> int:
    session = side_by_side.side_by_side(_sessions(arguments))
    columns = side_by_side.columns(session, arguments.columns)
    if not columns:
        failed = "\n".join(side_by_side.failed(session))
        raise Incomplete(
            f"session {session.uuid} holds no value: all of its cases failed:\n{failed}"
        )
    numbers, figures = None, []
    # Of several sessions, each partition has its session in its name.
    if len(arguments.session or arguments.system or arguments.databases) == 1:
        numbers = functools.partial(_numbers, session.system)
    else:
        figures = published.load()
    text, missing = side_by_side.render(session, columns, arguments.spread, numbers, figures)
    print(text)
    print_missing(missing)
    beyond = side_by_side.beyond(session)
    for line in beyond:
        print(line, file=sys.stderr)
    if missing:
        return 2
    return 1 if beyond else 0


def _numbers(system: str) -> nearness.Numbers:
    # Reads the system's file by ReFrame, whose import takes longer than all else of the command.
    from nearmetal.judge.expected import numbers_of

    return numbers_of(system)


def _sessions(arguments) -> list[Session]:
    """The sessions to compare: the named ones, or the newest on each system or in each database.

    Raises ResultsError.
    """
    ids, systems = arguments.session or [], arguments.system or []
    # One system is a filter of the sessions; several are asked for without --session.
    system = systems[0] if len(systems) == 1 else None
    if ids:
        sessions = [_first(arguments.databases, system, uuid) for uuid in ids]
    elif systems:
        sessions = [_first(arguments.databases, system, None) for system in systems]
    else:
        sessions = list(map(results.load_session, arguments.databases))
    for session in sessions:
        refuse_older(session, arguments)
    return sessions


def _first(databases: list[results.Database], system: str | None, uuid: str | None) -> Session:
    """The session in the first database that holds it. Raises the first database's ResultsError."""
    fault: results.ResultsError | None = None
    for database in databases:
        try:
            return results.load_session(database, system, uuid)
        except results.NewestError:
            raise
        except results.ResultsError as error:
            fault = fault or error
    assert fault is not None
    raise fault
