"""Whole campaigns of many variables through the gate's own functions, for `make bench-gate`.

A campaign has a baseline of days, and nights since. The first two nights and the last one are
judged, as `gate --confirm` does; the others are sessions that nobody confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from bench.noise import KINDS, SESSION, Kind
from nearmetal.judge.against_baseline import OTHER_WAY
from nearmetal.stats import days, drift, pooled, sequential
from nearmetal.stats.plan import (
    BASELINE_SESSIONS,
    CONFIRMATION_ANALYSES,
    alpha,
    day_error,
    fresh_alpha,
    screen,
)

#: Variables of a case, which are measured together.
CASE = 4
#: Nights since the baseline.
NIGHTS = 7
#: Repeats of each job of a confirmation, one a round.
JOBS = tuple(np.diff((0, *CONFIRMATION_ANALYSES)))


@dataclass(frozen=True)
class Known:
    """What the baseline says; arrays have one entry for each variable."""

    #: Logarithms, (variables, days, repeats).
    days: np.ndarray
    drifts: np.ndarray
    memory: float
    bounds: np.ndarray

    @classmethod
    def of(cls, logs: np.ndarray, anchor: int | None = None) -> Known:
        """
        :arg anchor: number of first days that nights are compared with; None: all.
        """
        values = np.exp(logs)
        drifts = drift.effective(values, len(logs))
        memory = days.memory(values) if drifts.any() else 0.0
        return cls(logs[:, :anchor], drifts, memory, days.bounds(values, drifts))

    @property
    def base(self) -> np.ndarray:
        return self.days.reshape(len(self.days), -1)

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.days.shape[2],) * self.days.shape[1]

    def errors(self, night: int) -> sequential.Errors:
        """Those of a night, counted from 0."""
        contrast = days.contrast(self.memory, self.sizes, (1,), night)
        between = self.drifts * math.sqrt(contrast)
        return sequential.Errors.of(self.base, between, day_error(len(between)))


@dataclass
class Night:
    """The gate's verdicts on a night; arrays have one entry for each variable."""

    regressed: np.ndarray
    improved: np.ndarray
    inconclusive: np.ndarray
    #: Fresh repeats of all cases, of each case as many as its variables needed together.
    fresh: int = 0
    #: Logarithms of each variable's samples, as later nights see them.
    samples: list[np.ndarray] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        if self.regressed.any():
            return 1
        return 2 if self.inconclusive.any() else 0


def gate(known: Known, earlier: Sequence[Sequence], logs: np.ndarray, fresh=None) -> Night:
    """The verdicts on a night; higher values are worse.

    :arg earlier: samples of each variable on the nights since the baseline.
    :arg logs: (variables, repeats)
    :arg fresh: (variables, repeats) of its confirmation; None: without one.
    """
    base, count, night = known.base, len(logs), len(earlier)
    errors = known.errors(night)
    alone = sequential.decide(base, logs, alpha(count), errors)
    side, shift, samples = alone.side.copy(), alone.shift.copy(), list(logs)
    measured = np.zeros(count, dtype=int)
    if fresh is not None:
        measured = _confirm(known, errors, alone, fresh, side, shift)
        for row in np.flatnonzero(measured):
            samples[row] = fresh[row, : measured[row]]
    opposed = (side * alone.side == -1) & (measured > 0)
    other_way = np.abs(shift[(side == -1) & ~opposed]).max(initial=0) / OTHER_WAY
    bounds = np.maximum(known.bounds, other_way)
    one_day = (side == 1) & (np.abs(shift) <= bounds)
    improved, regressed = (side == -1) & ~opposed, (side == 1) & ~one_day & ~opposed
    inconclusive = one_day | opposed
    rows = np.flatnonzero(((side == sequential.UNDECIDED) | one_day) & ~opposed)
    nights = [*earlier, samples]
    for part in _alike(rows, nights):
        changed, likely = _pooled(
            known, bounds[part], [np.array([one[row] for row in part]) for one in nights], part
        )
        regressed[part] |= changed == 1
        improved[part] |= (changed == -1) & ~inconclusive[part]
        inconclusive[part] = (inconclusive[part] | (likely == 1)) & (changed != 1)
    cases = measured.reshape(-1, CASE).max(axis=1)
    return Night(regressed, improved, inconclusive & ~improved, int(cases.sum()), samples)


def _confirm(known: Known, errors, alone, fresh: np.ndarray, side, shift) -> np.ndarray:
    """Judge the fresh samples of suspicious cases round by round; sets `side` and `shift`.

    Returns the number of fresh samples by which each variable was judged, 0 for none.
    """
    measured, level = np.zeros(len(side), dtype=int), screen(len(side))
    wanted = _of_cases(sequential.screen(alone, errors, level))
    # What its first samples call unchanged is not judged again.
    judged = np.flatnonzero(wanted & (alone.side != 0))
    for taken in CONFIRMATION_ANALYSES:
        rows = judged[wanted[judged]]
        if not len(rows):
            break
        samples, own = fresh[rows, :taken], errors.rows(rows).of_fresh()
        found = sequential.decide(
            known.base[rows], samples, fresh_alpha(len(judged)), own, CONFIRMATION_ANALYSES
        )
        side[rows], shift[rows], measured[rows] = found.side, found.shift, taken
        still = np.zeros(len(side), dtype=bool)
        still[rows] = sequential.screen(found, own, level) & (found.side == sequential.UNDECIDED)
        wanted = _of_cases(still)
    return measured


def _of_cases(variables: np.ndarray) -> np.ndarray:
    """The variables of cases that have any of these."""
    return np.repeat(variables.reshape(-1, CASE).any(axis=1), CASE)


def _alike(rows: np.ndarray, nights: Sequence[Sequence]) -> list[np.ndarray]:
    """The rows in parts with equally many samples on each night."""
    parts: dict[tuple[int, ...], list[int]] = {}
    for row in rows:
        parts.setdefault(tuple(len(night[row]) for night in nights), []).append(row)
    return [np.array(part) for part in parts.values()]


def _pooled(known: Known, bounds: np.ndarray, nights: list[np.ndarray], rows: np.ndarray) -> tuple:
    """Sides that the nights together show, and sides that they make likely."""
    error = pooled.POOLED_ERROR / len(known.drifts) / len(pooled.WINDOWS)
    pools = pooled.pools_of(
        known.base[rows], nights, known.drifts[rows], known.sizes, error, None, known.memory
    )
    _, changed = pooled.deciding(pools, error, bounds)
    _, likely = pooled.deciding(pools, pooled.SUSPICION * error / pooled.POOLED_ERROR)
    return changed, likely


#: The nights of a campaign that are judged; the last one without confirmations.
JUDGED = ("night 1", "night 2", f"night {NIGHTS}", f"night {NIGHTS}, plain", "night 1, plain")
#: What is counted of each: exit code, any improved, fresh repeats, whether the change was found.
EXIT_CODE, IMPROVED, FRESH, FOUND = range(4)


def campaign(rng, kind: Kind, variables: int, step: float | None, long: bool) -> list[Night]:
    """The judged nights of a campaign in which the first variable changes after the baseline.

    :arg step: change as a logarithm; None: as large as the gate promises to find.
    :arg long: whether nights after the second are judged, too.
    """
    count = NIGHTS if long else 2
    shifts = kind.days(rng, variables, BASELINE_SESSIONS + count)[:, :, None]
    logs = kind.session(rng, (variables, BASELINE_SESSIONS + count), SESSION) + shifts
    jobs = [kind.session(rng, (variables, count), repeats) for repeats in JOBS]
    fresh = np.concatenate(jobs, axis=2) + shifts[:, BASELINE_SESSIONS:]
    nights = logs[:, BASELINE_SESSIONS:]
    known = Known.of(logs[:, :BASELINE_SESSIONS])
    if step is None:
        step = float(known.errors(0).detectable(alpha(variables))[0])
    nights[0] += step
    fresh[0] += step
    first = gate(known, [], nights[:, 0], fresh[:, 0])
    judged = [first, gate(known, [first.samples], nights[:, 1], fresh[:, 1])]
    if long:
        earlier = [list(nights[:, night]) for night in range(count - 1)]
        judged.append(gate(known, earlier, nights[:, -1], fresh[:, -1]))
        judged.append(gate(known, earlier, nights[:, -1]))
    return [*judged, gate(known, [], nights[:, 0])]


def _part(
    seed, kind: Kind, variables: int, step: float | None, long: bool, count: int
) -> np.ndarray:
    """(campaigns, judged nights, 4): what is counted of so many campaigns."""
    rng = np.random.default_rng(seed)
    counted = []
    for _ in range(count):
        nights = campaign(rng, kind, variables, step, long)
        counted.append(
            [
                (night.exit_code, night.improved.any(), night.fresh, night.regressed[0])
                for night in nights
            ]
        )
    return np.array(counted, dtype=float)


def simulate(
    kind: Kind,
    variables: int,
    count: int,
    step: float | None = 0.0,
    long: bool = False,
    seed: int = 1,
    processes: int = 2,
) -> np.ndarray:
    """(campaigns, judged nights, 4): EXIT_CODE, IMPROVED, FRESH and FOUND of each night."""
    seeds = np.random.SeedSequence(seed).spawn(processes)
    arguments = kind.name, variables, step, long, -(-count // processes)
    if processes == 1:
        return _by_name(seeds[0], *arguments)
    with ProcessPoolExecutor(processes) as pool:
        parts = [pool.submit(_by_name, one, *arguments) for one in seeds]
        return np.concatenate([part.result() for part in parts])


def _by_name(seed, name: str, *arguments) -> np.ndarray:
    # The functions of a kind cannot be sent to another process.
    kind = next(kind for kind in KINDS if kind.name == name)
    return _part(seed, kind, *arguments)
