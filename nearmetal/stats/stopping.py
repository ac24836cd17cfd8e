"""After how many samples a test probably decides. Pure functions.

The estimate of a change moves while samples are added: given the estimate after some samples, the
one after more is normal around it, with the difference of the two variances. Its chance of a
decision at an analysis follows. An analysis that probably decides nothing is left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from scipy import special

from nearmetal.stats.plan import (
    CONFIRMATION_ANALYSES,
    CONFIRMATION_ERROR,
    LEAST_UNCHANGED,
    MARGIN,
    POWER,
)
from nearmetal.stats.sequential import Errors

#: An analysis is worth its samples if it decides with this chance.
PROBABLE = 0.5


def next_analysis(
    shift: float,
    taken: int,
    errors: Errors,
    alpha: float,
    detectable: float,
    analyses: Sequence[int],
) -> int | None:
    """Number of samples of the next analysis that probably decides; else of the last analysis.

    None if there is no further analysis.

    :arg shift: estimate of the change after the samples taken, as a logarithm.
    :arg errors: of this one variable.
    :arg alpha: error rate of an analysis.
    :arg detectable: minimum detectable change as a logarithm; NaN: none.
    """
    later = [count for count in analyses if count > taken]
    for count in later:
        if _chance(shift, taken, count, errors, alpha, detectable) >= PROBABLE:
            return count
    return later[-1] if later else None


def fresh_analysis(shift: float, errors: Errors) -> int:
    """Number of fresh samples that probably confirm a change of this shift, by themselves."""
    error = CONFIRMATION_ERROR / len(CONFIRMATION_ANALYSES)
    for count in CONFIRMATION_ANALYSES:
        least = max(errors.threshold(count)[0], _significant(errors, count, error))
        if abs(shift) >= least:
            return count
    return CONFIRMATION_ANALYSES[-1]


def _significant(errors: Errors, count: int, alpha: float) -> float:
    """The smallest estimate that is significant."""
    return float(special.ndtri(1 - alpha) * errors.within_session(count)[0])


def _chance(
    shift: float, taken: int, count: int, errors: Errors, alpha: float, detectable: float
) -> float:
    """Chance that the analysis of so many samples decides."""
    now, then = (float(errors.within_session(number)[0]) for number in (taken, count))
    spread = math.sqrt(max(now**2 - then**2, 1e-18))
    changed = max(float(errors.threshold(count)[0]), _significant(errors, count, alpha))
    chance = special.ndtr((-changed - shift) / spread) + special.ndtr((shift - changed) / spread)
    margin = max(MARGIN * then, special.ndtri(POWER) * float(errors.with_drift(count)[0]))
    least = detectable - margin
    if count >= LEAST_UNCHANGED and least > 0:
        chance += special.ndtr((least - shift) / spread) - special.ndtr((-least - shift) / spread)
    return float(chance)
