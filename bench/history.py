"""Measures how often `nearmetal history` errs where it is looked at each week of a year:
`python3 -m bench.history`.

A history has 40 variables, with a session each night: the median of five repeats at CV 3 %. The
error of a history is that of one variable here, so that few histories show the rate. Steps of 5 %
begin after 80 of 200 sessions, in a quarter of 200 variables that share the error.
"""

import argparse
import sys

import numpy as np
from tabulate import tabulate

from bench import noise as bench_noise
from bench.__main__ import interval
from nearmetal.judge import history
from nearmetal.stats import trend

NIGHTS, VARIABLES, WEEK = 365, 40, 7
#: Fewest sessions at a look.
FIRST = 14
#: Name -> correlation of successive days, and their standard deviation.
DAYS = {"independent days": (0.0, 0.0), "days of 2 %, correlation 0.9": (0.9, 0.02)}
#: Sessions, place and size of the steps; variables, and part of them that steps.
STEP_AT, STEP, SHARED_BY, STEPPING = 80, 0.05, 200, 0.25
#: Sessions after the step at which it is looked for.
AFTER = (5, 8, 10, 20, 50)


def histories(rng, variables: int, nights: int, correlation: float, drift: float) -> np.ndarray:
    """Medians of the sessions of unchanged variables, (variables, nights)."""
    repeats = bench_noise.repeats(rng, (variables, nights, bench_noise.SESSION), 0.03)
    values = np.median(repeats, axis=2)
    if not drift:
        return values
    return values * bench_noise.remembering(rng, variables, nights, correlation, drift)


def shown(values: np.ndarray) -> np.ndarray:
    """Whether weekly looks ever show a (change point, creep) of each variable, (variables, 2)."""
    ever = np.zeros((len(values), 2), dtype=bool)
    for look in range(FIRST, values.shape[1] + 1, WEEK):
        seen = values[:, :look]
        shared = trend.common_memory(list(np.log(seen)))
        for number, row in enumerate(seen):
            points, creep = history.moves(row, 1, shared)
            ever[number] |= bool(points), creep is not None
    return ever


def false_points(rng, count: int) -> list[list]:
    """Rows of unchanged histories."""
    rows = []
    for name, days in DAYS.items():
        ever = []
        for _ in range(count):
            ever.append(shown(histories(rng, VARIABLES, NIGHTS, *days)))
        looked = np.concatenate(ever)
        for what, hits in (("change point", looked[:, 0]), ("creep", looked[:, 1])):
            rows.append([name, f"any {what}", *_cells(hits)])
    return rows


def steps(rng) -> list[list]:
    """Rows of steps in some of many variables."""
    rows = []
    values = histories(rng, SHARED_BY, STEP_AT + max(AFTER), 0.0, 0.0)
    values[: int(STEPPING * SHARED_BY), STEP_AT:] *= 1 + STEP
    for after in AFTER:
        seen = values[:, : STEP_AT + after]
        shared = trend.common_memory(list(np.log(seen)))
        found = []
        for row in seen[: int(STEPPING * SHARED_BY)]:
            points, _ = history.moves(row, SHARED_BY, shared)
            found.append(any(abs(place - STEP_AT) <= 2 for _, place, _, _ in points))
        rows.append([f"a step of 5 %, {after} sessions ago", "found", *_cells(np.array(found))])
    return rows


def _cells(hits: np.ndarray) -> list:
    count = int(hits.sum())
    return [f"{100 * hits.mean():.1f}", interval(count, len(hits)), len(hits)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.history", description=__doc__.split("\n\n")[0])
    parser.add_argument("--histories", type=int, default=10, help="unchanged ones of each kind")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    table = steps(rng) + false_points(rng, options.histories)
    print(tabulate(table, ["variables", "what", "%", "95 % interval", "variables"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
