"""Measures how often a sweep of a fleet errs: `make bench-fleet` simulates fleets with and without
faults and prints what is found, what is named rightly, and false alarms.

The values of a link are times: log-normal noise, or with tails of Student's t with three degrees of
freedom. Healthy nodes differ by 1 %. A fault makes its node, link or switch slower by so much. A
sweep has three repeats of each link, and so has the second one, which confirms.

The methods of others get the same medians: a fixed threshold of 10 % below the fleet's median,
three standard deviations, and a similarity of distributions above 0.95, in the manner of SuperBench
(Xiong and others, USENIX ATC 2024): the area between two distributions, as a part of the largest
value.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from tabulate import tabulate

from bench.__main__ import interval
from nearmetal.fleet import again, blame, model

REPEATS = 3
NATURAL = 0.01
#: Nodes -> (nodes of a switch, number of sweeps without faults, and with each sort of them).
FLEETS = {16: (4, 600, 60), 128: (16, 200, 20), 1024: (32, 20, 3), 8192: (64, 1, 1)}
NOISES = ((0.02, None), (0.05, None), (0.10, None), (0.05, 3))
COUNTS = (1, 3, 10)
CHANGES = (0.05, 0.10, 0.30)
KINDS = ("node", "link", "switch")
#: Rows of the matrix whose noise is drawn at once.
BLOCK = 256
#: Fixed threshold, standard deviations and similarity of the other methods.
FIXED, DEVIATIONS, SIMILARITY = 0.10, 3.0, 0.95
#: Promises: most sweeps without a fault that raise an alarm, in percent.
MOST_FALSE = 5.0
#: Most seconds and GB of the analysis of all pairs of 8192 nodes.
MOST_SECONDS, MOST_GB = 30.0, 2.0


@dataclass(frozen=True)
class Fleet:
    """A simulated fleet: what is true of it."""

    effects: np.ndarray  #: (n, n) logarithms of the true times
    switches: np.ndarray  #: (n,)
    faults: frozenset[tuple[str, tuple[int, ...]]]  #: kind and nodes

    @property
    def members(self) -> list[np.ndarray]:
        return [np.flatnonzero(self.switches == name) for name in np.unique(self.switches)]


def fleet(rng, nodes: int, size: int, kind: str = "", count: int = 0, change: float = 0) -> Fleet:
    """A fleet whose nodes differ by nature, with so many faults of a kind."""
    switches = np.arange(nodes) // size
    effects = rng.normal(0, NATURAL, nodes)[:, None] + rng.normal(0, NATURAL, nodes)[None, :]
    faults, shift = set(), np.log1p(change)
    if kind == "node":
        for node in rng.choice(nodes, count, replace=False):
            effects[node, :] += shift
            faults.add((kind, (int(node),)))
    if kind == "link":
        for place in rng.choice(nodes * (nodes - 1), count, replace=False):
            sender, other = divmod(int(place), nodes - 1)
            receiver = other + (other >= sender)
            effects[sender, receiver] += shift
            faults.add((kind, (sender, receiver)))
    if kind == "switch":
        for switch in rng.choice(nodes // size, count, replace=False):
            inside = switches == switch
            effects[np.ix_(inside, ~inside)] += shift
            faults.add((kind, tuple(map(int, np.flatnonzero(inside)))))
    return Fleet(effects, switches, frozenset(faults))


def measured(rng, effects: np.ndarray, noise: float, tail: int | None, repeats: int) -> np.ndarray:
    """Medians of so many repeats of each time, of the shape of `effects`."""
    found = np.empty_like(effects)
    for start in range(0, len(effects), BLOCK):
        block = effects[start : start + BLOCK]
        shape = (repeats, *block.shape)
        drawn = rng.standard_t(tail, shape) if tail else rng.standard_normal(shape)
        found[start : start + BLOCK] = np.exp(block + noise * np.median(drawn, axis=0))
    return found


def sweep(times: np.ndarray, one: Fleet) -> tuple[model.Fit, list[blame.Suspect]]:
    fit = model.fit(times, one.switches)
    return fit, blame.of_links(fit, one.members)


def named(suspects) -> set[tuple[str, tuple[int, ...]]]:
    return {(one.kind, one.nodes) for one in suspects}


def fixed(times: np.ndarray) -> set:
    """Nodes, then links of other nodes, that are slower than the median by FIXED."""
    limit = np.median(times) / (1 - FIXED)
    return _beyond(times, np.median(times, axis=1) > limit, times > limit)


def deviations(times: np.ndarray) -> set:
    """Nodes and links more than DEVIATIONS standard deviations above the mean of their kind."""
    means = times.mean(axis=1)
    return _beyond(
        times,
        means > means.mean() + DEVIATIONS * means.std(),
        times > times.mean() + DEVIATIONS * times.std(),
    )


def similarity(times: np.ndarray) -> set:
    """Nodes whose values are distributed otherwise than those of the fleet, and slower."""
    grid = np.linspace(0, 1, 101)
    fleet_values = np.quantile(times, grid)
    own = np.quantile(times, grid, axis=1).T
    apart = np.abs(own - fleet_values).mean(axis=1) / np.maximum(own, fleet_values).max(axis=1)
    slower = own.mean(axis=1) > fleet_values.mean()
    return _beyond(times, (1 - apart < SIMILARITY) & slower, np.zeros_like(times, dtype=bool))


def _beyond(times: np.ndarray, nodes: np.ndarray, links: np.ndarray) -> set:
    links = links & ~nodes[:, None]
    np.fill_diagonal(links, False)
    return {("node", (int(node),)) for node in np.flatnonzero(nodes)} | {
        ("link", (int(sender), int(receiver))) for sender, receiver in np.argwhere(links)
    }


OTHERS: dict[str, Callable[[np.ndarray], set]] = {
    "10 % below the median": fixed,
    "3 standard deviations": deviations,
    "similarity 0.95": similarity,
}


@dataclass
class Tally:
    """What a method found in the sweeps of one row."""

    sweeps: int = 0
    faults: int = 0
    found: int = 0  #: faults of which a node was named in some way
    right: int = 0  #: faults named as what they are
    alarms: int = 0  #: sweeps that name a node without any fault
    false: int = 0  #: names without any fault

    def add(self, names: set, faults: frozenset) -> None:
        sick = {node for _, nodes in faults for node in nodes}
        wrong = [nodes for _, nodes in names if not sick & set(nodes)]
        touched = {node for _, nodes in names for node in nodes}
        self.sweeps += 1
        self.faults += len(faults)
        self.right += len(names & faults)
        self.found += sum(bool(touched & set(nodes)) for _, nodes in faults)
        self.alarms += bool(wrong)
        self.false += len(wrong)

    def cells(self) -> list[str]:
        def part(hits: int, of: int) -> str:
            return f"{100 * hits / of:.1f} ({interval(hits, of)})" if of else ""

        return [
            part(self.found, self.faults),
            part(self.right, self.faults),
            part(self.alarms, self.sweeps),
            f"{self.false / self.sweeps:.2f}",
        ]


def rows(rng, nodes: int, kind: str, count: int, change: float, sweeps: int, noise, tail) -> dict:
    """Method -> its tally over so many sweeps of fleets with these faults."""
    size = FLEETS[nodes][0]
    found = {name: Tally() for name in ("sweep", "confirmed", *OTHERS)}
    for _ in range(sweeps):
        one = fleet(rng, nodes, size, kind, count, change)
        times = measured(rng, one.effects, noise, tail, REPEATS)
        fit, suspects = sweep(times.copy(), one)
        found["sweep"].add(named(suspects), one.faults)
        sure = []
        if suspects:
            fresh = measured(rng, one.effects, noise, tail, REPEATS)
            sure = again.confirmed(suspects, fit, fresh)
        found["confirmed"].add(named(sure), one.faults)
        for name, method in OTHERS.items():
            found[name].add(method(times), one.faults)
    return found


def cases(nodes: int) -> Iterator[tuple[str, int, float]]:
    """Kind, number and size of the faults of each row of a fleet."""
    yield "", 0, 0.0
    for kind in KINDS:
        for count in COUNTS:
            most = nodes // FLEETS[nodes][0] if kind == "switch" else nodes
            if count <= most / 4:
                yield from ((kind, count, change) for change in CHANGES)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.fleet", description=__doc__.split("\n\n")[0])
    parser.add_argument("--nodes", type=int, action="append", choices=FLEETS, help="only these")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    broken = []
    for nodes in options.nodes or FLEETS:
        rng = np.random.default_rng([options.seed, nodes])
        if nodes == max(FLEETS):
            broken += largest(rng, nodes)
            continue
        _, quiet, others = FLEETS[nodes]
        for noise, tail in NOISES:
            table = []
            for kind, count, change in cases(nodes):
                found = rows(
                    rng, nodes, kind, count, change, others if kind else quiet, noise, tail
                )
                what = f"{count} x {kind}, {100 * change:.0f} %" if kind else "none"
                table += [[what, name, *tally.cells()] for name, tally in found.items()]
                sure = found["confirmed"]
                if not kind and 100 * sure.alarms / sure.sweeps > MOST_FALSE:
                    broken.append(f"{nodes} nodes, noise {noise}: {sure.alarms} alarms")
            noise_said = f"{100 * noise:.0f} %" + (", heavy tails" if tail else "")
            print(f"\n{nodes} nodes, noise {noise_said}")
            head = ["faults", "method", "found %", "named rightly %", "alarms %", "false names"]
            print(tabulate(table, head), flush=True)
    for line in broken:
        print(f"broken: {line}", file=sys.stderr)
    return 1 if broken else 0


def largest(rng, nodes: int) -> list[str]:
    """Time and memory of the analysis of all pairs of the largest fleet; what is too much."""
    one = fleet(rng, nodes, FLEETS[nodes][0], "node", 3, 0.10)
    times = measured(rng, one.effects, 0.05, None, REPEATS)
    one = Fleet(np.empty((0, 0)), one.switches, one.faults)
    began = time.monotonic()
    _, suspects = sweep(times, one)
    seconds = time.monotonic() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    right = len(named(suspects) & one.faults)
    print(
        f"\n{nodes} nodes, all {nodes * (nodes - 1):,} links: {seconds:.1f} s, at most "
        f"{memory:.2f} GB with the simulation; {right} of {len(one.faults)} slow nodes named, "
        f"{len(suspects) - right} other suspects"
    )
    return [f"{seconds:.1f} s"] if seconds > MOST_SECONDS else []


if __name__ == "__main__":
    sys.exit(main())
