"""How often the gate errs, measured: `make bench-gate` simulates campaigns and prints false alarms, power and launches.

Noise as in launches of a parallel program: log-normal with 2 % outliers of 1.5 times. Beside `judge` stand what others do
with five launches: a fixed bound of 5 % on one launch (a reference with `0.05` in ReFrame), the same on the median, and
Welch's t-test on logarithms at 1 %. Not yet here: drift from day to day, and changes found by pairs.
"""
import argparse
import math
import sys

import numpy as np
from scipy import special, stats
from tabulate import tabulate

from . import judge

#: (coefficient of variation, step) for which something is promised: (least power or most false alarms in %, most launches).
PROMISES = {(0.02, 0.0): (0.1, 7), (0.02, 0.05): (98, 7), (0.03, 0.0): (0.1, 20), (0.03, 0.05): (95, 20),
            (0.08, 0.0): (0.2, None), (0.08, 0.10): (95, None)}
STEPS = (0.0, 0.03, 0.05, 0.10)


def launches(rng, shape, cv: float) -> np.ndarray:
    """Samples around 1 with that coefficient of variation, and outliers."""
    values = np.exp(rng.normal(0, math.sqrt(math.log1p(cv * cv)), shape))
    return values * np.where(rng.random(shape) < 0.02, 1.5, 1)


def welch(base, new) -> bool:
    test = stats.ttest_ind(np.log(new), np.log(base), equal_var=False, alternative="greater")
    return test.pvalue < 0.01


#: What others do: launches that they take, and whether they flag these against a baseline.
OTHERS = {
    "fixed +5 %, one launch": (1, lambda base, new: new[0] > 1.05 * np.median(base)),
    "fixed +5 %, median of 5": (5, lambda base, new: np.median(new) > 1.05 * np.median(base)),
    "Welch's t, 5 launches": (5, welch),
}


def interval(hits: int, trials: int) -> str:
    """Clopper and Pearson's 95 % interval of a rate, in percent."""
    low = special.betaincinv(hits, trials - hits + 1, 0.025) if hits else 0.0
    high = special.betaincinv(hits + 1, trials - hits, 0.975) if hits < trials else 1.0
    return f"{100 * low:.2f}-{100 * high:.2f}"


def simulate(rng, cv: float, step: float, trials: int, baseline: int, variables: int) -> list[tuple[str, int, float]]:
    """(method, times it said that latency rose, mean launches) over so many trials."""
    hits, used = dict.fromkeys(["judge", *OTHERS], 0), 0
    for _ in range(trials):
        base, new = launches(rng, baseline, cv), launches(rng, judge.LOOKS[-1], cv) * (1 + step)
        verdict = judge.judge(base, new, lower_is_better=True, variables=variables)
        hits["judge"] += verdict.word == "regressed"
        used += verdict.launches
        for name, (count, flags) in OTHERS.items():
            hits[name] += bool(flags(base, new[:count]))
    return [("judge", hits["judge"], used / trials), *((name, hits[name], count) for name, (count, _) in OTHERS.items())]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-gate", description=__doc__, epilog="exit codes: 0 all promises kept; 1 not",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000, help="per noise and step (default: %(default)s)")
    parser.add_argument("--baseline", type=int, default=60, help="launches in the baseline (default: %(default)s)")
    parser.add_argument("--variables", type=int, default=200, help="of the campaign (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng, broken = np.random.default_rng(arguments.seed), []
    print(f"{arguments.trials} trials each, baseline of {arguments.baseline} launches, campaign of {arguments.variables} variables")
    for cv in (0.02, 0.03, 0.08):
        rows = []
        for step in STEPS:
            for method, hits, mean in simulate(rng, cv, step, arguments.trials, arguments.baseline, arguments.variables):
                rate = 100 * hits / arguments.trials
                rows.append([f"{100 * step:.0f} %", method, f"{rate:.2f}", interval(hits, arguments.trials), f"{mean:.1f}"])
                if method == "judge" and (promise := PROMISES.get((cv, step))):
                    bound, most = promise
                    if (rate < bound if step else rate > bound) or (most and mean > most):
                        broken.append(f"CV {100 * cv:.0f} %, step {100 * step:.0f} %: {rate:.2f} % with {mean:.1f} launches")
        print(f"\nCV {100 * cv:.0f} %")
        print(tabulate(rows, ["step", "method", "flagged %", "95 % interval", "launches"], disable_numparse=True,
                       colalign=["right", "left", "right", "right", "right"]), flush=True)
    for line in broken:
        print(f"promise not kept: {line}", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
