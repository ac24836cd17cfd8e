"""Theoretical limits of any test in normal noise of known size, one line each, for `make
bench-gate`.

They hold for the best possible test at the gate's error rates. Such a test knows the noise, and
there are no outliers.
"""

import math

from scipy import special

from bench import noise as bench_noise
from nearmetal.stats.plan import ANALYSES, CAMPAIGN_ERROR, CONFIRMATION_ERROR

#: The step to find, and the power to find it with.
STEP, POWER = 0.05, 0.98


def repeats_for_a_step(cv: float, plan) -> str:
    """Repeats needed to find a step: by one test, and in two stages (the campaign's repeats, then
    fresh ones that confirm)."""
    error = CAMPAIGN_ERROR / plan.variables
    smallest = math.expm1(
        (special.ndtri(1 - error) + special.ndtri(POWER)) * cv / math.sqrt(plan.baseline)
    )
    once = wald(cv, error, POWER)
    # Fewest fresh repeats are needed if the first ones always find the step.
    twice = max(once, ANALYSES[0] + wald(cv, CONFIRMATION_ERROR, POWER))
    return (
        f"limit: {100 * STEP:.0f} % with {100 * POWER:.0f} % power takes {once:.1f} repeats on "
        f"average, and {twice:.1f} if fresh ones confirm {ANALYSES[0]}; against a baseline of "
        f"{plan.baseline} repeats, no number finds less than {100 * smallest:.1f} %"
    )


def wald(cv: float, error: float, power: float) -> float:
    """Least mean number of repeats that any sequential test of STEP against a known baseline needs
    (Wald, 1945)."""
    # Kullback-Leibler divergence of one repeat.
    information = (math.log1p(STEP) / cv) ** 2 / 2
    return (
        power * math.log(power / error) + (1 - power) * math.log((1 - power) / (1 - error))
    ) / information


def pairs_for_a_step(shared: float, plan) -> str:
    """Pairs needed to find a step in known noise. Noise that is not shared counts twice, once for A
    and once for B."""
    count = wald(
        bench_noise.DUET_CV * math.sqrt(2 * (1 - shared)),
        CAMPAIGN_ERROR / plan.variables,
        POWER,
    )
    return (
        f"limit: {100 * STEP:.0f} % with {100 * POWER:.0f} % power takes {count:.1f} pairs on "
        "average"
    )
