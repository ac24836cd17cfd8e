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


@dataclass(frozen=True)
class Kind:
    """The noise of a campaign: of its days, of its jobs and of its repeats."""

    name: str
    #: function: generator, variables, days -> logarithms of the shifts of days, (variables, days)
    days: Callable
    cv: float = 0.03  #: of the repeats
    outliers: float = 0.0  #: fraction of the repeats
    slow_jobs: float = 0.0  #: fraction of the jobs in a mode 20 % above the other, of a fifth
    shape: Callable | None = None  #: of the repeats, in place of a log-normal one: as in `Shape`

    def session(self, rng, rows: tuple[int, int], repeats: int) -> np.ndarray:
        """Logarithms of the repeats of jobs, (*rows, repeats), without the shifts of days."""
        if self.shape:
            return np.log(self.shape(rng, (*rows, repeats)))
        logs = rng.normal(0, _logs(self.cv), (*rows, repeats))
        if self.outliers:
            logs += np.where(rng.random(logs.shape) < self.outliers, math.log(OUTLIERS[1]), 0)
        if self.slow_jobs:
            slow = (rng.random(rows) < self.slow_jobs) & (np.arange(rows[0]) % 5 == 0)[:, None]
            logs += np.where(slow, math.log(1.2), 0)[:, :, None]
        return logs


#: Partitions of a campaign, whose variables are equally many.
PARTITIONS = 4


def _no_days(rng, variables: int, count: int) -> np.ndarray:
    return np.zeros((variables, count))


def _gauss(drift: float, part: float = 1.0) -> Callable:
    def days(rng, variables: int, count: int) -> np.ndarray:
        return rng.normal(0, drift, (variables, count)) * _drifting(rng, variables, part)

    return days


def _heavy(degrees: int, scale: float, part: float = 1.0) -> Callable:
    def days(rng, variables: int, count: int) -> np.ndarray:
        shifts = scale * rng.standard_t(degrees, (variables, count))
        return shifts * _drifting(rng, variables, part)

    return days


def _drifting(rng, variables: int, part: float) -> np.ndarray:
    return (rng.random(variables) < part)[:, None]


def _memory(drift: float) -> Callable:
    return lambda rng, variables, count: np.log(remembering(rng, variables, count, 0.9, drift))


def _walk(drift: float) -> Callable:
    return lambda rng, variables, count: rng.normal(0, drift, (variables, count)).cumsum(axis=1)


def _common(days: Callable) -> Callable:
    """All variables of a partition share its shifts."""

    def shared(rng, variables: int, count: int) -> np.ndarray:
        return np.repeat(days(rng, PARTITIONS, count), -(-variables // PARTITIONS), 0)[:variables]

    return shared


def _weeks(drift: float) -> Callable:
    def days(rng, variables: int, count: int) -> np.ndarray:
        phase = np.arange(count) + 7 * rng.random((variables, 1))
        return drift * np.sin(2 * math.pi * phase / 7)

    return days


def _bad_days(rng, variables: int, count: int) -> np.ndarray:
    return rng.normal(0, 0.01, (variables, count)) * np.where(rng.random(count) < 0.05, 4, 1)


#: Noises that the gate must bear.
KINDS = [
    Kind("repeats alone", _no_days),
    Kind("2 % outliers", _no_days, outliers=0.02),
    Kind("CV 2 %", _no_days, cv=0.02, outliers=0.02),
    Kind("CV 8 %", _no_days, cv=0.08),
    Kind("days 1 %", _gauss(0.01)),
    Kind("days 2 %", _gauss(0.02)),
    Kind("days 1 % in a fifth", _gauss(0.01, 0.2)),
    Kind("days 3 % in a fifth", _gauss(0.03, 0.2)),
    Kind("days 1 %, one in 20 four times", _bad_days),
    Kind("t3 days 1 %", _heavy(3, 0.01)),
    Kind("t2 days 2 % in a fifth", _heavy(2, 0.02, 0.2)),
    Kind("modes per job in a fifth", _no_days, slow_jobs=0.3),
    Kind("days AR 0.9, 1 %", _memory(0.01)),
    Kind("days AR 0.9, 2 %", _memory(0.02)),
    Kind("random walk 0.5 % a day", _walk(0.005)),
    Kind("partitions share days 1 %", _common(_gauss(0.01))),
    Kind("partitions share days AR 0.9, 2 %", _common(_memory(0.02))),
    Kind("weekly cycle 2 %", _weeks(0.02)),
    *(Kind(shape.name, _no_days, shape=shape.of) for shape in SHAPES),
]


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
