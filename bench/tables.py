"""The simulations of `make bench-gate`, one function for each table.

`plan` holds the trials, campaigns, baseline and variables from the command line. A step is a rise
of a latency. Flagged variables are those called `regressed`.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from bench import confirmation
from bench import limits as bench_limits
from bench import methods as bench_methods
from bench import noise as bench_noise
from nearmetal.judge import history
from nearmetal.stats import drift, pairs, pooled, ranks, sequential, two_sessions
from nearmetal.stats.plan import (
    ANALYSES,
    CONFIRMATION_ERROR,
    PAIRS,
    PRIOR_DRIFT,
    UNKNOWN_DRIFT,
    alpha,
    day_error,
    least_drift,
)

STEPS = (0.0, 0.03, 0.05, 0.10)
#: `step` of a row where each variable has a step of its own `finds`.
FINDS = 1.0
#: Repeats of a session by default, and fresh ones of `gate --confirm`.
DEFAULT = 5, 32
#: Times as many unchanged campaigns as others.
MORE = 5
#: Beginning of a table's note.
UNCHANGED = "flagged at 0 %: an unchanged campaign"
UNCHANGED_SESSION = (
    "eight sessions share a baseline, so that the intervals are too narrow; flagged at 0 %: an "
    "unchanged session"
)
#: Which variables a day shifts (`whose` of noise.campaign) -> name of the row.
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
    repeats: float | None = None  #: mean number of repeats used
    days: int | None = None  #: number of different days, if trials share them
    size: float | None = None  #: median of the steps, if each variable has its own; `step` is FINDS

    @classmethod
    def of(cls, step: float, method: str, flags: np.ndarray, repeats=None) -> "Row":
        mean = None if repeats is None else float(np.mean(repeats))
        return cls(step, method, int(np.count_nonzero(flags)), len(flags), mean)

    @property
    def rate(self) -> float:
        return 100 * self.hits / self.trials


def gate(rng, trials: int, cv: float, days: float, step: float, plan, whose: str = "own"):
    """(baseline, fresh repeats, decisions of judge, decisions of confirm) of each campaign. The
    campaigns together have `trials` variables."""
    error, found = alpha(plan.variables), []
    for start in range(0, trials, plan.variables):
        variables = min(plan.variables, trials - start)
        base, new = bench_noise.campaign(
            rng, variables, cv, days, plan.baseline, ANALYSES[-1], whose
        )
        new = new * (1 + step)
        drifts = drift.effective(base, plan.variables)
        days_of_base, base = base.shape[1], base.reshape(len(base), -1)
        logs, fresh = np.log(base), np.log(new)
        errors = sequential.Errors.of(logs, drifts, days_of_base, day_error(plan.variables))
        found.append(
            (
                base,
                new,
                sequential.decide(logs, fresh, error, errors),
                sequential.decide_in_two_stages(
                    logs,
                    fresh[:, : DEFAULT[0]],
                    fresh[:, DEFAULT[0] : sum(DEFAULT)],
                    error,
                    CONFIRMATION_ERROR,
                    errors,
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
    """Power and false alarms of every method, without drift."""
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


def finds(rng, plan) -> list[Row]:
    """Power at the minimum detectable change of each variable, by `gate --confirm=all`."""
    rows = []
    for cv in (0.02, 0.05, 0.08):
        logs, first, fresh = _repeats(rng, cv, plan)
        shift = _errors(logs, plan.variables).detectable(alpha(plan.variables))
        found = _confirmed(logs, first + shift[:, None], fresh + shift[:, None], plan.variables)
        row = Row.of(FINDS, f"CV {100 * cv:.0f} %", found.side == 1, found.count)
        rows.append(replace(row, size=float(np.median(np.expm1(shift)))))
    return rows


def plain(rng, plan) -> list[Row]:
    """Changes that a session decides without fresh repeats, by its number of repeats."""
    rows = []
    for baseline, days, drifting in ((plan.baseline, 12, 0.0), (20, 1, least_drift(1, 1))):
        for repeats in (3, DEFAULT[0], 7):
            for step in (0.0, 0.10, 0.20, 0.50):
                base, new = bench_noise.campaign(rng, plan.trials, 0.03, 0.0, baseline, repeats)
                logs, drifts = np.log(base.reshape(len(base), -1)), np.full(len(base), drifting)
                errors = sequential.Errors.of(logs, drifts, days, day_error(plan.variables))
                steps = np.log(new) + math.log1p(step)
                found = sequential.decide(logs, steps, alpha(plan.variables), errors)
                name = f"{repeats} repeats, baseline of {baseline}"
                rows.append(Row.of(step, name, found.side == 1))
    return rows


def shares(rng, plan) -> list[Row]:
    """Power where fewer variables share the campaign's error (`gate --only`)."""
    rows, step = [], 0.08
    for variables in (200, 20, 4):
        logs, first, fresh = _repeats(rng, 0.08, plan)
        shifted = first + np.log1p(step), fresh + np.log1p(step)
        found = _confirmed(logs, *shifted, variables)
        size = _errors(logs, variables).detectable(alpha(variables))
        name = f"CV 8 %, {variables} variables, finds {100 * np.median(np.expm1(size)):.1f} %"
        rows.append(Row.of(step, name, found.side == 1, found.count))
    return rows


def _repeats(rng, cv: float, plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logarithms of a baseline's repeats, a session's and fresh ones."""
    base, new = bench_noise.campaign(rng, plan.trials, cv, 0.0, plan.baseline, sum(DEFAULT))
    logs = np.log(new)
    return np.log(base.reshape(len(base), -1)), logs[:, : DEFAULT[0]], logs[:, DEFAULT[0] :]


def _errors(logs: np.ndarray, variables: int) -> sequential.Errors:
    days = logs.shape[1] // bench_noise.SESSION
    return sequential.Errors.of(logs, np.zeros(len(logs)), days, day_error(variables))


def _confirmed(logs, first, fresh, variables: int) -> sequential.Decisions:
    errors = _errors(logs, variables)
    return sequential.decide_in_two_stages(
        logs,
        first,
        fresh,
        alpha(variables),
        CONFIRMATION_ERROR,
        errors,
    )


def drifting(rng, cv: float, days: float, plan) -> list[Row]:
    """Power and false alarms of the gate with drift between days. False alarms are rare, so they
    have four times as many trials."""
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


def uneven_days(rng, plan) -> list[Row]:
    """Unchanged campaigns with any alarm where days shift variables unevenly, and steps of 5 % that
    are found in variables which days do not shift. Alarms are rare: they have MORE campaigns."""
    rows, error = [], alpha(plan.variables)
    for days in bench_noise.MIXTURES:
        alarms, found = [], []
        for number in range(MORE * plan.campaigns):
            base, new, quiet = bench_noise.uneven(
                rng, plan.variables, days, plan.baseline, ANALYSES[-1]
            )
            logs, fresh = np.log(base.reshape(len(base), -1)), np.log(new)
            drifting = drift.effective(base, plan.variables)
            drifting *= _of_day(logs, fresh[:, : DEFAULT[0]], drifting)
            errors = sequential.Errors.of(logs, drifting, base.shape[1], day_error(plan.variables))
            alarms.append((sequential.decide(logs, fresh, error, errors).side == 1).any())
            if quiet.any() and number < plan.campaigns:
                own, steps = errors.rows(quiet), fresh[quiet] + np.log1p(0.05)
                found.append(sequential.decide(logs[quiet], steps, error, own).side == 1)
        rows.append(Row.of(0.0, days.name, np.array(alarms)))
        if found:
            rows.append(Row.of(0.05, f"{days.name}: the quiet", np.concatenate(found)))
    return rows


def _of_day(logs: np.ndarray, new: np.ndarray, drifting: np.ndarray) -> float:
    """The factor of the day's drift, as `nearmetal gate` finds it."""
    shifts = np.median(new, axis=1) - np.median(logs, axis=1)
    error = ranks.median_error(ranks.spread(logs), logs.shape[1], new.shape[1])
    return drift.of_day(shifts, error, drifting)


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


def campaigns(rng, plan) -> list[Row]:
    """Number of unchanged campaigns that raise any alarm."""
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


def other_noise(rng, plan) -> list[Row]:
    """Unchanged campaigns with any alarm, and steps of 5 % that are found, where the noise between
    repeats is not that of the other tables."""
    rows = []
    for shape in bench_noise.SHAPES:
        alarms, found = [], []
        for number in range(plan.campaigns):
            sessions = plan.baseline // bench_noise.SESSION
            base = shape.of(rng, (plan.variables, sessions, bench_noise.SESSION))
            fresh = shape.of(rng, (plan.variables, ANALYSES[-1]))
            drifting = drift.effective(base, plan.variables)
            alarms.append(_flagged(base, fresh, drifting, plan).any())
            if number < plan.campaigns // 4 or not found:
                found.append(_flagged(base, fresh * 1.05, drifting, plan))
        rows.append(Row.of(0.0, shape.name, np.array(alarms)))
        rows.append(Row.of(0.05, shape.name, np.concatenate(found)))
    return rows


def _flagged(base, new, drifting, plan) -> np.ndarray:
    """Which variables the gate calls regressed, of a baseline of so many days."""
    logs, fresh, days = np.log(base.reshape(len(base), -1)), np.log(new), base.shape[1]
    drifting = drifting * _of_day(logs, fresh[:, : DEFAULT[0]], drifting)
    errors = sequential.Errors.of(logs, drifting, days, day_error(plan.variables))
    return sequential.decide(logs, fresh, alpha(plan.variables), errors).side == 1


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


def _finds_of_few(plan) -> str:
    """What a baseline of 20 repeats finds, by the drift that is assumed."""
    noise, error = np.array([0.03]), alpha(plan.variables)
    said = []
    for assumed in (PRIOR_DRIFT, UNKNOWN_DRIFT, 0.03):
        errors = sequential.Errors(
            noise, FEW[0][2], np.array([assumed]), 1, day_error(plan.variables)
        )
        finds, alone = errors.detectable(error)[0], errors.threshold(DEFAULT[0])[0]
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


def without_baseline(rng, plan) -> list[Row]:
    """Campaigns of five repeats with any alarm against the session before, and steps of 50 % that
    are found there (stats/two_sessions.py)."""
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
                    rng, plan.variables, DEFAULT[0], cvs, days, whose
                )
                now[: plan.variables // 20] *= 1 + step
                judged = [
                    decision.name == "regressed"
                    for decision in two_sessions.judge(
                        [two_sessions.Samples(a, b, True) for a, b in zip(before, now)]
                    )
                ]
                if step:
                    found += judged[: plan.variables // 20]
                else:
                    alarms.append(any(judged))
        rows += [Row.of(0.0, name, np.array(alarms)), Row.of(0.5, name, np.array(found))]
    return rows


def watching(rng, plan) -> list[Row]:
    """Sessions of five repeats judged together (stats/pooled.py): unchanged sessions with any
    alarm, and the sessions after which half of the steps were found."""
    rows, count, error = [], 8, pooled.POOLED_ERROR / plan.variables / len(pooled.WINDOWS)
    for cv, days, step in (
        (0.03, 0.0, 0.05),
        (0.08, 0.0, 0.10),
        (0.03, 0.01, 0.05),
    ):
        name = f"CV {100 * cv:.0f} %" + (f", days {100 * days:.0f} %" if days else "")
        alarms, found = [], []
        for campaign in range(plan.campaigns):
            base = bench_noise.sessions(rng, plan.variables, plan.baseline, cv, days)
            later = bench_noise.sessions(rng, plan.variables, count * bench_noise.SESSION, cv, days)
            drifting = drift.effective(base, plan.variables)
            sides = _sides(base, later, drifting, error)
            alarms += list((sides != 0).any(axis=1))
            if campaign % 4:
                continue  # of a step, the variables of each fourth campaign are enough
            sides = _sides(base, later * (1 + step), drifting, error)
            found.append(np.logical_or.accumulate(sides == 1))
        by_session = np.concatenate(found, axis=1)
        rows.append(Row.of(0.0, name, np.array(alarms)))
        rows += [
            Row.of(step, f"{name}, by session {after}", by_session[after - 1])
            for after in (1, 2, 4, 8)
        ]
    return rows


def _sides(base, later, drifting, error: float) -> np.ndarray:
    """The side of each variable after each session, (sessions, variables)."""
    logs, new = np.log(base.reshape(len(base), -1)), np.log(later)
    sides = []
    for count in range(1, new.shape[1] + 1):
        seen = [new[:, session] for session in range(count)]
        pools = pooled.pools_of(logs, seen, drifting, base.shape[1], error)
        every = np.array([pool.side(error, pools[0]) for pool in pools])
        sides.append(every[np.abs(every).argmax(axis=0), np.arange(len(base))])
    return np.array(sides)


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
    """Yield (title, rows, theoretical limit or a note) of each table of `plan.only`, or of all."""
    for title, measured in _tables(rng, plan):
        if not plan.only or title in plan.only:
            rows, note = measured()
            yield title, rows, note


def titles(plan) -> list[str]:
    return [title for title, _ in _tables(None, plan)]


def _tables(rng, plan):
    """Yield the title of each table, and a function that returns its rows and its note."""
    for cv in (0.02, 0.03, 0.08):
        limit = bench_limits.repeats_for_a_step(cv, plan)
        yield f"CV {100 * cv:.0f} %", lambda cv=cv, limit=limit: (steps(rng, cv, plan), limit)
    for cv in (0.02, 0.03):
        for days in (0.005, 0.01):
            yield (
                f"CV {100 * cv:.0f} %, days {100 * days:.1f} %",
                lambda cv=cv, days=days: (
                    drifting(rng, cv, days, plan),
                    bench_limits.step_with_drift(days, plan),
                ),
            )
    for title, rows, note in (
        ("what finds promises", finds, "each variable rises by its minimum detectable change"),
        ("a plain session", plain, "CV 3 %, no fresh repeats"),
        ("shares of the error", shares, "variables that share the campaign's error"),
        (
            "uneven days",
            uneven_days,
            f"{UNCHANGED} with any alarm; at 5 %: a variable without drift",
        ),
    ):
        yield title, lambda rows=rows, note=note: (rows(rng, plan), note)
    for shared in (0.0, 0.8, 0.95, 0.99):
        limit = bench_limits.pairs_for_a_step(shared, plan)
        yield (
            f"duet, CV 8 %, shared {shared}",
            lambda shared=shared, limit=limit: (duet(rng, shared, plan), limit),
        )
    note_of_campaigns = (
        f"each of {plan.variables} unchanged variables; flagged: a campaign with any alarm"
    )
    yield "campaigns", lambda: (campaigns(rng, plan), note_of_campaigns)
    yield "confirmation", lambda: confirmations(rng, plan)
    for title, rows, note in (
        (
            "two sessions",
            without_baseline,
            "flagged at 0 %: a campaign with any alarm; at 50 %: a variable",
        ),
        (
            "sessions together",
            watching,
            f"{UNCHANGED_SESSION} with any alarm; else: a variable",
        ),
        (
            "history",
            histories,
            "flagged: a series with a change point; with a step, one within a session of the step",
        ),
        (
            "within a repeat",
            within,
            f"CV 2 %, rank test at 1 %, {bench_methods.WITHIN} samples in each repeat",
        ),
        (
            "other noise",
            other_noise,
            "flagged at 0 %: an unchanged campaign with any alarm; else: a variable",
        ),
        (
            "baseline of few levels",
            of_few_levels,
            f"{UNCHANGED} at another level with any alarm; else: a variable. {_finds_of_few(plan)}",
        ),
    ):
        yield title, lambda rows=rows, note=note: (rows(rng, plan), note)
