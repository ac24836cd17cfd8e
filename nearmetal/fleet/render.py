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
#: Labels of every gauge.
LABELS = ("system", "partition", "environment", "check")


@dataclass(frozen=True)
class Swept:
    """A sweep of a session, with what it shows."""

    case: Case
    sweep: AnySweep
    found: Sequence[Finding]
    #: Whether a second sweep shows the same.
    confirmed: bool = False
    #: What the second sweep did not show.
    vanished: Sequence[Finding] = ()
    #: What the second sweep cannot judge.
    unknown: Sequence[Finding] = ()
    #: What is left of the links alone.
    fabric: Fabric | None = None
    #: Some nodes in this sweep and earlier ones, the newest first.
    past: Sequence[Past] = ()

    @property
    def gone(self) -> list[str]:
        """Who was slow in the first sweep alone, each once, in words."""
        lines = []
        for who in self.unknown:
            lines.append(f"neither confirmed nor cleared: {who.name}: {who.said}")
        for who in self.vanished:
            lines.append(f"not confirmed by the second sweep: {who.name}")
        return list(dict.fromkeys(lines))

    @property
    def left_out(self) -> str:
        """Nodes that were not measured."""
        return self.case.facts.get("left_out", "none")

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
        if self.undone:
            return "no node is known to have failed"
        if isinstance(self.sweep, Congestion):
            return "no node failed"
        if self.too_few:
            measured = node_history.least_measured(self.sweep)
            return (
                f"too few nodes to name one: {measured} were measured, and {LEAST_NODES} are "
                f"needed. Farthest behind: {node_history.outlier(self.sweep)}. Fix: "
                "sweep more nodes, or look at that node"
            )
        if isinstance(self.sweep, NodeSweep):
            return "no node is slower"
        return "no node or link is slower"


def text(swept: Swept) -> str:
    """The findings as a table, then the facts of the nodes that differ."""
    sweep = swept.sweep
    lines = [f"{' | '.join(swept.case.where)}: {len(sweep.nodes)} nodes, {sweep.repeats} repeats"]
    if swept.left_out != "none":
        lines.append(f"left out: {swept.left_out}")
    rows = []
    for finding in swept.found:
        p = ""
        if finding.p is not None:
            p = f"{finding.p:.1g}"
        rows.append([finding.name, finding.line, p, date(finding.since)])
    # tabulate would print the heads of an empty table.
    if rows:
        lines.append(tabulate(rows, ["slow", "what", "p", "since"], disable_numparse=True))
    else:
        lines.append(swept.nobody)
    lines += swept.gone
    if swept.fabric:
        lines.append(str(swept.fabric))
    if isinstance(sweep, Congestion):
        lines += beside_traffic(sweep)
    return "\n".join([*lines, *odd(sweep)])


def beside_traffic(sweep: Congestion) -> list[str]:
    """A table of the ratios of nodes beside traffic, and who was late."""
    rows = []
    for row in sweep.rows:
        ratios = map(ratio, (row.ratio, row.ratio_mean, row.ratio_99, row.ratio_worst))
        worst = f"{row.worst_node} {ratio(row.worst_node_ratio)}"
        rows.append([row.words, row.alone, *ratios, worst])
    generators = len(sweep.nodes) - len(sweep.victims)
    lines = [f"{len(sweep.victims)} nodes beside {sweep.traffic} traffic of {generators}"]
    lines += sweep.left
    if rows:
        heads = ["", "alone", "median", "mean", "99 %", "worst", "worst node"]
        lines.append(tabulate(rows, heads, disable_numparse=True))
    return lines


def ratio(value: float | None) -> str:
    """Time beside traffic over time alone, in words."""
    if value is None:
        return "too few samples"
    return f"{value:.3g} x"


def odd(sweep: AnySweep) -> list[str]:
    """A line for each fact in which nodes differ from most of the others."""
    sides: dict[tuple[str, str, str, int], list[str]] = {}
    for node, facts in sweep.odd.items():
        for fact, (own, most, count) in facts.items():
            sides.setdefault((fact, own, most, count), []).append(node)
    lines = []
    for (fact, own, most, count), nodes in sorted(sides.items()):
        have = "has" if len(nodes) == 1 else "have"
        most_have = f"{count} of {len(sweep.nodes)} nodes have {fact} {most}"
        lines.append(f"{most_have}, {', '.join(nodes)} {have} {own}")
    return lines


def reason(found: Iterable[Finding]) -> str:
    """Why a node should not be used, in words that shells, Slurm and NHC leave as they are."""
    lines = ", ".join(finding.line for finding in found)
    return f"nearmetal fleet: {UNSAFE.sub('', lines)}"


def to_blame(swept: Sequence[Swept]) -> dict[str, str]:
    """The nodes that are themselves to blame, and why."""
    found: list[Finding] = []
    for each in swept:
        found += each.found
    return {node: reason(findings) for node, findings in by_node(found).items()}


def actions(swept: Sequence[Swept]) -> list[str]:
    """The commands that take the nodes out of service that are themselves to blame."""
    lines: list[str] = []
    for node, why in to_blame(swept).items():
        lines = lines or ["To take them out of service:"]
        words = f"nodename={shlex.quote(node)} state=drain reason={shlex.quote(why)}"
        lines.append(f"    scontrol update {words}")
    return lines


def nhc(swept: Sequence[Swept]) -> str:
    """Lines for the configuration of Node Health Check: a node that is named here is unhealthy.

    The form is `target || check` (NHC's README, Configuration file syntax).
    """
    lines = ["# Written by nearmetal fleet.\n"]
    for node, why in to_blame(swept).items():
        lines.append(f" {node} || die 1 {shlex.quote(why)}\n")
    return "".join(lines)


def document(session: Session, swept: Sequence[Swept], error: str = "") -> str:
    """JSON for programs.

    :arg error: why nothing is known of the fleet, "": it is.
    """
    whole = {
        "schema": SCHEMA,
        "session": session.uuid,
        "started": session.started,
        "system": session.system,
        "error": error,
        "sweeps": list(map(_document_of, swept)),
    }
    return json.dumps(whole, indent=2) + "\n"


def _document_of(swept: Swept) -> dict:
    sweep = swept.sweep
    rows, kept = None, None
    if isinstance(sweep, Congestion):
        rows = list(map(asdict, sweep.rows))
    if swept.fabric:
        kept = swept.fabric.kept
    odd_facts: dict[str, dict] = {}
    for node, facts in sweep.odd.items():
        for fact, (own, most, count) in facts.items():
            named = {"value": own, "most": most, "nodes_with_most": count}
            odd_facts.setdefault(node, {})[fact] = named
    return {
        "check": swept.case.check,
        "partition": swept.case.partition,
        "environment": swept.case.environ,
        "nodes": list(sweep.nodes),
        "repeats": sweep.repeats,
        "left_out": swept.left_out,
        "confirmed": swept.confirmed,
        "too_few_nodes": swept.too_few,
        "switches": dict(zip(sweep.nodes, sweep.switches)),
        "kept_of_alone": kept,
        "beside_traffic": rows,
        "findings": list(map(asdict, swept.found)),
        "not_confirmed": list(map(asdict, swept.vanished)),
        "unknown": list(map(asdict, swept.unknown)),
        "odd_facts": odd_facts,
    }


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

    def gauge(name: str, text: str, *further: str) -> Gauge:
        return Gauge(f"nearmetal_fleet_{name}", text, (*LABELS, *further), registry=registry)

    nodes = gauge("nodes", "Nodes in the sweep.")
    when = gauge("swept_seconds", "Start of the sweep.")
    slow_text = "Time beyond that of the others, as a fraction; NaN: it failed."
    slow = gauge("slow", slow_text, "kind", "nodes", "what", "direction")
    kept_text = "Bandwidth of all pairs at once, as a part of the sum of the pairs alone."
    kept = gauge("kept_of_alone", kept_text)
    beside = gauge("beside_traffic", "Time beside traffic over the time alone.", "what")
    for each in swept:
        where = session.system, each.case.partition, each.case.environ, each.case.check
        nodes.labels(*where).set(len(each.sweep.nodes))
        when.labels(*where).set(session.time)
        if isinstance(each.sweep, Congestion):
            for row in each.sweep.rows:
                if row.ratio is not None:
                    beside.labels(*where, row.words).set(row.ratio)
        if each.fabric:
            kept.labels(*where).set(each.fabric.kept)
        for finding in each.found:
            who = finding.kind, ",".join(finding.nodes), finding.what, finding.direction
            # A node that failed has no time.
            slow.labels(*where, *who).set(math.nan if finding.change is None else finding.change)
    return generate_latest(registry).decode()
