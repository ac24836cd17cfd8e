"""Measures how often the gate errs: `make bench-gate` simulates campaigns and prints false alarms,
power and numbers of repeats.

The noise is that of a parallel program: log-normal, with 2 % outliers of 1.5 times the value. In
tables with "days", each session is also shifted as a whole. A step is a rise of a latency. Flagged
variables are those called `regressed`. "judge" uses repeats until it reaches a verdict. "confirm"
uses five, and at most 32 fresh ones if the verdict is not `ok` (`nearmetal gate --confirm=all`).
Other methods use five repeats (methods.py).
"""

import argparse
import sys

import numpy as np
from scipy import special
from tabulate import tabulate

from bench import noise as bench_noise
from bench.tables import FINDS, Row, tables, titles

#: (table, method, step) -> (least power or, at step 0, most false alarms in %, most repeats).
PROMISES = {
    ("CV 2 %", "judge", 0.0): (0.1, 7),
    ("CV 2 %", "judge", 0.05): (98, 8),
    ("CV 3 %", "judge", 0.0): (0.1, 10),
    ("CV 3 %", "judge", 0.05): (85, 20),
    ("CV 8 %", "judge", 0.0): (0.2, None),
    ("CV 8 %", "judge", 0.10): (65, None),
    ("CV 2 %", "confirm", 0.0): (0.1, 7),
    ("CV 2 %", "confirm", 0.05): (98, None),
    ("CV 3 %", "confirm", 0.0): (0.1, 10),
    ("CV 3 %", "confirm", 0.05): (85, 20),
    ("CV 8 %", "confirm", 0.0): (0.2, None),
    ("CV 8 %", "confirm", 0.10): (55, None),
    **{
        (f"CV {cv} %, days {days} %", method, 0.0): (0.1, None)
        for cv in (2, 3)
        for days in ("0.5", "1.0")
        for method in ("judge", "confirm")
    },
    **{
        (f"duet, CV 8 %, shared {shared}", "judge_pairs", step): (bound, None)
        for shared in (0.95, 0.99)
        for step, bound in ((0.0, 0.2), (0.05, 95))
    },
    ("campaigns", "CV 2 %", 0.0): (5, None),
    ("campaigns", "CV 3 %", 0.0): (5, None),
    **{
        ("confirmation", f"CV {cv} %, --confirm={which}", 0.0): (10, None)
        for cv in (3, 5, 8)
        for which in ("suspicious", "all")
    },
    **{
        ("two sessions", name, 0.0): (5, None)
        for name in (
            "CV 3 %",
            "CV 1 to 20 %",
            "CV 1 to 20 %, days 2 %",
            "CV 3 %, a fifth drift 3 %",
        )
    },
    ("two sessions", "CV 3 %", 0.5): (75, None),
    **{("uneven days", days.name, 0.0): (5, None) for days in bench_noise.MIXTURES},
    **{
        ("uneven days", f"{days.name}: the quiet", 0.05): (90, None)
        for days in bench_noise.MIXTURES
        if days.name.startswith(("none", "60 %"))
    },
    **{("what finds promises", f"CV {cv} %", FINDS): (94, None) for cv in (2, 5, 8)},
    ("a plain session", "5 repeats, baseline of 60", 0.1): (60, None),
    ("a plain session", "5 repeats, baseline of 20", 0.2): (55, None),
    **{("other noise", shape.name, 0.0): (5, None) for shape in bench_noise.SHAPES},
    ("other noise", "heavy tails: Student's t of 2 degrees", 0.05): (1, None),
    # One level shows nothing of how levels differ: the promise holds up to UNKNOWN_DRIFT.
    **{
        ("baseline of few levels", f"{few}, levels differ by {differ}", 0.0): (5, None)
        for few in ("1 of 20 repeats", "3 of 7 repeats")
        for differ in ("0 %", "1 %", "2 %", "2 % in a fifth", "10 % in a fifth")
        if few.startswith("3") or not differ.startswith("10")
    },
    ("baseline of few levels", "3 of 7 repeats, levels differ by 1 %", 0.2): (90, None),
    ("baseline of few levels", "1 of 20 repeats, levels differ by 1 %", 0.2): (50, None),
    ("history", "history, days of 2 % with a memory", 0.0): (6, None),
    ("history", "creep a week, by night 84", 0.0): (1, None),
    ("history", "creep a week, by night 84", 0.005): (75, None),
    ("sessions together", "CV 3 %", 0.0): (1, None),
    ("sessions together", "CV 8 %", 0.0): (1, None),
    # The sessions of a campaign share its baseline, so that this rate is of few campaigns.
    ("sessions together", "CV 3 %, days 1 %", 0.0): (2, None),
    ("sessions together", "CV 3 %, by session 4", 0.05): (50, None),
}


def interval(hits: int, trials: int) -> str:
    """The 95 % interval of a rate in percent, by Clopper and Pearson."""
    low = special.betaincinv(hits, trials - hits + 1, 0.025) if hits else 0.0
    high = special.betaincinv(hits + 1, trials - hits, 0.975) if hits < trials else 1.0
    return f"{100 * low:.2f}-{100 * high:.2f}"


def broken(title: str, rows: list[Row]) -> list[str]:
    """The promises that the rows of this table do not keep."""
    lines = []
    for row in rows:
        bound, most = PROMISES.get((title, row.method, row.step), (None, None))
        missed = bound is not None and (row.rate < bound if row.step else row.rate > bound)
        if missed or (most is not None and row.repeats > most):
            used = "" if row.repeats is None else f" with {row.repeats:.1f} repeats"
            lines.append(
                f"{title}, {row.method}, step {100 * row.step:.3g} %: {row.rate:.2f} %{used}"
            )
    return lines


def shown(rows: list[Row]) -> str:
    return tabulate(
        [
            [
                f"{100 * row.step:.3g} %" if row.size is None else f"{100 * row.size:.1f} %",
                row.method,
                f"{row.rate:.2f}",
                interval(row.hits, row.trials) if row.days is None else f"of {row.days} days",
                row.trials,
                "" if row.repeats is None else f"{row.repeats:.1f}",
            ]
            for row in rows
        ],
        ["step", "method", "flagged %", "95 % interval", "trials", "repeats"],
        disable_numparse=True,
        colalign=["right", "left", "right", "right", "right", "right"],
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench-gate",
        description=__doc__,
        epilog="exit codes: 0 all promises kept; 1 a promise not kept",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--trials",
        type=int,
        default=4000,
        help="trials for each noise and step (default: %(default)s)",
    )
    parser.add_argument(
        "--campaigns",
        type=int,
        default=400,
        help="number of unchanged campaigns (default: %(default)s)",
    )
    parser.add_argument(
        "--baseline", type=int, default=60, help="repeats in the baseline (default: %(default)s)"
    )
    parser.add_argument(
        "--variables", type=int, default=200, help="variables of a campaign (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--only",
        action="append",
        metavar="TABLE",
        help="measure this table; may be given several times (default: all). Its random numbers "
        "are others than in a run of all",
    )
    plan = parser.parse_args()
    if unknown := sorted(set(plan.only or ()) - set(titles(plan))):
        parser.error(f"no table {', '.join(unknown)}; they are: {'; '.join(titles(plan))}")
    missed = []
    left = {promise for promise in PROMISES if not plan.only or promise[0] in plan.only}
    print(
        f"baseline of {plan.baseline} repeats in sessions of {bench_noise.SESSION}, campaign of "
        f"{plan.variables} variables"
    )
    for title, rows, limit in tables(np.random.default_rng(plan.seed), plan):
        print(f"\n{title}\n{shown(rows)}" + (f"\n{limit}" if limit else ""), flush=True)
        missed += broken(title, rows)
        left -= {(title, row.method, row.step) for row in rows}
    missed += [f"not measured: {promise}" for promise in sorted(left)]
    for line in missed:
        print(f"promise not kept: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
