"""Did variables change between two sessions of a system that has no baseline? Pure functions.

Two sessions do not show how much days differ. So only a large change counts: more than LEAST, and
more than DISTANCE times what the changes of all variables differ by, beside the change that they
have in common. All variables of a session are judged together:

- Noise within a session is that of both sessions' repeats. Few repeats tell little of it, so that
  its variance borrows from those of all variables (variances.py).
- A change must be significant by a t-test on logarithms, at an equal part of the campaign's error
  rate.
- A worse variable is `regressed` only where the change is beyond FAR and beyond the tail of the
  improvements (Weissman, Estimation of parameters and large quantiles based on the k largest
  observations, JASA 73, 1978), or where so many variables are worse and so few better that it is
  no day by the sign test. Any other is that of the system or of the day: inconclusive.
- A variable is ok only where its change is less than LEAST.

`python3 -m bench.session_before` measures the error rates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from nearmetal.stats import ranks
from nearmetal.stats.judge import Decision, JudgeError, changed, positive_logs
from nearmetal.stats.plan import CAMPAIGN_ERROR
from nearmetal.stats.variances import LEAST_VARIABLES, moderated

#: Smallest change that counts, as a fraction.
LEAST = 0.25
#: Changes beyond which a worse variable needs no second day, as fractions: where days are alike,
#: and in any case.
FAR, FARTHEST = 0.9, 9.0
#: p-value with which a second day shows half of a change, and with which many changes go one way.
SECOND_DAY = 0.01
#: Least standard error.
TINY = 1e-9
#: Typical changes of all variables that a change must exceed.
DISTANCE = float(special.ndtri(1 - 0.001))
#: Standard errors beyond which an improvement is that of a day, and not of noise.
NOISE = 3.0
#: Most and fewest of the largest improvements that show the tail of days.
EXTREMES, LEAST_EXTREMES = 20, 5


@dataclass(frozen=True)
class Samples:
    """One variable in both sessions. Values in any unit, one for each repeat."""

    before: Sequence[float]
    now: Sequence[float]
    lower_is_better: bool


@dataclass(frozen=True)
class Change(Decision):
    """The decision on a variable by two sessions."""

    #: inconclusive, since one day alone shows it: from this change on, as a fraction, it would be
    #: regressed
    far: float | None = None

    def shows(self, first: Change) -> bool:
        """Whether a further session shows at least half of a change."""
        first_shift, shift = math.log1p(first.change), math.log1p(self.change)
        return self.p <= SECOND_DAY and shift / first_shift >= 0.5


def judge(variables: Sequence[Samples]) -> list[Change | JudgeError]:
    """The decisions on all variables of a session, in their order.

    A variable with fewer than two repeats in a session, or with a value that is not positive, has a
    JudgeError in its place.
    """
    decisions: list[Change | JudgeError] = []
    usable = []
    for variable in variables:
        try:
            usable.append((len(decisions), variable, _logs(variable.before), _logs(variable.now)))
            decisions.append(JudgeError(""))  # the decision takes its place
        except JudgeError as why:
            decisions.append(why)
    if not usable:
        return decisions
    sides, counts, freedom = [], [], []
    for _, variable, before, now in usable:
        sides.append(1 if variable.lower_is_better else -1)
        counts.append(1 / len(before) + 1 / len(now))
        freedom.append(len(before) + len(now) - 2.0)
    variances = np.array([_variance(before, now) for _, _, before, now in usable])
    variances, degrees = moderated(variances, np.array(freedom))
    shifts = np.array(_shifts([(before, now) for _, _, before, now in usable]))
    tests = _Tests(shifts, np.sqrt(variances * counts), degrees, np.array(sides))
    for number, (place, variable, _, now) in enumerate(usable):
        decisions[place] = _decision(variable, tests, number, len(now))
    return decisions


@dataclass(frozen=True)
class _Tests:
    """The changes of all variables, (n,), as logarithms."""

    shifts: np.ndarray
    #: Standard errors by the noise of repeats, and their degrees of freedom.
    errors: np.ndarray
    degrees: np.ndarray
    #: 1 for a variable that is worse where it is higher, else -1.
    sides: np.ndarray

    @cached_property
    def p(self) -> np.ndarray:
        """One-sided p-values in the direction of the change."""
        # Where nothing varies, any change is significant.
        return special.stdtr(self.degrees, -np.abs(self.shifts) / np.maximum(self.errors, TINY))

    @cached_property
    def reach(self) -> np.ndarray:
        """Half widths of 95 % intervals."""
        return special.stdtrit(self.degrees, 0.975) * self.errors

    @cached_property
    def bound(self) -> float:
        """A change is beyond it."""
        least = math.log1p(LEAST)
        if len(self.shifts) < LEAST_VARIABLES:
            return least
        common = abs(float(np.median(self.shifts)))
        return max(least, common + DISTANCE * float(ranks.spread(self.shifts)))

    @cached_property
    def changed(self) -> np.ndarray:
        """1 for a variable that is worse, -1 for one that is better, else 0."""
        error = CAMPAIGN_ERROR / len(self.shifts) / 2
        significant = (self.p <= error) & (np.abs(self.shifts) > self.bound)
        return np.where(significant, np.sign(self.shifts) * self.sides, 0)

    @cached_property
    def far(self) -> float:
        """A worse variable is beyond what a day may do.

        The tail is that of improvements beyond the noise: days go both ways, and a fault does not.
        """
        worse, better = np.count_nonzero(self.changed > 0), np.count_nonzero(self.changed < 0)
        # The sign test.
        if special.bdtrc(worse - 1, worse + better, 0.5) <= SECOND_DAY:
            return self.bound
        far = math.log1p(FAR)
        gains = self.sides * (np.median(self.shifts) - self.shifts)
        gains = np.sort(gains[gains > NOISE * self.errors])[-EXTREMES - 1 :]
        if len(gains) > LEAST_EXTREMES:
            # The median: real improvements of some variables must not hide what got worse.
            index = float(np.median(np.log(gains[1:] / gains[0]))) / math.log(2)
            far = max(far, float(gains[0]) * ((len(gains) - 1) / CAMPAIGN_ERROR) ** index)
        return max(self.bound, min(far, math.log1p(FARTHEST)))


def _logs(values: Sequence[float]) -> np.ndarray:
    logs = positive_logs(values, "samples")
    if len(logs) < 2:
        raise JudgeError(
            f"{len(logs)} repeat(s) in a session: two are needed. Fix: run with -S repeats=3"
        )
    return logs


def _shifts(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[float]:
    """The shift of each pair. Those of one shape are computed together, which is much faster."""
    by_shape: dict[tuple[int, int], list[int]] = {}
    for place, (before, now) in enumerate(pairs):
        by_shape.setdefault((len(before), len(now)), []).append(place)
    shifts = [0.0] * len(pairs)
    for places in by_shape.values():
        before, now = (np.array(logs) for logs in zip(*(pairs[place] for place in places)))
        for place, shift in zip(places, ranks.two_samples(before, now)[0]):
            shifts[place] = float(shift)
    return shifts


def _variance(before: np.ndarray, now: np.ndarray) -> float:
    """Variance of a repeat within a session."""
    squares = np.square(before - before.mean()).sum() + np.square(now - now.mean()).sum()
    return float(squares) / (len(before) + len(now) - 2)


def _decision(variable: Samples, tests: _Tests, number: int, samples: int) -> Change:
    """The decision on the variable of this number."""
    shift, reach = float(tests.shifts[number]), float(tests.reach[number])
    name, far = "inconclusive", None
    if tests.changed[number] > 0 and abs(shift) <= tests.far:
        far = math.expm1(tests.far)
    elif tests.changed[number]:
        name = changed(shift, variable.lower_is_better)
    elif abs(shift) + reach < math.log1p(LEAST):
        name = "ok"
    interval = math.expm1(shift - reach), math.expm1(shift + reach)
    p, finds = float(tests.p[number]), math.expm1(tests.bound)
    return Change(name, math.expm1(shift), interval, p, samples, finds, far=far)
