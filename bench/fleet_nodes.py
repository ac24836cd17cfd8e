"""Measures how often a sweep of nodes errs: `make bench-fleet FLEET=--metrics`.

A sweep is that of a session: five metrics of all nodes, in three repeats. Values are times: healthy
nodes differ by 1 %, in each metric otherwise. The noise of a repeat is log-normal, or has tails of
Student's t with three degrees of freedom, or only slows down, by an exponential distribution. A
fault slows down one metric of a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from nearmetal.fleet import findings
from nearmetal.fleet.nodes import NodeSweep
from nearmetal.model.node_metrics import LOST, METRICS, RATE

REPEATS = 3
NATURAL = 0.01
#: Nodes -> number of sweeps without faults, and with each sort of them.
FLEETS = {8: (1000, 100), 16: (1000, 100), 128: (500, 100), 1024: (100, 20), 8192: (20, 5)}
NORMAL, HEAVY, SLOWING = "log-normal", "heavy tails", "only slows"
NOISES = ((0.02, NORMAL), (0.05, NORMAL), (0.05, HEAVY), (0.05, SLOWING))
FAULTS = ((0, 0.0), (1, 0.05), (1, 0.10), (1, 0.30), (3, 0.10))
#: Fixed threshold and standard deviations of the other methods.
FIXED, DEVIATIONS = 0.10, 3.0


def noise_of(rng, size: tuple, noise: float, kind: str) -> np.ndarray:
    """Logarithms of the noise of so many values."""
    if kind == HEAVY:
        return noise * rng.standard_t(3, size)
    if kind == SLOWING:
        return np.log1p(rng.exponential(noise, size))
    return noise * rng.standard_normal(size)


def sweep(rng, natural: np.ndarray, noise: float, kind: str) -> NodeSweep:
    """A sweep of nodes with these parts of their times, (metrics, n), as logarithms."""
    count = natural.shape[1]
    values = {}
    for metric, own in zip(METRICS, natural, strict=True):
        times = np.exp(own + noise_of(rng, (REPEATS, count), noise, kind))
        if metric.kind == LOST:
            times *= 2  # half of the time is lost, so that nothing is negative
            values[metric.name] = 100 * (1 - 1 / np.maximum(times, 1.0))
        else:
            values[metric.name] = 1 / times if metric.kind == RATE else times
    return NodeSweep(tuple(f"n{node}" for node in range(count)), values, REPEATS, {}, {})


def others(one: NodeSweep) -> dict[str, set]:
    """Method -> the nodes and metrics that it names."""
    named: dict[str, set] = {"10 % beyond the median": set(), "three deviations": set()}
    for what, found in one.effects.items():
        over = np.expm1(found.values)
        far = found.values > found.values.mean() + DEVIATIONS * found.values.std()
        named["10 % beyond the median"] |= {
            (one.nodes[node], what) for node in np.flatnonzero(over > FIXED)
        }
        named["three deviations"] |= {(one.nodes[node], what) for node in np.flatnonzero(far)}
    return named


def names(found) -> set:
    return {(who, one.what) for one in found for who in one.nodes}


def rows(rng, nodes: int, count: int, change: float, sweeps: int, noise: float, kind: str) -> dict:
    """Method -> (faults, those named with their metric, sweeps with a false name), of sweeps."""
    tally: dict[str, list[int]] = {}
    for _ in range(sweeps):
        natural = rng.normal(0, NATURAL, (len(METRICS), nodes))
        faults = set()
        for node in rng.choice(nodes, count, replace=False):
            metric = int(rng.integers(len(METRICS)))
            natural[metric, node] += np.log1p(change)
            faults.add((f"n{node}", METRICS[metric].words))
        first = sweep(rng, natural, noise, kind)
        error = findings.error_of([first])
        found = {"sweep": names(findings.of(first, error)), "confirmed": set(), **others(first)}
        if found["sweep"]:
            second = sweep(rng, natural, noise, kind)
            found["confirmed"] = names(findings.compared(first, second, error).found)
        for name, named in found.items():
            own = tally.setdefault(name, [0, 0, 0])
            own[0] += len(faults)
            own[1] += len(named & faults)
            own[2] += bool({who for who, _ in named} - {who for who, _ in faults})
    return {name: tuple(own) for name, own in tally.items()}


def tables(fleets: Iterable[int]) -> Iterator[tuple[str, list[list], list[tuple[str, int, int]]]]:
    """Title, rows, and (method, alarms, sweeps) of the healthy fleets, for each fleet and noise."""
    for nodes in fleets:
        quiet, sick = FLEETS[nodes]
        for noise, kind in NOISES:
            rng = np.random.default_rng([1, nodes])
            table, healthy = [], []
            for count, change in FAULTS:
                if count > nodes / 4:
                    continue
                sweeps = sick if count else quiet
                for name, (faults, right, alarms) in rows(
                    rng, nodes, count, change, sweeps, noise, kind
                ).items():
                    said = f"{100 * right / faults:.0f}" if faults else ""
                    what = f"{count} x {100 * change:.0f} %" if count else "none"
                    table.append([what, name, said, f"{100 * alarms / sweeps:.1f}"])
                    if not count:
                        healthy.append((name, alarms, sweeps))
            yield f"{nodes} nodes, noise {100 * noise:.0f} %, {kind}", table, healthy
