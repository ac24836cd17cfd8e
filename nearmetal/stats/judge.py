"""Did a variable change?  A sequential rank test of fresh launches against a baseline.  Pure functions.

One sample is one fresh launch: what varies between launches is the noise that counts (Kalibera and Jones, Rigorous
benchmarking in reasonable time, ISMM 2013), and rank tests and medians stand the outliers that means don't
(Hoefler and Belli, Scientific benchmarking of parallel computing systems, SC15, rules 5 to 8).

At each of LOOKS launches the new samples are compared with the baseline's: `regressed` or `improved` where a one-sided
Mann-Whitney test says so *and* the Hodges-Lehmann estimate of the change is beyond THRESHOLD, and beyond what a day does
where days differ (drift.py); `ok` where that estimate stays MARGIN standard errors below the smallest change that can be
found; else more launches are asked for.  The error rate of a whole campaign is shared equally (Bonferroni) by its variables
and the looks, so that looking again costs nothing that was not paid for.  How often it errs is measured: bench_gate.py.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from nearmetal.stats import drift as days
from nearmetal.stats import ranks, sequential
from nearmetal.stats.sequential import CONFIRM_LOOKS, LOOKS, UNDECIDED

#: Fewer samples in a baseline than this cannot give a p-value as small as a campaign's share.
LEAST_BASELINE = 20
#: Share of unchanged campaigns that may raise any alarm, which is a variable called `regressed`.
CAMPAIGN_ERROR = 0.05
#: Chance that fresh launches of an unchanged variable alone confirm a false alarm.
CONFIRM_ERROR = 0.01


class JudgeError(ValueError):
    """The samples can't be judged; the message says why."""


@dataclass(frozen=True)
class Verdict:
    word: str  #: ok, regressed, improved, inconclusive
    change: float  #: fraction by which the variable changed; > 0 is a higher value
    interval: tuple[float, float]  #: of the change, 95 %, the drift of a day included
    p: float  #: of the direction in which it changed, at the look that decided
    launches: int  #: that the verdict used, of both stages where there were two
    size: (
        float | None
    )  #: smallest change that can be found in this noise, as a fraction; None: not even SIZES[1]
    wanted: int | None = (
        None  #: inconclusive: launches at which it is asked again; None: no number of LOOKS is enough
    )
    drift: float = 0.0  #: between sessions, as a fraction, that was allowed for


def judge(
    baseline, launches, lower_is_better: bool, variables: int = 1, drift: float = 0.0
) -> Verdict:
    """Judge one variable of a campaign of so many variables.

    :arg baseline: sessions, each with one value a launch, or the launches of a single one; at least LEAST_BASELINE launches,
        positive, any unit.
    :arg launches: one value a fresh launch of one session in the order of measurement, same unit; what lies beyond the last
        look that is reached waits for the next.
    :arg drift: between sessions, as a fraction: `drift.typical` of all variables of the baseline, which show it far better
        than this one alone; what this one shows alone counts where that is more.
    :raises JudgeError: too few samples, or a value that is not positive and finite.
    """
    sessions, base = _baseline(baseline, variables)
    new = positive_logs(launches, "launches")
    if not len(new):
        raise JudgeError("no launch to judge")
    drift = max(drift, days.typical([sessions]))
    found = sequential.decide(
        base[None], new[None], _share(variables), np.array([drift]), len(sessions)
    )
    return _verdict(found, base, new, lower_is_better, drift, len(sessions))


def confirm(
    baseline, first, fresh, lower_is_better: bool, variables: int = 1, drift: float = 0.0
) -> Verdict:
    """Judge in two stages: `first` as `judge` does; what that finds changed must hold in the `fresh` launches alone, what it
    leaves open goes on with both.  The change of a confirmed verdict is that of the fresh launches, which weren't chosen for
    being far off.  Arguments and errors as for `judge`; `wanted` counts the launches of both stages."""
    sessions, base = _baseline(baseline, variables)
    stages = [positive_logs(first, "launches"), positive_logs(fresh, "fresh launches")]
    if not all(map(len, stages)):
        raise JudgeError("no launch to judge")
    drift = max(drift, days.typical([sessions]))
    share, known = _share(variables), (np.array([drift]), len(sessions))
    alone = sequential.decide(base[None], stages[0][None], share, *known)
    if alone.side[0] == 0:
        return _verdict(alone, base, stages[0], lower_is_better, drift, len(sessions))
    both = sequential.confirm(
        base[None], stages[0][None], stages[1][None], share, CONFIRM_ERROR, *known
    )
    used = 0 if alone.side[0] == UNDECIDED else int(alone.count[0])
    new = stages[1] if used else np.concatenate(stages)
    found = replace(both, count=both.count - used)
    verdict = _verdict(
        found, base, new, lower_is_better, drift, len(sessions), CONFIRM_LOOKS if used else LOOKS
    )
    return replace(
        verdict, launches=verdict.launches + used, wanted=verdict.wanted and verdict.wanted + used
    )


def finds(baseline, variables: int = 1, drift: float = 0.0) -> float | None:
    """The smallest change that `judge` can be relied on to find against that baseline, as a fraction; None: none up to SIZES[1].
    Arguments and errors as for `judge`."""
    sessions, base = _baseline(baseline, variables)
    drift = max(drift, days.typical([sessions]))
    errors = sequential.Errors(
        ranks.spread(base[None]), len(base), np.array([drift]), len(sessions)
    )
    return _fraction(errors.size(_share(variables)))


def _fraction(shift: np.ndarray) -> float | None:
    """The one shift of an array as a fraction; None for NaN."""
    return None if math.isnan(shift[0]) else math.expm1(shift[0])


def _share(variables: int) -> float:
    return CAMPAIGN_ERROR / variables / len(LOOKS)


def _baseline(baseline, variables: int) -> tuple[list, np.ndarray]:
    """The baseline's sessions, and all their launches' logarithms."""
    if variables < 1:
        raise JudgeError(f"a campaign has at least one variable, not {variables}")
    sessions = [baseline] if not len(baseline) or np.ndim(baseline[0]) == 0 else list(baseline)
    base = np.concatenate([positive_logs(session, "baseline") for session in sessions])
    if len(base) < LEAST_BASELINE:
        raise JudgeError(
            f"the baseline holds {len(base)} launches; at least {LEAST_BASELINE} are needed: "
            "record more sessions"
        )
    return [session for session in sessions if len(session)], base


def positive_logs(values, what: str) -> np.ndarray:
    """Natural logarithms of (n,) values. Raises JudgeError unless all are positive and finite."""
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or not np.all(np.isfinite(array) & (array > 0)):
        raise JudgeError(
            f"the {what} hold a value that is not positive and finite: {array.tolist()}"
        )
    return np.log(array)


def _verdict(
    found, base, new, lower_is_better: bool, drift: float, sessions: int, looks=LOOKS
) -> Verdict:
    side, count, shift = int(found.side[0]), int(found.count[0]), float(found.shift[0])
    word = {0: "ok", UNDECIDED: "inconclusive"}.get(side) or (
        "regressed" if (side > 0) == lower_is_better else "improved"
    )
    day = (
        drift
        * math.sqrt(1 + 1 / sessions)
        * (special.stdtrit(sessions - 1, 0.975) if sessions > 1 else 1.96)
    )
    low, high = (
        math.expm1(shift + math.copysign(math.hypot(end - shift, day), end - shift or outward))
        for end, outward in zip(ranks.shift_interval(base, new[:count]), (-1, 1))
    )
    wanted = next((look for look in looks if look > count), None) if side == UNDECIDED else None
    return Verdict(
        word,
        math.expm1(shift),
        (low, high),
        float(found.p[0]),
        count,
        _fraction(found.size),
        wanted,
        drift,
    )
