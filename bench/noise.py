"""Simulated repeats with the noise of a cluster, for `make bench-gate` and tests. All values are
near 1."""

import math

import numpy as np

#: Fraction of repeats that are outliers, and the factor of their values.
OUTLIERS = (0.02, 1.5)
#: Coefficient of variation of pairs, as on an emulated NIC.
DUET_CV = 0.08
#: Repeats of a session in the baseline.
SESSION = 5


def repeats(rng, shape, cv: float) -> np.ndarray:
    """Log-normal values with this coefficient of variation, and outliers."""
    return np.exp(rng.normal(0, _logs(cv), shape)) * _outliers(rng, shape)


def campaign(
    rng, variables: int, cv: float, drift: float, baseline: int, fresh: int, whose: str = "own"
):
    """A baseline, (variables, sessions, SESSION), and fresh repeats, (variables, fresh).

    :arg drift: standard deviation of the shifts of whole sessions, the fresh one included.
    :arg whose: "own": a session shifts each variable by another amount. "shared": it shifts all
        variables by the same amount. "half": it shifts only the variables at even places.
    """
    days = np.exp(
        rng.normal(0, drift, (1 if whose == "shared" else variables, baseline // SESSION + 1, 1))
    )
    if whose == "half":
        days[1::2] = 1
    base = repeats(rng, (variables, days.shape[1] - 1, SESSION), cv) * days[:, 1:]
    return base, repeats(rng, (variables, fresh), cv) * days[:, 0]


def sessions(rng, variables: int, count: int, cv: float, drift: float) -> np.ndarray:
    """Repeats of sessions, (variables, count / SESSION, SESSION), each shifted as a whole."""
    shape = (variables, count // SESSION, SESSION)
    return repeats(rng, shape, cv) * np.exp(rng.normal(0, drift, (*shape[:2], 1)))


def two_sessions(
    rng, variables: int, count: int, cvs: tuple[float, float], drift: float, whose: str
) -> tuple[np.ndarray, np.ndarray]:
    """Repeats of two sessions, (variables, count) each.

    :arg cvs: least and largest coefficient of variation; variables differ evenly on a log scale.
    :arg drift: standard deviation of the shifts of whole sessions.
    :arg whose: "own": of all variables. "fifth": of every fifth variable.
    """
    spread = np.exp(rng.uniform(np.log(cvs[0]), np.log(cvs[1]), (variables, 1)))
    days = np.where((whose == "own") | (np.arange(variables) % 5 == 0), drift, 0.0)
    first, second = (
        np.exp(rng.normal(0, 1, (variables, count)) * spread + rng.normal(0, days)[:, None])
        * _outliers(rng, (variables, count))
        for _ in range(2)
    )
    return first, second


def samples(rng, values: np.ndarray, count: int, cv: float) -> np.ndarray:
    """Samples within each repeat, (..., count), with this coefficient of variation."""
    return values[..., None] * repeats(rng, (*values.shape, count), cv)


def pairs(rng, count: int, cv: float, shared: float) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of repeats of A and B.

    :arg shared: fraction of the variance that A and B have in common. Outliers are not shared.
    """
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
