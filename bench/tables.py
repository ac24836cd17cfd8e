"""The simulations of `make bench-gate`, one function for each table.

`plan` holds the trials, campaigns, baseline and variables from the command line. A step is a rise
of a latency. Flagged variables are those called `regressed`.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from bench import campaigns, confirmation
from bench import limits as bench_limits
from bench import methods as bench_methods
from bench import noise as bench_noise
from nearmetal.judge import history
from nearmetal.stats import drift, pairs, sequential, two_sessions
from nearmetal.stats.plan import (
    ANALYSES,
    PAIRS,
    PRIOR_DRIFT,
    REPEATS,
    UNKNOWN_DRIFT,
    alpha,
    day_error,
    least_drift,
)

STEPS = (0.0, 0.03, 0.05, 0.10)
#: `step` of a row where each variable has a step of its own `finds`.
FINDS = 1.0
#: Beginning of a table's note.
UNCHANGED = "flagged at 0 %: an unchanged campaign"
#: Noise (`name` of noise.KINDS), variables of a campaign, and steps that `gate --confirm` finds.
POWER = (
    ("repeats alone", 200, (0.05, 0.10)),
    ("2 % outliers", 200, (0.05, 0.10)),
    ("CV 2 %", 200, (0.05, FINDS)),
    ("CV 8 %", 200, (0.10, FINDS)),
    ("CV 8 %", 20, (0.08,)),
    ("CV 8 %", 4, (0.08,)),
    ("days 1 %", 200, (0.10,)),
    ("t3 days 1 %", 200, (0.10,)),
    ("days AR 0.9, 1 %", 200, (0.10,)),
    ("modes per job in a fifth", 200, (0.10,)),
)
#: Steps that the default run measures; the others are of `--all`.
MAIN = (0.05, 0.10)


@dataclass(frozen=True)
class Row:
    step: float
    method: str
    hits: int
    trials: int
    repeats: float | None = None  #: mean number of repeats used
    #: of whole campaigns: percent with an improvement, and percent that end with 2
    beside: tuple[float, float] | None = None

    @classmethod
    def of(cls, step: float, method: str, flags: np.ndarray, repeats=None) -> "Row":
        mean = None if repeats is None else float(np.mean(repeats))
        return cls(step, method, int(np.count_nonzero(flags)), len(flags), mean)

    @property
    def rate(self) -> float:
        return 100 * self.hits / self.trials


def steps(rng, cv: float, plan) -> list[Row]:
    """Power and false alarms of every method, without drift; the gate's by repeats until a
    verdict."""
    rows = []
    for step in STEPS:
        base, new = bench_noise.campaign(rng, plan.trials, cv, 0.0, plan.baseline, ANALYSES[-1])
        base, new = base.reshape(len(base), -1), new * (1 + step)
        logs = np.log(base)
        errors = sequential.Errors.of(logs, np.zeros(len(logs)), day_error(plan.variables))
        judged = sequential.decide(logs, np.log(new), alpha(plan.variables), errors)
        rows.append(Row.of(step, "judge", judged.side == 1, judged.count))
        for name, flags, count in bench_methods.others(rng, base, new, cv):
            rows.append(Row.of(step, name, flags, count))
    return rows


def confirmed(rng, plan) -> list[Row]:
    """Steps that the gate finds: by five repeats, by `gate --confirm`, and by that of the night
    after."""
    rows = []
    for name, variables, steps in POWER:
        kind = next(kind for kind in bench_noise.KINDS if kind.name == name)
        for step in steps:
            if not plan.all and (step not in MAIN or variables != plan.variables):
                continue
            seed = int(rng.integers(2**32))
            size = None if step == FINDS else math.log1p(step)
            outcomes = campaigns.simulate(kind, variables, plan.changed, size, seed=seed)
            label = name if variables == plan.variables else f"{name}, {variables} variables"
            for place, when in ((-1, "5 repeats alone"), (0, "gate --confirm"), (1, "next night")):
                found, fresh = (
                    outcomes[:, place, campaigns.FOUND],
                    outcomes[:, place, campaigns.FRESH],
                )
                rows.append(Row.of(step, f"{label}: {when}", found, fresh))
    return rows


def unchanged(rng, plan) -> list[Row]:
    """Unchanged campaigns in which `gate --confirm` ends with 1, on some nights."""
    rows = []
    for kind in bench_noise.KINDS:
        seed = int(rng.integers(2**32))
        # How repeats vary is no matter of nights.
        long = kind.shape is None
        outcomes = campaigns.simulate(kind, plan.variables, plan.campaigns, long=long, seed=seed)
        for place, when in enumerate(campaigns.JUDGED[: 4 if long else 2]):
            night = outcomes[:, place]
            row = Row.of(0.0, f"{kind.name}: {when}", night[:, 0] == 1, night[:, campaigns.FRESH])
            beside = 100 * night[:, campaigns.IMPROVED].mean(), 100 * (night[:, 0] == 2).mean()
            rows.append(replace(row, beside=beside))
    return rows


def plain(rng, plan) -> list[Row]:
    """Changes that a session decides without fresh repeats, by its number of repeats."""
    rows = []
    for baseline, days, drifting in ((plan.baseline, 12, 0.0), (20, 1, least_drift(1, 1))):
        for repeats in (3, REPEATS, 7):
            for step in (0.0, 0.10, 0.20, 0.50):
                base, new = bench_noise.campaign(rng, plan.trials, 0.03, 0.0, baseline, repeats)
                logs = np.log(base.reshape(len(base), -1))
                between = np.full(len(logs), drifting * math.sqrt(1 + 1 / days))
                errors = sequential.Errors.of(logs, between, day_error(plan.variables))
                steps = np.log(new) + math.log1p(step)
                found = sequential.decide(logs, steps, alpha(plan.variables), errors)
                name = f"{repeats} repeats, baseline of {baseline}"
                rows.append(Row.of(step, name, found.side == 1))
    return rows


def duet(rng, shared: float, plan) -> list[Row]:
    """Power and false alarms of a duet."""
    rows = []
    for step in (0.0, 0.05):
        found = []
        for _ in range(max(1, plan.trials // 2)):
            a, b = bench_noise.pairs(rng, PAIRS[-1], bench_noise.DUET_CV, shared)
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


#: Baselines of few levels: (name, levels, repeats of each, drift that is assumed); and how levels
#: differ: (name, part of the variables, by how much, step).
FEW = (
    ("1 of 20 repeats", 1, 20, least_drift(1, 1)),
    ("3 of 7 repeats", 3, 7, least_drift(1, 3)),
    ("1 of 20 repeats, 1 % assumed", 1, 20, PRIOR_DRIFT),
)
LEVELS_DIFFER = (
    ("0 %", 1.0, 0.0, 0.1),
    ("1 %", 1.0, 0.01, 0.2),
    ("2 %", 1.0, 0.02, 0.2),
    ("2 % in a fifth", 0.2, 0.02, 0.2),
    ("10 % in a fifth", 0.2, 0.10, 0.2),
)


def of_few_levels(rng, plan) -> list[Row]:
    """Campaigns against a baseline of few levels, at another level: unchanged ones with any alarm,
    and steps that are found. A level is a day, or an hour of one."""
    rows, variables = [], plan.variables
    for few, levels, repeats, assumed in FEW:
        for differ, part, far, step in LEVELS_DIFFER:
            alarms, found = [], []
            for number in range(plan.campaigns):
                drifts = np.where(rng.random(variables) < part, far, 0.0)[:, None]
                shifts = np.exp(rng.normal(0, 1, (variables, levels + 1)) * drifts)
                base = bench_noise.repeats(rng, (variables, levels, repeats), 0.03)
                base = base * shifts[:, :-1, None]
                new = bench_noise.repeats(rng, (variables, ANALYSES[-1]), 0.03) * shifts[:, -1:]
                drifting = np.hypot(drift.effective(base, variables), assumed)
                alarms.append(_flagged(base, new, drifting, plan).any())
                if number < plan.campaigns // 4 or not found:
                    found.append(_flagged(base, new * (1 + step), drifting, plan))
            name = f"{few}, levels differ by {differ}"
            rows.append(Row.of(0.0, name, np.array(alarms)))
            rows.append(Row.of(step, name, np.concatenate(found)))
    return rows


def _flagged(base, new, drifting, plan) -> np.ndarray:
    """Which variables the gate calls regressed, of a baseline of so many days."""
    logs, between = np.log(base.reshape(len(base), -1)), drifting * math.sqrt(1 + 1 / base.shape[1])
    errors = sequential.Errors.of(logs, between, day_error(plan.variables))
    return sequential.decide(logs, np.log(new), alpha(plan.variables), errors).side == 1


def _finds_of_few(plan) -> str:
    """What a baseline of 20 repeats finds, by the drift that is assumed."""
    noise, error = np.array([0.03]), alpha(plan.variables)
    said = []
    for assumed in (PRIOR_DRIFT, UNKNOWN_DRIFT, 0.03):
        between = np.array([assumed * math.sqrt(2)])
        errors = sequential.Errors(noise, FEW[0][2], between, day_error(plan.variables))
        finds, alone = errors.detectable(error)[0], errors.threshold(REPEATS)[0]
        said.append(
            f"{100 * assumed:.0f} % assumed: finds {100 * np.expm1(finds):.1f} %, five repeats "
            f"alone {100 * np.expm1(alone):.1f} %"
        )
    return f"At CV 3 %, 20 repeats of one day: {'; '.join(said)}"


def confirmations(rng, plan) -> tuple[list[Row], str]:
    """Unchanged campaigns that `gate --confirm` confirms: whether they end clean, the fresh
    launches of each, and a line on the runs of ReFrame."""
    rows, lines = [], []
    for cv in (0.03, 0.05, 0.08):
        known = confirmation.baseline(rng, cv)
        for which in ("suspicious", "all"):
            costs = [
                confirmation.cost(rng, cv, known, which)
                for _ in range(max(1, plan.campaigns // 20))
            ]
            name = f"CV {100 * cv:.0f} %, --confirm={which}"
            alarms = np.array([one.exit_code != 0 for one in costs])
            rows.append(Row.of(0.0, name, alarms, [one.launches for one in costs]))
            runs = [one.runs for one in costs]
            minutes = [one.minutes for one in costs]
            lines.append(
                f"{name}: {np.mean(runs):.1f} runs of ReFrame, {max(runs)} at most; "
                f"{np.mean(minutes):.0f} minutes, {max(minutes):.0f} at most"
            )
    lines.append(
        f"minutes: {confirmation.JOB_SECONDS} s for each job, {confirmation.LAUNCH_SECONDS} s for "
        "each launch, one job after the other"
    )
    cases = f"{confirmation.CASES} cases of {confirmation.VARIABLES} variables"
    return rows, "; ".join([f"campaigns of {cases} that do not end with 0", *lines])


def is_regressed(change) -> bool:
    """Whether the session before makes a variable `regressed`."""
    return isinstance(change, two_sessions.Change) and change.name == "regressed"


def is_named(change) -> bool:
    """The same, or whether it is `inconclusive` until a second day shows the change."""
    return is_regressed(change) or change.far is not None


def without_baseline(rng, plan) -> list[Row]:
    """Campaigns of five repeats with any alarm against the session before, and steps of 50 % that
    are named there (stats/two_sessions.py)."""
    rows = []
    for name, cvs, days, whose in (
        ("CV 3 %", (0.03, 0.03), 0.0, "own"),
        ("CV 1 to 20 %", (0.01, 0.2), 0.0, "own"),
        ("CV 1 to 20 %, days 2 %", (0.01, 0.2), 0.02, "own"),
        ("CV 3 %, a fifth drift 3 %", (0.03, 0.03), 0.03, "fifth"),
    ):
        alarms, found = [], []
        for _ in range(plan.campaigns):
            for step in (0.0, 0.5):
                before, now = bench_noise.two_sessions(
                    rng, plan.variables, REPEATS, cvs, days, whose
                )
                now[: plan.variables // 20] *= 1 + step
                samples = [two_sessions.Samples(a, b, True) for a, b in zip(before, now)]
                changes = two_sessions.judge(samples)
                if step:
                    found += map(is_named, changes[: plan.variables // 20])
                else:
                    alarms.append(any(map(is_regressed, changes)))
        rows += [Row.of(0.0, name, np.array(alarms)), Row.of(0.5, name, np.array(found))]
    return rows


def histories(rng, plan) -> list[Row]:
    """Change points in series of 100 sessions, flat, with a step before the last 20, or with days
    that resemble the ones before; and creeps. A session is the median of five repeats at CV 3 %."""
    rows, count, error = (
        [],
        max(1, plan.trials // bench_methods.SLOW),
        history.ERROR / plan.variables / 100,
    )
    for step in (0.0, 0.05):
        values = np.median(
            bench_noise.repeats(rng, (count, 100, bench_noise.SESSION), 0.03), axis=2
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
    days = bench_noise.remembering(rng, count, 100, 0.8, 0.02)
    values = bench_noise.repeats(rng, (count, 100, bench_noise.SESSION), 0.03)
    for name, places in methods.items():
        found = [bool(places(row)) for row in np.median(values, axis=2) * days]
        rows.append(Row.of(0.0, f"{name}, days of 2 % with a memory", np.array(found)))
    return rows + creeps(rng, plan, count)


def creeps(rng, plan, count: int) -> list[Row]:
    """Series that creep by so much a week after 12 sessions, with a creep by this night."""
    rows = []
    for week in (0.0, 0.005, 0.01):
        nights = np.clip(np.arange(96) - 12, 0, None)
        values = np.median(bench_noise.repeats(rng, (count, 96, bench_noise.SESSION), 0.03), axis=2)
        values = values * np.exp(nights * week / 7)
        for night in (42, 84) if week else (84,):
            seen = [history.moves(row[: 12 + night], plan.variables)[1] for row in values]
            found = np.array([one is not None for one in seen])
            rows.append(Row.of(week, f"creep a week, by night {night}", found))
    return rows


def within(rng, plan) -> list[Row]:
    """False alarms if samples within a repeat are treated as independent."""
    rows = []
    for between in (0.0, 0.5):
        for name, flags, count in bench_methods.pooled(
            rng, plan.trials, plan.baseline, 0.02, between
        ):
            rows.append(
                Row.of(
                    0.0,
                    f"{name}, {100 * between:.0f} % of the variance between repeats",
                    flags,
                    count,
                )
            )
    return rows


def tables(rng, plan):
    """Yield (title, rows, theoretical limit or a note) of each table of `plan.only`; else of all,
    or of the main ones."""
    for title, is_main, measured in _tables(rng, plan):
        if title in plan.only if plan.only else is_main or plan.all:
            rows, note = measured()
            yield title, rows, note


def titles(plan) -> list[str]:
    return [title for title, _, _ in _tables(None, plan)]


def _tables(rng, plan):
    """Yield the title of each table, whether it is a main one, and a function that returns its rows
    and its note."""
    for title, is_main, rows, note in (
        ("gate --confirm", True, confirmed, "a variable that changed; repeats: fresh ones in all"),
        ("unchanged campaigns", True, unchanged, "flagged: a campaign that ends with 1"),
        ("a plain session", False, plain, "CV 3 %, no fresh repeats"),
        (
            "two sessions",
            True,
            without_baseline,
            "flagged at 0 %: a campaign with any alarm; at 50 %: a variable that is named",
        ),
        (
            "history",
            False,
            histories,
            "flagged: a series with a change point; with a step, one within a session of the step",
        ),
        (
            "within a repeat",
            False,
            within,
            f"CV 2 %, rank test at 1 %, {bench_methods.WITHIN} samples in each repeat",
        ),
        (
            "baseline of few levels",
            False,
            of_few_levels,
            f"{UNCHANGED} at another level with any alarm; else: a variable. {_finds_of_few(plan)}",
        ),
    ):
        yield title, is_main, lambda rows=rows, note=note: (rows(rng, plan), note)
    yield "confirmation", False, lambda: confirmations(rng, plan)
    for cv in (0.02, 0.03, 0.08):
        limit = bench_limits.repeats_for_a_step(cv, plan)
        title = f"CV {100 * cv:.0f} %"
        yield title, False, lambda cv=cv, limit=limit: (steps(rng, cv, plan), limit)
    for shared in (0.0, 0.8, 0.95, 0.99):
        limit = bench_limits.pairs_for_a_step(shared, plan)
        title = f"duet, CV 8 %, shared {shared}"
        yield title, False, lambda shared=shared, limit=limit: (duet(rng, shared, plan), limit)
