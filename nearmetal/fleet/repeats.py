"""Which of a node's repeats counts, and how far noise that only slows reaches. Pure functions.

Other programs and the system slow a node down now and then. Nothing makes it quicker than its
hardware. So a quick repeat tells more of the node than a slow one, and the quick nodes do not show
how far the noise of the slow ones reaches. What shows it is by how much the repeats of a node
exceed its quickest one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import special

#: A node's excess counts for at most so many times that of the median node: one node whose repeats
#: differ wildly must not hide the others.
MOST_EXCESS = 6.0


@dataclass(frozen=True)
class Repeats:
    """The repeats of all nodes in a metric."""

    #: (n,) logarithm of the time of the repeat that counts (`place`); NaN: none.
    quick: np.ndarray
    #: (n,) number of repeats of each node.
    counts: np.ndarray
    #: Mean time beyond a node's quickest repeat: the scale of exponential noise.
    excess: float
    #: Number of repeats that show it.
    freedom: int

    def reach(self, error: float) -> np.ndarray:
        """What noise alone adds to a node with this chance, (n,). One repeat shows no noise: NaN.

        The noise of a repeat is taken for exponential, whose tail is longer than that of normal
        noise with the same excess. A node with r repeats of which the k-th counts is slow by noise
        where r - k + 1 of them are, so the chance is at most

            binomial(r, k - 1) * exp(-(r - k + 1) * x / excess)

        with the excess known; by its estimate, exp(-y) becomes (1 + y / freedom)^-freedom.
        """
        if not self.freedom:
            return np.full(len(self.counts), np.nan)
        slow = self.counts - place(self.counts) + 1
        odds = special.comb(self.counts, self.counts - slow) / error
        return self.excess * self.freedom * (odds ** (1 / self.freedom) - 1) / np.maximum(slow, 1)


def place(count):
    """Which of so many repeats counts, from the quickest: of 3 the first, of 5 the second."""
    return np.maximum(1, -(-(count + 1) // 4))


def of(logs: np.ndarray) -> Repeats:
    """The repeats of nodes.

    :arg logs: (repeats, n) logarithms of times; NaN: none.
    """
    ordered = np.sort(logs, axis=0)  # NaN come last
    counts = np.isfinite(logs).sum(axis=0)
    quick = np.take_along_axis(ordered, place(counts)[None, :] - 1, axis=0)[0]
    many = counts > 1
    own = np.nansum(ordered[:, many] - ordered[0, many], axis=0) / (counts[many] - 1)
    freedom = int((counts[many] - 1).sum())
    if not freedom:
        return Repeats(quick, counts, 0.0, 0)
    held = np.minimum(own, MOST_EXCESS * np.median(own))
    return Repeats(quick, counts, float(np.average(held, weights=counts[many] - 1)), freedom)
