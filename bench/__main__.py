"""Measures how often the gate errs: `make bench-gate` simulates campaigns and prints false alarms,
power and numbers of repeats.

The first two tables are of whole campaigns, which `nearmetal gate --confirm` judges (campaigns.py):
what it finds, and how often it errs, under each noise of noise.py. The noise of the other tables is
log-normal, with 2 % outliers of 1.5 times the value. A step is a rise of a latency. Flagged
variables are those called `regressed`. "judge" uses repeats until it reaches a verdict. Other
methods use five repeats (methods.py).
"""

import argparse
import sys

import numpy as np
from scipy import special
from tabulate import tabulate

from bench import campaigns
from bench import noise as bench_noise
from bench.tables import FINDS, Row, tables, titles
from nearmetal.stats.plan import ANY_ALARM

#: (table, method, step) -> (least power or, at step 0, most false alarms in %, most repeats).
PROMISES = {
    ("gate --confirm", "repeats alone: gate --confirm", 0.05): (92, 465),
    ("gate --confirm", "2 % outliers: gate --confirm", 0.05): (84, 465),
    ("gate --confirm", "CV 2 %: gate --confirm", 0.05): (94, None),
    ("gate --confirm", "CV 8 %: gate --confirm", 0.10): (76, 465),
    **{
        ("unchanged campaigns", f"{kind.name}: {night}", 0.0): (100 * ANY_ALARM, None)
        for kind in bench_noise.KINDS
        for night in campaigns.JUDGED[: 3 if kind.shape is None else 2]
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
    ("two sessions", "CV 1 to 20 %", 0.5): (60, None),
    ("CV 2 %", "judge", 0.0): (0.1, 7),
    ("CV 2 %", "judge", 0.05): (98, 8),
    ("CV 3 %", "judge", 0.0): (0.1, 10),
    ("CV 3 %", "judge", 0.05): (85, 20),
    ("CV 8 %", "judge", 0.0): (0.2, None),
    ("CV 8 %", "judge", 0.10): (65, None),
    **{
        (f"duet, CV 8 %, shared {shared}", "judge_pairs", step): (bound, None)
        for shared in (0.95, 0.99)
        for step, bound in ((0.0, 0.2), (0.05, 95))
    },
    **{
        ("confirmation", f"CV {cv} %, --confirm={which}", 0.0): (10, None)
        for cv in (3, 5, 8)
        for which in ("suspicious", "all")
    },
    **{
        ("gate --confirm", f"CV {cv} %: {when}", FINDS): (least, None)
        for cv in (2, 8)
        for when, least in (("gate --confirm", 86), ("next night", 92))
    },
    ("a plain session", "5 repeats, baseline of 60", 0.1): (60, None),
    ("a plain session", "5 repeats, baseline of 20", 0.2): (55, None),
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
    lines = []
    for row in rows:
        step = f"{100 * row.step:.3g} %" if row.step != FINDS else "finds"
        repeats = "" if row.repeats is None else f"{row.repeats:.1f}"
        beside = [f"{share:.1f}" for share in row.beside or ()]
        line = [step, row.method, f"{row.rate:.2f}", interval(row.hits, row.trials), row.trials]
        lines.append([*line, repeats, *beside])
    heads = ["step", "method", "flagged %", "95 % interval", "trials", "repeats"]
    if any(row.beside for row in rows):
        heads += ["improved %", "exit 2 %"]
    align = ["right", "left", *["right"] * (len(heads) - 2)]
    return tabulate(lines, heads, disable_numparse=True, colalign=align)


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
        "--changed",
        type=int,
        default=1000,
        help="number of campaigns with a change (default: %(default)s)",
    )
    parser.add_argument("--all", action="store_true", help="measure all tables (an hour)")
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
        help="measure this table; may be given several times (default: the main ones). Its "
        "random numbers are others than in a run of all",
    )
    plan = parser.parse_args()
    if unknown := sorted(set(plan.only or ()) - set(titles(plan))):
        parser.error(f"no table {', '.join(unknown)}; they are: {'; '.join(titles(plan))}")
    missed = []
    measured = set()
    print(
        f"baseline of {plan.baseline} repeats in sessions of {bench_noise.SESSION}, campaign of "
        f"{plan.variables} variables"
    )
    for title, rows, limit in tables(np.random.default_rng(plan.seed), plan):
        print(f"\n{title}\n{shown(rows)}" + (f"\n{limit}" if limit else ""), flush=True)
        missed += broken(title, rows)
        measured |= {(title, row.method, row.step) for row in rows}
    if plan.all:
        missed += [f"not measured: {promise}" for promise in sorted(PROMISES.keys() - measured)]
    for line in missed:
        print(f"promise not kept: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
