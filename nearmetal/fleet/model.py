"""A matrix of link values as the sum of what nodes, switches and links add. Pure functions.

The logarithm of the value from node i to node j is

    y[i, j] = level + out[i] + into[j] + residual[i, j]

with one level for pairs of one switch and one for pairs of two. Values are slowness: a larger one
is worse (a latency, or the inverse of a bandwidth). `out` and `into` are found by median polish
(Tukey, Exploratory Data Analysis, 1977, chapter 11): as long as fewer than half of a node's pairs
are odd, they do not move its effect.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from nearmetal.stats.ranks import SPREAD_EFFICIENCY, spread

#: Most sweeps of the polish, and the change in a logarithm at which it ends.
SWEEPS = 10
SETTLED = 1e-4
#: Rows whose medians are found at once, and most values that show the noise: enough, in little
#: memory.
BLOCK = 128
MOST_VALUES = 1 << 22


@dataclass(frozen=True)
class Fit:
    """Effects on the logarithm of slowness; 0 is the fleet's median."""

    #: (n,) of messages that a node sends; NaN: it has no value.
    out: np.ndarray
    #: (n,) of messages that a node receives.
    into: np.ndarray
    #: (n, n) what nodes and levels do not explain; NaN: not measured.
    residual: np.ndarray
    #: (2,) of pairs of two switches, and of one; NaN: no pair.
    level: np.ndarray
    #: (n,) number of each node's switch; None: not known.
    switches: np.ndarray | None

    def counts(self, axis: int) -> np.ndarray:
        """Number of links that each node sends over (axis 1) or receives over (axis 0), (n,)."""
        return np.isfinite(self.residual).sum(axis)

    @cached_property
    def noise(self) -> tuple[float, float]:
        """Standard deviation of a link, as a logarithm, and its degrees of freedom.

        It is robust, and corrected for the effects that were taken out of the residuals. In a large
        matrix, evenly chosen rows show it.
        """
        rows = some(self.residual)
        known = rows[np.isfinite(rows)].astype(float)
        if not len(known):
            return np.nan, 1.0
        freedom = max(1.0, len(known) - 2.0 * len(rows))
        noise = float(spread(known)) * float(np.sqrt(len(known) / freedom))
        return noise, SPREAD_EFFICIENCY * freedom

    def expected(
        self, senders: np.ndarray, receivers: np.ndarray, suspects: Collection[int] = ()
    ) -> np.ndarray:
        """Logarithm of the slowness between nodes, if those of `suspects` were healthy.

        The diagonal, of nodes with themselves, is NaN.

        :arg senders: numbers of s nodes.
        :arg receivers: numbers of r nodes.
        :returns: (s, r).
        """
        out, into = self.out.copy(), self.into.copy()
        out[list(suspects)] = into[list(suspects)] = 0.0
        level = np.full((len(senders), len(receivers)), self.level[0])
        if self.switches is not None:
            near = self.switches[senders][:, None] == self.switches[receivers][None, :]
            level[near] = self.level[1]
        value = level + out[senders][:, None] + into[receivers][None, :]
        value[senders[:, None] == receivers[None, :]] = np.nan
        return value


def fit(slowness: np.ndarray, switches: np.ndarray | None = None) -> Fit:
    """Split a matrix into effects.

    :arg slowness: (n, n) positive values from node i (row) to node j (column); NaN: not measured.
        The diagonal is not used. 32-bit floats take half of the memory.
    :arg switches: (n,) number of each node's switch; None: not known.
    :raises ValueError: the matrix is not square, or a value is not positive.
    """
    count = len(slowness)
    if slowness.shape != (count, count):
        raise ValueError(f"a matrix of links is square, not {slowness.shape}")
    if np.nanmin(slowness, initial=1.0) <= 0:
        raise ValueError("a value of a link is not positive")
    residual = np.log(slowness)
    np.fill_diagonal(residual, np.nan)
    level = _level(residual, switches)
    out, into = np.zeros(count), np.zeros(count)
    for _ in range(SWEEPS):
        moved = 0.0
        for effect, rows in ((out, residual), (into, residual.T)):
            step = medians(rows)
            rows -= np.nan_to_num(step)[:, None]
            effect += step
            moved = max(moved, float(np.nanmax(np.abs(step), initial=0.0)))
        if moved < SETTLED:
            break
    for effect in (out, into):
        # A constant may stand in either: each has the median 0, and the level has the rest.
        middle = median(effect)
        if np.isfinite(middle):
            effect -= middle
            level += middle
    return Fit(out, into, residual, level, switches)


def _level(logs: np.ndarray, switches: np.ndarray | None) -> np.ndarray:
    """Subtract in place the median of pairs of two switches, and that of pairs of one; both.

    Without switches there is one level. The effects of the nodes leave it over (`fit`).
    """
    if switches is None:
        return np.array([0.0, np.nan])
    near = switches[:, None] == switches[None, :]
    level = np.array([np.nan, np.nan])
    for place in (0, 1):
        level[place] = median(some(logs)[some(near) == place])
    logs -= np.where(near, *np.nan_to_num(level[::-1]).astype(logs.dtype))
    return level


def some(matrix: np.ndarray) -> np.ndarray:
    """All rows, or of a large matrix evenly chosen ones, that have enough values."""
    return matrix[:: -(-matrix.size // MOST_VALUES) or 1]


def medians(rows: np.ndarray) -> np.ndarray:
    """Median of each row, (n,), without NaN; NaN for a row that has nothing else."""
    found = np.full(len(rows), np.nan)
    for start in range(0, len(rows), BLOCK):
        block = np.array(rows[start : start + BLOCK], order="C")
        counts = np.isfinite(block).sum(axis=1)
        for count in np.unique(counts[counts > 0]):
            same = np.flatnonzero(counts == count)
            ends = (count - 1) // 2, count // 2
            # NaN come last.
            ordered = np.partition(block[same], ends, axis=1)[:, ends].astype(float)
            found[start + same] = ordered.mean(axis=1)
    return found


def median(values: np.ndarray) -> float:
    """The median without NaN; NaN if there is nothing else."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan
