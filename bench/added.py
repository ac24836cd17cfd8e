"""Measures what `baseline record --add` each night hides: `python3 -m bench.added`.

A baseline of 12 days, 200 variables at CV 3 %, and 16 nights, in which one variable gets worse by a
step or a creep. A night is added if none of its variables is suspicious. The change is named if the
gate without `--confirm` calls it `regressed` on one of the nights.
"""

import argparse
import math
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from tabulate import tabulate

from bench.__main__ import interval
from bench.campaigns import Known, gate
from bench.noise import SESSION
from nearmetal.stats.plan import BASELINE_SESSIONS

VARIABLES, NIGHTS, CV = 200, 16, 0.03
#: Changes of a night, as logarithms: what it is called, at first, and from night to night.
CHANGES = (
    ("none", 0.0, 0.0),
    ("a step of 5 %", math.log(1.05), 0.0),
    ("a creep of 3 % a week", 0.0, math.log(1.03) / 7),
)
#: What nights are compared with.
FIXED, ADDED, ALL = "fixed baseline", "--add each night", "--add without an anchor"


def campaign(seed, how: str, step: float, creep: float) -> tuple[bool, bool, int]:
    """Whether the changed variable was named, whether another was, and the added nights."""
    rng = np.random.default_rng(seed)
    days = list(CV * rng.standard_normal((BASELINE_SESSIONS, VARIABLES, SESSION)))
    earlier: list[np.ndarray] = []
    named, alarm = False, False
    known = Known.of(np.stack(days, axis=1))
    for number in range(NIGHTS):
        logs = CV * rng.standard_normal((VARIABLES, SESSION))
        logs[0] += step + creep * (number + 1)
        night = gate(known, earlier, logs)
        named |= bool(night.regressed[0])
        alarm |= bool(night.regressed[1:].any())
        earlier.append(logs)
        if how != FIXED and not (night.exit_code or night.improved.any()):
            days.append(logs)
            anchor = BASELINE_SESSIONS
            if how == ALL:
                anchor, earlier = len(days), []
            known = Known.of(np.stack(days, axis=1), anchor)
    return named, alarm, len(days) - BASELINE_SESSIONS


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.added", description=__doc__)
    parser.add_argument("--campaigns", type=int, default=80, help="default: %(default)s")
    parser.add_argument("--processes", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    count, rows = options.campaigns, []
    with ProcessPoolExecutor(options.processes) as pool:
        for name, step, creep in CHANGES:
            for how in (FIXED, ADDED, ALL):
                seeds = [[options.seed, number] for number in range(count)]
                same = [[how] * count, [step] * count, [creep] * count]
                outcomes = np.array(list(pool.map(campaign, seeds, *same)))
                cells = []
                for hits in outcomes[:, :2].sum(axis=0).tolist():
                    cells.append(f"{100 * hits / count:.1f} ({interval(hits, count)})")
                rows.append([name, how, *cells, f"{outcomes[:, 2].mean():.1f}"])
    heads = ["change", "nights are compared with", "named %", "another named %", "nights added"]
    print(tabulate(rows, heads, disable_numparse=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
