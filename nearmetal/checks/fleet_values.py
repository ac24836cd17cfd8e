"""What sweeps of all nodes of a partition measured, as a results database holds it.

Pure functions of parsed launches.
"""

from __future__ import annotations

import base64
import math
import statistics
import zlib
from collections.abc import Mapping, Sequence

from nearmetal.checks.parsing import ParseError, congestion, links, nodes
from nearmetal.checks.provenance import Nodes, odd_facts
from nearmetal.model.congestion import NAMES as CONGESTION_NAMES
from nearmetal.model.node_metrics import LEAST_NOISE, NAMES
from nearmetal.model.round_robin import MOST_CODE, STEPS, pairs


def switches_of(names: Sequence[str], switches: Mapping[str, str]) -> list[str]:
    """Name of each node's switch; none where that of a node is not known."""
    if not all(map(switches.get, names)):
        return []
    return [switches[name] for name in names]


def spread(values: Sequence[float]) -> float:
    """Robust standard deviation of positive values in percent, as of logarithms.

    It is the median absolute deviation, times 1.4826 to equal that of a normal distribution.
    """
    logs = list(map(math.log, values))
    middle = statistics.median(logs)
    return 100 * 1.4826 * statistics.median(abs(value - middle) for value in logs)


def spread_of_nodes(values: Sequence[float]) -> float:
    """The spread of positive values in percent; 0.01 stands for less, as where most are equal."""
    return max(0.01, spread(values))


def of_nodes(launch: links.Links, name: str, back: str) -> list[float]:
    """Of each node, and of each direction of its messages, the median over its links.

    :arg name: attribute of a link: from the first rank of a pair to the second.
    :arg back: the same, from the second to the first.
    """
    # A NIC may be slow in one direction alone, which a median over both would hide.
    sent: dict[int, list[float]] = {}
    received: dict[int, list[float]] = {}
    for (first, second), measured in launch.links.items():
        for link in measured:
            there_value, back_value = getattr(link, name), getattr(link, back)
            sent.setdefault(first, []).append(there_value)
            received.setdefault(second, []).append(there_value)
            sent.setdefault(second, []).append(back_value)
            received.setdefault(first, []).append(back_value)
    return list(map(statistics.median, [*sent.values(), *received.values()]))


def packed(values: Sequence[float]) -> dict:
    """Positive values to 0.03 %, in an eighth of the bytes of their decimal digits.

    `least` is the smallest one. `codes` are numbers of 16 bits, little-endian, compressed and in
    base64: first the low bytes of all, then the high bytes. The value of a code is
    `least * exp((code - 1) / STEPS)`, and code 0 is NaN.
    """
    least = min((value for value in values if value > 0), default=1.0)
    codes = []
    for value in values:
        code = 0
        if value > 0:
            code = 1 + min(MOST_CODE, round(STEPS * math.log(value / least)))
        codes.append(code)
    # High bytes hardly differ, so that they compress best among themselves.
    planes = bytes(code & 255 for code in codes) + bytes(code >> 8 for code in codes)
    return {"least": least, "codes": base64.b64encode(zlib.compress(planes, 9)).decode()}


def _first(launches: Sequence):
    """The first launch of a sweep. Raises ParseError if another one had other nodes."""
    first = launches[0]
    for launch in launches:
        if launch.nodes != first.nodes:
            raise ParseError("the repeats ran on other nodes, or in another order: rerun")
    return first


def _odd(facts: Nodes) -> dict[str, dict]:
    """Facts in which a node differs from most of the others, as lists."""
    odd = {}
    for host, different in odd_facts(facts).items():
        odd[host] = {fact: list(values) for fact, values in different.items()}
    return odd


def _sweep(
    launches: Sequence,
    columns: Mapping[str, Sequence[float]],
    dead: Mapping,
    switches: Mapping[str, str],
    facts: Nodes,
) -> dict:
    """What a sweep of links and one of nodes store alike."""
    names = launches[0].nodes
    return {
        "nodes": list(names),
        "repeats": len(launches),
        **{metric: packed(column) for metric, column in columns.items()},
        "dead": dead,
        # Without one name, who is behind which switch would be a guess.
        "switches": switches_of(names, switches),
        "odd": _odd(facts),
    }


def stored_links(
    launches: Sequence[links.Links], facts: Nodes, switches: Mapping[str, str]
) -> dict:
    """The values of all links.

    `switches` are the names of the nodes' switches, in the order of the nodes; []: not known. `odd`
    are the facts in which a node differs from most of the others (provenance.odd_facts).

    `latency_us`, `gbps` and `gbps_back` are `packed`: for each pair of `pairs`, in this order, the
    medians over the launches. NaN: the pair failed in every launch, and `dead` says why. Raises
    ParseError if the nodes changed.
    """
    first = _first(launches)
    columns: dict[str, list[float]] = {"latency_us": [], "gbps": [], "gbps_back": []}
    dead: dict[str, list[str]] = {}
    for pair in pairs(len(first.nodes), int(first.did["rounds"])):
        measured: list = []
        reasons: list[str] = []
        for launch in launches:
            measured += launch.links.get(pair, ())
            reasons += launch.failed.get(pair, ())
        for metric, column in columns.items():
            median = math.nan
            if measured:
                median = statistics.median(getattr(link, metric) for link in measured)
            column.append(median)
        # A pair that failed once may have met a node that was busy: the others count.
        if not measured:
            dead[" ".join(first.nodes[rank] for rank in pair)] = reasons
    return {
        "rounds": int(first.did["rounds"]),
        **_sweep(launches, columns, dead, switches, facts),
    }


def stored_nodes(
    launches: Sequence[nodes.OnNodes], facts: Nodes, switches: Mapping[str, str]
) -> dict:
    """The values of all nodes.

    `switches` and `odd` are as of `stored_links`; `odd` also has the number of CPUs that a node
    allows.

    Each metric is `packed`: the values of all nodes in the first launch, in the order of `nodes`,
    then those in the second one. NaN: the node failed there. A node that failed in every launch is
    in `dead`, with why. Raises ParseError if the nodes changed.
    """
    first = _first(launches)
    ranks = range(len(first.nodes))
    columns: dict[str, list[float]] = {}
    dead: dict[str, dict[str, str]] = {}
    for metric in NAMES:
        of_launches = [launch.of_nodes(metric) for launch in launches]
        columns[metric] = []
        for values in of_launches:
            # `max` returns a NaN that comes first.
            columns[metric] += [max(values.get(rank, math.nan), LEAST_NOISE) for rank in ranks]
        for rank in ranks:
            if not any(rank in values for values in of_launches):
                reason = launches[-1].failed[metric, rank][-1]
                dead.setdefault(first.nodes[rank], {})[metric] = reason
    with_cpus = {}
    for host, count in zip(first.nodes, first.cpus):
        with_cpus[host] = {**facts.get(host, {}), "cpus_allowed": str(count)}
    return _sweep(launches, columns, dead, switches, with_cpus)


def value_alone(metric: str, us: float) -> float:
    """The value of a metric without traffic: us, or of a bandwidth Gb/s."""
    if metric == "bandwidth":
        return 8e-3 * congestion.EXCHANGE_BYTES / us
    return us


def stored_congestion(launches: Sequence[congestion.Congestion], kind: str, facts: Nodes) -> dict:
    """The roles of all nodes and the ratios of the victims.

    `ratios` are by metric the medians over the launches, of each victim; None: none. `dead` are the
    nodes that do not answer, and `undone` those with slots that were not done, with why. `odd` is
    as of `stored_links`.
    Raises ParseError if the nodes changed.
    """
    first = _first(launches)
    names = first.nodes
    dead, undone = {}, {}
    for launch in launches:
        for rank in launch.silent():
            dead[names[rank]] = congestion.SILENT
        for rank, reason in launch.undone().items():
            undone[names[rank]] = reason
    return {
        "nodes": list(names),
        "victims": [names[rank] for rank in first.victims],
        "traffic": kind,
        "repeats": len(launches),
        "ratios": {metric: _of_victims(launches, metric) for metric in CONGESTION_NAMES},
        "dead": dead,
        "undone": undone,
        "odd": _odd(facts),
    }


def _of_victims(launches: Sequence[congestion.Congestion], metric: str) -> list[float | None]:
    """The median ratio of each victim, to four digits; None without any."""
    of_launches = [launch.ratios(metric) for launch in launches]
    medians: list[float | None] = []
    for rank in launches[0].victims:
        ratios = [values[rank] for values in of_launches if rank in values]
        median = None
        if ratios:
            median = float(f"{statistics.median(ratios):.4g}")
        medians.append(median)
    return medians
