"""Measures what a baseline hides that grows or changes: `python3 -m bench.added`.

A baseline of 12 days, 200 variables at CV 3 %, and 16 nights, in which one variable gets worse by a
step or a creep. A night is added if none of its variables is suspicious. The change is named if the
gate without `--confirm` calls it `regressed` on one of the nights.

A second table is of steps within the 12 days, which `baseline record` names (stats/days.py).
"""

import argparse
import math
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from tabulate import tabulate

from bench.__main__ import interval
from bench.campaigns import Known, gate
from bench.noise import KINDS, SESSION
from nearmetal.stats import days as stats_days
from nearmetal.stats.plan import BASELINE_SESSIONS

VARIABLES, NIGHTS = 200, 16
#: Noise (`name` of noise.KINDS), what the change is called, its logarithm at first, and that of
#: each further night.
ROWS = (
    ("repeats alone", "a step of 5 %", math.log(1.05), 0.0),
    ("repeats alone", "a creep of 3 % a week", 0.0, math.log(1.03) / 7),
    ("days 1 %", "a step of 10 %", math.log(1.10), 0.0),
    ("days 1 %", "a creep of 6 % a week", 0.0, math.log(1.06) / 7),
)
#: Steps within the baseline: noise, change, and the first day of the new level.
STEPS = (
    ("repeats alone", 1.10, 6),
    ("repeats alone", 1.10, 3),
    ("CV 8 %", 1.20, 6),
    ("days 1 %", 1.10, 6),
    ("t3 days 1 %", 1.10, 6),
    ("modes per job in a fifth", 1.10, 6),
    ("days AR 0.9, 2 %", 1.10, 6),
    ("random walk 0.5 % a day", 1.10, 6),
)
#: What nights are compared with.
FIXED, ADDED, ALL = "fixed baseline", "--add each night", "--add without an anchor"


def campaign(seed, noise: str, step: float, creep: float, how: str) -> tuple[bool, bool, int]:
    """Whether the changed variable was named, whether another was, and the added nights."""
    rng = np.random.default_rng(seed)
    kind = next(kind for kind in KINDS if kind.name == noise)
    shape = VARIABLES, BASELINE_SESSIONS + NIGHTS
    logs = kind.session(rng, shape, SESSION) + kind.days(rng, *shape)[:, :, None]
    logs[0, BASELINE_SESSIONS:] += step + creep * np.arange(1, NIGHTS + 1)[:, None]
    days = list(range(BASELINE_SESSIONS))
    earlier: list[np.ndarray] = []
    named, alarm = False, False
    known = Known.of(logs[:, days])
    for number in range(BASELINE_SESSIONS, BASELINE_SESSIONS + NIGHTS):
        night = gate(known, earlier, logs[:, number])
        named |= bool(night.regressed[0])
        alarm |= bool(night.regressed[1:].any())
        earlier.append(logs[:, number])
        if how != FIXED and not (night.exit_code or night.improved.any()):
            days.append(number)
            anchor = BASELINE_SESSIONS
            if how == ALL:
                anchor, earlier = len(days), []
            known = Known.of(logs[:, days], anchor)
    return named, alarm, len(days) - BASELINE_SESSIONS


def step(seed, noise: str, change: float, first: int) -> tuple[bool, bool]:
    """Whether `record` names the step of a variable, and whether one of an unchanged variable."""
    rng = np.random.default_rng(seed)
    kind = next(kind for kind in KINDS if kind.name == noise)
    shape = VARIABLES, BASELINE_SESSIONS
    logs = kind.session(rng, shape, SESSION) + kind.days(rng, *shape)[:, :, None]
    logs[0, first:] += math.log(change)
    named, *others = stats_days.steps(np.exp(logs))
    return named is not None, any(others)


def cells_of(hits: np.ndarray, count: int) -> list[str]:
    """Rates in percent, with intervals."""
    return [f"{100 * number / count:.1f} ({interval(number, count)})" for number in hits.tolist()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.added", description=__doc__)
    parser.add_argument("--campaigns", type=int, default=80, help="default: %(default)s")
    parser.add_argument("--processes", type=int, default=2, help="default: %(default)s")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    count, rows = options.campaigns, []
    with ProcessPoolExecutor(options.processes) as pool:
        for noise, name, jump, creep in ROWS:
            for how in (FIXED, ADDED, ALL):
                seeds = [[options.seed, number] for number in range(count)]
                same = zip(*[(noise, jump, creep, how)] * count)
                outcomes = np.array(list(pool.map(campaign, seeds, *same)))
                cells = cells_of(outcomes[:, :2].sum(axis=0), count)
                rows.append([noise, name, how, *cells, f"{outcomes[:, 2].mean():.1f}"])
        inside, count = [], 5 * count
        for noise, change, first in STEPS:
            seeds = [[options.seed, number] for number in range(count)]
            same = zip(*[(noise, change, first)] * count)
            outcomes = np.array(list(pool.map(step, seeds, *same, chunksize=8)))
            cells = cells_of(outcomes.sum(axis=0), count)
            inside.append([noise, f"{100 * (change - 1):.0f} % at day {first + 1}", *cells])
    heads = ["noise", "change", "compared with", "named %", "another named %", "nights added"]
    print(tabulate(rows, heads, disable_numparse=True))
    heads = ["noise", "step", "named %", "another named %"]
    print(f"\n{tabulate(inside, heads, disable_numparse=True)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
