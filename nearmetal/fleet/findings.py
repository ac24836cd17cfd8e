"""What a sweep of all nodes shows: who is slow or failed, and since when. Pure functions."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from nearmetal.fleet import congestion, nodes, outliers, remeasured, sweep
from nearmetal.fleet.congestion import Congestion
from nearmetal.fleet.nodes import NodeSweep
from nearmetal.fleet.outliers import Suspect
from nearmetal.fleet.sweep import Sweep
from nearmetal.results import Case
from nearmetal.stats.plan import CAMPAIGN_ERROR

FAILED = "failed"
#: A sweep of links or of nodes, or nodes beside traffic.
AnySweep = Sweep | NodeSweep | Congestion
#: Directions of a suspect, in words.
WORDS = {outliers.OUT: "sends", outliers.INTO: "receives", outliers.BOTH: "sends and receives"}


@dataclass(frozen=True)
class Finding:
    """A node, switch, path or link that is slower than the others, or that failed."""

    #: node, switch, path, link; links: most of them
    kind: str
    #: The node; those behind the switch or path; the link's two ends.
    nodes: tuple[str, ...]
    #: A measure of its sweep, or FAILED.
    what: str
    #: By how much, or why, in words.
    said: str
    #: OUT, INTO or BOTH, as its nodes see it; "": of no message.
    direction: str = ""
    #: Time beyond that of the others, as a fraction.
    change: float | None = None
    #: One-sided p-value, before the error is shared.
    p: float | None = None
    #: Name of a switch.
    switch: str = ""
    #: Start of the first of the sweeps in a row that show it.
    since: str = ""

    @property
    def name(self) -> str:
        """Who it is, in words."""
        if self.kind == "link":
            return f"link {' - '.join(self.nodes)}"
        if self.kind == "path":
            return f"a path that {', '.join(self.nodes)} share"
        return f"{self.kind} {self.switch or ', '.join(self.nodes)}".rstrip()

    @property
    def line(self) -> str:
        """What it does, in words."""
        if self.what == FAILED:
            return self.said
        if self.direction:
            return f"{WORDS[self.direction]} with {self.said} ({self.what})"
        return f"takes {self.said} ({self.what})"

    @property
    def who(self) -> tuple[str, frozenset[str]]:
        """Who it is, in any direction and measure."""
        return self.kind, frozenset(self.nodes)

    def is_about(self, others: Iterable[Finding]) -> bool:
        """Whether another finding is about the same, or about a link and one of its ends."""
        for other in others:
            if self.who == other.who:
                return True
            link_and_node = {self.kind, other.kind} == {"node", "link"}
            if link_and_node and not set(self.nodes).isdisjoint(other.nodes):
                return True
        return False


@dataclass(frozen=True)
class Compared:
    """What two sweeps show together."""

    #: What the second one shows too, with its figures.
    found: list[Finding]
    #: What the second one cannot judge; `said` has the reason.
    unknown: list[Finding] = field(default_factory=list)


def read(case: Case) -> AnySweep | None:
    """The sweep of a case; None if it holds none. Raises SweepError."""
    if case.links:
        return sweep.read(case)
    if case.congestion:
        return congestion.read(case)
    if case.node_values:
        return nodes.read(case)
    return None


def error_of(sweeps: Iterable[AnySweep]) -> float:
    """The error of each measure of sweeps that are judged together: an equal part of the whole."""
    return CAMPAIGN_ERROR / max(1, sum(len(each.measures) for each in sweeps))


def of(swept: AnySweep, error: float) -> list[Finding]:
    """Slow switches, nodes and links by each measure, then what failed.

    :arg error: of each measure (`error_of`).
    """
    return _slow(swept, error) + _failed(swept)


def compared(first: AnySweep, second: AnySweep, error: float) -> Compared:
    """What the first sweep shows and the second shows again.

    A node that is slow in one of them and fails in the other is shown again, too.

    :arg error: of each measure of the first sweep. It bounds the error of what is confirmed, too.
    """
    found, slow, unjudged = [], [], []
    for what in first.measures:
        suspects = first.suspects(what, error)
        # The second sweep decides; its figures were not selected for being slow.
        shown, unknown = _again(first, second, what, suspects)
        slow += _findings(first, what, suspects)
        found += _findings(first, what, shown)
        unjudged += _findings(first, what, unknown)
    failed = _failed(first)
    found += _about(_failed(second), [*slow, *failed])
    # What failed in the first sweep may be slow by now.
    if failed:
        found += _about(_slow(second, error), failed)
    # Nothing speaks for what the second sweep did not measure.
    absent = {*first.nodes, *first.refused} - {*second.nodes, *second.refused}
    for finding in failed:
        why = _unmeasured(finding, second, absent)
        if why and not finding.is_about(found):
            found.append(replace(finding, said=f"{finding.said}; {why}"))
    # A node that fails in the second sweep is shown again, however little is known of its time.
    unknown_too = []
    for finding in unjudged:
        if not finding.is_about(found):
            why = _unmeasured(finding, second, absent) or "it has too few values to compare"
            unknown_too.append(replace(finding, said=why))
    return Compared(found, unknown_too)


def _about(found: Iterable[Finding], others: list[Finding]) -> list[Finding]:
    """The findings that are about one of the others."""
    return [finding for finding in found if finding.is_about(others)]


def _again(
    first: AnySweep, second: AnySweep, what: str, suspects: list[Suspect]
) -> remeasured.Judged:
    """The suspects of the first sweep that the second one shows, and that it cannot judge."""
    if not suspects:
        return [], []
    if isinstance(first, NodeSweep) and isinstance(second, NodeSweep):
        return first.judged(what, suspects, second)
    if isinstance(first, Sweep) and isinstance(second, Sweep):
        return first.judged(what, suspects, second)
    return [], suspects  # a case that measures something else by now


def _unmeasured(finding: Finding, second: AnySweep, absent: set[str]) -> str:
    """Why the second sweep says nothing of a node or link, in words; '' if it does."""
    if absent & set(finding.nodes):
        return "left out of the second sweep"
    if finding.kind != "link" or not isinstance(second, Sweep) or second.measured(*finding.nodes):
        return ""
    return "not measured by the second sweep"


def _slow(swept: AnySweep, error: float) -> list[Finding]:
    """What is slow by any measure."""
    found = []
    for what in swept.measures:
        found += _findings(swept, what, swept.suspects(what, error))
    return found


def _findings(swept: AnySweep, what: str, suspects: Iterable[Suspect]) -> list[Finding]:
    """Suspects by a measure as findings, with the names of their nodes."""
    found = []
    for suspect in suspects:
        finding = Finding(
            suspect.kind,
            tuple(swept.nodes[node] for node in suspect.nodes),
            what,
            f"{100 * suspect.change:.0f} % more time",
            suspect.direction,
            suspect.change,
            suspect.p,
        )
        if suspect.kind == "switch":
            finding = replace(finding, switch=swept.switches[suspect.nodes[0]])
        found.append(finding)
    return found


def _failed(swept: AnySweep) -> list[Finding]:
    """What failed: first the nodes that do not start the program."""
    found = []
    for node, why in swept.refused.items():
        found.append(_failed_node(node, f"does not start the program: {why}"))
    if not isinstance(swept, Sweep):
        return found + list(itertools.starmap(_failed_node, swept.failures().items()))
    ends, links = swept.failures()
    if 2 * len(ends) >= len(swept.nodes):
        # Most nodes are taken for healthy. So it was the sweep, or what all nodes share.
        why = Counter(swept.dead.values()).most_common(1)[0][0]
        said = f"{len(swept.dead)} failed, of most nodes: {why}. Give each more time (seconds)"
        return [*found, Finding("links", (), FAILED, said)]
    for node, (count, why) in ends.items():
        found.append(_failed_node(node, f"{count} links failed: {why}"))
    for pair, why in links.items():
        found.append(Finding("link", pair, FAILED, f"it failed: {why}"))
    return found


def _failed_node(node: str, why: str) -> Finding:
    return Finding("node", (node,), FAILED, why)


def dated(
    found: Sequence[Finding],
    started: str,
    earlier: Iterable[tuple[str, AnySweep]],
    error: float,
) -> list[Finding]:
    """The findings with the start of the first of the sweeps in a row that show the same one.

    What is slow in latency in one sweep and in bandwidth in the next is the same.

    :arg started: the start of their sweep.
    :arg earlier: starts and sweeps before it, the newest first. They are read as far as needed.
    :arg error: of each measure.
    """
    since = {finding.who: started for finding in found}
    unended = set(since)
    if not since:
        return []
    for start, past in earlier:
        shown = {finding.who for finding in of(past, error)}
        for who in unended & shown:
            since[who] = start
        # What was not measured may have been as slow.
        unended = {who for who in unended if who in shown or not who[1] <= set(past.nodes)}
        # No earlier sweep can change what is known.
        if not unended:
            break
    return [replace(finding, since=since[finding.who]) for finding in found]


def vanished(before: Iterable[Finding], after: Compared) -> list[Finding]:
    """Findings whose node, switch, path or link a second sweep shows healthy."""
    shown = [*after.found, *after.unknown]
    return [finding for finding in before if not finding.is_about(shown)]


def by_node(found: Iterable[Finding]) -> dict[str, list[Finding]]:
    """The nodes that are themselves to blame, with their findings.

    Behind a slow switch or path, and at a slow link, a node may be healthy.
    """
    blamed: dict[str, list[Finding]] = {}
    for finding in found:
        if finding.kind == "node":
            blamed.setdefault(finding.nodes[0], []).append(finding)
    return blamed
