"""Launches as they vary on a cluster, simulated: for bench_gate.py and the tests.  All values lie
around 1."""

import math

import numpy as np

#: How often a launch is an outlier, and what it is multiplied by then.
OUTLIERS = (0.02, 1.5)
#: Coefficient of variation of pairs: an emulated NIC.
DUET_CV = 0.08
#: Launches of a session in the baseline.
SESSION = 5


def launches(rng, shape, cv: float) -> np.ndarray:
    """Log-normal values with that coefficient of variation, and outliers."""
    return np.exp(rng.normal(0, _logs(cv), shape)) * _outliers(rng, shape)


def campaign(
    rng, variables: int, cv: float, drift: float, baseline: int, fresh: int, whose: str = "own"
):
    """Of so many variables a baseline, (variables, sessions, SESSION), and fresh launches,
    (variables, fresh).

    :arg drift: standard deviation of what each session is shifted by as a whole, the fresh one too.
    :arg whose: whether a session shifts each variable by its "own", all by a "shared" one, or
    "half" of them, which are those
        at even places, by their own and the rest not at all.
    """
    days = np.exp(
        rng.normal(0, drift, (1 if whose == "shared" else variables, baseline // SESSION + 1, 1))
    )
    if whose == "half":
        days[1::2] = 1
    base = launches(rng, (variables, days.shape[1] - 1, SESSION), cv) * days[:, 1:]
    return base, launches(rng, (variables, fresh), cv) * days[:, 0]


def samples(rng, values: np.ndarray, count: int, cv: float) -> np.ndarray:
    """So many samples within each launch, (..., count), that vary around it by that much."""
    return values[..., None] * launches(rng, (*values.shape, count), cv)


def pairs(rng, count: int, cv: float, shared: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of launches of which that part of the variance is common to both; each has outliers of
    its own."""
    common, own = (
        rng.normal(0, _logs(cv) * math.sqrt(shared), count),
        _logs(cv) * math.sqrt(1 - shared),
    )
    a, b = (np.exp(common + rng.normal(0, own, count)) * _outliers(rng, count) for _ in range(2))
    return a, b


def _logs(cv: float) -> float:
    return math.sqrt(math.log1p(cv * cv))


def _outliers(rng, shape) -> np.ndarray:
    share, factor = OUTLIERS
    return np.where(rng.random(shape) < share, factor, 1)
