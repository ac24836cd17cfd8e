"""`nearmetal export`."""

from __future__ import annotations

import math
import sys

from nearmetal import results
from nearmetal.commands.common import newest_is_missing, refuse_same, seconds, write, write_parts
from nearmetal.results import ResultsError, export


def run(arguments) -> int:
    """2 if the newest session of a system is missing: what is exported is not all."""
    outputs = arguments.csv, arguments.parquet, arguments.openmetrics
    if not any(outputs):
        raise ResultsError("nothing to write. Fix: give --csv, --parquet or --openmetrics")
    refuse_same(outputs)
    systems = set(arguments.system or ())
    since = -math.inf
    if arguments.since is not None:
        since = seconds(arguments.since)
    sessions, stored, exported = [], set(), set()
    for session in results.sessions(arguments.database, kinds=("campaign", "duet")):
        if systems and session.system not in systems:
            continue
        stored.add(session.system)
        if session.time >= since:
            sessions.append(session)
            exported.add(session.system)
    missing = [name for name in sorted(stored) if newest_is_missing(arguments.database, name)]
    unknown = sorted(systems - stored)
    if unknown or not stored:
        # It raises, and names the known systems.
        results.load_session(arguments.database, *unknown[:1])
    absent = systems - exported
    if not sessions:
        absent = absent or stored
    if absent:
        raise ResultsError(
            f"no session on {', '.join(sorted(absent))} since {arguments.since}. "
            "Fix: give an earlier --since"
        )
    if arguments.csv or arguments.parquet:
        for name in export.absent(sessions, arguments.fact):
            print(f"nearmetal: no case has the fact {name}: its column is empty", file=sys.stderr)
        write_parts(arguments.csv, lambda: export.csv(export.parts(sessions, arguments.fact)))
        write(arguments.parquet, lambda: export.parquet(export.parts(sessions, arguments.fact)))
    write(arguments.openmetrics, lambda: export.openmetrics(sessions))
    return 2 if missing else 0
