"""A sweep's findings for people, for Slurm's administrators and for programs. Pure functions."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest
from tabulate import tabulate

from nearmetal.fleet import node_history, remeasured
from nearmetal.fleet.congestion import Congestion
from nearmetal.fleet.fabric import Fabric
from nearmetal.fleet.findings import AnySweep, Finding, by_node
from nearmetal.fleet.node_history import Past
from nearmetal.fleet.nodes import NodeSweep
from nearmetal.results import Case, Session, date

#: Version of the JSON document.
SCHEMA = 1
#: Fewest nodes of which one can be named: three healthy ones show that it is slow again.
LEAST_NODES = remeasured.LEAST_HEALTHY + 1
#: What a reason may hold: Slurm and NHC pass it on to shells.
UNSAFE = re.compile(r"[^A-Za-z0-9 .,:%()-]")


@dataclass(frozen=True)
class Swept:
    """A sweep of a session, with what it shows."""

    case: Case
    sweep: AnySweep
    found: Sequence[Finding]
    confirmed: bool = False  #: whether a second sweep shows the same
    vanished: Sequence[Finding] = ()  #: what the second sweep did not show
    unknown: Sequence[Finding] = ()  #: what the second sweep cannot judge
    fabric: Fabric | None = None  #: what is left of the links alone
    past: Sequence[Past] = ()  #: some nodes in this sweep and earlier ones, the newest first

    @property
    def gone(self) -> list[str]:
        """Who was slow in the first sweep alone, each once, in words."""
        unknown = (f"neither confirmed nor cleared: {one.name}: {one.said}" for one in self.unknown)
        gone = (f"not confirmed by the second sweep: {one.name}" for one in self.vanished)
        return list(dict.fromkeys([*unknown, *gone]))

    @property
    def undone(self) -> bool:
        """Whether slots beside traffic were not done."""
        return isinstance(self.sweep, Congestion) and bool(self.sweep.undone)

    @property
    def too_few(self) -> bool:
        """Whether nothing is found, and the nodes are too few to name one of them."""
        if self.found or isinstance(self.sweep, Congestion):
            return False
        return node_history.least_measured(self.sweep) < LEAST_NODES

    @property
    def nobody(self) -> str:
        """That nobody is slow, or that nobody knows, in words."""
        if isinstance(self.sweep, Congestion):
            return "no node is known to have failed" if self.undone else "no node failed"
        if self.too_few:
            measured = node_history.least_measured(self.sweep)
            return (
                f"too few nodes to name one: {measured} were measured, and {LEAST_NODES} are "
                f"needed. Farthest behind: {node_history.outlier(self.sweep)}. Fix: "
                "sweep more nodes, or look at that node"
            )
        who = "node" if isinstance(self.sweep, NodeSweep) else "node or link"
        return f"no {who} is slower"


def text(one: Swept) -> str:
    """The findings as a table, then the facts of the nodes that differ."""
    sweep = one.sweep
    lines = [f"{' | '.join(one.case.where)}: {len(sweep.nodes)} nodes, {sweep.repeats} repeats"]
    if (left_out := one.case.facts.get("left_out", "none")) != "none":
        lines.append(f"left out: {left_out}")
    rows = [
        [found.name, found.line, "" if found.p is None else f"{found.p:.1g}", date(found.since)]
        for found in one.found
    ]
    lines.append(
        tabulate(rows, ["slow", "what", "p", "since"], disable_numparse=True)
        if rows
        else one.nobody
    )
    lines += one.gone
    lines += [str(one.fabric)] if one.fabric else []
    lines += beside_traffic(sweep) if isinstance(sweep, Congestion) else []
    return "\n".join([*lines, *odd(sweep)])


def beside_traffic(one: Congestion) -> list[str]:
    """A table of the ratios of nodes beside traffic, and who was late."""
    rows = [
        [
            row.words,
            row.alone,
            *map(ratio, (row.ratio, row.ratio_mean, row.ratio_99, row.ratio_worst)),
            f"{row.worst_node} {ratio(row.worst_node_ratio)}",
        ]
        for row in one.rows
    ]
    heads = ["", "alone", "median", "mean", "99 %", "worst", "worst node"]
    generators = len(one.nodes) - len(one.victims)
    lines = [f"{len(one.victims)} nodes beside {one.traffic} traffic of {generators}", *one.left]
    return [*lines, tabulate(rows, heads, disable_numparse=True)] if rows else lines


def ratio(value: float | None) -> str:
    """Time beside traffic over time alone, in words."""
    return "too few samples" if value is None else f"{value:.3g} x"


def odd(sweep: AnySweep) -> list[str]:
    """A line for each fact in which nodes differ from most of the others."""
    sides: dict[tuple[str, str, str, int], list[str]] = {}
    for node, facts in sweep.odd.items():
        for fact, (own, most, count) in facts.items():
            sides.setdefault((fact, own, most, count), []).append(node)
    return [
        f"{count} of {len(sweep.nodes)} nodes have {fact} {most}, {', '.join(nodes)} "
        f"{'has' if len(nodes) == 1 else 'have'} {own}"
        for (fact, own, most, count), nodes in sorted(sides.items())
    ]


def reason(found: Iterable[Finding]) -> str:
    """Why a node should not be used, in words that shells, Slurm and NHC leave as they are."""
    said = ", ".join(UNSAFE.sub("", one.line) for one in found)
    return f"nearmetal fleet: {said}"


def to_blame(swept: Sequence[Swept]) -> dict[str, str]:
    """The nodes that are themselves to blame, and why."""
    nodes = by_node(found for one in swept for found in one.found)
    return {node: reason(found) for node, found in nodes.items()}


def actions(swept: Sequence[Swept]) -> list[str]:
    """The commands that take the nodes out of service that are themselves to blame."""
    lines = [
        f"    scontrol update nodename={shlex.quote(node)} state=drain reason={shlex.quote(why)}"
        for node, why in to_blame(swept).items()
    ]
    return ["To take them out of service:", *lines] if lines else []


def nhc(swept: Sequence[Swept]) -> str:
    """Lines for the configuration of Node Health Check: a node that is named here is unhealthy.

    The form is `target || check` (NHC's README, Configuration file syntax).
    """
    lines = [f" {node} || die 1 {shlex.quote(why)}" for node, why in to_blame(swept).items()]
    return "".join(f"{line}\n" for line in ["# Written by nearmetal fleet.", *lines])


def document(session: Session, swept: Sequence[Swept], error: str = "") -> str:
    """JSON for programs.

    :arg error: why nothing is known of the fleet, "": it is.
    """
    sweeps = [
        {
            "check": one.case.check,
            "partition": one.case.partition,
            "environment": one.case.environ,
            "nodes": list(one.sweep.nodes),
            "repeats": one.sweep.repeats,
            "left_out": one.case.facts.get("left_out", "none"),
            "confirmed": one.confirmed,
            "too_few_nodes": one.too_few,
            "switches": dict(zip(one.sweep.nodes, one.sweep.switches)),
            "kept_of_alone": one.fabric.kept if one.fabric else None,
            "beside_traffic": (
                [asdict(row) for row in one.sweep.rows]
                if isinstance(one.sweep, Congestion)
                else None
            ),
            "findings": [asdict(found) for found in one.found],
            "not_confirmed": [asdict(found) for found in one.vanished],
            "unknown": [asdict(found) for found in one.unknown],
            "odd_facts": {
                node: {
                    fact: {"value": own, "most": most, "nodes_with_most": count}
                    for fact, (own, most, count) in facts.items()
                }
                for node, facts in one.sweep.odd.items()
            },
        }
        for one in swept
    ]
    head = {"schema": SCHEMA, "session": session.uuid, "started": session.started}
    head |= {"system": session.system, "error": error}
    return json.dumps({**head, "sweeps": sweeps}, indent=2) + "\n"


def openmetrics(session: Session, swept: Sequence[Swept]) -> str:
    """Gauges for a monitor that scrapes a file.

    - nearmetal_fleet_nodes: number of nodes in the sweep
    - nearmetal_fleet_slow: time of a node, switch, path or link beyond that of the others, as a
      fraction; NaN if it failed
    - nearmetal_fleet_swept_seconds: start of the sweep, since 1970
    - nearmetal_fleet_kept_of_alone: bandwidth of all pairs at once, as a part of that of the pairs
      alone
    - nearmetal_fleet_beside_traffic: time beside traffic over the time alone, median of the nodes
    """
    registry = CollectorRegistry()
    names = ("system", "partition", "environment", "check")
    nodes = Gauge("nearmetal_fleet_nodes", "Nodes in the sweep.", names, registry=registry)
    when = Gauge("nearmetal_fleet_swept_seconds", "Start of the sweep.", names, registry=registry)
    slow = Gauge(
        "nearmetal_fleet_slow",
        "Time beyond that of the others, as a fraction; NaN: it failed.",
        (*names, "kind", "nodes", "what", "direction"),
        registry=registry,
    )
    kept = Gauge(
        "nearmetal_fleet_kept_of_alone",
        "Bandwidth of all pairs at once, as a part of the sum of the pairs alone.",
        names,
        registry=registry,
    )
    beside = Gauge(
        "nearmetal_fleet_beside_traffic",
        "Time beside traffic over the time alone.",
        (*names, "what"),
        registry=registry,
    )
    for one in swept:
        where = session.system, one.case.partition, one.case.environ, one.case.check
        nodes.labels(*where).set(len(one.sweep.nodes))
        when.labels(*where).set(session.time)
        for row in one.sweep.rows if isinstance(one.sweep, Congestion) else ():
            if row.ratio is not None:
                beside.labels(*where, row.words).set(row.ratio)
        if one.fabric:
            kept.labels(*where).set(one.fabric.kept)
        for found in one.found:
            who = found.kind, ",".join(found.nodes), found.what, found.direction
            slow.labels(*where, *who).set(math.nan if found.change is None else found.change)
    return generate_latest(registry).decode()
