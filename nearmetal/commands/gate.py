"""`nearmetal gate`."""

import json
from dataclasses import replace

from nearmetal import history, results
from nearmetal.commands import judging
from nearmetal.commands.common import session_of, write
from nearmetal.errors import Incomplete
from nearmetal.gate import baseline, confirm, elsewhere, render, rerun, watch
from nearmetal.gate.verdict import GateReport
from nearmetal.results import Session


def run(arguments) -> int:
    """Judge a session, print the report and write it in the requested formats."""
    database = arguments.database
    session = session_of(arguments)
    known = judging.baseline_of(session.system)
    report = judging.judged(session, known, database)
    told: list[str] = []
    if known is not None:
        report = _confirmed(arguments, report, known)
        told += elsewhere.notes(report, known, database)
        told += history.sentences(_moved_since(known, session, database))
    elif arguments.confirm:
        raise Incomplete(
            f"{session.system} has no baseline to confirm changes against. Fix: `nearmetal "
            f"baseline record --system {session.system}`, or run without --confirm"
        )
    report = replace(report, notes=(*report.notes, *told, *database.notes()))
    try:
        print(render.table(report, arguments.all), flush=True)
    finally:  # the files are written even if nobody reads the table
        _write(arguments, report)
    return report.exit_code


def _write(arguments, report: GateReport) -> None:
    """The report in the requested formats."""
    write(arguments.json, lambda: json.dumps(render.document(report), indent=1) + "\n")
    write(arguments.junit, lambda: render.junit(report))
    write(arguments.markdown, lambda: render.markdown(report))
    write(arguments.openmetrics, lambda: render.openmetrics(report))


def _confirmed(arguments, report: GateReport, known: baseline.Baseline) -> GateReport:
    """The report after `--confirm` measured the suspicious cases again."""
    if not arguments.confirm:
        return report
    session, database = report.session, arguments.database
    partitions = judging.partitions_of(session.system)[0]
    reframe = arguments.reframe or rerun.reframe_of(session, database)

    def say(line: str) -> None:
        print(line, flush=True)

    _write(arguments, report)
    judge, fresh = (
        judging.by_baseline(session, known, database),
        confirm.fresh_samples(session, database),
    )
    again = confirm.measure_again(
        judge(fresh),
        judge,
        fresh,
        database,
        reframe,
        confirm.Bounds(arguments.most, arguments.rounds, arguments.within),
        say,
        arguments.confirm,
        lambda so_far: _write(arguments, judging.held(so_far, partitions)),
    )
    elsewhere.measure(again, database, reframe, _nodes(session.system), say)
    return judging.held(again, partitions)


def _nodes(system: str) -> dict[str, int]:
    """Number of nodes of the partitions whose extras say it."""
    numbers = judging.numbers_of(system)
    return {name: int(str(of["nodes"])) for name, of in numbers.items() if "nodes" in of}


def _moved_since(
    known: baseline.Baseline, session: Session, database: results.Database
) -> list[history.ChangePoint]:
    """Change points after the baseline's sessions, up to the judged session."""
    past = [
        one
        for one in results.sessions(database)
        if one.system == session.system and one.order <= session.order
    ]
    later = {one.uuid for one in watch.since(known, past)}
    return [point for point in history.change_points(past) if point.session in later]
