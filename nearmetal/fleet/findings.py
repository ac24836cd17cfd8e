"""What a sweep of all nodes shows: who is slow or failed, and since when. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nearmetal.fleet import congestion, nodes, outliers, remeasured, sweep
from nearmetal.fleet.congestion import Congestion
from nearmetal.fleet.nodes import NodeSweep
from nearmetal.fleet.outliers import Suspect
from nearmetal.fleet.sweep import BANDWIDTH, Sweep
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

    kind: str  #: node, switch, path, link; links: most of them
    nodes: tuple[str, ...]  #: the node; those behind the switch or path; the link's two ends
    what: str  #: a measure of its sweep, or FAILED
    said: str  #: by how much, or why, in words
    direction: str = ""  #: OUT, INTO or BOTH, as its nodes see it; "": of no message
    change: float | None = None  #: time beyond that of the others, as a fraction
    p: float | None = None  #: one-sided p-value, before the error is shared
    switch: str = ""  #: name of a switch
    since: str = ""  #: start of the first of the sweeps in a row that show it

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
        does = f"{WORDS[self.direction]} with" if self.direction else "takes"
        return f"{does} {self.said} ({self.what})"


def read(case: Case) -> AnySweep | None:
    """The sweep of a case; None if it holds none. Raises SweepError."""
    if case.links:
        return sweep.read(case)
    if case.congestion:
        return congestion.read(case)
    return nodes.read(case) if case.node_values else None


def error_of(sweeps: Iterable[AnySweep]) -> float:
    """The error of each measure of sweeps that are judged together: an equal part of the whole."""
    return CAMPAIGN_ERROR / max(1, sum(len(one.measures) for one in sweeps))


def of(one: AnySweep, error: float) -> list[Finding]:
    """Slow switches, nodes and links by each measure, then what failed.

    :arg error: of each measure (`error_of`).
    """
    found = [
        _slow(suspect, what, one)
        for what in one.measures
        for suspect in _suspects(one, what, error)
    ]
    return [*found, *_failed(one)]


@dataclass(frozen=True)
class Compared:
    """What two sweeps show together."""

    found: list[Finding]  #: what the second one shows too, with its figures
    unknown: list[Finding]  #: what the second one cannot judge; `said` has the reason


def compared(first: AnySweep, second: AnySweep, error: float) -> Compared:
    """What the first sweep shows and the second shows again.

    A node that is slow in one of them and fails in the other is shown again, too.

    :arg error: of each measure of the first sweep. It bounds the error of what is confirmed, too.
    """
    found, unknown, slow = [], [], []
    for what in first.measures:
        suspects = _suspects(first, what, error)
        slow += [_slow(one, what, first) for one in suspects]
        shown, unjudged = _again(first, second, what, suspects)
        found += [_slow(one, what, first) for one in shown]
        unknown += [_slow(one, what, first) for one in unjudged]
    failed = _failed(first)
    found += [one for one in _failed(second) if _is_about(one, [*slow, *failed])]
    if failed:
        slow_now = (
            _slow(suspect, what, second)
            for what in second.measures
            for suspect in _suspects(second, what, error)
        )
        found += [one for one in slow_now if _is_about(one, failed)]
    left = _absent(first, second)
    # Nothing speaks for what the second sweep did not measure.
    found += [
        replace(one, said=f"{one.said}; {why}")
        for one in failed
        if not _is_about(one, found) and (why := _unmeasured(one, second, left))
    ]
    unknown = [
        replace(one, said=_unmeasured(one, second, left) or "it has too few values to compare")
        for one in unknown
        if not _is_about(one, found)
    ]
    return Compared(found, unknown)


def _absent(first: AnySweep, second: AnySweep) -> frozenset[str]:
    """Nodes of the first sweep that the second one left out."""
    return frozenset({*first.nodes, *first.refused} - {*second.nodes, *second.refused})


def _unmeasured(one: Finding, second: AnySweep, left: frozenset[str]) -> str:
    """Why the second sweep says nothing of a node or link, in words; '' if it does."""
    if left & set(one.nodes):
        return "left out of the second sweep"
    if one.kind == "link" and isinstance(second, Sweep) and not second.measured(*one.nodes):
        return "not measured by the second sweep"
    return ""


def _is_about(one: Finding, others: Iterable[Finding]) -> bool:
    """Whether another finding is of the same, or of a link and one of its ends."""
    return any(
        _who(one) == _who(other)
        or (
            {one.kind, other.kind} == {"node", "link"}
            and not set(one.nodes).isdisjoint(other.nodes)
        )
        for other in others
    )


def _suspects(one: AnySweep, what: str, error: float) -> list[Suspect]:
    if isinstance(one, Congestion):
        return []
    if isinstance(one, NodeSweep):
        return one.suspects(what, error)
    return outliers.of_links(one.fits[what], one.members, what == BANDWIDTH, error)


def _again(
    first: AnySweep, second: AnySweep, what: str, suspects: list[Suspect]
) -> remeasured.Judged:
    """The suspects of the first sweep that the second one shows, and that it cannot judge."""
    if not suspects:
        return [], []
    if isinstance(first, NodeSweep) and isinstance(second, NodeSweep):
        return first.judged(what, suspects, second)
    if isinstance(first, Sweep) and isinstance(second, Sweep):
        fresh = second.of_nodes(first.nodes).slowness(what)
        return remeasured.judged(suspects, first.fits[what], fresh)
    return [], suspects  # a case that measures something else by now


def _failed(one: AnySweep) -> list[Finding]:
    refused = [
        Finding("node", (node,), FAILED, f"does not start the program: {why}")
        for node, why in one.refused.items()
    ]
    return [*refused, *_failed_in(one)]


def _failed_in(one: AnySweep) -> list[Finding]:
    """What failed among the nodes of a sweep."""
    if not isinstance(one, Sweep):
        return [Finding("node", (node,), FAILED, said) for node, said in one.failures().items()]
    ends, links = one.failures()
    if 2 * len(ends) >= len(one.nodes):
        # Most nodes are taken for healthy. So it was the sweep, or what all nodes share.
        why = Counter(one.dead.values()).most_common(1)[0][0]
        said = f"{len(one.dead)} failed, of most nodes: {why}. Give each more time (seconds)"
        return [Finding("links", (), FAILED, said)]
    return [
        *(
            Finding("node", (node,), FAILED, f"{count} links failed: {why}")
            for node, (count, why) in ends.items()
        ),
        *(Finding("link", pair, FAILED, f"it failed: {why}") for pair, why in links.items()),
    ]


def _slow(suspect: Suspect, what: str, one: AnySweep) -> Finding:
    return Finding(
        suspect.kind,
        tuple(one.nodes[node] for node in suspect.nodes),
        what,
        f"{100 * suspect.change:.0f} % more time",
        suspect.direction,
        suspect.change,
        suspect.p,
        one.switches[suspect.nodes[0]] if suspect.kind == "switch" else "",
    )


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
    since = {_who(one): started for one in found}
    open_ones = set(since)
    for start, past in earlier if open_ones else ():
        # What was not measured may have been as slow.
        measured = set(past.nodes)
        shown = {_who(one) for one in of(past, error)}
        open_ones = {one for one in open_ones if one in shown or not one[1] <= measured}
        since |= dict.fromkeys(open_ones & shown, start)
        if not open_ones:
            break
    return [replace(one, since=since[_who(one)]) for one in found]


def vanished(before: Iterable[Finding], after: Compared) -> list[Finding]:
    """Findings whose node, switch, path or link a second sweep shows healthy."""
    shown = [*after.found, *after.unknown]
    return [one for one in before if not _is_about(one, shown)]


def _who(one: Finding) -> tuple[str, frozenset[str]]:
    return one.kind, frozenset(one.nodes)


def by_node(found: Iterable[Finding]) -> dict[str, list[Finding]]:
    """The nodes that are themselves to blame, with their findings.

    Behind a slow switch or path, and at a slow link, a node may be healthy.
    """
    named: dict[str, list[Finding]] = {}
    for one in found:
        if one.kind == "node":
            named.setdefault(one.nodes[0], []).append(one)
    return named
