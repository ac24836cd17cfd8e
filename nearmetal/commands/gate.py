"""`nearmetal gate`."""

import json
from dataclasses import replace

from nearmetal import history, results
from nearmetal.commands import judging
from nearmetal.commands.common import session_of, write
from nearmetal.errors import Incomplete
from nearmetal.gate import baseline, confirm, render
from nearmetal.gate.session import judge_session
from nearmetal.gate.verdict import GateReport
from nearmetal.results import Session


def run(arguments) -> int:
    """Judge a session, print the report and write it in the requested formats."""
    database = arguments.database
    session = session_of(arguments)
    known = judging.baseline_of(session.system)
    report = judging.judged(session, known, database)
    moved: list[str] = []
    if known is not None:
        report = _confirmed(arguments, report, known)
        moved = history.sentences(_moved_since(known, session, database))
    elif arguments.confirm:
        raise Incomplete(
            f"{session.system} has no baseline to confirm changes against. Fix: `nearmetal "
            f"baseline record --system {session.system}`, or run without --confirm"
        )
    report = replace(report, notes=(*report.notes, *moved, *database.notes()))
    try:
        print(render.table(report, arguments.all), flush=True)
    finally:  # the files are written even if nobody reads the table
        write(arguments.json, lambda: json.dumps(render.document(report), indent=1) + "\n")
        write(arguments.junit, lambda: render.junit(report))
        write(arguments.markdown, lambda: render.markdown(report))
        write(arguments.openmetrics, lambda: render.openmetrics(report))
    return report.exit_code


def _confirmed(arguments, report: GateReport, known: baseline.Baseline) -> GateReport:
    """The report after `--confirm` measured the suspicious cases again."""
    if not arguments.confirm:
        return report
    session, database = report.session, arguments.database
    again = confirm.measure_again(
        judge_session(session, known, fresh := confirm.fresh_samples(session, database)),
        known,
        fresh,
        database,
        arguments.reframe or confirm.reframe_of(session, database),
        arguments.most,
        lambda line: print(line, flush=True),
        arguments.confirm,
    )
    return judging.held(again, judging.partitions_of(session.system)[0])


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
