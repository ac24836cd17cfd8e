"""What no test can do better in this noise: limits for normal noise of known size, one line each,
for bench_gate.py.

They hold for the best test there is, which knows the noise and meets no outlier, at the same errors
as the gate's.
"""

import math

from scipy import special

from bench import noise as bench_noise
from nearmetal.stats import plan as stats_plan
from nearmetal.stats.plan import ANALYSES, CAMPAIGN_ERROR, CONFIRMATION_ERROR, DAY_ERROR

#: The step that is to be found, and with which power.
STEP, POWER = 0.05, 0.98


def launches(cv: float, plan) -> str:
    """Launches for a step: by one test, and by first launches that a campaign takes anyway and
    fresh ones that confirm."""
    error = CAMPAIGN_ERROR / plan.variables
    smallest = math.expm1(
        (special.ndtri(1 - error) + special.ndtri(POWER)) * cv / math.sqrt(plan.baseline)
    )
    once = wald(cv, error, POWER)
    # The fresh ones have the least to do where the first ones always find it.
    twice = max(once, ANALYSES[0] + wald(cv, CONFIRMATION_ERROR, POWER))
    return (
        f"limit: {100 * STEP:.0f} % with {100 * POWER:.0f} % power takes {once:.1f} launches on "
        f"average, and {twice:.1f} where fresh ones confirm {ANALYSES[0]}; against "
        f"{plan.baseline} launches no number finds less than {100 * smallest:.1f} %"
    )


def wald(cv: float, error: float, power: float) -> float:
    """Least mean number of launches of any test, however sequential, of STEP against a known
    baseline (Wald, 1945)."""
    information = (math.log1p(STEP) / cv) ** 2 / 2  # of one launch: Kullback and Leibler's
    return (
        power * math.log(power / error) + (1 - power) * math.log((1 - power) / (1 - error))
    ) / information


def days(drift: float, plan) -> str:
    """The smallest step in sessions that differ by so much, whatever their launches."""
    sessions = plan.baseline // bench_noise.SESSION
    reach = special.ndtri(1 - DAY_ERROR) + special.ndtri(stats_plan.POWER)
    one, two = (
        100 * math.expm1(reach * drift * math.sqrt(1 / taken + 1 / sessions)) for taken in (1, 2)
    )
    return (
        f"limit: at {100 * DAY_ERROR:.1f} % false alarms and {100 * stats_plan.POWER:.0f} % power "
        f"no number of launches in one session finds less than {one:.1f} %, in two sessions "
        f"{two:.1f} %"
    )


def pairs(shared: float, plan) -> str:
    """Pairs for a step whose noise is known: what is not shared counts twice, once for A and once
    for B."""
    count = wald(
        bench_noise.DUET_CV * math.sqrt(2 * (1 - shared)),
        CAMPAIGN_ERROR / plan.variables,
        POWER,
    )
    return (
        f"limit: {100 * STEP:.0f} % with {100 * POWER:.0f} % power takes {count:.1f} pairs on "
        "average"
    )
