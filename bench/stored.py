"""By how much evidence makes the stored sessions grow.

    make bench-stored DATABASE=results/results.db

Prints bytes of each session in ReFrame's database: as stored, and without what the checks record
of disturbances (`evidence`, `disturbed`, `unknown_evidence`).
"""

import argparse
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import orjson
from tabulate import tabulate

from nearmetal.util import own

KEYS = ("evidence", "disturbed", "unknown_evidence")
HEAD = ["session", "cases", "repeats", "bytes", "without evidence", "growth", "bytes a repeat"]


def without_evidence(session: dict) -> dict:
    """The session without what its cases store of disturbances."""
    return {
        **session,
        "runs": [
            {**run, "testcases": [_without(case) for case in run["testcases"]]}
            for run in session["runs"]
        ],
    }


def _without(case: dict) -> dict:
    return {key: value for key, value in case.items() if key not in KEYS}


def row(session: dict) -> list:
    """Sizes of a session, both as ReFrame writes JSON without blanks."""
    cases = [case for run in session["runs"] for case in run["testcases"]]
    evidence = [case["evidence"] for case in cases if isinstance(case.get("evidence"), dict)]
    repeats = sum(max(map(len, one.values()), default=0) for one in evidence)
    whole, bare = (len(orjson.dumps(one)) for one in (session, without_evidence(session)))
    return [
        session["session_info"]["uuid"],
        len(cases),
        repeats,
        whole,
        bare,
        f"{100 * (whole - bare) / bare:.1f} %",
        f"{(whole - bare) / repeats:.0f}" if repeats else "-",
    ]


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(
        prog="stored", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("database", type=Path)
    database = parser.parse_args(arguments).database
    own.become_owner([database])
    if not database.is_file():
        parser.error(f"{database} is no file")
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT json_blob FROM sessions ORDER BY rowid").fetchall()
    print(tabulate([row(orjson.loads(blob)) for (blob,) in found], HEAD, disable_numparse=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
