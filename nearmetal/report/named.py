"""Plots of checks whose variables' names say where a value is drawn, such as `launch_8`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearmetal.model import congestion
from nearmetal.model.node_metrics import METRICS
from nearmetal.report import plots, summary


@dataclass(frozen=True)
class Rule:
    """The plots of some variables of a check."""

    page: str  #: network, kernels or memory
    check: str
    #: Regular expression for the whole name. Its group `x` is the place on the x axis; without it,
    #: that is the partition. One plot for each combination of the other groups.
    pattern: str
    title: str  #: with the names of the groups in braces
    x: str  #: title of the x axis
    log: bool = False  #: of the y axis
    order: tuple[str, ...] = ()  #: of the x axis's categories; (): it has numbers or partitions


NUMA = ("alone", "local", "remote")
LOST = ("share", "worst_core")
RULES = (
    Rule(
        "network",
        "collectives",
        r"(?P<operation>alltoall|allreduce|bcast)_(?P<size>8B|64KiB)_(?P<x>\d+)",
        "{operation} of {size}",
        "processes",
        log=True,
    ),
    Rule("network", "collectives", r"barrier_(?P<x>\d+)", "Barrier", "processes", log=True),
    Rule(
        "network",
        "vswitch",
        r"mops_(?P<size>[A-Z])_(?P<processes>\d+)_guests_(?P<x>\d+)",
        "Guests of one host: class {size} on {processes} processes",
        "guests",
    ),
    Rule(
        "network",
        "vswitch",
        r"kept_(?P<size>[A-Z])_(?P<processes>\d+)_guests_(?P<x>\d+)",
        "Guests of one host: kept of one guest, class {size} on {processes} processes",
        "guests",
    ),
    Rule(
        "network",
        "vswitch",
        r"(?P<quantity>timesteps|simulated|step)_(?P<size>\w+?)_(?P<processes>\d+)_guests_(?P<x>\d+)",
        "Guests of one host: {quantity} of {size} on {processes} processes",
        "guests",
    ),
    Rule(
        "network",
        "vswitch",
        r"kept_(?P<application>[a-z]+)_(?P<size>\w+?)_(?P<processes>\d+)_guests_(?P<x>\d+)",
        "Guests of one host: kept of one guest, {application} {size} on {processes} processes",
        "guests",
    ),
    Rule(
        "network",
        "fleet_links",
        r"(?P<x>latency|worst_node_latency|worst_latency)",
        "Links of a fleet: start-up latency",
        "link",
        log=True,
        order=("latency", "worst_node_latency", "worst_latency"),
    ),
    Rule(
        "network",
        "fleet_links",
        r"(?P<x>bandwidth|worst_node_bandwidth|worst_bandwidth)",
        "Links of a fleet: bandwidth",
        "link",
        log=True,
        order=("bandwidth", "worst_node_bandwidth", "worst_bandwidth"),
    ),
    Rule(
        "network",
        "fleet_links",
        r"(?P<x>latency_spread|bandwidth_spread)",
        "Links of a fleet: spread",
        "of",
        order=("latency_spread", "bandwidth_spread"),
    ),
    Rule("network", "fleet_links", r"bisection", "Links of a fleet: bisection", "partition"),
    *[
        Rule(
            "network",
            "fleet_congestion",
            rf"(?P<x>{'|'.join(congestion.ratios(metric.name))})",
            f"Beside traffic: {metric.words}",
            "of",
            log=True,
            order=tuple(congestion.ratios(metric.name)),
        )
        for metric in congestion.METRICS
    ],
    *[
        Rule(
            "memory",
            "fleet_nodes",
            rf"(?P<x>{metric.name}|worst_node_{metric.name})",
            f"Nodes of a fleet: {metric.words}",
            "node",
            order=(metric.name, f"worst_node_{metric.name}"),
        )
        for metric in METRICS
    ],
    Rule(
        "memory",
        "fleet_nodes",
        rf"(?P<x>{'|'.join(f'{metric.name}_spread' for metric in METRICS)})",
        "Nodes of a fleet: spread",
        "of",
        order=tuple(f"{metric.name}_spread" for metric in METRICS),
    ),
    Rule("kernels", "launch", r"launch_(?P<x>\d+)", "Launch until MPI_Init", "processes"),
    Rule("kernels", "launch", r"mpi_init_(?P<x>\d+)", "MPI_Init", "processes"),
    Rule(
        "memory",
        "stream_numa",
        r"(?P<function>copy|triad)_(?P<x>alone|local|remote)",
        "STREAM {function} by NUMA node",
        "memory",
        order=NUMA,
    ),
    Rule(
        "memory",
        "osnoise",
        r"(?P<x>share|worst_core)_lost",
        "Noise: time lost",
        "cores",
        order=LOST,
    ),
    Rule("memory", "osnoise", r"detour_rate", "Noise: detours", "partition"),
    Rule("memory", "osnoise", r"longest_detour", "Noise: longest detour", "partition"),
    *(
        Rule(
            "memory",
            "storage",
            rf"(?P<x>read|write)_{quantity}",
            f"Storage: {title}",
            "direction",
            log=True,
            order=("read", "write"),
        )
        for quantity, title in (
            ("latency", "latency of 4 KiB"),
            ("rate", "rate of 4 KiB, 32 at once"),
            ("bandwidth", "bandwidth of 1 MiB in sequence"),
        )
    ),
    Rule(
        "memory",
        "ior",
        r"(?P<x>read|write)_bandwidth",
        "Storage: bandwidth of all processes",
        "direction",
        log=True,
        order=("read", "write"),
    ),
    Rule(
        "memory",
        "mdtest",
        r"(?P<x>create|stat|open|remove)_rate",
        "Storage: files in a second",
        "operation",
        log=True,
        order=("create", "stat", "open", "remove"),
    ),
)
#: Names of places on a category axis, where the variable's own are not plain.
LABELS = {
    "share": "mean of all",
    "worst_core": "worst",
    "alone": "one node alone",
    "local": "all nodes, local",
    "remote": "one node, remote",
    "read": "reading",
    "write": "writing",
    **{name: name for name in ("create", "stat", "open", "remove")},
    **dict.fromkeys(("latency", "bandwidth"), "median"),
    **dict.fromkeys(("worst_latency", "worst_bandwidth"), "worst"),
    **dict.fromkeys(("worst_node_latency", "worst_node_bandwidth"), "worst node"),
    **{name: of for one in congestion.NAMES for name, of in congestion.ratios(one).items()},
    "latency_spread": "start-up latency",
    "bandwidth_spread": "bandwidth",
    **{metric.name: "median" for metric in METRICS},
    **{f"worst_node_{metric.name}": "worst node" for metric in METRICS},
    **{f"{metric.name}_spread": metric.words for metric in METRICS},
}


def drawn(session, page: str) -> list[dict]:
    """The plots of a page. None for checks that the session did not measure."""
    found: dict[tuple[Rule, str, str], dict[tuple[str, str], dict]] = {}
    rules: dict[str, list[Rule]] = {}
    for rule in RULES:
        if rule.page == page:
            rules.setdefault(rule.check, []).append(rule)
    for case in plots.measured(session, tuple(rules)):
        for rule in rules[summary.base_name(case.check)]:
            where = case.place, " ".join([case.environ, *summary.parameters(case.check).values()])
            for value in case.values:
                if match := re.fullmatch(rule.pattern, value.variable):
                    groups = match.groupdict()
                    key = rule, _title(rule, groups), value.unit
                    points = found.setdefault(key, {}).setdefault(where, {})
                    x = _place(rule, groups.get("x"), case.place)
                    points[x] = summary.summarize(value.samples, value.value)
    return [
        _plot(session, rule, title, unit, lines) for (rule, title, unit), lines in found.items()
    ]


def holds(session, page: str) -> bool:
    """Whether the session measured something for these plots of the page."""
    checks = {rule.check for rule in RULES if rule.page == page}
    return any(case.values for case in plots.measured(session, tuple(checks)))


def _title(rule: Rule, groups: dict) -> str:
    title = rule.title.format(**groups)
    return title[0].upper() + title[1:]


def _place(rule: Rule, x: str | None, partition: str) -> int | str:
    if x is None:
        return partition
    return LABELS[x] if rule.order else int(x)


def _plot(session, rule: Rule, title: str, unit: str, lines: dict[tuple[str, str], dict]) -> dict:
    labels = [LABELS[one] for one in rule.order]
    by_partition = not re.search(r"\(\?P<x>", rule.pattern)
    if by_partition:
        labels = list(dict.fromkeys(place for place, _ in lines))
    return plots.plot(
        re.sub(r"\W+", "-", f"{rule.check} {title}".lower()),
        title,
        (rule.x, "category" if labels else "count"),
        (summary.unit(unit), rule.log),
        [
            # A line of a partition has its own place alone.
            plots.line(session, *where, unit, points, list(points) if by_partition else labels)
            for where, points in lines.items()
        ],
        [],
        order=labels,
    )
