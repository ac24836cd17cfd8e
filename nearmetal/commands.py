"""What each command of `nearmetal` does with its arguments; every function returns the exit code."""

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

from tabulate import tabulate

from nearmetal import compare, duet, files, history, progress, published, results
from nearmetal.gate import baseline, confirm, record
from nearmetal.gate import render as verdicts
from nearmetal.gate import session as gate
from nearmetal.report import page as report
from nearmetal.results import Session
from nearmetal.site import obsolete as site


class Incomplete(Exception):
    """What was asked for can't be known; the message says what is missing."""


def compare_partitions(arguments) -> int:
    session = _one_session(arguments)
    columns = compare.columns(session, arguments.columns)
    if not columns:
        raise Incomplete(
            "\n".join(
                [
                    f"session {session.uuid} holds no value: all of its cases failed:",
                    *compare.failed(session),
                ]
            )
        )
    text, missing = compare.render(session, columns, arguments.spread)
    print(text)
    for line in missing:
        print(f"missing: {line}", file=sys.stderr)
    return 2 if missing else 0


def show_progress(arguments) -> int:
    # A job may write bytes that are no text.
    if hasattr(sys.stdin, "reconfigure"):
        sys.stdin.reconfigure(errors="replace")
    try:
        shares = progress.profile(results.load_session(arguments.database, arguments.system))
    except results.ResultsError:
        shares = []  # the first campaign
    return progress.follow(sys.stdin, shares)


def judge_duet(arguments) -> int:
    session = duet.load(arguments.database, arguments.system, arguments.session)
    _since(session, arguments)
    text, missing, code = duet.run(session)
    print(text)
    for line in missing:
        print(f"missing: {line}", file=sys.stderr)
    return code


def record_baseline(arguments) -> int:
    system = arguments.system or results.load_session(arguments.database).system
    where = arguments.directory or baseline.directory()
    path = where / f"{system}.yaml"
    if arguments.only_bounds:
        return _write_bounds(system, where)
    sessions = record.choose(arguments.database, system, arguments.session)
    before = baseline.Baseline(system, path, {})
    if path.exists():
        before = baseline.load(system, where, any_bounds=True)
    after, notes = record.record(sessions, before, arguments.leave_out_noisy)
    baseline.save(after)
    for note in [*notes, *site.obsolete(system)]:
        print(f"note: {note}")
    print(
        f"{path}: {len(after.entries)} cases, {after.variables} variables judged, from {len(sessions)} sessions "
        f"({sessions[0].started} to {sessions[-1].started}). Read its diff and commit it with {system}.launches.json."
    )
    return 0


def _write_bounds(system: str, where: Path) -> int:
    """Writes the references of a baseline anew, from the units and noise that it holds."""
    known = baseline.load(system, where, any_bounds=True)
    baseline.save(known)
    print(
        f"{known.path}: the bounds of {len(known.entries)} cases are written anew, and nothing else. "
        "Read its diff and commit it."
    )
    return 0


def show_baseline(arguments) -> int:
    known = baseline.load(_system(arguments), arguments.directory)
    rows = [
        [
            *key,
            name,
            compare.number(entry.values[name]),
            entry.units[name],
            f"{100 * noise.spread:.1f} %",
            noise.launches,
            len(entry.sessions),
            "-" if noise.between is None else f"{100 * noise.between:.0f} %",
            "not judged" if noise.finds is None else f"{100 * noise.finds:.0f} %",
            entry.recorded,
        ]
        for key, entry in known.entries.items()
        for name, noise in entry.noise.items()
    ]
    print(
        tabulate(
            rows,
            [
                "check",
                "partition",
                "environment",
                "variable",
                "value",
                "unit",
                "spread",
                "launches",
                "sessions",
                "between launches",
                "finds",
                "recorded",
            ],
            disable_numparse=True,
        )
    )
    return 0


def check_baseline(arguments) -> int:
    """2 where an entry is stale or the system is another than it was recorded on."""
    known = baseline.load(_system(arguments), arguments.directory)
    faults = [
        f"{' | '.join(key)} was recorded on {entry.recorded}, {age} days ago"
        for key, entry in known.entries.items()
        if (age := (date.today() - date.fromisoformat(entry.recorded)).days) > arguments.days
    ]
    session = results.load_session(arguments.database, known.system)
    changes: dict[tuple, list[str]] = {}
    for case in session.cases:
        if case.measured and case.key in known.entries:
            for fact, (then, now) in gate.changed_facts(
                known.entries[case.key].facts, case.facts
            ).items():
                if fact not in record.MAY_DIFFER:
                    changes.setdefault((fact, then, now), []).append(" | ".join(case.key))
    faults += [
        f"{fact} was {then} and is {now} ({verdicts.some(where)})"
        for (fact, then, now), where in changes.items()
    ]
    for fault in faults:
        print(f"{known.path.name}: {fault}")
    for note in site.obsolete(known.system):
        print(f"note: {note}")
    print(
        f"{known.path}: {'record it anew' if faults else 'valid, and of the system as it is'}: {len(known.entries)} cases, "
        f"{known.variables} variables judged; facts of session {session.uuid}"
    )
    return 2 if faults else 0


def gate_session(arguments) -> int:
    session = _one_session(arguments)
    known = baseline.load(session.system)
    fresh = confirm.known_fresh(session, arguments.database)
    judged = gate.judge_session(session, known, fresh)
    if arguments.confirm:
        reframe = arguments.reframe or confirm.reframe_of(session, arguments.database)
        judged = confirm.confirm(
            judged,
            known,
            fresh,
            arguments.database,
            reframe,
            arguments.most,
            lambda line: print(line, flush=True),
            arguments.confirm,
        )
    moved = history.told(_moved_since(known, session, arguments.database))
    judged = replace(judged, notes=(*judged.notes, *moved, *arguments.database.notes()))
    try:
        print(verdicts.table(judged, arguments.all), flush=True)
    finally:  # also where nobody reads the table any more
        write(arguments.json, lambda: json.dumps(verdicts.document(judged), indent=1) + "\n")
        write(arguments.junit, lambda: verdicts.junit(judged))
        write(arguments.markdown, lambda: verdicts.markdown(judged))
        write(arguments.openmetrics, lambda: verdicts.openmetrics(judged))
    return judged.exit_code


def _moved_since(
    known: baseline.Baseline, session: Session, database: results.Database
) -> list[history.ChangePoint]:
    """Change points after the baseline's sessions, up to the one that is judged."""
    past = [
        one
        for one in results.sessions(database)
        if one.system == session.system and one.order <= session.order
    ]
    recorded = {uuid for entry in known.entries.values() for uuid in entry.sessions}
    last = max((at for at, one in enumerate(past) if one.uuid in recorded), default=-1)
    later = {one.uuid for one in past[last + 1 :]}
    if last < 0:  # the baseline is of another database
        started = (when for entry in known.entries.values() for when in entry.sessions.values())
        before = max(started, default="")
        later = {one.uuid for one in past if one.started > before}
    return [point for point in history.change_points(past) if point.session in later]


def show_history(arguments) -> int:
    found = list(_of_system(arguments))
    print(history.render(found, history.change_points(found)))
    return 2 if _newest_is_missing(arguments, found[-1].system) else 0


def write_report(arguments) -> int:
    """0 whatever the verdict, which the page shows: judging is `gate`'s. 2 where the newest session is missing."""
    found = list(_of_system(arguments))
    missing = _newest_is_missing(arguments, found[-1].system)
    try:
        judged = gate.judge_session(
            found[-1],
            baseline.load(found[-1].system),
            confirm.known_fresh(found[-1], arguments.database),
        )
        judged = replace(judged, notes=(*judged.notes, *arguments.database.notes()))
        if missing:
            lacking = gate.Judged("", "", "", "", "", "incomplete", reason=missing)
            judged = replace(judged, judged=(lacking, *judged.judged))
    except baseline.BaselineError as error:
        print(f"nearmetal: not judged: {error}", file=sys.stderr)
        judged = None
    report.write(arguments.output, found, judged, history.change_points(found), published.load())
    print(arguments.output.resolve())
    return 2 if missing else 0


def _newest_is_missing(arguments, system: str) -> str:
    """A sentence, printed too, where the newest run on the system is not stored or cannot be read; else empty."""
    try:
        results.newest(arguments.database, system)
    except results.NewestError as error:
        print(f"nearmetal: incomplete: {error}", file=sys.stderr)
        return str(error)
    return ""


def _of_system(arguments) -> Iterator[Session]:
    """All sessions of one system, in the order of their storage. Raises ResultsError."""
    system = _system(arguments)
    found = False
    for session in results.sessions(arguments.database):
        if session.system == system:
            found = True
            yield session
    if not found:
        results.load_session(arguments.database, system)


def write(path: Path | None, text) -> None:
    if path:
        files.write(path, text())


def _system(arguments) -> str:
    return arguments.system or results.load_session(arguments.database).system


def _one_session(arguments) -> Session:
    session = results.load_session(arguments.database, arguments.system, arguments.session)
    _since(session, arguments)
    return session


def _since(session: Session, arguments) -> None:
    """Raises Incomplete unless the session surely started after `--since`."""
    if not arguments.since:
        return
    if session.time < _seconds(arguments.since):
        raise Incomplete(
            f"no session on {arguments.system or 'any system'} since {arguments.since}: the newest is {session.uuid} "
            f"of {session.started}. Did the selection match nothing, or ReFrame end before it ran?"
        )
    if session.ahead:
        raise Incomplete(
            f"session {session.uuid} started at {session.started}, which is ahead of now: whether that was since "
            f"{arguments.since} is not known. Fix: set the clock and run again, or leave out --since"
        )


def _seconds(text: str) -> float:
    """Raises ResultsError: neither seconds since 1970 nor an ISO date."""
    try:
        return (
            float(text)
            if text.replace(".", "", 1).isdecimal()
            else datetime.fromisoformat(text).timestamp()
        )
    except (ValueError, OverflowError):
        raise results.ResultsError(
            f"--since {text}: give seconds since 1970 (`date +%s`) or a date and time such as "
            "2026-11-21T02:00"
        ) from None
