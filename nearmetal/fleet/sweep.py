"""A sweep of all links, as a results database holds it, and the reader that all sweeps share."""

from __future__ import annotations

import base64
import binascii
import contextlib
import itertools
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from nearmetal.errors import NearmetalError
from nearmetal.fleet import model, outliers, remeasured
from nearmetal.fleet.model import Fit
from nearmetal.fleet.outliers import Effects, Suspect
from nearmetal.model import round_robin
from nearmetal.results import Case
from nearmetal.util import sanitize, typed_json

MEASURES = LATENCY, BANDWIDTH = "start-up latency", "bandwidth"
#: Most nodes of a sweep: more are taken for damage.
MOST_NODES = 100_000
#: Most nodes of a sweep of links, which takes two matrices, and most links: all of 8192 nodes.
MOST_LINKED, MOST_LINKS = 20_000, 1 << 25
#: Most repeats: more are taken for damage.
MOST_REPEATS = 1_000_000
#: Node -> fact -> its value, that of most nodes, and how many nodes have that.
Odd = dict[str, dict[str, tuple[str, str, int]]]
#: Nodes that did not start the program, and why. They are none of the sweep's nodes.
Refused = dict[str, str]
#: Smallest values of a sweep in any unit: with any code, `least` stays a number of 32 bits.
LEAST, MOST = 1e-20, 1e20
HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}")


class SweepError(NearmetalError):
    """The values of a sweep cannot be read. The message names the case."""


class Stored:
    """The object that a case stores of a sweep. Its readers raise ShapeError or ValueError."""

    def __init__(self, where: str, data: Mapping):
        self.where, self.data = where, data

    def at(self, key: str) -> str:
        """The place of a key, for errors."""
        return f"{self.where}.{key}"

    def object(self, key: str) -> Mapping:
        return typed_json.mapping(self.data.get(key), self.at(key))

    def hosts(self, key: str = "nodes") -> tuple[str, ...]:
        """The names of different hosts."""
        names = tuple(map(host, typed_json.sequence(self.data.get(key), self.at(key))))
        if len(set(names)) < len(names):
            twice = Counter(names).most_common(1)[0][0]
            raise ValueError(f"{self.at(key)}: two nodes have one name, {twice}")
        return names

    def count(self, key: str, most: int) -> int:
        return typed_json.count(self.data, key, self.where, most)

    def reasons(self, key: str) -> dict[str, str]:
        """Nodes, and why each is among them."""
        reasons = {}
        for node, why in self.object(key).items():
            reasons[host(node)] = sanitize.line(str(why))
        return reasons

    @property
    def refused(self) -> Refused:
        """Nodes that did not start the program; an older sweep has none."""
        if "refused" not in self.data:
            return {}
        return self.reasons("refused")

    def switches(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """The name of each node's switch; () where they are not known. Raises SweepError."""
        names = typed_json.sequence(self.data.get("switches", []), self.at("switches"))
        if names and len(names) != len(nodes):
            raise SweepError(f"{self.where}: {len(names)} switches of {len(nodes)} nodes: rerun")
        return tuple(sanitize.line(str(name)) for name in names)

    @property
    def odd(self) -> Odd:
        """The facts of nodes that differ; a sweep of an older version has none."""
        odd: Odd = {}
        for node, facts in typed_json.items(self.data, "odd", self.where):
            place = f"{self.at('odd')}.{node}"
            for fact, stored in typed_json.mapping(facts, place).items():
                here = f"{place}.{fact}"
                named = dict(zip(("value", "most", "count"), typed_json.sequence(stored, here)))
                value = sanitize.line(typed_json.text(named, "value", here))
                most = sanitize.line(typed_json.text(named, "most", here))
                count = typed_json.count(named, "count", here, MOST_NODES)
                odd.setdefault(host(node), {})[sanitize.line(fact)] = value, most, count
        return odd

    def values(self, key: str, count: int) -> np.ndarray:
        """So many values of checks/fleet.py's `packed`, (count,)."""
        return unpacked(self.object(key), count, self.at(key))


@contextlib.contextmanager
def stored(case: Case, key: str) -> Iterator[Stored]:
    """The reader of what a case stores of a sweep. Errors within become a SweepError.

    :arg key: the attribute of the case.
    """
    where = f"{' | '.join(case.where)}: {key}"
    try:
        yield Stored(where, getattr(case, key))
    except (typed_json.ShapeError, binascii.Error, zlib.error, ValueError, LookupError) as error:
        raise SweepError(f"{where}: the stored values cannot be read ({error})") from None


@dataclass(frozen=True)
class Sweep:
    """The values of all links of a case. Matrices are (n, n), from node i to node j; NaN: none."""

    nodes: tuple[str, ...]
    #: Half round trip; symmetric.
    latency_us: np.ndarray
    gbps: np.ndarray
    repeats: int
    #: Links that failed in every repeat, and why.
    dead: dict[tuple[str, str], str]
    #: Facts in which nodes differ from most of the others.
    odd: Odd
    #: Name of the switch that each node is at; (): not known.
    switches: tuple[str, ...] = ()
    refused: Refused = field(default_factory=dict)

    #: What is judged apart.
    measures = MEASURES

    def slowness(self, what: str) -> np.ndarray:
        """(n, n) values of a measure, of which a larger one is worse."""
        if what == LATENCY:
            return self.latency_us
        return 1 / self.gbps

    @cached_property
    def fits(self) -> dict[str, Fit]:
        """Measure -> what nodes and links add."""
        places = None
        if self.switches:
            places = np.unique(self.switches, return_inverse=True)[1]
        return {what: model.fit(self.slowness(what), places) for what in MEASURES}

    @cached_property
    def effects(self) -> dict[str, Effects]:
        """Ways in which a node can be slow -> what nodes add."""
        latency, bandwidth = self.fits[LATENCY], self.fits[BANDWIDTH]
        return {
            LATENCY: outliers.sending(latency),
            f"{BANDWIDTH}, sends": outliers.sending(bandwidth),
            f"{BANDWIDTH}, receives": outliers.receiving(bandwidth),
        }

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Numbers of the nodes at each switch; of one switch alone, and of none, nothing."""
        names = np.array(self.switches)
        groups = [np.flatnonzero(names == name) for name in np.unique(names)]
        # One switch has no other beside which it is judged.
        if len(groups) < 2:
            return []
        return groups

    def suspects(self, what: str, error: float) -> list[Suspect]:
        """Switches, paths, nodes and links that are slow in a measure."""
        return outliers.of_links(self.fits[what], self.members, what == BANDWIDTH, error)

    def judged(self, what: str, suspects: Sequence[Suspect], second: Sweep) -> remeasured.Judged:
        """The suspects that a second sweep shows again, and those that it cannot judge."""
        fresh = second.of_nodes(self.nodes).slowness(what)
        return remeasured.judged(suspects, self.fits[what], fresh)

    def of_nodes(self, nodes: Sequence[str]) -> Sweep:
        """The values of these nodes, in this order; NaN for nodes that were not measured."""
        places = dict(zip(self.nodes, range(len(self.nodes))))
        known, own = [], []
        for place, node in enumerate(nodes):
            if node in places:
                known.append(place)
                own.append(places[node])
        latency, gbps = _unknown(len(nodes))
        latency[np.ix_(known, known)] = self.latency_us[np.ix_(own, own)]
        gbps[np.ix_(known, known)] = self.gbps[np.ix_(own, own)]
        # Whose switch is which is known from the first sweep.
        return replace(self, nodes=tuple(nodes), latency_us=latency, gbps=gbps, switches=())

    def measured(self, first: str, second: str) -> bool:
        """Whether the link of two nodes has a value, or failed."""
        pair = first, second
        if pair in self.dead or pair[::-1] in self.dead:
            return True
        # The second sweep may have other nodes.
        if not set(pair) <= set(self.nodes):
            return False
        return bool(np.isfinite(self.latency_us[tuple(map(self.nodes.index, pair))]))

    def failures(self) -> tuple[dict[str, tuple[int, str]], dict[tuple[str, str], str]]:
        """Nodes by which links failed, with their number and why, and the links of no such node.

        The node with most of the failed links is to blame for them, as long as it has two.
        """
        left, nodes = dict(self.dead), {}
        while left:
            counts = Counter(itertools.chain.from_iterable(left))
            node, count = counts.most_common(1)[0]
            # One failed link blames neither of its ends.
            if count < 2:
                break
            own = [pair for pair in left if node in pair]
            nodes[node] = count, left[own[0]]
            for pair in own:
                del left[pair]
        return nodes, left


def read(case: Case) -> Sweep:
    """The sweep of a case. Raises SweepError."""
    with stored(case, "links") as data:
        nodes = data.hosts()
        rounds = data.count("rounds", MOST_NODES)
        repeats = data.count("repeats", MOST_REPEATS)
        links = _links(len(nodes), rounds)
        dead = {}
        for names, reasons in data.object("dead").items():
            last = typed_json.sequence(reasons, f"{data.at('dead')}.{names}")[-1]
            dead[_pair(names)] = sanitize.line(str(last))
        first, second = np.array(round_robin.pairs(len(nodes), rounds)).T
        latency, gbps = _unknown(len(nodes))
        latency[first, second] = latency[second, first] = data.values("latency_us", links)
        gbps[first, second] = data.values("gbps", links)
        gbps[second, first] = data.values("gbps_back", links)
        switches = data.switches(nodes)
        return Sweep(nodes, latency, gbps, repeats, dead, data.odd, switches, data.refused)


def _links(nodes: int, rounds: int) -> int:
    """Number of links in so many rounds. Raises ValueError for more than a sweep can have."""
    links = rounds * (nodes // 2)
    if not 1 < nodes <= MOST_LINKED or rounds >= nodes + nodes % 2 or links > MOST_LINKS:
        raise ValueError(f"{rounds} rounds of {nodes} nodes are stored: rerun")
    return links


def _unknown(count: int) -> np.ndarray:
    """Two matrices of so many nodes, without values."""
    return np.full((2, count, count), np.nan, dtype=np.float32)


def unpacked(data: Mapping, count: int, where: str) -> np.ndarray:
    """The values of checks/fleet.py's `packed`, (count,). Raises ShapeError, ValueError and
    others."""
    least = typed_json.number(data, "least", where)
    if not LEAST <= least <= MOST:
        raise ValueError(f"{where}.least is {least}, not from {LEAST:g} to {MOST:g}")
    planes = _inflated(typed_json.text(data, "codes", where), 2 * count, where)
    # Low bytes of all codes, then high bytes: they compress better apart.
    low, high = np.frombuffer(planes, dtype=np.uint8).reshape(2, -1).astype(np.uint16)
    codes = low + 256 * high
    values = least * np.exp((codes.astype(float) - 1) / round_robin.STEPS)
    return np.where(codes > 0, values, np.nan).astype(np.float32)


def _inflated(text: str, size: int, where: str) -> bytes:
    """So many bytes. Raises ValueError and others before more than that take memory."""
    # zlib adds at most a part in a thousand to what it cannot compress, and base64 a third.
    if len(text) > 2 * size + 1024:
        raise ValueError(f"{where}.codes has {len(text)} characters for {size} bytes: rerun")
    inflater = zlib.decompressobj()
    inflated = inflater.decompress(base64.b64decode(text, validate=True), size + 1)
    if len(inflated) > size:
        raise ValueError(f"{where}.codes holds more than {size // 2} values: rerun")
    if len(inflated) < size or not inflater.eof:
        raise ValueError(f"{where}.codes holds {len(inflated) // 2} values instead of {size // 2}")
    return inflated


def host(name: str) -> str:
    """The name itself, if it is one of a host. Raises ValueError."""
    if not isinstance(name, str) or not HOST.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a host")
    return name


def _pair(names: str) -> tuple[str, str]:
    """The two hosts of a link. Raises ValueError."""
    first, second = names.split()
    return host(first), host(second)
