"""The simulations behind bench_gate.py: one function a table.  `plan` holds its command line's
trials, campaigns, baseline and variables; a step is a rise of a latency, and flagged is what is
called `regressed`."""

from dataclasses import dataclass, replace

import numpy as np

from bench import limits as bench_limits
from bench import methods as bench_methods
from bench import noise as bench_noise
from nearmetal import history
from nearmetal.stats import drift, pairs, sequential
from nearmetal.stats.plan import ANALYSES, CONFIRMATION_ERROR, alpha

STEPS = (0.0, 0.03, 0.05, 0.10)
#: Whose days they are (bench_noise.campaign), and how its row is called.
WHOSE = {
    "own": "judge",
    "shared": "judge, days shared",
    "half": "judge, half of the variables drift: these",
}


@dataclass(frozen=True)
class Row:
    step: float
    method: str
    hits: int
    trials: int
    launches: float | None = None  #: mean
    days: int | None = None  #: that the trials share, where they are not independent of one another

    @classmethod
    def of(cls, step: float, method: str, flags: np.ndarray, launches=None) -> "Row":
        mean = None if launches is None else float(np.mean(launches))
        return cls(step, method, int(np.count_nonzero(flags)), len(flags), mean)

    @property
    def rate(self) -> float:
        return 100 * self.hits / self.trials


def gate(rng, trials: int, cv: float, days: float, step: float, plan, whose: str = "own"):
    """(baseline, fresh launches, judge's, confirm's decisions) of campaigns that hold so many
    variables in all."""
    error, found = alpha(plan.variables), []
    for start in range(0, trials, plan.variables):
        variables = min(plan.variables, trials - start)
        base, new = bench_noise.campaign(
            rng, variables, cv, days, plan.baseline, ANALYSES[-1], whose
        )
        new = new * (1 + step)
        known = drift.each(*drift.levels(np.log(base))), base.shape[1]
        base = base.reshape(len(base), -1)
        logs, fresh = np.log(base), np.log(new)
        found.append(
            (
                base,
                new,
                sequential.decide(logs, fresh, error, *known),
                sequential.decide_in_two_stages(
                    logs,
                    fresh[:, : ANALYSES[0]],
                    fresh[:, ANALYSES[0] :],
                    error,
                    CONFIRMATION_ERROR,
                    *known,
                ),
            )
        )
    return found


def decided(step: float, method: str, decisions, every: int = 1) -> Row:
    return Row.of(
        step,
        method,
        np.concatenate([found.side[::every] == 1 for found in decisions]),
        np.concatenate([found.count[::every] for found in decisions]),
    )


def steps(rng, cv: float, plan) -> list[Row]:
    """Without drift, every method."""
    rows = []
    for step in STEPS:
        base, new, judged, confirmed = zip(*gate(rng, plan.trials, cv, 0.0, step, plan))
        rows += [decided(step, "judge", judged), decided(step, "confirm", confirmed)]
        rows += [
            Row.of(step, name, flags, count)
            for name, flags, count in bench_methods.others(
                rng, np.concatenate(base), np.concatenate(new), cv
            )
        ]
    return rows


def drifting(rng, cv: float, days: float, plan) -> list[Row]:
    """With days: false alarms over four times as many trials, since these are rare."""
    rows = []
    for step, trials, whose in (
        (0.0, 4, "own"),
        (0.0, 4, "shared"),
        (0.0, 4, "half"),
        (0.05, 1, "own"),
    ):
        _, _, judged, confirmed = zip(*gate(rng, trials * plan.trials, cv, days, step, plan, whose))
        row = decided(step, WHOSE[whose], judged, 2 if whose == "half" else 1)
        rows.append(replace(row, days=len(judged)) if whose == "shared" else row)
        rows += [decided(step, "confirm", confirmed)] if whose == "own" else []
    return rows


def duet(rng, shared: float, plan) -> list[Row]:
    rows = []
    for step in (0.0, 0.05):
        found = []
        for _ in range(max(1, plan.trials // 2)):
            a, b = bench_noise.pairs(rng, ANALYSES[-1], bench_noise.DUET_CV, shared)
            found.append(
                pairs.judge_pairs(a, b * (1 + step), lower_is_better=True, variables=plan.variables)
            )
        rows.append(
            Row.of(
                step,
                "judge_pairs",
                np.array([v.name == "regressed" for v in found]),
                [v.pairs for v in found],
            )
        )
        rows.append(
            Row.of(
                step, "of these judged as pairs", np.array([v.method == "paired" for v in found])
            )
        )
    return rows


def campaigns(rng, plan) -> list[Row]:
    """Whole campaigns of unchanged variables: how many raise any alarm."""
    rows = []
    for cv in (0.02, 0.03):
        found = [
            judged
            for _, _, judged, _ in gate(rng, plan.campaigns * plan.variables, cv, 0.0, 0.0, plan)
        ]
        rows.append(
            Row.of(
                0.0,
                f"CV {100 * cv:.0f} %",
                np.array([(judged.side == 1).any() for judged in found]),
            )
        )
        rows.append(decided(0.0, f"CV {100 * cv:.0f} %, its variables", found))
    return rows


def histories(rng, plan) -> list[Row]:
    """Series of 100 sessions, medians of five launches at CV 3 %, flat or with a step before the
    last 20."""
    rows, count, error = (
        [],
        max(1, plan.trials // bench_methods.SLOW),
        history.ERROR / plan.variables / 100,
    )
    for step in (0.0, 0.05):
        values = np.median(
            bench_noise.launches(rng, (count, 100, bench_noise.SESSION), 0.03), axis=2
        )
        values[:, 80:] *= 1 + step
        methods = {
            "Otava": history.proposed,
            "history": lambda row: [place for _, place, _, _ in history.levels(row, error)],
        }
        for name, places in methods.items():
            found = [
                any(abs(place - 80) <= 1 or not step for place in places(row)) for row in values
            ]
            rows.append(Row.of(step, name, np.array(found)))
    return rows


def within(rng, plan) -> list[Row]:
    rows = []
    for between in (0.0, 0.5):
        for name, flags, count in bench_methods.pooled(
            rng, plan.trials, plan.baseline, 0.02, between
        ):
            rows.append(
                Row.of(
                    0.0,
                    f"{name}, {100 * between:.0f} % of the variance between launches",
                    flags,
                    count,
                )
            )
    return rows


def tables(rng, plan):
    """(title, rows, limit that theory sets or "") one after the other."""
    for cv in (0.02, 0.03, 0.08):
        yield f"CV {100 * cv:.0f} %", steps(rng, cv, plan), bench_limits.launches(cv, plan)
    for cv in (0.02, 0.03):
        for days in (0.005, 0.01):
            yield (
                f"CV {100 * cv:.0f} %, days {100 * days:.1f} %",
                drifting(rng, cv, days, plan),
                bench_limits.days(days, plan),
            )
    for shared in (0.0, 0.8, 0.95, 0.99):
        yield (
            f"duet, CV 8 %, shared {shared}",
            duet(rng, shared, plan),
            bench_limits.pairs(shared, plan),
        )
    yield (
        "campaigns",
        campaigns(rng, plan),
        f"of {plan.variables} unchanged variables: flagged is any alarm in a campaign",
    )
    yield (
        "history",
        histories(rng, plan),
        "flagged: a change point in 100 sessions; of a step, found within one session of it",
    )
    yield (
        "within a launch",
        within(rng, plan),
        f"CV 2 %, rank test at 1 %, {bench_methods.WITHIN} samples a launch",
    )
