"""`nearmetal report`."""

import functools
import sys
from dataclasses import replace
from pathlib import Path

from nearmetal import history, published
from nearmetal.commands import judging
from nearmetal.commands.common import newest_is_missing, sessions_of_system, write
from nearmetal.gate import baseline
from nearmetal.gate.verdict import GateReport, Verdict
from nearmetal.report import page
from nearmetal.results import Session


def run(arguments) -> int:
    """0 whatever the verdict: judging is `gate`'s task. 2 if the newest session is missing."""
    sessions = sessions_of_system(arguments)
    missing = newest_is_missing(arguments, sessions[-1].system)
    report = _report(arguments, sessions[-1], missing)
    changes, figures = history.change_points(sessions), published.load()
    numbers = functools.partial(judging.numbers_of, sessions[-1].system)
    save(arguments.output, page.render(sessions, report, changes, figures, numbers=numbers))
    print(arguments.output.resolve())
    return 2 if missing else 0


def save(path: Path, html: str) -> None:
    """Write the page. Raises ReportError."""
    try:
        write(path, lambda: html)
    except OSError as error:
        raise page.ReportError(
            f"{path}: the report cannot be written there ({error.strerror or error}). "
            "Fix: give another file with --output"
        ) from error


def _report(arguments, session: Session, missing: str) -> GateReport | None:
    """The gate's report on the session; None, with a note on stderr, if the baseline is damaged."""
    try:
        known = judging.baseline_of(session.system)
    except baseline.BaselineError as error:
        print(f"nearmetal: not judged: {error}", file=sys.stderr)
        return None
    report = judging.judged(session, known, arguments.database)
    report = replace(report, notes=(*report.notes, *arguments.database.notes()))
    if missing:
        lacking = Verdict("", "", "", "", "", "incomplete", reason=missing)
        report = replace(report, verdicts=(lacking, *report.verdicts))
    return report
