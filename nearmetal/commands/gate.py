"""`nearmetal gate`."""

import json
from dataclasses import replace

from nearmetal import history, results
from nearmetal.commands.common import session_of, write
from nearmetal.gate import baseline, confirm, render
from nearmetal.gate.session import judge_session
from nearmetal.gate.verdict import GateReport
from nearmetal.results import Session


def run(arguments) -> int:
    """Judge a session, print the report and write it in the requested formats."""
    database = arguments.database
    session = session_of(arguments)
    known = baseline.load(session.system)
    report = _judged(arguments, session, known)
    moved = history.sentences(_moved_since(known, session, database))
    report = replace(report, notes=(*report.notes, *moved, *database.notes()))
    try:
        print(render.table(report, arguments.all), flush=True)
    finally:  # the files are written even if nobody reads the table
        write(arguments.json, lambda: json.dumps(render.document(report), indent=1) + "\n")
        write(arguments.junit, lambda: render.junit(report))
        write(arguments.markdown, lambda: render.markdown(report))
        write(arguments.openmetrics, lambda: render.openmetrics(report))
    return report.exit_code


def _judged(arguments, session: Session, known: baseline.Baseline) -> GateReport:
    """The report on a session, after `--confirm` measured the suspicious cases again."""
    database = arguments.database
    fresh = confirm.fresh_samples(session, database)
    report = judge_session(session, known, fresh)
    if not arguments.confirm:
        return report
    return confirm.measure_again(
        report,
        known,
        fresh,
        database,
        arguments.reframe or confirm.reframe_of(session, database),
        arguments.most,
        lambda line: print(line, flush=True),
        arguments.confirm,
    )


def _moved_since(
    known: baseline.Baseline, session: Session, database: results.Database
) -> list[history.ChangePoint]:
    """Change points after the baseline's sessions, up to the judged session."""
    past = [
        one
        for one in results.sessions(database)
        if one.system == session.system and one.order <= session.order
    ]
    recorded = known.sessions
    last = max((at for at, one in enumerate(past) if one.uuid in recorded), default=-1)
    later = {one.uuid for one in past[last + 1 :]}
    if last < 0:  # the baseline is of another database
        before = max(recorded.values(), default="")
        later = {one.uuid for one in past if one.started > before}
    return [point for point in history.change_points(past) if point.session in later]
