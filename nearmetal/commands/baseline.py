"""`nearmetal baseline record`, `show` and `check`."""

from datetime import date
from pathlib import Path

from nearmetal import results
from nearmetal.commands.common import seconds, system_of, write
from nearmetal.errors import NearmetalError
from nearmetal.judge import baseline
from nearmetal.model.facts import changed_facts
from nearmetal.results import Session
from nearmetal.util.suggest import shorten
from nearmetal.util.text import number

HEADERS = (
    *("check", "partition", "environment", "variable", "value", "unit", "spread", "repeats"),
    *("sessions", "days", "span", "between repeats", "finds", "recorded"),
)


def record(arguments) -> int:
    """Write the baseline from some sessions, or its bounds anew."""
    # Not at the top: NumPy and SciPy, which `show` does not use.
    from nearmetal.judge import baseline_sessions, confirm
    from nearmetal.judge import record as recording
    from nearmetal.site.system import obsolete_keys

    _refuse_pairs(arguments)
    system = system_of(arguments)
    directory = arguments.directory or baseline.directory()
    path = baseline.path_of(system, directory)
    if arguments.only_bounds:
        return _write_bounds(system, directory)
    if arguments.form == "reframe":
        return _write_references(arguments, system, directory)
    left_out: list[str] = []
    before = baseline.Baseline(system, path, {})
    if arguments.add:
        before = baseline.load(system, directory)
        sessions, left_out = baseline_sessions.to_add(arguments.database, before, arguments.session)
    else:
        since = None
        if arguments.since:
            since = seconds(arguments.since)
        sessions = baseline_sessions.choose(arguments.database, system, arguments.session, since)
        if path.exists():
            before = baseline.load(system, directory, any_bounds=True)
    # What a confirmation refuted is no sample of a baseline.
    sessions = confirm.with_confirmations(sessions, arguments.database)
    after, notes = recording.record(
        sessions, before, arguments.leave_out_noisy or arguments.add, arguments.add
    )
    baseline.save(after)
    for note in [*left_out, *notes, *obsolete_keys(system)]:
        print(f"note: {note}")
    for warning in baseline_sessions.sick(system, sessions):
        print(f"warning: {warning}")
    ids = ", ".join(session.uuid[:8] for session in sessions)
    print(
        f"{path}: {len(after.entries)} cases, {after.variables} variables judged, "
        f"from {len(after.sessions)} sessions ({ids} {'added' if arguments.add else 'taken'}, "
        f"{sessions[0].started} to {sessions[-1].started}). "
        f"Read its diff and commit it with {system}.launches.json."
    )
    return 0


def _refuse_pairs(arguments) -> None:
    """Raise NearmetalError for an option that another one makes void."""
    of_references = arguments.form == "reframe"
    sessions = arguments.session or arguments.since
    for void, fault in [
        (arguments.session and arguments.since, "--session and --since: give one of them"),
        (arguments.add and arguments.since, "--add and --since: give --session with --add"),
        (arguments.output and not of_references, "--output is of --as reframe"),
        (arguments.only_bounds and sessions, "--only-bounds uses no session"),
        (arguments.only_bounds and arguments.add, "--only-bounds and --add: give one of them"),
    ]:
        if void:
            raise NearmetalError(f"{fault}. Fix: leave the other one out")


def _write_references(arguments, system: str, directory: Path) -> int:
    """Write references of ReFrame's from history, and no baseline."""
    # Not at the top: NumPy and SciPy.
    from nearmetal.judge import as_reframe, baseline_sessions

    since, sessions = 0.0, []
    if arguments.since:
        since = seconds(arguments.since)
    if arguments.session:
        sessions = baseline_sessions.choose(arguments.database, system, arguments.session)
    else:
        for session in results.sessions(arguments.database):
            if session.system == system and session.time >= since:
                sessions.append(session)
    entries, notes = as_reframe.entries(sessions)
    path = arguments.output or baseline.path_of(system, directory, ".references.yaml")
    write(path, lambda: as_reframe.text(system, entries, path))
    for note in notes:
        print(f"note: {note}")
    variables = sum(len(entry.values) for entry in entries.values())
    print(f"{path}: references of {variables} variables in {len(entries)} cases")
    return 0


def _write_bounds(system: str, directory: Path) -> int:
    """Write the references of a baseline anew, from its units and noise."""
    known = baseline.load(system, directory, any_bounds=True)
    baseline.save(known)
    print(
        f"{known.path}: the bounds of {len(known.entries)} cases are written anew, and nothing "
        "else. Read its diff and commit it."
    )
    return 0


def show(arguments) -> int:
    """Print the baseline, one row a variable."""
    from tabulate import tabulate

    known = baseline.load(system_of(arguments), arguments.directory)
    rows = []
    for key, entry in known.entries.items():
        for name in entry.noise:
            rows.append(_row(key, name, entry))
    print(tabulate(rows, HEADERS, disable_numparse=True))
    return 0


def _row(key: baseline.Key, name: str, entry: baseline.Entry) -> list:
    noise = entry.noise[name]
    between, finds = "-", "not judged"
    if noise.between is not None:
        between = f"{100 * noise.between:.0f} %"
    if noise.finds is not None:
        finds = f"{100 * noise.finds:.0f} %"
    return [
        *key,
        name,
        number(entry.values[name]),
        entry.units[name],
        f"{100 * noise.spread:.1f} %",
        noise.launches,
        len(entry.sessions),
        len(entry.by_day(name)),
        _span(entry),
        between,
        finds,
        entry.recorded,
    ]


def _span(entry: baseline.Entry) -> str:
    """Time between the first and the last session's start: `11 min`, `7 h` or `12 days`."""
    seconds = baseline.span_of(entry.sessions.values())
    if seconds is None:
        return "unknown"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 2 * 86400:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"


def check(arguments) -> int:
    """2 if an entry is stale, or the system changed since it was recorded."""
    from nearmetal.site.system import obsolete_keys

    known = baseline.load(system_of(arguments), arguments.directory)
    session = results.load_session(arguments.database, known.system)
    faults = [*_stale(known, arguments.days), *_changed(known, session)]
    for fault in faults:
        print(f"{known.path.name}: {fault}")
    for note in obsolete_keys(known.system):
        print(f"note: {note}")
    verdict, code = "valid, and the system is unchanged", 0
    if faults:
        verdict, code = "record it anew", 2
    print(
        f"{known.path}: {verdict}: {len(known.entries)} cases, "
        f"{known.variables} variables judged; facts of session {session.uuid}"
    )
    return code


def _stale(known: baseline.Baseline, days: int) -> list[str]:
    faults = []
    for key, entry in known.entries.items():
        age = (date.today() - date.fromisoformat(entry.recorded)).days
        if age > days:
            faults.append(f"{' | '.join(key)} was recorded on {entry.recorded}, {age} days ago")
    return faults


def _changed(known: baseline.Baseline, session: Session) -> list[str]:
    """Facts of the session that differ from the baseline's, each with some of its cases."""
    changes: dict[tuple, list[str]] = {}
    for case in session.cases:
        if not case.measured or case.key not in known.entries:
            continue
        facts = changed_facts(known.entries[case.key].facts, case.facts)
        for fact, (then, now) in facts.items():
            if fact not in baseline.MAY_DIFFER:
                changes.setdefault((fact, then, now), []).append(" | ".join(case.key))
    lines = []
    for (fact, then, now), cases in changes.items():
        lines.append(f"{fact} was {then} and is {now} ({shorten(cases)})")
    return lines
