"""`nearmetal explain`."""

import json

from nearmetal.commands import judging
from nearmetal.commands.common import of_each_system, session_of, write
from nearmetal.explain import render
from nearmetal.gate.render import headline, subject, together
from nearmetal.gate.verdict import GateReport


def run(arguments) -> int:
    """Judge a session as `nearmetal gate` does, and print what probably made it worse."""
    reports: list[GateReport] = []
    try:
        code = of_each_system(
            arguments,
            lambda one: _of_system(one, reports),
            lambda system, error: reports.append(judging.not_judged(system, error)),
        )
    except Exception as error:  # a file of yesterday would say what is not known today
        report = judging.not_judged((arguments.system or [""])[0], error)
        _write(arguments, [report], getattr(error, "exit_code", 3))
        raise
    _write(arguments, reports, code)
    return code


def _write(arguments, reports: list[GateReport], code: int) -> None:
    whole = together(list(map(render.document, reports)), code)
    write(arguments.json, lambda: json.dumps(whole, indent=1) + "\n")


def _of_system(arguments, reports: list[GateReport]) -> int:
    """Print the causes on one system, and add its report."""
    session = session_of(arguments)
    known = judging.baseline_of(session.system)
    report = judging.judged(session, known, arguments.database)
    report = judging.explained(report, known, arguments.database)
    print(f"{headline(report)}\n{subject(report)}\n\n{render.table(report)}")
    for note in report.notes:
        print(note)
    reports.append(report)
    return report.exit_code
