"""Measures how often a gate without a baseline errs: `python3 -m bench.session_before`.

Two sessions of 200 variables, without and with a step in one of them (stats/two_sessions.py). An
alarm is an unchanged variable that is `regressed`. A step is named if it is `regressed`, or
`inconclusive` until a second day shows it.
"""

import argparse
import sys

import numpy as np
from tabulate import tabulate

from bench.__main__ import interval
from bench.tables import is_named, is_regressed
from nearmetal.stats.two_sessions import Samples, judge

VARIABLES = 200
#: Least and largest coefficient of variation of a row of several.
CVS = 0.01, 0.2
#: Rows: noise, repeats, size of the step.
ROWS = (
    ("CV 3 %", 3, 0.5),
    ("CV 8 %", 3, 0.5),
    ("CV 8 %", 3, 1.5),
    ("CV 8 %", 5, 0.5),
    ("CV 8 %, 2 % outliers", 3, 0.5),
    ("CV 1 to 20 %", 5, 0.5),
    ("CV 3 %, days of t3, 1 %", 3, 0.5),
    ("CV 3 %, days of t2, 2 %, a fifth", 3, 0.5),
    ("CV 3 %, days of t2, 2 %", 3, 0.5),
    ("CV 3 %, two modes per job, 20 %", 3, 0.5),
)


def sessions(rng, noise: str, repeats: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sessions of unchanged variables, (VARIABLES, repeats) each."""
    cv: float | np.ndarray = 0.08 if "8 %" in noise else 0.03
    if "1 to 20" in noise:
        cv = np.exp(rng.uniform(*np.log(CVS), (VARIABLES, 1)))
    both = []
    for _ in range(2):
        logs = cv * rng.standard_normal((VARIABLES, repeats))
        if "outliers" in noise:
            logs += np.log(1.5) * (rng.random(logs.shape) < 0.02)
        both.append(np.exp(logs + _days(rng, noise)))
    return both[0], both[1]


def _days(rng, noise: str) -> np.ndarray:
    """Shifts of a session, (VARIABLES, 1)."""
    column = VARIABLES, 1
    if "modes" in noise:
        return np.log(1.2) * (rng.random(column) < 0.5)
    if "t3" in noise:
        return 0.01 * rng.standard_t(3, column)
    if "t2" in noise:
        shifts = 0.02 * rng.standard_t(2, column)
        if "fifth" in noise:
            shifts[np.arange(VARIABLES) % 5 > 0] = 0
        return shifts
    return np.zeros(column)


def row(rng, noise: str, repeats: int, step: float, trials: int) -> list:
    """Rates of alarms and of the step, in percent with intervals."""
    counts = np.zeros(4, dtype=int)
    for _ in range(trials):
        before, now = sessions(rng, noise, repeats)
        now[0] *= 1 + step
        changes = judge([Samples(list(a), list(b), True) for a, b in zip(before, now)])
        first, rest = changes[0], changes[1:]
        counts += (
            any(map(is_regressed, rest)),
            any(map(is_named, rest)),
            is_regressed(first),
            is_named(first),
        )
    cells = [f"{100 * hits / trials:.1f} ({interval(int(hits), trials)})" for hits in counts]
    return [noise, repeats, f"{100 * step:.0f} %", *cells]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.session_before", description=__doc__)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    table = []
    for number, (noise, repeats, step) in enumerate(ROWS):
        rng = np.random.default_rng([options.seed, number])
        table.append(row(rng, noise, repeats, step, options.trials))
    head = ["noise", "repeats", "step", "alarm %", "for a second day %", "step regressed %"]
    print(tabulate(table, [*head, "step named %"], disable_numparse=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
