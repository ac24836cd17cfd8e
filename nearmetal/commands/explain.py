"""`nearmetal explain`."""

import json

from nearmetal.commands import judging
from nearmetal.commands.common import session_of, write
from nearmetal.judge.explain import render
from nearmetal.judge.render import headline, subject, together
from nearmetal.judge.verdict import GateReport


def run(arguments) -> int:
    """Judge a session as `nearmetal gate` does, and print what probably made it worse."""
    reports: list[GateReport] = []
    return judging.of_each(
        arguments,
        reports,
        lambda one: _of_system(one, reports),
        lambda code: _write(arguments, reports, code),
    )


def _write(arguments, reports: list[GateReport], code: int) -> None:
    whole = together(list(map(render.document, reports)), code)
    write(arguments.json, lambda: json.dumps(whole, indent=1) + "\n")


def _of_system(arguments, reports: list[GateReport]) -> int:
    """Print the causes on one system, and add its report."""
    session = session_of(arguments)
    known = judging.baseline_of(session.system)
    report = judging.judged(session, known, arguments.database)
    report = judging.explained(report, known, arguments.database)
    reports.append(report)
    print(f"{headline(report)}\n{subject(report)}\n\n{render.table(report)}")
    for note in report.notes:
        print(note)
    return report.exit_code
