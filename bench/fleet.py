"""Measures how often a sweep of a fleet errs: `make bench-fleet` simulates fleets with and without
faults and prints what is found, what is named rightly, and false alarms.

A sweep is that of a session: latency and bandwidth, alone and together, which share one error. The
values of a link are times, with the kinds of noise of bench/fleet_nodes.py. Healthy nodes differ by
1 %, in each matrix otherwise. A fault slows down by so much what its node, link or switch sends,
alone and together; latencies have none. A sweep has three repeats of each link, and so has the
second one, which confirms.

The methods of others get the same medians, and what they name in any matrix counts: a fixed
threshold of 10 % below the fleet's median, three standard deviations, and a similarity of
distributions above 0.95, in the manner of SuperBench (Xiong and others, USENIX ATC 2024): the area
between two distributions, as a part of the largest value.
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import orjson
from scipy import stats
from tabulate import tabulate

from bench import fleet_nodes
from bench.__main__ import interval
from bench.fleet_nodes import HEAVY, NORMAL, SLOWING, noise_of
from nearmetal.checks.fleet_values import stored_links
from nearmetal.checks.parsing.links import Link, Links
from nearmetal.fleet import findings
from nearmetal.fleet.sweep import Sweep
from nearmetal.model import round_robin

REPEATS = 3
NATURAL = 0.01
#: Nodes -> (nodes of a switch, number of sweeps without faults, and with each sort of them).
FLEETS = {16: (4, 600, 40), 128: (16, 100, 5), 1024: (32, 5, 1), 8192: (64, 1, 1)}
#: Size and kind of noise.
Noise = tuple[float, str]
NOISES: tuple[Noise, ...] = (
    (0.02, NORMAL),
    (0.10, NORMAL),
    (0.05, NORMAL),
    (0.05, HEAVY),
    (0.05, SLOWING),
)
#: Faults of the largest fleet: kind, number and size.
LARGEST = (("", 0, 0.0), ("node", 10, 0.10), ("link", 10, 0.30), ("switch", 10, 0.10))
COUNTS = (1, 3, 10)
CHANGES = (0.05, 0.10, 0.30)
KINDS = ("node", "link", "switch")
CASES = ("alone", "together")
#: Rows of the matrix whose noise is drawn at once.
BLOCK = 256
#: Fixed threshold, standard deviations and similarity of the other methods.
FIXED, DEVIATIONS, SIMILARITY = 0.10, 3.0, 0.95
#: Promises: most sweeps without a fault that raise an alarm, in percent.
MOST_FALSE = 5.0
#: Methods that promise so.
PROMISED = ("sweep", "confirmed")
#: Most seconds (of one processor) and GB of the analysis of a case with all pairs of 8192 nodes.
MOST_SECONDS, MOST_GB = 30.0, 2.0
#: Seconds of a repeat, by default (fleet_links.seconds).
SECONDS = 60.0
#: Most pairs of a node, by default (fleet_links.partners).
PARTNERS = 128


@dataclass(frozen=True)
class Fleet:
    """A simulated fleet: what is true of it."""

    natural: np.ndarray  #: (cases, 3, n) logarithms: latency, sends, receives
    slow: Sequence[tuple[np.ndarray, np.ndarray]]  #: senders and receivers that a fault slows down
    change: float
    switches: np.ndarray  #: (n,)
    faults: frozenset[tuple[str, tuple[int, ...]]]  #: kind and nodes

    def sweep(self, rng, case: int, noise: Noise) -> Sweep:
        """One case of a sweep."""
        latency, sends, receives = self.natural[case]
        us = measured(rng, latency, latency, noise)
        for node in range(len(us)):
            us[node + 1 :, node] = us[node, node + 1 :]
        times = measured(rng, sends, receives, noise)
        for senders, receivers in self.slow:
            times[np.ix_(senders, receivers)] *= 1 + self.change
        names = tuple(f"n{node}" for node in range(len(us)))
        gbps = np.divide(1, times, out=times)
        return Sweep(names, us, gbps, REPEATS, {}, {}, tuple(f"s{name}" for name in self.switches))


def fleet(rng, nodes: int, size: int, kind: str = "", count: int = 0, change: float = 0) -> Fleet:
    """A fleet whose nodes differ by nature, with so many faults of a kind."""
    switches = np.arange(nodes) // size
    every = np.arange(nodes)
    faults, slow = set(), []
    if kind == "node":
        for node in rng.choice(nodes, count, replace=False):
            slow.append((every[node : node + 1], every))
            faults.add((kind, (int(node),)))
    if kind == "link":
        for place in rng.choice(nodes * (nodes - 1), count, replace=False):
            sender, other = divmod(int(place), nodes - 1)
            receiver = other + (other >= sender)
            slow.append((every[sender : sender + 1], every[receiver : receiver + 1]))
            faults.add((kind, (sender, receiver)))
    if kind == "switch":
        for switch in rng.choice(nodes // size, count, replace=False):
            inside = np.flatnonzero(switches == switch)
            slow.append((inside, np.flatnonzero(switches != switch)))
            faults.add((kind, tuple(map(int, inside))))
    natural = rng.normal(0, NATURAL, (len(CASES), 3, nodes))
    return Fleet(natural, slow, change, switches, frozenset(faults))


def measured(rng, out: np.ndarray, into: np.ndarray, noise: Noise) -> np.ndarray:
    """Times of all links, (n, n): medians of the repeats, around 1."""
    count = len(out)
    found = np.empty((count, count), dtype=np.float32)
    for start in range(0, count, BLOCK):
        rows = slice(start, start + BLOCK)
        shape = (REPEATS, len(out[rows]), count)
        middle = np.sort(noise_of(rng, shape, *noise), axis=0)[REPEATS // 2]
        found[rows] = np.exp(out[rows, None] + into[None, :] + middle)
    return found


def named(found: Sequence[findings.Finding]) -> set[tuple[str, tuple[int, ...]]]:
    return {(one.kind, tuple(int(name[1:]) for name in one.nodes)) for one in found}


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


def rows(rng, nodes: int, kind: str, count: int, change: float, sweeps: int, noise: Noise) -> dict:
    """Method -> its tally over so many sweeps of fleets with these faults."""
    tallies = {name: Tally() for name in ("sweep", "confirmed", *OTHERS)}
    for _ in range(sweeps):
        one = fleet(rng, nodes, FLEETS[nodes][0], kind, count, change)
        names: dict[str, set] = {name: set() for name in tallies}
        swept = [one.sweep(rng, case, noise) for case in range(len(CASES))]
        error = findings.error_of(swept)
        for case, first in enumerate(swept):
            found = findings.of(first, error)
            names["sweep"] |= named(found)
            if found:
                second = one.sweep(rng, case, noise)
                names["confirmed"] |= named(findings.compared(first, second, error).found)
            for what in first.measures:
                for name, method in OTHERS.items():
                    names[name] |= method(first.slowness(what))
        for name, tally in tallies.items():
            tally.add(names[name], one.faults)
    return tallies


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
    parser.add_argument("--noise", type=int, choices=(2, 5, 10), help="only of so many percent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stored", action="store_true", help="only what a database holds of it")
    parser.add_argument("--metrics", action="store_true", help="only sweeps of nodes by themselves")
    options = parser.parse_args()
    if options.metrics:
        return of_nodes(options.nodes or list(fleet_nodes.FLEETS))
    if options.stored:
        print(storage())
        return 0
    print(times_of_sweeps(), flush=True)
    broken = []
    for nodes in options.nodes or FLEETS:
        rng = np.random.default_rng([options.seed, nodes])
        if nodes == max(FLEETS):
            broken += largest(rng, nodes)
            continue
        _, quiet, others = FLEETS[nodes]
        for noise in NOISES:
            title = f"{nodes} nodes, noise {100 * noise[0]:.0f} %, {noise[1]}"
            if options.noise not in (None, round(100 * noise[0])):
                continue
            table = []
            for kind, count, change in cases(nodes):
                found = rows(rng, nodes, kind, count, change, others if kind else quiet, noise)
                what = f"{count} x {kind}, {100 * change:.0f} %" if kind else "none"
                table += [[what, name, *tally.cells()] for name, tally in found.items()]
                if not kind:
                    broken += [
                        f"{title}: {name} has {tally.alarms} alarms in {tally.sweeps} sweeps"
                        for name, tally in found.items()
                        if name in PROMISED and surely_too_many(tally)
                    ]
            print(f"\n{title}")
            head = ["faults", "method", "found %", "named rightly %", "alarms %", "false names"]
            print(tabulate(table, head), flush=True)
    for line in broken:
        print(f"broken: {line}", file=sys.stderr)
    return 1 if broken else 0


def of_nodes(fleets: Sequence[int]) -> int:
    """Print the bench of sweeps of nodes; 1 if a promise is broken."""
    broken = []
    for title, table, healthy in fleet_nodes.tables(fleets):
        head = ["slow nodes", "method", "named rightly %", "sweeps with a false name %"]
        print(f"\n{title}\n{tabulate(table, head)}", flush=True)
        broken += [
            f"{title}: {name} has {alarms} alarms in {sweeps} sweeps"
            for name, alarms, sweeps in healthy
            if name in PROMISED and surely_too_many(Tally(sweeps=sweeps, alarms=alarms))
        ]
    for line in broken:
        print(f"broken: {line}", file=sys.stderr)
    return 1 if broken else 0


def surely_too_many(tally: Tally) -> bool:
    """Whether the rate of alarms is above MOST_FALSE, and not by chance (95 %, one-sided)."""
    return bool(stats.binom.sf(tally.alarms - 1, tally.sweeps, MOST_FALSE / 100) < 0.05)


def largest(rng, nodes: int) -> list[str]:
    """Time and memory of the analysis of all pairs of the largest fleet; what is too much."""
    size = FLEETS[nodes][0]
    broken = []
    for kind, count, change in LARGEST:
        one = fleet(rng, nodes, size, kind, count, change)
        swept = one.sweep(rng, 0, (0.05, NORMAL))
        began = time.process_time()
        found = named(findings.of(swept, findings.error_of([swept] * len(CASES))))
        seconds = time.process_time() - began
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        right = len(found & one.faults)
        print(
            f"{nodes} nodes, all {nodes * (nodes - 1) // 2:,} pairs of a case: {seconds:.1f} s of "
            f"one processor, at most {memory:.2f} GB with the simulation; "
            + (
                f"{right} of {count} x {kind}, {100 * change:.0f} % named, "
                if kind
                else "healthy, "
            )
            + f"{len(found) - right} other names",
            flush=True,
        )
        broken += [f"{nodes} nodes: {seconds:.1f} s"] if seconds > MOST_SECONDS else []
        broken += [f"{nodes} nodes: {memory:.2f} GB"] if memory > MOST_GB else []
    return broken


def stored_bytes(nodes: int, rounds: int, noise: float) -> int:
    """Bytes of a case's links in ReFrame's database, by the check's own encoder."""
    rng = np.random.default_rng(nodes)
    names = tuple(f"node{number:05d}" for number in range(nodes))
    found = {}
    for pair in round_robin.pairs(nodes, rounds):
        us, there, back = map(float, np.exp(noise * rng.standard_normal(3)))
        found[pair] = [Link(20 * us, 9 * there, 9 * back)]
    launches = [Links({}, {"rounds": rounds}, names, found)] * REPEATS
    return len(orjson.dumps(stored_links(launches, {}, {})))


def storage() -> str:
    """What the links of a case cost in the database."""
    found = []
    for nodes in (16, 128, 1024):
        for rounds in sorted({min(nodes - 1, PARTNERS), nodes - 1}):
            sizes = (stored_bytes(nodes, rounds, noise) for noise in (0.02, 0.10))
            found.append([nodes, rounds, *(f"{size / 1e3:.0f}" for size in sizes)])
    head = ["nodes", "pairs of a node", "kB, noise 2 %", "kB, noise 10 %"]
    return tabulate(found, head)


def times_of_sweeps() -> str:
    """Time of a repeat of all pairs, and pairs in the default time, by the model of the slots."""
    found = []
    for nodes in FLEETS:
        for case in CASES:
            at_once = 1 if case == "together" else nodes // 2
            some = round_robin.rounds_in(SECONDS, nodes, at_once)
            found.append(
                [
                    nodes,
                    case,
                    f"{(nodes - 1) * at_once * round_robin.LEAST_SLOT:.0f}",
                    some,
                    f"{1000 * SECONDS / some / at_once:.0f}",
                ]
            )
    head = ["nodes", "traffic", "all pairs (s)", f"pairs of a node in {SECONDS:.0f} s", "slot (ms)"]
    return tabulate(found, head)


if __name__ == "__main__":
    sys.exit(main())
