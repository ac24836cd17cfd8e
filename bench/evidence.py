"""What recording evidence costs a program, in pairs: alone, and with a record before and after it.

    python -m bench.evidence --pairs 50 --value 'Mop/s total *= *([0-9.]+)' -- mpirun ./cg.S.x

A record is what a check takes around each repeat (src/provenance.sh counters). The compared value
is the program's own, as in a check. The order within a pair alternates. Run it on a quiet machine,
where the program's MPI is on PATH (in the lab: `make lab-exec`).
"""

import argparse
import math
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from nearmetal.stats import ranks

SCRIPT = Path(__file__).parents[1] / "reframe_checks" / "src" / "provenance.sh"
#: Largest difference that is none, as a fraction.
ALLOWED = 0.01


def record() -> float:
    """Seconds that one record takes."""
    start = time.perf_counter()
    subprocess.run(["sh", SCRIPT, "counters"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def launch(program: list[str], value: re.Pattern, recorded: bool, records: list[float]) -> float:
    """The program's value, of one launch. Raises SystemExit without one."""
    if recorded:
        records.append(record())
    text = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout
    if recorded:
        records.append(record())
    found = value.search(text)
    if not found:
        raise SystemExit(f"evidence: {value.pattern!r} matches nothing that the program printed")
    return float(found[1])


def main(arguments=None) -> int:
    """Exit code: 0 the cost is below ALLOWED, 1 it is not, 2 the pairs do not tell."""
    parser = argparse.ArgumentParser(
        prog="evidence", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=50)
    parser.add_argument("--value", type=re.compile, required=True, help="its group is the value")
    parser.add_argument("program", nargs="+")
    options = parser.parse_args(arguments)
    if options.pairs < 2:
        parser.error("--pairs must be at least 2")
    records: list[float] = []
    logs, values = [], set()
    for number in range(options.pairs):
        both = {}
        for recorded in (False, True) if number % 2 == 0 else (True, False):
            both[recorded] = launch(options.program, options.value, recorded, records)
        logs.append(math.log(both[True] / both[False]))
        values |= set(both.values())
    if len(values) == 1:
        raise SystemExit(
            f"evidence: {options.value.pattern!r} gave {values.pop()} in all launches: it matches "
            "something else than a measurement"
        )
    differences = np.array(logs)
    low, high = map(math.expm1, ranks.centre_interval(differences))
    print(f"one record takes {1000 * statistics.median(records):.1f} ms (median)")
    print(
        f"with records: {100 * math.expm1(ranks.centre(differences)):+.2f} % "
        f"(95 % interval {100 * low:+.2f} to {100 * high:+.2f} %, {len(logs)} pairs)"
    )
    if low >= -ALLOWED and high <= ALLOWED:
        return 0
    return 1 if low > ALLOWED or high < -ALLOWED else 2


if __name__ == "__main__":
    sys.exit(main())
