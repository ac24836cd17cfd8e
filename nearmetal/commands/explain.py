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
    code = of_each_system(
        arguments,
        lambda one: _of_system(one, reports),
        lambda system, error: reports.append(judging.not_judged(system, error)),
    )
    whole = together(list(map(render.document, reports)), code)
    write(arguments.json, lambda: json.dumps(whole, indent=1) + "\n")
    return code


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
