"""What `nearmetal gate --confirm` costs an unchanged campaign: runs of ReFrame, fresh launches.

The gate's own code judges the campaign and chooses what to measure again. ReFrame is simulated.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from bench import noise as bench_noise
from nearmetal.judge import confirm, record
from nearmetal.judge.against_baseline import Fresh
from nearmetal.judge.baseline import Baseline
from nearmetal.judge.campaign import Campaign
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
    judged, bounds = (
        Campaign(campaign(rng, cv, BASELINE_SESSIONS), known),
        confirm.Bounds(which=which),
    )
    fresh: Fresh = {}
    report, runs, launches, jobs = judged.judge_against_baseline(fresh), 0, 0, 0
    while runs < bounds.rounds:
        wanted = confirm.suspicious(report, confirm.Remeasured(fresh), bounds, runs)
        if not wanted:
            break
        jobs += len(wanted)
        for where, again in wanted.items():
            launches += again.repeats
            for name in names():
                values = list(bench_noise.repeats(rng, again.repeats, cv))
                fresh.setdefault((*where, name), []).extend(map(float, values))
        report, runs = judged.judge_against_baseline(fresh), runs + 1
    left = sum(one.name == "inconclusive" for one in report.verdicts)
    return Cost(runs, launches, jobs, left, report.exit_code)


def baseline(rng, cv: float) -> Baseline:
    """The baseline of as many sessions, one a day."""
    sessions = [campaign(rng, cv, day) for day in range(BASELINE_SESSIONS)]
    empty = Baseline("simulated", Path("simulated.yaml"), {})
    return record.record(sessions, empty, leave_out_noisy=True)[0]


def campaign(rng, cv: float, day: int) -> Session:
    """A session of this day, counted from 0."""
    session = Session(f"{day:08d}", f"202608{day + 1:02d}T020000+0000", "simulated", ())
    cases = tuple(_case(rng, cv, f"check{number}") for number in range(CASES))
    return replace(session, cases=cases, promised=CASES, time=1.785e9 + day * DAY)


def _case(rng, cv: float, check: str) -> Case:
    values = []
    for name in names():
        samples = tuple(map(float, bench_noise.repeats(rng, bench_noise.SESSION, cv)))
        median = float(np.median(samples))
        values.append(Value(check, "mpi", "cluster", name, median, "us", samples))
    facts = {"nodes": ["node1", "node2"]}
    return Case(check, "cluster", "mpi", tuple(values), facts, {}, None, None)


def names() -> list[str]:
    return [f"latency_{number}" for number in range(VARIABLES)]
