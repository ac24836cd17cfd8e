"""`nearmetal gate`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace

from nearmetal import results
from nearmetal.commands import judging
from nearmetal.commands.common import refuse_same, session_of, warn, write
from nearmetal.judge import (
    alpha_weights,
    baseline,
    confirm,
    history,
    other_nodes,
    pooled,
    render,
    rerun,
)
from nearmetal.judge.verdict import GateReport
from nearmetal.results import Session

#: Seconds that the command of --alert may take.
PATIENCE = 60


def run(arguments) -> int:
    """Judge a session of each system, print the reports and write them in the requested formats."""
    outputs = arguments.json, arguments.junit, arguments.markdown, arguments.openmetrics
    refuse_same(outputs)
    reports: list[GateReport] = []
    code = judging.of_each(
        arguments,
        reports,
        lambda one: _of_system(one, reports),
        lambda code: _write(arguments, reports, code),
        lambda code: _alert(arguments.alert, reports, code),
    )
    _alert(arguments.alert, reports, code)
    if arguments.confirm and not reports[0].confirmed:
        system = reports[0].session.system
        warn(
            f"{system} has no baseline to confirm changes against, so nothing was measured again. "
            f"Fix: `nearmetal baseline record --system {system}`"
        )
    return code


def _of_system(arguments, reports: list[GateReport]) -> int:
    """Judge a session of one system, add its report to the others, and print it."""
    database = arguments.database
    chosen = alpha_weights.AlphaWeights.of(arguments.only, arguments.weight)
    session = session_of(arguments)
    known = judging.baseline_of(session.system)
    session = chosen.of_session(session, known)
    if known is not None:
        known = chosen.of_baseline(known)
    report = judging.judged(session, known, database)
    told = list(filter(None, [chosen.note(known)]))
    fault: rerun.ConfirmError | None = None
    if known is not None:
        try:
            report = _confirmed(arguments, report, known)
        except rerun.ConfirmError as error:
            fault = error
        told += other_nodes.notes(report, known, database)
        moved = _moved_since(known, session, database)
        told += history.sentences(
            [point for point in moved if chosen.selects(point.check, point.variable)]
        )
    report = judging.explained_if_possible(report, known, database)
    report = replace(report, notes=(*report.notes, *told, *database.notes()))
    if reports:
        print()
    reports.append(report)
    print(render.table(report, arguments.all), flush=True)
    if fault:
        raise fault
    return report.exit_code


def _write(arguments, reports: list[GateReport], code: int) -> None:
    """The reports in the requested formats.

    :arg code: the exit code of the command.
    """
    # The command's code says more than the verdict: an error may have ended the command.
    reports = [replace(one, ended=code) for one in reports] if len(reports) == 1 else reports
    write(arguments.json, lambda: _document(reports, code))
    write(arguments.junit, lambda: render.junit(reports))
    write(arguments.markdown, lambda: "\n".join(map(render.markdown, reports)))
    write(arguments.openmetrics, lambda: render.openmetrics(reports, judging.numbers_of))


def _write_unconfirmed(arguments, report: GateReport) -> None:
    """The report on the way. These files stay if the command is killed before its end."""
    _write(arguments, [report], report.exit_code)


def _document(reports: list[GateReport], code: int) -> str:
    documents = list(map(render.document, reports))
    return json.dumps(render.together(documents, code), indent=1) + "\n"


def _alert(command: list[str] | None, reports: list[GateReport], code: int) -> None:
    """Run the command of --alert with the JSON document on its stdin, unless all is clean. Its
    failure is told, and leaves the gate's exit code as it is."""
    if not command or code == 0:
        return
    try:
        done = subprocess.run(command, input=_document(reports, code), text=True, timeout=PATIENCE)
        fault = f"it ended with {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired:
        fault = f"it took more than {PATIENCE} s"
    except OSError as error:
        fault = str(error)
    if fault:
        print(
            f"nearmetal: the command of --alert failed: {fault}. Fix: run it by hand with a file "
            "of `nearmetal gate --json` on its stdin",
            file=sys.stderr,
        )


def _confirmed(arguments, report: GateReport, known: baseline.Baseline) -> GateReport:
    """The report after `--confirm` measured the suspicious cases again."""
    if not arguments.confirm:
        return report
    session, database = report.session, arguments.database
    expected = judging.expectations_of(session.system)
    reframe = arguments.reframe or rerun.reframe_of(session, database)

    def say(line: str) -> None:
        print(line, flush=True)

    _write_unconfirmed(arguments, report)
    began = time.monotonic()
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
        lambda so_far: _write_unconfirmed(arguments, expected.held(so_far)),
    )
    left = arguments.within and arguments.within - (time.monotonic() - began)
    other_nodes.measure(again, database, reframe, _nodes(session.system), say, left)
    return expected.held(again)


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
    later = {one.uuid for one in pooled.since(known, past)}
    found = history.change_points(past)
    judged = {case.where for case in session.cases}
    return [
        point
        for point in found
        if point.session in later
        or (point.creeps and (point.check, point.partition, point.environ) in judged)
    ]
