"""`nearmetal explain`."""

import json

from nearmetal.commands import judging
from nearmetal.commands.common import session_of, write
from nearmetal.explain import render
from nearmetal.gate.render import headline, subject


def run(arguments) -> int:
    """Judge a session as `nearmetal gate` does, and print what probably made it worse."""
    session = session_of(arguments)
    known = judging.baseline_of(session.system)
    report = judging.judged(session, known, arguments.database)
    report = judging.explained(report, known, arguments.database)
    print(f"{headline(report)}\n{subject(report)}\n\n{render.table(report)}")
    for note in report.notes:
        print(note)
    write(arguments.json, lambda: json.dumps(render.document(report), indent=1) + "\n")
    return report.exit_code
