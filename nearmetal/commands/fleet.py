"""`nearmetal fleet`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from nearmetal import results
from nearmetal.commands.common import refuse_same, session_of, warn, write
from nearmetal.fleet import fabric, findings, render
from nearmetal.fleet.findings import AnySweep
from nearmetal.fleet.render import Swept
from nearmetal.fleet.sweep import SweepError
from nearmetal.judge import rerun
from nearmetal.judge.verdict import Where
from nearmetal.model.remeasure import Remeasure
from nearmetal.results import Case, Database, Session

#: Case and sweep, by the case's identity.
Sweeps = dict[Where, tuple[Case, AnySweep]]


def run(arguments) -> int:
    """1 if a node, switch or link is slower than the others or failed, or if slots beside traffic
    were not done; else 2 if a second sweep cannot judge what the first one shows, or if the nodes
    are too few to name one; 0 otherwise."""
    refuse_same((arguments.json, arguments.openmetrics, arguments.nhc))
    if arguments.confirm:
        _write_unknown(arguments, "`nearmetal fleet --confirm` has not ended")
    try:
        session, found = _found(arguments)
    except Exception as error:
        _write_unknown(arguments, str(error) or repr(error))
        raise
    try:
        for one in found:
            print(render.text(one))
        for line in render.actions(found):
            print(line)
    finally:  # also if nobody reads the text
        write(arguments.json, lambda: render.document(session, found))
        write(arguments.openmetrics, lambda: render.openmetrics(session, found))
        write(arguments.nhc, lambda: render.nhc(found))
    if any(one.found or one.undone for one in found):
        return 1
    return 2 if any(one.unknown or one.too_few for one in found) else 0


def _write_unknown(arguments, why: str) -> None:
    """Files that say why nothing is known. Those of yesterday would say what may be wrong today."""
    none = Session("", "", arguments.system or "", ())
    write(arguments.json, lambda: render.document(none, [], why))
    write(arguments.openmetrics, lambda: render.openmetrics(none, []))


def _found(arguments) -> tuple[Session, list[Swept]]:
    """The session and its sweeps, after `--confirm` ran a second one."""
    session = session_of(arguments)
    sweeps = sweeps_of(session)
    if not sweeps:
        raise results.ResultsError(
            f"session {session.uuid} holds no sweep of all nodes. Fix: give a partition the "
            "feature fleet, and run `reframe -c reframe_checks -r -n fleet_links -n fleet_nodes`"
        )
    database = Database.of(arguments.database)
    if arguments.confirm:
        error = findings.error_of(one for _, one in sweeps.values())
        suspected = {
            where: Remeasure(one.repeats)
            for where, (_, one) in sweeps.items()
            if findings.of(one, error)
        }
        sweep_again(arguments, session, suspected, database)
    return session, swept(database, session, sweeps)


def sweeps_of(session: Session) -> Sweeps:
    """The cases of a session that hold a sweep. Raises SweepError."""
    read = ((case, findings.read(case)) for case in session.cases)
    return {case.where: (case, one) for case, one in read if one}


def swept(database: Database, session: Session, sweeps: Sweeps) -> list[Swept]:
    """The sweeps of a session, with what they show. Raises SweepError."""
    second: Sweeps = {}
    for one in results.confirmations(database, session):
        second |= sweeps_of(one)  # of a case that was swept again and again, the newest
    error = findings.error_of(one for _, one in sweeps.values())
    found = [
        judged(database, session, case, first, second[where][1] if where in second else None, error)
        for where, (case, first) in sweeps.items()
    ]
    return [replace(one, fabric=fabric.beside(one.case, sweeps)) for one in found]


def sweep_again(
    arguments, session: Session, wanted: Mapping[Where, Remeasure], database: Database
) -> None:
    """Run the sweeps again that show something. Raises ConfirmError if one is not stored."""
    if not wanted:
        return
    reframe = arguments.reframe or rerun.reframe_of(session, database)
    warn(f"a second sweep begins: {', '.join(' | '.join(where) for where in wanted)}")
    found = rerun.measure(session, wanted, database, reframe, arguments.within)
    newest = results.confirmations(database, session)[-1]
    stored = {case.where for case in newest.cases if case.of_fleet}
    for where in wanted:
        if where not in stored:
            raise rerun.ConfirmError(
                f"{' | '.join(where)} has no second sweep, so nothing is confirmed: "
                f"{found.get(where, 'ReFrame stored no result of it')}"
            )


def judged(
    database: Database,
    session: Session,
    case: Case,
    first: AnySweep,
    second: AnySweep | None,
    error: float,
) -> Swept:
    """What the sweep of a case shows and since when; after a second sweep, what both show."""
    seen = findings.of(first, error)
    after = findings.compared(first, second, error) if second else findings.Compared(seen, [])
    past = earlier(database, session, case)
    dated = findings.dated(after.found, session.started, past, error)
    gone = findings.vanished(seen, after)
    return Swept(case, first, dated, second is not None, gone, after.unknown)


def earlier(database: Database, session: Session, case: Case) -> Iterator[tuple[str, AnySweep]]:
    """Starts and sweeps of the same case before this session, the newest first.

    One that cannot be read is said and left out.
    """
    for past in results.sessions(database, newest_first=True):
        if not past.precedes(session):
            continue
        for one in past.cases:
            if one.where != case.where:
                continue
            try:
                swept_before = findings.read(one)
            except SweepError as error:
                warn(f"session {past.uuid} is left out: {error}")
                continue
            if swept_before:
                yield past.started, swept_before
