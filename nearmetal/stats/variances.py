"""Variances of few values, which borrow from those of all variables. Pure functions.

The more alike the variances of all variables are, the more each borrows (Smyth, Linear models and
empirical Bayes methods for assessing differential expression, 2004, section 6).
"""

import math

import numpy as np
from scipy import special

#: Least number of variables that show how alike their variances are.
LEAST_VARIABLES = 10
#: Degrees of freedom that a variance may borrow, and that of few variables: the first.
PRIORS = np.geomspace(1.0, 1000.0, 121)


def moderated(variances: np.ndarray, freedom: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The posterior variance of each variable, (n,), and its degrees of freedom."""
    common, prior = _prior(variances, freedom)
    degrees = freedom + prior
    return (prior * common + freedom * variances) / degrees, degrees


def _prior(variances: np.ndarray, freedom: np.ndarray) -> tuple[float, float]:
    """The variance that variables have in common, and the degrees of freedom that it counts for.

    The logarithms of variances differ by chance (Smyth, 2004, section 6.2). What they differ by
    beyond it shows how little one tells of another.
    """
    known = variances > 0
    if known.sum() < LEAST_VARIABLES:
        return float(np.median(variances)), PRIORS[0]
    half = freedom[known] / 2
    logs = np.log(variances[known]) - special.digamma(half) + np.log(half)
    beyond = float(logs.var(ddof=1) - special.polygamma(1, half).mean())
    expected = special.polygamma(1, PRIORS / 2)
    prior = float(PRIORS[np.abs(expected - beyond).argmin()])
    centre = float(logs.mean() + special.digamma(prior / 2) - math.log(prior / 2))
    return math.exp(centre), prior
