"""Simulated repeats with the noise of a cluster, for `make bench-gate` and tests. All values are
near 1."""

import math
from collections.abc import Callable
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Days:
    """How the days of a campaign shift its variables."""

    name: str
    of: Callable  #: function: generator, variables -> standard deviation of each one's shifts
    cv: float = 0.03  #: of the repeats
    quiet_cv: float = 0.03  #: of the repeats of variables whose days do not shift them
    shared: bool = False  #: whether a day shifts all by the same number of standard deviations
    bad: float = 0.0  #: chance of a day with shifts four times as large


def _some(part: float, drift: float) -> Callable:
    return lambda rng, variables: np.where(rng.random(variables) < part, drift, 0.0)


#: The mixtures that real systems resemble.
MIXTURES = [
    Days("none drifts", _some(0, 0)),
    Days("all drift 1 %", _some(1, 0.01)),
    Days("all drift 1 %, together", _some(1, 0.01), shared=True),
    Days("a fifth drift 1 %", _some(0.2, 0.01)),
    Days("a fifth drift 2 %", _some(0.2, 0.02)),
    Days("a fifth drift 3 %", _some(0.2, 0.03)),
    Days("half drift 1 %", _some(0.5, 0.01)),
    Days("each its own, 1 % on average", lambda rng, count: rng.exponential(0.01, count)),
    Days("60 % drift 2 %, the rest has CV 1 %", _some(0.6, 0.02), quiet_cv=0.01),
    Days("all drift 1 %, one day in 20 four times", _some(1, 0.01), bad=0.05),
]


@dataclass(frozen=True)
class Shape:
    """Noise between repeats that is no normal one."""

    name: str
    #: function: generator, shape -> values around 1; those of a session are on the last axis
    of: Callable


def _tails(rng, shape) -> np.ndarray:
    return np.exp(0.03 * rng.standard_t(2, shape))


def _two_modes(rng, shape) -> np.ndarray:
    return np.exp(rng.normal(0, 0.01, shape)) * np.where(rng.random(shape) < 0.3, 1.2, 1.0)


def _resembling(memory: float) -> Callable:
    def of(rng, shape) -> np.ndarray:
        *rows, count = shape
        return remembering(rng, math.prod(rows), count, memory, 0.03).reshape(shape)

    return of


def _ties(rng, shape) -> np.ndarray:
    return np.exp(0.05 * np.round(rng.normal(0, 0.03, shape) / 0.05))


def _alike(rng, shape) -> np.ndarray:
    """All variables of a repeat have 90 % of their variance in common."""
    common = rng.normal(0, 0.03 * math.sqrt(0.9), (1, *shape[1:]))
    return np.exp(common + rng.normal(0, 0.03 * math.sqrt(0.1), shape))


def _slow_launches(rng, shape) -> np.ndarray:
    return np.exp(rng.normal(0, 0.03, shape)) * np.where(rng.random(shape) < 0.1, 3.0, 1.0)


#: What repeats of real programs resemble.
SHAPES = [
    Shape("heavy tails: Student's t of 2 degrees", _tails),
    Shape("two modes, 20 % apart", _two_modes),
    Shape("repeats resemble the ones before (AR 0.7)", _resembling(0.7)),
    Shape("repeats resemble the ones before (AR 0.9)", _resembling(0.9)),
    Shape("10 % of launches three times slower", _slow_launches),
    Shape("values come in steps of 5 %", _ties),
    Shape("variables have 90 % of their noise in common", _alike),
]


def uneven(rng, variables: int, days: Days, baseline: int, fresh: int):
    """A baseline, (variables, sessions, SESSION), fresh repeats, (variables, fresh), and which
    variables are quiet, (variables,)."""
    drift, sessions = days.of(rng, variables), baseline // SESSION
    cv = np.where(drift > 0, days.cv, days.quiet_cv)[:, None]
    shape = (1 if days.shared else variables, sessions + 1)
    shifts = rng.normal(0, 1, shape) * drift[:, None]
    shifts *= np.where(rng.random(sessions + 1) < days.bad, 4, 1)
    noise = rng.normal(0, 1, (variables, baseline + fresh)) * cv
    values = np.exp(noise) * _outliers(rng, noise.shape)
    base = values[:, :baseline].reshape(variables, sessions, SESSION)
    base = base * np.exp(shifts[:, :-1, None])
    return base, values[:, baseline:] * np.exp(shifts[:, -1:]), drift == 0


def sessions(rng, variables: int, count: int, cv: float, drift: float) -> np.ndarray:
    """Repeats of sessions, (variables, count / SESSION, SESSION), each shifted as a whole."""
    shape = (variables, count // SESSION, SESSION)
    return repeats(rng, shape, cv) * np.exp(rng.normal(0, drift, (*shape[:2], 1)))


def remembering(rng, series: int, count: int, memory: float, drift: float) -> np.ndarray:
    """Factors of successive days, (series, count): autoregressive of order 1, with this spread."""
    days = np.empty((series, count))
    days[:, 0] = rng.normal(0, drift, series)
    steps = rng.normal(0, drift * math.sqrt(1 - memory**2), (series, count))
    for day in range(1, count):
        days[:, day] = memory * days[:, day - 1] + steps[:, day]
    return np.exp(days)


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
