"""Did a variable change? A sequential rank test of samples against a baseline. Pure functions.

A sample is the value of one repeat, which is a fresh launch of the program. The noise that counts
is the noise between repeats (Kalibera and Jones, Rigorous benchmarking in reasonable time, ISMM
2013). Rank tests and medians withstand outliers; means do not (Hoefler and Belli, Scientific
benchmarking of parallel computing systems, SC15, rules 5 to 8).

At each of ANALYSES the new samples are compared with the baseline's:

- `regressed` or `improved`: a one-sided Mann-Whitney test is significant, and the Hodges-Lehmann
  estimate is beyond THRESHOLD. If there is drift, it must also be beyond a day's shift (drift.py).
  A change by more than HUGE that all samples show needs no such test.
- `ok`: the estimate is MARGIN standard errors below the minimum detectable change. Fewer than
  LEAST_UNCHANGED samples give it only where there are no more.
- Else fresh samples may decide (`judge_fresh`). A weak change for the worse is reason enough for
  them (sequential.screen): they are judged alone, so that a wide screen costs no error of its own.

The error rate of a campaign is divided equally among variables and analyses (Bonferroni). `make
bench-gate` measures the resulting error rates.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from nearmetal.stats import days, ranks, sequential
from nearmetal.stats.drift import effective
from nearmetal.stats.plan import (
    ANALYSES,
    CONFIRMATION_ANALYSES,
    LEAST_BASELINE,
    alpha,
    day_error,
    fresh_alpha,
    screen,
)
from nearmetal.stats.sequential import UNDECIDED

#: Standard errors beyond the limit of significance from which selection exaggerates nothing.
CLEAR = 3.0
#: Steps of the search for an end of an interval.
HALVINGS = 40


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
    #: Number of samples used; of fresh ones, if they decide.
    samples: int
    #: minimum detectable change as a fraction; None: above DETECTABLE[1]
    detectable: float | None
    #: Numbers of further fresh samples after which these are judged; (): no number decides.
    more: tuple[int, ...] = ()
    #: Fresh samples are worth their time.
    screened: bool = False
    #: Fresh samples decided alone.
    by_fresh: bool = False
    #: Fresh samples show the opposite of the first ones.
    opposed: bool = False
    #: A change near the limit of significance: the samples that show it exaggerate it. The interval
    #: allows for this selection.
    selected: bool = False


@dataclass(frozen=True)
class _Test:
    """What the decisions on one variable share."""

    #: Logarithms of the baseline's samples.
    base: np.ndarray
    #: Error rate of an analysis.
    alpha: float
    errors: sequential.Errors
    lower_is_better: bool
    #: p-value of a change for the worse that is worth fresh samples.
    screen: float
    analyses: tuple[int, ...] = ANALYSES


def judge(
    baseline,
    samples,
    lower_is_better: bool,
    variables: float = 1,
    drift: float | None = None,
    contrast: float | None = None,
) -> Decision:
    """Judge one variable of a campaign.

    :arg baseline: days with one value for each repeat, or the values of a single day. At
        least LEAST_BASELINE values, positive, any unit.
    :arg samples: values of one session in the order of measurement, same unit. Values beyond the
        last analysis are not used until the next one is reached.
    :arg variables: number of variables in the campaign.
    :arg drift: drift between days as a fraction, of this variable, as `drift.effective` finds it
        from all variables of the baseline. None: found from this variable alone.
    :arg contrast: variance of the session's day against the baseline's days, as `days.contrast`
        finds it. None: that of the next day, independent of the others.
    :raises JudgeError: too few samples, a value that is negative or not finite, or one of 0 in the
        baseline.
    """
    test = _test(baseline, lower_is_better, variables, drift, contrast)
    new = logs_of(samples, "samples")
    if not len(new):
        raise JudgeError("no sample to judge")
    return _decision(test, new)


def judge_fresh(
    baseline,
    first,
    fresh,
    lower_is_better: bool,
    variables: float = 1,
    drift: float | None = None,
    contrast: float | None = None,
    measured: float = 1,
) -> Decision:
    """Judge a variable that is not `ok` by fresh samples of the same session alone.

    Arguments and errors are as for `judge`.

    :arg first: samples that the session began with. They are why there are fresh ones, and so have
        no part in the decision.
    :arg measured: number of variables that are judged by fresh samples.
    """
    test = _test(baseline, lower_is_better, variables, drift, contrast)
    stages = [logs_of(first, "samples"), logs_of(fresh, "fresh samples")]
    if not all(map(len, stages)):
        raise JudgeError("no sample to judge")
    began = _decision(test, stages[0])
    if began.name == "ok":
        return began
    again = replace(
        test,
        alpha=fresh_alpha(measured),
        errors=test.errors.of_fresh(),
        analyses=CONFIRMATION_ANALYSES,
    )
    decision = replace(_decision(again, stages[1]), detectable=began.detectable, by_fresh=True)
    changes = {began.name, decision.name}
    if changes == {"regressed", "improved"}:
        return replace(decision, name="inconclusive", opposed=True, more=())
    return decision


def _test(
    baseline, lower_is_better: bool, variables: float, drift: float | None, contrast: float | None
) -> _Test:
    recorded, base = baseline_of(baseline, variables)
    if drift is None:
        drift = float(effective([recorded], variables)[0])
    if contrast is None:
        contrast = days.contrast(0.0, tuple(map(len, recorded)), (1,))
    between = np.array([drift * math.sqrt(contrast)])
    errors = sequential.Errors.of(base[None], between, day_error(variables))
    return _Test(base, alpha(variables), errors, lower_is_better, screen(variables))


def detectable_change(baseline, variables: float = 1, drift: float | None = None) -> float | None:
    """Minimum detectable change of `judge` against this baseline, as a fraction.

    None above DETECTABLE[1]. Arguments and errors are as for `judge`.
    """
    test = _test(baseline, True, variables, drift, None)
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


def logs_of(values, what: str) -> np.ndarray:
    """Natural logarithms of the (n,) values of a session. Raises JudgeError.

    A value of 0, such as no time lost, is smaller than all others: ranks need no more of it.
    """
    array = np.asarray(values, dtype=float)
    return positive_logs(np.where(array == 0, sys.float_info.min, array), what)


def _decision(test: _Test, new: np.ndarray) -> Decision:
    """The decision on new samples."""
    trial = sequential.decide(test.base[None], new[None], test.alpha, test.errors, test.analyses)
    side, count, shift = int(trial.side[0]), int(trial.count[0]), float(trial.shift[0])
    worse = 1 if test.lower_is_better else -1
    # Too few samples for any analysis say nothing.
    too_few = count < test.analyses[0]
    screened = too_few or bool(sequential.screen(trial, test.errors, test.screen, worse)[0])
    more: tuple[int, ...] = CONFIRMATION_ANALYSES if side else ()
    if test.analyses == CONFIRMATION_ANALYSES:
        more = tuple(later - count for later in more if later > count and side == UNDECIDED)
    day = float(test.errors.between[0] * special.ndtri(0.975))
    low, high = _interval(test.base, new[:count], shift, day)
    least = None
    if abs(side) == 1 and test.analyses == ANALYSES:
        least = _at_least(test, new[:count], shift)
    if least is not None and side > 0:
        low = min(low, math.expm1(least))
    elif least is not None:
        high = max(high, math.expm1(-least) + 0.0)
    return Decision(
        _name(side, test.lower_is_better),
        math.expm1(shift),
        (low, high),
        float(trial.p[0]),
        count,
        _fraction(trial.detectable),
        () if math.isnan(trial.detectable[0]) else more,
        screened,
        selected=least is not None,
    )


def _name(side: int, lower_is_better: bool) -> str:
    if side == UNDECIDED:
        return "inconclusive"
    return changed(side, lower_is_better) if side else "ok"


def changed(shift: float, lower_is_better: bool) -> str:
    """The verdict on a variable that changed: `regressed` or `improved`.

    :arg shift: above 0 for a higher value.
    """
    return "regressed" if (shift > 0) == lower_is_better else "improved"


def _interval(base: np.ndarray, new: np.ndarray, shift: float, day: float) -> tuple[float, float]:
    """95 % interval of the change as a fraction; `day` is half that of the day's shift."""
    low, high = ranks.shift_interval(base, new)
    below = shift + math.copysign(math.hypot(low - shift, day), low - shift or -1)
    above = shift + math.copysign(math.hypot(high - shift, day), high - shift or 1)
    return math.expm1(below), math.expm1(above)


def _at_least(test: _Test, new: np.ndarray, shift: float) -> float | None:
    """The size that a change has at least, with 97.5 %, given that it is significant; None if it
    would be with smaller samples, too.

    If the samples were all smaller by `margin`, they would not be significant. The estimate is a
    normal deviate that is cut off there (Zhong and Prentice, Bias-reduced estimators and confidence
    intervals for odds ratios in genome-wide association studies, Biostatistics 9, 2008).
    """
    error = float(test.errors.with_drift(len(new))[0])
    apart = np.sort(math.copysign(1.0, shift) * np.subtract.outer(new, test.base).ravel())
    chances = ranks.mann_whitney(len(new), len(test.base))
    size, wanted = abs(shift), int(np.argmax(chances <= test.alpha))
    # A huge change need not be significant.
    if wanted == 0:
        return None
    margin = min(apart[len(apart) - wanted], size - float(test.errors.threshold(len(new))[0]))
    if not 0 < margin < CLEAR * error:
        return None
    low, high = 0.0, size
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        chance = special.log_ndtr((middle - size) / error)
        if chance - special.log_ndtr((middle - size + margin) / error) < math.log(0.025):
            low = middle
        else:
            high = middle
    return low
