"""The sequential test behind `judge`, for many trials at once: arrays in, arrays out, all in logarithms."""

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from nearmetal.stats import ranks

#: Numbers of launches after which a verdict is sought; the last is where asking ends.
LOOKS = (5, 7, 10, 14, 20, 32, 50, 75)
#: Numbers of fresh launches after which a changed verdict may be confirmed: at its larger error three can.
CONFIRM_LOOKS = (3, *LOOKS)
#: A change below this fraction is of no practical interest, however sure.
THRESHOLD = 0.02
#: The smallest change worth finding, and the largest: where noise hides a doubling, there is nothing to judge (see `Errors.size`).
SIZES = (0.05, 1.0)
#: Standard errors by which the estimate must stay below that size for `ok`.
MARGIN = 3.0
#: Power with which a change of that size is to be found.
POWER = 0.95
#: How often a day alone may pass for a regression, where days differ.
DAY_ERROR = 0.001
#: Neither changed nor unchanged, yet.
UNDECIDED = 2


@dataclass(frozen=True)
class Errors:
    """Of the Hodges-Lehmann estimates of the trials' changes."""

    noise: np.ndarray  #: between launches, (trials,)
    launches: int  #: in the baseline
    drift: np.ndarray  #: between sessions, (trials,)
    sessions: int  #: in the baseline

    def launch(self, count: int) -> np.ndarray:
        """Standard error that so many launches of one session leave."""
        return self.noise * math.sqrt(ranks.INEFFICIENCY * (1 / self.launches + 1 / count))

    def session(self, count: int) -> np.ndarray:
        """The same with the day's own shift, which none of its launches takes away."""
        return np.hypot(self.launch(count), self.drift * math.sqrt(1 + 1 / self.sessions))

    def threshold(self, count: int) -> np.ndarray:
        """The shift beyond which it is a change: of interest, and more than a day does."""
        least = math.log1p(THRESHOLD)
        # All variables may share their days, so that the drift is known from as few as there are sessions.
        quantile = (
            special.stdtrit(self.sessions - 1, 1 - DAY_ERROR)
            if self.sessions > 1
            else special.ndtri(1 - DAY_ERROR)
        )
        return np.where(self.drift > 0, np.maximum(least, quantile * self.session(count)), least)

    def size(self, share: float) -> np.ndarray:
        """The shift that the last look finds with POWER at that error, but no smaller than SIZES[0]; NaN above SIZES[1]."""
        last, power = LOOKS[-1], special.ndtri(POWER)
        size = np.maximum(
            math.log1p(SIZES[0]), (special.ndtri(1 - share) + power) * self.launch(last)
        )
        size = np.where(
            self.drift > 0,
            np.maximum(size, self.threshold(last) + power * self.session(last)),
            size,
        )
        return np.where(size <= math.log1p(SIZES[1]), size, math.nan)


@dataclass(frozen=True)
class Decided:
    """One entry a trial."""

    side: np.ndarray  #: 1 a higher value, -1 a lower one, 0 unchanged, UNDECIDED
    count: np.ndarray  #: launches used
    shift: np.ndarray  #: estimate at that look
    p: np.ndarray  #: of the shift's direction at that look
    size: np.ndarray  #: smallest shift that can be found, NaN: none


def decide(
    base: np.ndarray, new: np.ndarray, share: float, drift: np.ndarray, sessions: int, looks=LOOKS
) -> Decided:
    """Compare new, (trials, launches), with base, (trials, launches) of so many sessions, at each look that `new` reaches, at
    that error a look.  drift, (trials,): of a session as a whole."""
    errors = Errors(ranks.spread(base), base.shape[1], drift, sessions)
    size, reached = errors.size(share), new.shape[1]
    side, count = np.full(len(base), UNDECIDED), np.full(len(base), reached)
    shift, p = np.zeros(len(base)), np.ones(len(base))
    for look in sorted({*(look for look in looks if look <= reached), reached}):
        for part in _parts(np.flatnonzero(side == UNDECIDED), look * base.shape[1]):
            shift[part], p[part] = ranks.two_samples(base[part], new[part, :look])
            if look not in looks:  # an estimate, but no look that was paid for
                continue
            distance = np.abs(shift[part])
            changed = (p[part] <= share) & (distance > errors.threshold(look)[part])
            margin = np.maximum(
                MARGIN * errors.launch(look), special.ndtri(POWER) * errors.session(look)
            )[part]
            word = np.where(
                changed,
                np.where(shift[part] > 0, 1, -1),
                np.where(distance + margin < size[part], 0, UNDECIDED),
            )
            side[part], count[part] = word, np.where(word == UNDECIDED, reached, look)
    return Decided(side, count, shift, p, size)


def confirm(
    base, first, fresh, share: float, again: float, drift: np.ndarray, sessions: int
) -> Decided:
    """Two stages: what `first` finds changed must hold in `fresh` alone, at the error `again` over all of CONFIRM_LOOKS; what
    it leaves open goes on with both, in order, at the looks; what it finds unchanged stays so."""
    found = decide(base, first, share, drift, sessions)
    side, count, shift, p = (
        array.copy() for array in (found.side, found.count, found.shift, found.p)
    )
    rows = np.flatnonzero(found.side == UNDECIDED)
    both = decide(
        base[rows], np.concatenate([first[rows], fresh[rows]], axis=1), share, drift[rows], sessions
    )
    side[rows], count[rows], shift[rows], p[rows] = both.side, both.count, both.shift, both.p
    rows = np.flatnonzero(np.abs(found.side) == 1)
    held = decide(
        base[rows], fresh[rows], again / len(CONFIRM_LOOKS), drift[rows], sessions, CONFIRM_LOOKS
    )
    opposite = held.side == -found.side[rows]
    side[rows] = np.where(opposite, UNDECIDED, held.side)
    count[rows], shift[rows], p[rows] = found.count[rows] + held.count, held.shift, held.p
    return Decided(side, count, shift, p, found.size)


def _parts(rows: np.ndarray, cells: int) -> list[np.ndarray]:
    """Rows in parts whose tables of differences fit the processor's cache better than all at once."""
    return np.array_split(rows, max(1, len(rows) * cells // 2_000_000)) if len(rows) else []
