"""Finds sessions: the newest on a system, the one with an id, or all of a kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from nearmetal.results.database import Database
from nearmetal.results.run_reports import is_stored_by_now, unstored_runs
from nearmetal.results.session import OTHER_NODES, BadSession, NewestError, ResultsError, Session
from nearmetal.util import suggest

if TYPE_CHECKING:
    from typing import TypeGuard  # novermin: since Python 3.10

CAMPAIGN: tuple[str, ...] = ("campaign",)


def sessions(
    database: Path | Database,
    newest_first: bool = False,
    kinds: tuple[str, ...] = CAMPAIGN,
    after: int = 0,
) -> Iterator[Session]:
    """Every session of these kinds with at least one case, in the order of their storage.

    :arg database: bad sessions are in its notes; with a path, they raise ResultsError.
    :arg after: only sessions stored after this place.
    """
    database = Database.of(database)
    for entry in database.entries(newest_first, after):
        database.note(entry)
        if _holds(entry, kinds):
            yield entry


def load_session(
    database: Path | Database, system: str | None = None, uuid: str | None = None
) -> Session:
    """The session with this id, or the newest campaign (on this system).

    Raises ResultsError, NewestError.
    """
    database = Database.of(database)
    if uuid is None:
        session, kinds = newest(database, system), CAMPAIGN
    else:
        session, kinds = _with_id(database, uuid, system), ("campaign", "duet")
    if session:
        return session
    others = stored(database, kinds)
    raise ResultsError(no_session(database, system, uuid, others))


def stored(database: Database, kinds: tuple[str, ...]) -> list[Session]:
    """The readable sessions of these kinds, newest first, for an error's hints."""
    return [entry for entry in database.entries(newest_first=True) if _holds(entry, kinds)]


def no_session(
    path: Path | Database, system: str | None, uuid: str | None, others: list[Session]
) -> str:
    """The error for an id or a system without a session. It names systems or ids with a session."""
    if not others:
        return f"{path}: no session with a case that ran; run `reframe -c reframe_checks -r` first"
    if uuid is None:
        known = suggest.unknown(system, (session.system for session in others), "the systems are")
        return f"{path}: no session on system {system or 'of an empty name'}: {known}"
    # As many characters as the user gave, so that they compare.
    ids = [session.uuid[: max(8, len(uuid))] for session in others]
    guess = ""
    for close in suggest.nearest(uuid, ids)[:1]:
        guess = f"; did you mean {close}?"
    return (
        f"{path}: no session {uuid or 'of an empty id'}: the newest are {', '.join(ids[:3])}{guess}"
        "; `reframe --list-stored-sessions` lists all"
    )


def newest(
    database: Path | Database,
    system: str | None = None,
    kinds: tuple[str, ...] = CAMPAIGN,
    chosen: Callable[[Session], bool] = lambda session: True,
) -> Session | None:
    """The newest session of these kinds (on this system) with at least one case.

    :arg chosen: whether a session qualifies.
    :raises NewestError: the newest run's session is not stored, or is not readable.
    """
    database = Database.of(database)
    # An unreadable session may be the newest one: no older one may stand for it.
    for entry in database.entries(newest_first=True):
        if isinstance(entry, BadSession):
            _refuse_if_it_may_be_meant(database, entry, system, kinds)
            database.bad[entry.stored] = entry
        elif _holds(entry, kinds) and chosen(entry) and system in (None, entry.system):
            database.note(entry)
            _refuse_if_a_newer_run_was_not_stored(database, entry, system, kinds)
            return entry
    return None


def confirmations(
    database: Path | Database, session: Session, other_nodes: bool = False
) -> list[Session]:
    """The sessions that measured some of the session's cases again, in the order of storage.

    Raises ResultsError.

    :arg other_nodes: those on other nodes, instead of those that confirm.
    """
    name = session.uuid
    if other_nodes:
        name += OTHER_NODES
    later = sessions(database, kinds=("confirmation",), after=session.stored)
    return [confirmation for confirmation in later if confirmation.confirms == name]


def _holds(entry: Session | BadSession, kinds: tuple[str, ...]) -> TypeGuard[Session]:
    return isinstance(entry, Session) and bool(entry.cases) and entry.kind in kinds


def _with_id(database: Database, uuid: str, system: str | None) -> Session | None:
    """The newest session whose id begins with `uuid`. Raises ResultsError."""
    if not uuid:
        return None
    for entry in database.entries(newest_first=True, uuid=uuid):
        if isinstance(entry, BadSession):
            raise ResultsError(f"{database}: {entry}. Fix: name another session")
        if not _holds(entry, ("campaign", "duet")):
            continue
        if system not in (None, entry.system):
            raise ResultsError(
                f"{database}: session {entry.uuid} is of system {entry.system}, not of {system}. "
                "Fix: leave out --session or --system"
            )
        database.note(entry)
        return entry
    return None


def _refuse_if_it_may_be_meant(
    database: Database, bad: BadSession, system: str | None, kinds: tuple[str, ...]
) -> None:
    """Raise NewestError if an unreadable session may be the requested one."""
    if bad.may_be(system, kinds):
        database.named.add(bad.stored)
        raise NewestError(
            f"{database}: the newest session cannot be read: {bad}. Fix: delete it "
            f"(`reframe --delete-stored-sessions={bad.uuid}`) and run again, or name another "
            "with --session"
        )


def _refuse_if_a_newer_run_was_not_stored(
    database: Database, session: Session, system: str | None, kinds: tuple[str, ...]
) -> None:
    """Raise NewestError if ReFrame's report files hold a later run of these kinds on the system."""
    for file, run in unstored_runs(database, session):
        if isinstance(run, BadSession):
            if not run.may_be(system, kinds):
                continue
            what = f"the report of a later run is damaged: {run.reason}"
        else:
            if not _holds(run, kinds) or system not in (None, run.system):
                continue
            what = f"the session of a later run is not stored: {run.uuid}, started {run.started}"
        # ReFrame writes the report first and stores the session then.
        if is_stored_by_now(database, file):
            continue
        raise NewestError(
            f"{database}: {what} ({file}). Fix: let ReFrame's user write the database and run "
            f"again; --session {session.uuid[:8]} takes the newest that is stored. If the session "
            "was deleted on purpose, remove that report"
        )
