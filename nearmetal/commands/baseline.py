"""`nearmetal baseline record`, `show` and `check`."""

from datetime import date
from pathlib import Path

from nearmetal import results
from nearmetal.choices import some
from nearmetal.commands.common import system_of
from nearmetal.compare import number
from nearmetal.facts import changed_facts
from nearmetal.gate import baseline
from nearmetal.results import Session

HEADERS = (
    "check",
    "partition",
    "environment",
    "variable",
    "value",
    "unit",
    "spread",
    "repeats",
    "sessions",
    "between repeats",
    "finds",
    "recorded",
)


def record(arguments) -> int:
    """Write the baseline from some sessions, or its bounds anew."""
    # Not at the top: NumPy and SciPy, which `show` does not use.
    from nearmetal.gate import record as recording
    from nearmetal.site import obsolete

    system = system_of(arguments)
    directory = arguments.directory or baseline.directory()
    path = directory / f"{system}.yaml"
    if arguments.only_bounds:
        return _write_bounds(system, directory)
    sessions = recording.choose(arguments.database, system, arguments.session)
    before = baseline.Baseline(system, path, {})
    if path.exists():
        before = baseline.load(system, directory, any_bounds=True)
    after, notes = recording.record(sessions, before, arguments.leave_out_noisy)
    baseline.save(after)
    for note in [*notes, *obsolete.obsolete(system)]:
        print(f"note: {note}")
    print(
        f"{path}: {len(after.entries)} cases, {after.variables} variables judged, "
        f"from {len(sessions)} sessions ({sessions[0].started} to {sessions[-1].started}). "
        f"Read its diff and commit it with {system}.launches.json."
    )
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
    rows = [_row(key, name, entry) for key, entry in known.entries.items() for name in entry.noise]
    print(tabulate(rows, HEADERS, disable_numparse=True))
    return 0


def _row(key: baseline.Key, name: str, entry: baseline.Entry) -> list:
    noise = entry.noise[name]
    return [
        *key,
        name,
        number(entry.values[name]),
        entry.units[name],
        f"{100 * noise.spread:.1f} %",
        noise.launches,
        len(entry.sessions),
        "-" if noise.between is None else f"{100 * noise.between:.0f} %",
        "not judged" if noise.finds is None else f"{100 * noise.finds:.0f} %",
        entry.recorded,
    ]


def check(arguments) -> int:
    """2 if an entry is stale, or the system changed since it was recorded."""
    from nearmetal.site import obsolete

    known = baseline.load(system_of(arguments), arguments.directory)
    session = results.load_session(arguments.database, known.system)
    faults = [*_stale(known, arguments.days), *_changed(known, session)]
    for fault in faults:
        print(f"{known.path.name}: {fault}")
    for note in obsolete.obsolete(known.system):
        print(f"note: {note}")
    verdict = "record it anew" if faults else "valid, and the system is unchanged"
    print(
        f"{known.path}: {verdict}: {len(known.entries)} cases, "
        f"{known.variables} variables judged; facts of session {session.uuid}"
    )
    return 2 if faults else 0


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
    return [
        f"{fact} was {then} and is {now} ({some(cases)})"
        for (fact, then, now), cases in changes.items()
    ]
