"""`nearmetal export`."""

from __future__ import annotations

import sys

from nearmetal import results
from nearmetal.commands.common import newest_is_missing, refuse_same, seconds, write, write_parts
from nearmetal.results import Database, ResultsError, Session, export


def run(arguments) -> int:
    """2 if the newest session of a system is missing: what is exported is not all."""
    outputs = [one for one in (arguments.csv, arguments.parquet, arguments.openmetrics) if one]
    if not outputs:
        raise ResultsError("nothing to write. Fix: give --csv, --parquet or --openmetrics")
    refuse_same(outputs)
    systems = set(arguments.system or ())
    here = [one for one in _sessions(arguments.database) if not systems or one.system in systems]
    found = [one for one in here if _recent(one, arguments.since)]
    stored = {one.system for one in here}
    missing = [name for name in sorted(stored) if newest_is_missing(arguments.database, name)]
    for unknown in sorted(systems - stored) or ([] if stored else [None]):
        results.load_session(arguments.database, unknown)  # raises, and names the known systems
    absent = systems - {one.system for one in found} or (set() if found else stored)
    if absent:
        raise ResultsError(
            f"no session on {', '.join(sorted(absent))} since {arguments.since}. "
            "Fix: give an earlier --since"
        )
    if arguments.csv or arguments.parquet:
        for name in export.absent(found, arguments.fact):
            print(f"nearmetal: no case has the fact {name}: its column is empty", file=sys.stderr)
        write_parts(arguments.csv, lambda: export.csv(export.parts(found, arguments.fact)))
        write(arguments.parquet, lambda: export.parquet(export.parts(found, arguments.fact)))
    write(arguments.openmetrics, lambda: export.openmetrics(found))
    return 2 if missing else 0


def _sessions(database: Database) -> list[Session]:
    return list(results.sessions(database, kinds=("campaign", "duet")))


def _recent(session: Session, since: str | None) -> bool:
    return since is None or session.time >= seconds(since)
