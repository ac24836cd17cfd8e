"""What no test can do better in this noise: limits for normal noise of known size, one line each, for bench_gate.py.

They hold for the best test there is, which knows the noise and meets no outlier, at the same errors as the gate's.
"""
import math

import numpy as np
from scipy import special

from . import bench_noise, judge, sequential

#: The step that is to be found, and with which power.
STEP, POWER = 0.05, 0.98


def launches(cv: float, plan) -> str:
    """Launches for a step by one sample of fixed size, and by two of which each must find it alone."""
    error = judge.CAMPAIGN_ERROR / plan.variables
    once = needed(cv, error, POWER, plan.baseline)
    smallest = math.expm1((special.ndtri(1 - error) + special.ndtri(POWER)) * cv / math.sqrt(plan.baseline))
    if math.isinf(once):
        return (f"limit: against {plan.baseline} launches no number of fresh ones finds less than {100 * smallest:.1f} % "
                f"with {100 * POWER:.0f} % power")
    # The campaign's first launches are taken anyway; what they may err is divided by what the fresh ones may.
    again = judge.CONFIRM_ERROR
    twice = min(max(judge.LOOKS[0], needed(cv, error / again, power, plan.baseline)) + needed(cv, again, POWER / power, plan.baseline)
                for power in np.linspace(POWER + 1e-4, 1 - 1e-4, 100))
    return (f"limit: {100 * STEP:.0f} % with {100 * POWER:.0f} % power takes {once:.1f} launches, and {twice:.1f} where "
            f"{judge.LOOKS[0]} are taken first and fresh ones must find it alone at {100 * again:.0f} %")


def needed(cv: float, error: float, power: float, baseline: int) -> float:
    """Launches against a baseline for STEP at that error and power; inf where none are enough."""
    wanted = (math.log1p(STEP) / cv / (special.ndtri(1 - error) + special.ndtri(power))) ** 2
    # wanted is 1 / (1 / launches + 1 / baseline), by the variance of a difference of means.
    return 1 / (wanted - 1 / baseline) if wanted > 1 / baseline else math.inf


def days(drift: float, plan) -> str:
    """The smallest step in sessions that differ by so much, whatever their launches."""
    sessions = plan.baseline // bench_noise.SESSION
    reach = special.ndtri(1 - sequential.DAY_ERROR) + special.ndtri(sequential.POWER)
    one, two = (100 * math.expm1(reach * drift * math.sqrt(1 / taken + 1 / sessions)) for taken in (1, 2))
    return (f"limit: at {100 * sequential.DAY_ERROR:.1f} % false alarms and {100 * sequential.POWER:.0f} % power no number of "
            f"launches in one session finds less than {one:.1f} %, in two sessions {two:.1f} %")


def pairs(shared: float, plan) -> str:
    """Pairs for a step, and as a sample of its own each."""
    reach = special.ndtri(1 - judge.CAMPAIGN_ERROR / plan.variables) + special.ndtri(sequential.POWER)
    count = (reach * 0.08 / math.log1p(STEP)) ** 2 * 2 * (1 - shared)
    return f"limit: {100 * STEP:.0f} % with {100 * sequential.POWER:.0f} % power takes {count:.0f} pairs"
