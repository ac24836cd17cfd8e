"""How often the gate errs, measured: `make bench-gate` simulates campaigns and prints false alarms, power and launches.

Noise as in launches of a parallel program: log-normal with 2 % outliers of 1.5 times, and where it says so, days: each
session shifted as a whole. A step is a rise of a latency; flagged is what is called `regressed`. "judge" takes launches up
to its verdict; "confirm" takes five, and fresh ones where these don't say `ok` (`nearmetal gate --confirm`). Beside them
stands what others do with five launches (bench_methods.py).
"""
import argparse
import math
import sys
from dataclasses import dataclass

import numpy as np
from scipy import special
from tabulate import tabulate

from . import bench_limits, bench_methods, bench_noise, drift, history, judge, pairs, sequential

STEPS = (0.0, 0.03, 0.05, 0.10)
#: What is promised of a method in a table at a step: (least power or, at step 0, most false alarms in %, most launches).
PROMISES = {
    ("CV 2 %", "judge", 0.0): (0.1, 7), ("CV 2 %", "judge", 0.05): (98, 7),
    ("CV 3 %", "judge", 0.0): (0.1, 20), ("CV 3 %", "judge", 0.05): (95, 20),
    ("CV 8 %", "judge", 0.0): (0.2, None), ("CV 8 %", "judge", 0.10): (95, None),
    ("CV 2 %", "confirm", 0.0): (0.1, 7), ("CV 2 %", "confirm", 0.05): (98, None),
    ("CV 3 %", "confirm", 0.0): (0.1, 20), ("CV 3 %", "confirm", 0.05): (95, 20),
    ("CV 8 %", "confirm", 0.0): (0.2, None), ("CV 8 %", "confirm", 0.10): (95, None),
    **{(f"CV {cv} %, days {days} %", method, 0.0): (0.1, None)
       for cv in (2, 3) for days in ("0.5", "1.0") for method in ("judge", "judge, days shared")},
    **{(f"duet, CV 8 %, shared {shared}", "judge_pairs", step): (bound, None)
       for shared in (0.95, 0.99) for step, bound in ((0.0, 0.2), (0.05, 95))},
    ("campaigns", "CV 2 %", 0.0): (5, None), ("campaigns", "CV 3 %", 0.0): (5, None),
}


@dataclass(frozen=True)
class Row:
    step: float
    method: str
    hits: int
    trials: int
    launches: float | None = None  #: mean

    @classmethod
    def of(cls, step: float, method: str, flags: np.ndarray, launches=None) -> "Row":
        return cls(step, method, int(np.count_nonzero(flags)), len(flags), None if launches is None else float(np.mean(launches)))

    @property
    def rate(self) -> float:
        return 100 * self.hits / self.trials


def interval(hits: int, trials: int) -> str:
    """Clopper and Pearson's 95 % interval of a rate, in percent."""
    low = special.betaincinv(hits, trials - hits + 1, 0.025) if hits else 0.0
    high = special.betaincinv(hits + 1, trials - hits, 0.975) if hits < trials else 1.0
    return f"{100 * low:.2f}-{100 * high:.2f}"


def broken(title: str, rows: list[Row]) -> list[str]:
    """The promises about this table that its rows don't keep."""
    lines = []
    for row in rows:
        bound, most = PROMISES.get((title, row.method, row.step), (None, None))
        missed = bound is not None and (row.rate < bound if row.step else row.rate > bound)
        if missed or most is not None and row.launches > most:
            used = "" if row.launches is None else f" with {row.launches:.1f} launches"
            lines.append(f"{title}, {row.method}, step {100 * row.step:.0f} %: {row.rate:.2f} %{used}")
    return lines


def gate(rng, trials: int, cv: float, days: float, step: float, plan, shared: bool = False):
    """(baseline, fresh launches, judge's, confirm's decisions) of campaigns that hold so many variables in all."""
    share, found = judge.CAMPAIGN_ERROR / plan.variables / len(judge.LOOKS), []
    for start in range(0, trials, plan.variables):
        base, new = bench_noise.campaign(rng, min(plan.variables, trials - start), cv, days, plan.baseline, judge.LOOKS[-1], shared)
        new = new * (1 + step)
        known = drift.together(*drift.levels(np.log(base)))
        base, sessions = base.reshape(len(base), -1), base.shape[1]
        logs = np.log(base), np.log(new)
        found.append((base, new, sequential.decide(*logs, share, known, sessions), sequential.confirm(
            logs[0], logs[1][:, :judge.LOOKS[0]], logs[1][:, judge.LOOKS[0]:], share, judge.CONFIRM_ERROR, known, sessions)))
    return found


def decided(step: float, method: str, decisions) -> Row:
    return Row.of(step, method, np.concatenate([d.side == 1 for d in decisions]), np.concatenate([d.count for d in decisions]))


def steps(rng, cv: float, plan) -> list[Row]:
    """Without drift, every method."""
    rows = []
    for step in STEPS:
        base, new, judged, confirmed = zip(*gate(rng, plan.trials, cv, 0.0, step, plan))
        rows += [decided(step, "judge", judged), decided(step, "confirm", confirmed)]
        rows += [Row.of(step, name, flags, count) for name, flags, count in bench_methods.others(
            rng, np.concatenate(base), np.concatenate(new), cv)]
    return rows


def drifting(rng, cv: float, days: float, plan) -> list[Row]:
    """With days: false alarms over four times as many trials, since these are rare."""
    rows = []
    for step, trials, shared in ((0.0, 4 * plan.trials, False), (0.0, 4 * plan.trials, True), (0.05, plan.trials, False)):
        _, _, judged, confirmed = zip(*gate(rng, trials, cv, days, step, plan, shared))
        rows += [decided(step, "judge, days shared" if shared else "judge", judged)]
        rows += [] if shared else [decided(step, "confirm", confirmed)]
    return rows


def duet(rng, shared: float, plan) -> list[Row]:
    rows = []
    for step in (0.0, 0.05):
        found = []
        for _ in range(max(1, plan.trials // 2)):
            a, b = bench_noise.pairs(rng, judge.LOOKS[-1], 0.08, shared)
            found.append(pairs.judge_pairs(a, b * (1 + step), lower_is_better=True, variables=plan.variables))
        rows.append(Row.of(step, "judge_pairs", np.array([v.word == "regressed" for v in found]), [v.pairs for v in found]))
        rows.append(Row.of(step, "of these judged as pairs", np.array([v.method == "paired" for v in found])))
    return rows


def campaigns(rng, plan) -> list[Row]:
    """Whole campaigns of unchanged variables: how many raise any alarm."""
    rows = []
    for cv in (0.02, 0.03):
        found = [judged for _, _, judged, _ in gate(rng, plan.campaigns * plan.variables, cv, 0.0, 0.0, plan)]
        rows.append(Row.of(0.0, f"CV {100 * cv:.0f} %", np.array([(judged.side == 1).any() for judged in found])))
        rows.append(decided(0.0, f"CV {100 * cv:.0f} %, its variables", found))
    return rows


def histories(rng, plan) -> list[Row]:
    """Series of 100 sessions, medians of five launches at CV 3 %, flat or with a step before the last 20."""
    rows, count = [], max(1, plan.trials // bench_methods.SLOW)
    for step in (0.0, 0.05):
        values = np.median(bench_noise.launches(rng, (count, 100, bench_noise.SESSION), 0.03), axis=2)
        values[:, 80:] *= 1 + step
        for name, places in (("Otava", lambda row: [point.index for point in bench_methods.compute_change_points(row.tolist())[0]]),
                             ("history", lambda row: [level[1] for level in history.levels(row, history.ERROR / plan.variables / 100)])):
            rows.append(Row.of(step, name, np.array([any(abs(place - 80) <= 1 or not step for place in places(row)) for row in values])))
    return rows


def within(rng, plan) -> list[Row]:
    return [Row.of(0.0, f"{name}, {100 * between:.0f} % of the variance between launches", flags, count)
            for between in (0.0, 0.5) for name, flags, count in bench_methods.pooled(rng, plan.trials, plan.baseline, 0.02, between)]


def tables(rng, plan):
    """(title, rows, limit that theory sets or "") one after the other."""
    for cv in (0.02, 0.03, 0.08):
        yield f"CV {100 * cv:.0f} %", steps(rng, cv, plan), bench_limits.launches(cv, plan)
    for cv in (0.02, 0.03):
        for days in (0.005, 0.01):
            yield f"CV {100 * cv:.0f} %, days {100 * days:.1f} %", drifting(rng, cv, days, plan), bench_limits.days(days, plan)
    for shared in (0.0, 0.8, 0.95, 0.99):
        yield f"duet, CV 8 %, shared {shared}", duet(rng, shared, plan), bench_limits.pairs(shared, plan)
    yield "campaigns", campaigns(rng, plan), f"of {plan.variables} unchanged variables: flagged is any alarm in a campaign"
    yield "history", histories(rng, plan), "flagged: a change point in 100 sessions; of a step, found within one session of it"
    yield "within a launch", within(rng, plan), f"CV 2 %, rank test at 1 %, {bench_methods.WITHIN} samples a launch"


def shown(rows: list[Row]) -> str:
    return tabulate([[f"{100 * row.step:.0f} %", row.method, f"{row.rate:.2f}", interval(row.hits, row.trials), row.trials,
                      "" if row.launches is None else f"{row.launches:.1f}"] for row in rows],
                    ["step", "method", "flagged %", "95 % interval", "trials", "launches"], disable_numparse=True,
                    colalign=["right", "left", "right", "right", "right", "right"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-gate", description=__doc__, epilog="exit codes: 0 all promises kept; 1 not",
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000, help="per noise and step (default: %(default)s)")
    parser.add_argument("--campaigns", type=int, default=400, help="unchanged ones, whole (default: %(default)s)")
    parser.add_argument("--baseline", type=int, default=60, help="launches in the baseline (default: %(default)s)")
    parser.add_argument("--variables", type=int, default=200, help="of a campaign (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    plan = parser.parse_args()
    missed = []
    print(f"baseline of {plan.baseline} launches in sessions of {bench_noise.SESSION}, campaign of {plan.variables} variables")
    for title, rows, limit in tables(np.random.default_rng(plan.seed), plan):
        print(f"\n{title}\n{shown(rows)}" + (f"\n{limit}" if limit else ""), flush=True)
        missed += broken(title, rows)
    for line in missed:
        print(f"promise not kept: {line}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
