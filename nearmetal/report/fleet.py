"""The page of a fleet: a heat map of all links, the slowest nodes, what differs between nodes."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from nearmetal.fleet import node_history, render
from nearmetal.fleet.congestion import Congestion
from nearmetal.fleet.nodes import NodeSweep
from nearmetal.fleet.render import Swept
from nearmetal.fleet.sweep import BANDWIDTH, LATENCY, Sweep
from nearmetal.fleet.swept import LISTED, watched
from nearmetal.report import summary

#: Most rows of a heat map. A larger fleet is shown by blocks of nodes.
MOST = 128
TITLES = {LATENCY: "Start-up latency", BANDWIDTH: "Time of long messages"}


def drawn(swept: Sequence[Swept]) -> list[dict]:
    """What the page shows of each sweep (`_sweep`)."""
    return [_sweep(number, sweep) for number, sweep in enumerate(swept)]


def _sweep(number: int, swept: Swept) -> dict:
    sweep = swept.sweep
    if isinstance(sweep, Sweep):
        of_kind = _of_links(number, sweep)
    elif isinstance(sweep, NodeSweep):
        of_kind = {"by_switch": False, "maps": [], **_slowest(sweep, "between repeats")}
    else:
        of_kind = _of_congestion(sweep)
    return {
        "case": " | ".join(swept.case.where),
        "nodes": len(sweep.nodes),
        "repeats": sweep.repeats,
        "left_out": swept.case.facts.get("left_out", "none"),
        "confirmed": swept.confirmed,
        "findings": [(finding, summary.date(finding.since)) for finding in swept.found],
        "nobody": _nobody(swept),
        "too_few": swept.too_few,
        "gone": swept.gone,
        "fabric": swept.fabric,
        "odd": render.odd(sweep),
        "beside": None,
        "past": _past(number, swept),
        **of_kind,
    }


def _nobody(swept: Swept) -> str:
    """That nobody is slow, as a sentence."""
    sentence = swept.nobody[0].upper() + swept.nobody[1:]
    if swept.too_few or isinstance(swept.sweep, Congestion):
        return f"{sentence}."
    return f"{sentence} than the others."


def _of_links(number: int, sweep: Sweep) -> dict:
    """Heat maps, and the slowest nodes."""
    by_effect = node_history.slowest(node_history.ways(sweep), len(sweep.nodes))
    # The slowest nodes stand first, where one sees them.
    order = np.array(by_effect)
    if sweep.members:
        # Nodes of one switch stand together.
        switches = np.unique(sweep.switches, return_inverse=True)[1]
        order = np.lexsort((np.argsort(by_effect), switches))
    maps = []
    for place, what in enumerate(sweep.fits):
        maps.append({"id": f"fleet-{number}-{place}", **_map(what, sweep, order)})
    return {"by_switch": bool(sweep.members), "maps": maps, **_slowest(sweep, "of links")}


def _slowest(sweep: Sweep | NodeSweep, noise: str) -> dict:
    """The slowest nodes, with the parts of the times that are theirs."""
    ways = node_history.ways(sweep)
    rows = []
    for node in node_history.slowest(ways, LISTED):
        cells = [node_history.percent(way, node) or "no value" for way in ways]
        rows.append({"node": sweep.nodes[node], "cells": cells})
    return {"heads": [way.words for way in ways], "slowest": rows, "noise": noise}


def _past(number: int, swept: Swept) -> dict | None:
    """The slowest nodes in the sweeps of the database, the oldest first; None: it has no other.

    `nodes` has of each node, and of each way in which it can be slow, a value, and the ends of its
    interval, for each sweep.
    """
    if len(swept.past) < 2:
        return None
    sweeps = list(reversed(swept.past))
    ways: dict[str, None] = {}
    starts = []
    for sweep in sweeps:
        ways |= dict.fromkeys(sweep.effects)
        starts.append(summary.date(sweep.started))
    names = watched(swept)
    lines: dict[str, list[dict]] = {}
    for name in names:
        lines[name] = []
        for way in ways:
            ends = [_ends(sweep.effects.get(way, {}).get(name)) for sweep in sweeps]
            lines[name].append({"words": way, "ends": ends})
    return {"id": f"past-{number}", "sweeps": starts, "names": names, "nodes": lines}


def _ends(part: node_history.Percent | None) -> list[float] | None:
    if part is None:
        return None
    return [round(part.value, 1), round(part.low, 1), round(part.high, 1)]


def _of_congestion(sweep: Congestion) -> dict:
    """Ratios of the victims."""
    rows = []
    for row in sweep.rows:
        ratios = map(render.ratio, (row.ratio, row.ratio_mean, row.ratio_99, row.ratio_worst))
        worst = f"{row.worst_node}, {render.ratio(row.worst_node_ratio)}"
        rows.append({"words": row.words, "cells": [row.alone, *ratios, worst]})
    beside = {
        "traffic": sweep.traffic,
        "victims": len(sweep.victims),
        "generators": len(sweep.nodes) - len(sweep.victims),
        "left": sweep.left,
        "rows": rows,
    }
    return {"by_switch": False, "maps": [], "beside": beside}


def _map(what: str, sweep: Sweep, order: np.ndarray) -> dict:
    """A heat map: time of each link beyond the fleet's median, in percent.

    Slow nodes come first, among those of their switch where the switches are known.

    Rows send and columns receive. A block holds the median of its links.
    """
    times = sweep.slowness(what)[np.ix_(order, order)]
    blocks = np.array_split(np.arange(len(order)), min(MOST, len(order)))
    z = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a median of nothing is NaN
        np.fill_diagonal(times, np.nan)
        beyond = 100 * (times / np.nanmedian(times) - 1)
        for senders in blocks:
            row: list[float | None] = []
            for receivers in blocks:
                median = float(np.nanmedian(beyond[np.ix_(senders, receivers)]))
                row.append(None if np.isnan(median) else round(median, 1))
            z.append(row)
    # A block is named by its first node.
    sides = []
    for block in blocks:
        side = sweep.nodes[order[block[0]]]
        if len(block) > 1:
            side += f" and {len(block) - 1} more"
        sides.append(side)
    return {"title": TITLES[what], "sides": sides, "z": z, "blocks": len(blocks) < len(order)}
