"""`nearmetal fleet`."""

from __future__ import annotations

from nearmetal import results
from nearmetal.commands.common import refuse_same, session_of, warn, write
from nearmetal.fleet import render
from nearmetal.fleet.render import Swept
from nearmetal.fleet.swept import suspected, sweep_again, sweeps_of, swept
from nearmetal.judge import rerun
from nearmetal.results import Database, Session


def run(arguments) -> int:
    """1 if a node, switch or link is slower than the others or failed, or if slots beside traffic
    were not done; else 2 if a second sweep cannot judge what the first one shows, or if the nodes
    are too few to name one; 0 otherwise."""
    refuse_same((arguments.json, arguments.openmetrics, arguments.nhc))
    if arguments.confirm:
        _write_unknown(arguments, "`nearmetal fleet --confirm` has not ended")
    try:
        session, sweeps = _sweeps(arguments)
    except Exception as error:
        _write_unknown(arguments, str(error) or repr(error))
        raise
    try:
        for swept_case in sweeps:
            print(render.text(swept_case))
        for line in render.actions(sweeps):
            print(line)
    finally:  # also if nobody reads the text
        write(arguments.json, lambda: render.document(session, sweeps))
        write(arguments.openmetrics, lambda: render.openmetrics(session, sweeps))
        write(arguments.nhc, lambda: render.nhc(sweeps))
    code = 0
    for swept_case in sweeps:
        if swept_case.found or swept_case.undone:
            return 1
        if swept_case.unknown or swept_case.too_few:
            code = 2
    return code


def _write_unknown(arguments, why: str) -> None:
    """Files that say why nothing is known. Those of yesterday would say what may be wrong today."""
    none = Session("", "", arguments.system or "", ())
    write(arguments.json, lambda: render.document(none, [], why))
    write(arguments.openmetrics, lambda: render.openmetrics(none, []))


def _sweeps(arguments) -> tuple[Session, list[Swept]]:
    """The session and its sweeps, after `--confirm` ran a second one."""
    session = session_of(arguments)
    sweeps = sweeps_of(session)
    if not sweeps:
        raise results.ResultsError(
            f"session {session.uuid} holds no sweep of all nodes. Fix: give a partition the "
            "feature fleet, and run `reframe -c reframe_checks -r -n fleet_links -n fleet_nodes`"
        )
    database = Database.of(arguments.database)
    if arguments.confirm and (wanted := suspected(sweeps)):
        reframe = arguments.reframe or rerun.reframe_of(session, database)
        warn(f"a second sweep begins: {', '.join(map(' | '.join, wanted))}")
        sweep_again(session, wanted, database, reframe, arguments.within)
    return session, swept(database, session, sweeps, warn)
