"""`nearmetal report`."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

from nearmetal import results
from nearmetal.commands.common import (
    newest_is_missing,
    of_each_system,
    sessions_of_system,
    warn,
    write,
)
from nearmetal.compare import published
from nearmetal.errors import NearmetalError
from nearmetal.fleet.swept import newest_sweeps
from nearmetal.judge import history
from nearmetal.judge.baseline import BaselineError
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.expected import numbers_of, read_partitions
from nearmetal.judge.like import Table, tables
from nearmetal.judge.verdict import GateReport, Verdict
from nearmetal.report import index, page
from nearmetal.results import Session


def run(arguments) -> int:
    """0 whatever the verdict: judging is `gate`'s task. 2 if the newest session is missing."""
    if arguments.all:
        return _every_system(arguments)
    systems = arguments.system or [None]
    if len(systems) > 1:
        raise results.ResultsError(
            f"a page is of one system, but {len(systems)} are given. Fix: write a page for each "
            "with --all DIRECTORY, or give --system once"
        )
    [arguments.system] = systems
    sessions = sessions_of_system(arguments)
    _, missing = _write(arguments, sessions, arguments.output)
    print(arguments.output.resolve())
    return 2 if missing else 0


def _every_system(arguments) -> int:
    """One page a system, and an index of them. 2 if the newest session of one is missing."""
    known = {session.system for session in results.sessions(arguments.database)}
    arguments.system = arguments.system or sorted(known)
    entries: list[index.Entry] = []

    def page_of(of_one) -> int:
        sessions = sessions_of_system(of_one)
        file = index.file_of(sessions[-1].system, [entry.file for entry in entries])
        report, missing = _write(of_one, sessions, arguments.all / file)
        entries.append(index.Entry(file, sessions, report))
        return 2 if missing else 0

    worst = of_each_system(arguments, page_of)
    save(arguments.all / "index.html", index.render(entries))
    print((arguments.all / "index.html").resolve())
    return worst


def _write(arguments, sessions: list[Session], path: Path) -> tuple[GateReport | None, str]:
    """Write the page of one system; returns the gate's report, and what is missing."""
    missing = newest_is_missing(arguments.database, sessions[-1].system)
    report = _report(arguments, sessions[-1], missing)
    changes, figures = history.change_points(sessions), published.load()
    numbers = functools.partial(numbers_of, sessions[-1].system)
    sweeps = newest_sweeps(arguments.database, sessions, warn)
    subject = sessions[-1] if report is None else report.session
    html = page.render(
        sessions, report, changes, figures, numbers=numbers, fleet=sweeps, like=_like(subject)
    )
    save(path, html)
    return report, missing


def _like(session: Session) -> list[Table]:
    """The session beside machines like it; [] where no file describes the system."""
    try:
        return tables(read_partitions(session.system), session)
    except NearmetalError:  # a note of the gate says it
        return []


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
        campaign = Campaign.of(session, arguments.database)
    except BaselineError as error:
        warn(f"not judged: {error}")
        return None
    report = campaign.verdicts()
    report = campaign.explained(report, campaign.on_other_nodes(report))
    report = report.noting(*arguments.database.notes())
    if missing:
        report = replace(report, verdicts=(Verdict.incomplete(missing), *report.verdicts))
    return report
