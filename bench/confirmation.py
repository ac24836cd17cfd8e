"""What `nearmetal gate --confirm` costs an unchanged campaign: runs of ReFrame, fresh launches.

The gate's own code judges the campaign and chooses what to measure again. ReFrame is simulated.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench import noise as bench_noise
from nearmetal.judge import confirm, record
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.campaign import Campaign
from nearmetal.judge.verdict import GateReport
from nearmetal.results import Case, Session, Value
from nearmetal.stats.plan import BASELINE_SESSIONS

#: Cases of a campaign, and variables of each.
CASES, VARIABLES = 50, 4
#: Seconds of a day.
DAY = 86400
#: The model of a confirmation's time: a job that waits and starts, and each of its launches. Jobs
#: run one after the other.
JOB_SECONDS, LAUNCH_SECONDS = 30, 20


@dataclass(frozen=True)
class Cost:
    """What the confirmation of a campaign cost, and how it ended."""

    runs: int  #: of ReFrame
    launches: int  #: fresh ones, of all cases
    jobs: int  #: one for each case of a run
    left: int  #: variables that are inconclusive at its end
    exit_code: int

    @property
    def minutes(self) -> float:
        return (self.jobs * JOB_SECONDS + self.launches * LAUNCH_SECONDS) / 60


def cost(rng, cv: float, known: Baseline, which: str) -> Cost:
    """Confirm an unchanged campaign whose repeats vary by `cv`, as `--confirm=WHICH` does."""
    judged = Campaign(campaign(rng, cv, BASELINE_SESSIONS), known)
    most = np.log(bench_noise.repeats(rng, (CASES * VARIABLES, confirm.Bounds().most), cv))
    return confirmed(judged, most, which)[1]


def confirmed(judged: Campaign, most: np.ndarray, which: str) -> tuple[GateReport, Cost]:
    """The report after a confirmation, and what it cost.

    :arg most: logarithms of the fresh repeats, (variables, repeats), in the order of `names`.
    """
    bounds, fresh = confirm.Bounds(which=which), {}
    report, runs, launches, jobs = judged.judge_against_baseline(fresh), 0, 0, 0
    rows = {where: row for row, where in enumerate(names(len(most)))}
    while runs < bounds.rounds:
        wanted = confirm.suspicious(report, confirm.Remeasured(fresh), bounds, runs)
        if not wanted:
            break
        jobs += len(wanted)
        for (check, _, _), again in wanted.items():
            launches += again.repeats
            for where in rows:
                if where[0] != check:
                    continue
                taken = fresh.setdefault(where, [])
                more = most[rows[where], len(taken) : len(taken) + again.repeats]
                taken.extend(map(float, np.exp(more)))
        report, runs = judged.judge_against_baseline(fresh), runs + 1
    left = sum(verdict.name == "inconclusive" for verdict in report.verdicts)
    return report, Cost(runs, launches, jobs, left, report.exit_code)


def baseline(rng, cv: float) -> Baseline:
    """The baseline of as many sessions, one a day."""
    sessions = [campaign(rng, cv, day) for day in range(BASELINE_SESSIONS)]
    empty = Baseline("simulated", Path("simulated.yaml"), {})
    return record.record(sessions, empty, leave_out_noisy=True)[0]


def campaign(rng, cv: float, day: int) -> Session:
    """A session of this day, counted from 0."""
    return session(
        np.log(bench_noise.repeats(rng, (CASES * VARIABLES, bench_noise.SESSION), cv)), day
    )


def session(logs: Sequence[np.ndarray], day: int) -> Session:
    """The session of a day, counted from 0, with these samples of each variable."""
    cases: dict[str, list[Value]] = {}
    for (check, partition, environ, name), row in zip(names(len(logs)), logs):
        samples = tuple(map(float, np.exp(row)))
        median = float(np.median(samples))
        value = Value(check, environ, partition, name, median, "us", samples)
        cases.setdefault(check, []).append(value)
    facts = {"nodes": ["node1", "node2"]}
    held = tuple(
        Case(check, "cluster", "mpi", tuple(values), facts, {}, None, None)
        for check, values in cases.items()
    )
    found = Session(f"{day:08d}", f"202608{day + 1:02d}T020000+0000", "simulated", ())
    return replace(found, cases=held, promised=len(held), time=1.785e9 + day * DAY)


def names(variables: int) -> list[tuple[str, str, str, str]]:
    """Check, partition, environment and name of each variable."""
    return [
        (f"check{number // VARIABLES}", "cluster", "mpi", f"latency_{number % VARIABLES}")
        for number in range(variables)
    ]
