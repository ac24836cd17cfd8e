"""Did a variable change? A sequential rank test of samples against a baseline. Pure functions.

A sample is the value of one repeat, which is a fresh launch of the program. The noise that counts
is the noise between repeats (Kalibera and Jones, Rigorous benchmarking in reasonable time, ISMM
2013). Rank tests and medians withstand outliers; means do not (Hoefler and Belli, Scientific
benchmarking of parallel computing systems, SC15, rules 5 to 8).

At each of ANALYSES the new samples are compared with the baseline's:

- `regressed` or `improved`: a one-sided Mann-Whitney test is significant, and the Hodges-Lehmann
  estimate is beyond THRESHOLD. If there is drift, it must also be beyond a day's shift (drift.py).
- `ok`: the estimate is MARGIN standard errors below the minimum detectable change. Fewer than
  LEAST_UNCHANGED samples give it only where there are no more.
- Else more samples are requested.

The error rate of a campaign is divided equally among variables and analyses (Bonferroni). `make
bench-gate` measures the resulting error rates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from nearmetal.stats import ranks, sequential
from nearmetal.stats.drift import effective
from nearmetal.stats.plan import (
    ANALYSES,
    CONFIRMATION_ANALYSES,
    CONFIRMATION_ERROR,
    LEAST_BASELINE,
    alpha,
    day_error,
)
from nearmetal.stats.sequential import OPPOSITE, UNDECIDED, Decisions


class JudgeError(ValueError):
    """The samples cannot be judged. The message says why."""


@dataclass(frozen=True)
class Decision:
    """The test's decision on one variable."""

    #: Verdict: ok, regressed, improved, inconclusive.
    name: str
    #: As a fraction; > 0 is a higher value.
    change: float
    #: 95 % interval of the change, including a day's drift.
    interval: tuple[float, float]
    #: p-value of the change's direction, at the deciding analysis.
    p: float
    #: Number of samples used, of both stages if there are two.
    samples: int
    #: minimum detectable change as a fraction; None: above DETECTABLE[1]
    detectable: float | None
    #: inconclusive: samples of the next analysis that probably decides; None: there is none
    wanted: int | None = None
    #: regressed, improved: fresh samples that probably show the change again
    fresh: int | None = None
    #: Allowed between days, as a fraction.
    drift: float = 0.0
    #: inconclusive: numbers of samples of the analyses to come, counted as `wanted` is
    later: tuple[int, ...] = ()
    #: The first samples showed a change, so that fresh ones alone decide.
    set_aside: bool = False
    #: Fresh samples show the opposite of the first ones.
    opposed: bool = False


@dataclass(frozen=True)
class _Test:
    """What the decisions on one variable share."""

    #: Logarithms of the baseline's samples.
    base: np.ndarray
    #: Error rate of an analysis.
    alpha: float
    drift: float
    errors: sequential.Errors
    lower_is_better: bool
    analyses: tuple[int, ...] = ANALYSES


def judge(
    baseline, samples, lower_is_better: bool, variables: float = 1, drift: float | None = None
) -> Decision:
    """Judge one variable of a campaign.

    :arg baseline: days with one value for each repeat, or the values of a single day. At
        least LEAST_BASELINE values, positive, any unit.
    :arg samples: values of one session in the order of measurement, same unit. Values beyond the
        last analysis are not used until the next one is reached.
    :arg variables: number of variables in the campaign.
    :arg drift: drift between days as a fraction, of this variable, as `drift.effective` finds it
        from all variables of the baseline. None: found from this variable alone.
    :raises JudgeError: too few samples, or a value that is not positive and finite.
    """
    test = _test(baseline, lower_is_better, variables, drift)
    new = positive_logs(samples, "samples")
    if not len(new):
        raise JudgeError("no sample to judge")
    decided = _decided(test, new)
    return _decision(decided, test, new)


def judge_in_two_stages(
    baseline, first, fresh, lower_is_better: bool, variables: float = 1, drift: float | None = None
) -> Decision:
    """Judge the first samples, then confirm the result with fresh ones.

    A change in `first` must be found again in `fresh` alone. An undecided variable is judged on
    both. The change of a confirmed decision is that of the fresh samples, which were not selected
    for a large change. Arguments and errors are as for `judge`; `wanted` and `later` count the
    samples of both stages, used or not.
    """
    test = _test(baseline, lower_is_better, variables, drift)
    stages = [positive_logs(first, "samples"), positive_logs(fresh, "fresh samples")]
    if not all(map(len, stages)):
        raise JudgeError("no sample to judge")
    alone = _decided(test, stages[0])
    if alone.side[0] == 0:
        return _decision(alone, test, stages[0])
    both = sequential.decide_in_two_stages(
        test.base[None],
        stages[0][None],
        stages[1][None],
        test.alpha,
        CONFIRMATION_ERROR,
        test.errors,
    )
    if alone.side[0] == UNDECIDED:
        return _decision(both, test, np.concatenate(stages))
    used = int(alone.count[0])
    again = replace(
        test,
        alpha=CONFIRMATION_ERROR / len(CONFIRMATION_ANALYSES),
        analyses=CONFIRMATION_ANALYSES,
    )
    decision = _decision(replace(both, count=both.count - used), again, stages[1])
    before = len(stages[0])
    return replace(
        decision,
        samples=decision.samples + used,
        wanted=decision.wanted and before + decision.wanted,
        later=tuple(before + count for count in decision.later),
        set_aside=True,
        opposed=both.side[0] == OPPOSITE,
    )


def _test(baseline, lower_is_better: bool, variables: float, drift: float | None) -> _Test:
    days, base = baseline_of(baseline, variables)
    if drift is None:
        drift = float(effective([days], variables)[0])
    errors = sequential.Errors.of(base[None], np.array([drift]), len(days), day_error(variables))
    return _Test(base, alpha(variables), drift, errors, lower_is_better)


def _decided(test: _Test, new: np.ndarray) -> Decisions:
    return sequential.decide(test.base[None], new[None], test.alpha, test.errors)


def detectable_change(baseline, variables: float = 1, drift: float | None = None) -> float | None:
    """Minimum detectable change of `judge` against this baseline, as a fraction.

    None above DETECTABLE[1]. Arguments and errors are as for `judge`.
    """
    test = _test(baseline, True, variables, drift)
    return _fraction(test.errors.detectable(test.alpha))


def _fraction(shift: np.ndarray) -> float | None:
    """The shift of an array with one entry as a fraction; None for NaN."""
    return None if math.isnan(shift[0]) else math.expm1(shift[0])


def baseline_of(baseline, variables: float) -> tuple[list, np.ndarray]:
    """The baseline's days, and the logarithms of all their samples."""
    if variables < 1:
        raise JudgeError(f"a campaign has at least one variable, not {variables}")
    days = list(baseline)
    if not days or np.ndim(days[0]) == 0:
        days = [baseline]  # the values of a single day
    base = np.concatenate([positive_logs(day, "baseline") for day in days])
    if len(base) < LEAST_BASELINE:
        raise JudgeError(
            f"the baseline holds {len(base)} samples; at least {LEAST_BASELINE} are needed. "
            "Fix: record more sessions"
        )
    return [day for day in days if len(day)], base


def positive_logs(values, what: str) -> np.ndarray:
    """Natural logarithms of (n,) values. Raises JudgeError unless all are positive and finite."""
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or not np.all(np.isfinite(array) & (array > 0)):
        raise JudgeError(
            f"the {what} hold a value that is not positive and finite: {array.tolist()}"
        )
    return np.log(array)


def _decision(trial: Decisions, test: _Test, new: np.ndarray) -> Decision:
    """The decision of a single trial on new samples."""
    side, count, shift = int(trial.side[0]), int(trial.count[0]), float(trial.shift[0])
    wanted, fresh = None, None
    later: tuple[int, ...] = ()
    if side == UNDECIDED:
        later = tuple(analysis for analysis in test.analyses if analysis > count)
        wanted = sequential.next_analysis(
            shift, count, test.errors, test.alpha, float(trial.detectable[0]), test.analyses
        )
    elif side in (1, -1):
        fresh = sequential.fresh_analysis(shift, test.errors)
    return Decision(
        _name(side, test.lower_is_better),
        math.expm1(shift),
        _interval(test.base, new[:count], shift, _day(test.drift, test.errors.days)),
        float(trial.p[0]),
        count,
        _fraction(trial.detectable),
        wanted,
        fresh,
        test.drift,
        later,
    )


def _name(side: int, lower_is_better: bool) -> str:
    if side in (UNDECIDED, OPPOSITE):
        return "inconclusive"
    return changed(side, lower_is_better) if side else "ok"


def changed(shift: float, lower_is_better: bool) -> str:
    """The verdict on a variable that changed: `regressed` or `improved`.

    :arg shift: above 0 for a higher value.
    """
    return "regressed" if (shift > 0) == lower_is_better else "improved"


def _day(drift: float, days: int) -> float:
    """Half the 95 % interval of a day's shift."""
    return drift * math.sqrt(1 + 1 / days) * float(special.ndtri(0.975))


def _interval(base: np.ndarray, new: np.ndarray, shift: float, day: float) -> tuple[float, float]:
    """95 % interval of the change as a fraction, with the day's shift added on both sides."""
    low, high = ranks.shift_interval(base, new)
    below = shift + math.copysign(math.hypot(low - shift, day), low - shift or -1)
    above = shift + math.copysign(math.hypot(high - shift, day), high - shift or 1)
    return math.expm1(below), math.expm1(above)
