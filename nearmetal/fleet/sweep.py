"""A sweep of all nodes, as a results database holds it."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from nearmetal.errors import NearmetalError
from nearmetal.fleet import model
from nearmetal.fleet.model import Fit
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


@dataclass(frozen=True)
class Sweep:
    """The values of all links of a case. Matrices are (n, n), from node i to node j; NaN: none."""

    nodes: tuple[str, ...]
    latency_us: np.ndarray  #: half round trip; symmetric
    gbps: np.ndarray
    repeats: int
    dead: dict[tuple[str, str], str]  #: links that failed in every repeat, and why
    odd: Odd  #: facts in which nodes differ from most of the others
    #: Name of the switch that each node is at; (): not known.
    switches: tuple[str, ...] = ()
    refused: Refused = field(default_factory=dict)

    #: What is judged apart.
    measures = MEASURES

    def slowness(self, what: str) -> np.ndarray:
        """(n, n) values of a measure, of which a larger one is worse."""
        return self.latency_us if what == LATENCY else 1 / self.gbps

    @cached_property
    def fits(self) -> dict[str, Fit]:
        """Measure -> what nodes and links add."""
        places = np.unique(self.switches, return_inverse=True)[1] if self.switches else None
        return {what: model.fit(self.slowness(what), places) for what in MEASURES}

    @cached_property
    def members(self) -> list[np.ndarray]:
        """Numbers of the nodes at each switch; of one switch alone, and of none, nothing."""
        names = np.array(self.switches)
        groups = [np.flatnonzero(names == name) for name in np.unique(names)]
        return groups if len(groups) > 1 else []

    def of_nodes(self, nodes: Sequence[str]) -> Sweep:
        """The values of these nodes, in this order; NaN for nodes that were not measured."""
        places = {node: place for place, node in enumerate(self.nodes)}
        known = [place for place, node in enumerate(nodes) if node in places]
        own = [places[nodes[place]] for place in known]
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
        if not set(pair) <= set(self.nodes):
            return False
        return bool(np.isfinite(self.latency_us[tuple(map(self.nodes.index, pair))]))

    def failures(self) -> tuple[dict[str, tuple[int, str]], dict[tuple[str, str], str]]:
        """Nodes by which links failed, with their number and why, and the links of no such node.

        The node with most of the failed links is to blame for them, as long as it has two.
        """
        left, nodes = dict(self.dead), {}
        while left:
            counts = Counter(node for pair in left for node in pair)
            node, count = counts.most_common(1)[0]
            if count < 2:
                break
            own = [pair for pair in left if node in pair]
            nodes[node] = count, left[own[0]]
            left = {pair: why for pair, why in left.items() if pair not in own}
        return nodes, left


def read(case: Case) -> Sweep:
    """The sweep of a case. Raises SweepError."""
    where = f"{' | '.join(case.where)}: links"
    try:
        nodes = hosts(case.links, where)
        rounds = typed_json.count(case.links, "rounds", where, MOST_NODES)
        repeats = typed_json.count(case.links, "repeats", where, MOST_REPEATS)
        links = _links(len(nodes), rounds)
        failed = _failed(
            typed_json.mapping(case.links.get("dead"), f"{where}.dead"), f"{where}.dead"
        )
        named = typed_json.sequence(case.links.get("switches", []), f"{where}.switches")
        switches = tuple(sanitize.line(str(name)) for name in named)
        odd = odd_of(typed_json.mapping(case.links.get("odd", {}), f"{where}.odd"), f"{where}.odd")
        refused = refused_of(case.links, where)
        us, gbps_there, gbps_back = (
            unpacked(
                typed_json.mapping(case.links.get(key), f"{where}.{key}"), links, f"{where}.{key}"
            )
            for key in ("latency_us", "gbps", "gbps_back")
        )
    except (typed_json.ShapeError, binascii.Error, zlib.error, ValueError, LookupError) as error:
        raise SweepError(f"{where}: the stored values cannot be read ({error})") from None
    if len(switches) not in (0, len(nodes)):
        raise SweepError(f"{where}: {len(switches)} switches of {len(nodes)} nodes: rerun")
    first, second = np.array(round_robin.pairs(len(nodes), rounds)).T
    latency, gbps = _unknown(len(nodes))
    latency[first, second] = latency[second, first] = us
    gbps[first, second], gbps[second, first] = gbps_there, gbps_back
    return Sweep(nodes, latency, gbps, repeats, failed, odd, switches, refused)


def _links(nodes: int, rounds: int) -> int:
    """Number of links in so many rounds. Raises ValueError for more than a sweep can have."""
    links = rounds * (nodes // 2)
    if not 1 < nodes <= MOST_LINKED or rounds >= nodes + nodes % 2 or links > MOST_LINKS:
        raise ValueError(f"{rounds} rounds of {nodes} nodes are stored: rerun")
    return links


def _failed(dead: Mapping, where: str) -> dict[tuple[str, str], str]:
    """Links that failed, and the last reason of each. Raises ShapeError and others."""
    return {
        _pair(pair): sanitize.line(str(typed_json.sequence(why, f"{where}.{pair}")[-1]))
        for pair, why in dead.items()
    }


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
    found = inflater.decompress(base64.b64decode(text, validate=True), size + 1)
    if len(found) > size:
        raise ValueError(f"{where}.codes holds more than {size // 2} values: rerun")
    if len(found) < size or not inflater.eof:
        raise ValueError(f"{where}.codes holds {len(found) // 2} values instead of {size // 2}")
    return found


def host(name: str) -> str:
    """The name itself, if it is one of a host. Raises ValueError."""
    if not isinstance(name, str) or not HOST.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a host")
    return name


def hosts(data: Mapping, where: str, key: str = "nodes") -> tuple[str, ...]:
    """The names of different hosts. Raises ShapeError or ValueError."""
    names = tuple(map(host, typed_json.sequence(data.get(key), f"{where}.{key}")))
    if len(set(names)) < len(names):
        raise ValueError(
            f"{where}.{key}: two nodes have one name, {Counter(names).most_common(1)[0][0]}"
        )
    return names


def refused_of(data: Mapping, where: str) -> Refused:
    """Nodes that did not start the program. Raises ShapeError or ValueError."""
    return reasons_of(data, "refused", where) if "refused" in data else {}


def reasons_of(data: Mapping, key: str, where: str) -> dict[str, str]:
    """Nodes, and why each is among them. Raises ShapeError or ValueError."""
    found = typed_json.mapping(data.get(key), f"{where}.{key}")
    return {host(node): sanitize.line(str(why)) for node, why in found.items()}


def _pair(names: str) -> tuple[str, str]:
    """The two hosts of a link. Raises ValueError."""
    first, second = names.split()
    return host(first), host(second)


def odd_of(data: Mapping, where: str) -> Odd:
    """The facts of nodes that differ; a sweep of an older version has none. Raises ShapeError."""
    found: Odd = {}
    for node, facts in data.items():
        for fact, told in typed_json.mapping(facts, f"{where}.{node}").items():
            place = f"{where}.{node}.{fact}"
            named = dict(zip(("value", "most", "count"), typed_json.sequence(told, place)))
            value, most = (
                sanitize.line(typed_json.text(named, key, place)) for key in ("value", "most")
            )
            count = typed_json.count(named, "count", place, MOST_NODES)
            found.setdefault(host(node), {})[sanitize.line(fact)] = value, most, count
    return found
