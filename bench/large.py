"""Seconds and memory of the commands on large databases: `make bench-large`.

Two kinds of sessions are made up: many cases of a check, and one check on each of many nodes, as
with `--distribute`. The last row exports a million values. User seconds count: others may use the
machine, too.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from tests.support import large_database

#: Kind of sessions -> numbers of cases.
COUNTS = {"cases": (1000, 2000, 4000), "nodes": (2500, 5000, 10_000)}
OF = {"cases": large_database.of_cases, "nodes": large_database.of_nodes}
RECORD = ("baseline", "record", "--system", "lab", "--leave-out-noisy")
COMMANDS = (("compare",), ("gate",), ("report", "--output", "report.html"), RECORD)
EXPORTS = (("export", "--csv", "samples.csv"), ("export", "--parquet", "samples.parquet"))
SESSIONS, VALUES = 3, 1_000_000
#: Promise: most memory of the export of VALUES.
MOST_MB = 500.0
HEAD = ["command", "sessions of", "cases", "user s", "wall s", "MB", "exit code"]


def measured(words: Sequence[str], database: Path) -> tuple[float, float, float, int]:
    """User seconds, wall seconds, MB and exit code of a command."""
    command = [sys.executable, "-m", "nearmetal", *words, "--database", str(database)]
    where, began = database.parent, time.monotonic()
    environment = {**os.environ, "RFM_REFERENCE_PREFIX": str(where)}
    with open(os.devnull, "w") as nowhere:
        started = subprocess.Popen(
            command, cwd=where, env=environment, stdout=nowhere, stderr=nowhere
        )
        _, status, used = os.wait4(started.pid, 0)
    seconds = time.monotonic() - began
    return used.ru_utime, seconds, used.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)


def rows_of(kind: str, count: int):
    """A row of each command over sessions of so many cases."""
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "results.db"
        large_database.of_sessions(database, SESSIONS, OF[kind](count))
        for words in COMMANDS:
            if words != RECORD or kind != "nodes":  # a baseline is of partitions
                yield [words[0], kind, count, *measured(words, database)]


def rows_of_exports():
    """A row of each table of VALUES."""
    with tempfile.TemporaryDirectory() as directory:
        database = Path(directory) / "results.db"
        large_database.large(database, VALUES, 5)
        for words in EXPORTS:
            yield [" ".join(words[:2]), "values", VALUES, *measured(words, database)]


def main(arguments=None) -> int:
    """1 if an export needs more memory than promised."""
    parser = argparse.ArgumentParser(
        prog="large", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(arguments)
    rows = [
        row for kind, counts in COUNTS.items() for count in counts for row in rows_of(kind, count)
    ]
    exports = list(rows_of_exports())
    print(tabulate([*rows, *exports], HEAD, floatfmt=".1f"))
    beyond = [row[0] for row in exports if row[5] > MOST_MB]
    for name in beyond:
        print(f"{name}: more than {MOST_MB:.0f} MB", file=sys.stderr)
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
