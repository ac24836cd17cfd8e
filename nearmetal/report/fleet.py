"""The page of a fleet: a heat map of all links, the slowest nodes, what differs between nodes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from nearmetal.fleet import node_history, render
from nearmetal.fleet.congestion import Congestion
from nearmetal.fleet.nodes import NodeSweep
from nearmetal.fleet.render import Swept
from nearmetal.fleet.sweep import BANDWIDTH, LATENCY, Sweep
from nearmetal.report import summary

#: Most rows of a heat map. A larger fleet is shown by blocks of nodes.
MOST = 128
#: Nodes in the table of the slowest.
LISTED = 10
TITLES = {LATENCY: "Start-up latency", BANDWIDTH: "Time of long messages"}


def drawn(swept: Sequence[Swept]) -> list[dict]:
    """What the page shows of each sweep (`_sweep`)."""
    return [_sweep(number, one) for number, one in enumerate(swept)]


def _sweep(number: int, one: Swept) -> dict:
    if isinstance(one.sweep, Sweep):
        of_kind = _of_links(number, one.sweep)
    elif isinstance(one.sweep, NodeSweep):
        of_kind = {"by_switch": False, "maps": [], **_slowest(one.sweep, "between repeats")}
    else:
        of_kind = _of_congestion(one.sweep)
    return {
        "case": " | ".join(one.case.where),
        "nodes": len(one.sweep.nodes),
        "repeats": one.sweep.repeats,
        "left_out": one.case.facts.get("left_out", "none"),
        "confirmed": one.confirmed,
        "findings": [(found, summary.date(found.since)) for found in one.found],
        "nobody": _nobody(one),
        "too_few": one.too_few,
        "gone": one.gone,
        "fabric": one.fabric,
        "odd": render.odd(one.sweep),
        "beside": None,
        "past": _past(number, one),
        **of_kind,
    }


def _nobody(one: Swept) -> str:
    """That nobody is slow, as a sentence."""
    said = one.nobody[0].upper() + one.nobody[1:]
    if one.too_few or isinstance(one.sweep, Congestion):
        return f"{said}."
    return f"{said} than the others."


def _of_links(number: int, sweep: Sweep) -> dict:
    """Heat maps, and the slowest nodes."""
    by_effect = node_history.slowest(node_history.ways(sweep), len(sweep.nodes))
    ranks = np.argsort(by_effect)
    # Nodes of one switch stand together.
    switches = np.unique(sweep.switches, return_inverse=True)[1] if sweep.members else ()
    order = np.lexsort((ranks, switches)) if sweep.members else np.array(by_effect)
    return {
        "by_switch": bool(sweep.members),
        "maps": [
            {"id": f"fleet-{number}-{place}", **_map(what, sweep, order)}
            for place, what in enumerate(sweep.fits)
        ],
        **_slowest(sweep, "of links"),
    }


def _slowest(sweep: Sweep | NodeSweep, noise: str) -> dict:
    """The slowest nodes, with the parts of the times that are theirs."""
    ways = node_history.ways(sweep)
    return {
        "heads": [way.words for way in ways],
        "slowest": [
            {
                "node": sweep.nodes[node],
                "cells": [node_history.percent(way, node) or "no value" for way in ways],
            }
            for node in node_history.slowest(ways, LISTED)
        ],
        "noise": noise,
    }


def _past(number: int, one: Swept) -> dict | None:
    """The slowest nodes in the sweeps of the database, the oldest first; None: it has no other.

    `nodes` has of each node, and of each way in which it can be slow, a value, and the ends of its
    interval, for each sweep.
    """
    if len(one.past) < 2:
        return None
    sweeps = list(reversed(one.past))
    names = watched(one)
    words = list(dict.fromkeys(way for past_one in sweeps for way in past_one.effects))
    lines = {
        name: [
            {"words": way, "ends": [_ends(then.effects.get(way, {}).get(name)) for then in sweeps]}
            for way in words
        ]
        for name in names
    }
    starts = [summary.date(then.started) for then in sweeps]
    return {"id": f"past-{number}", "sweeps": starts, "names": names, "nodes": lines}


def _ends(part: node_history.Percent | None) -> list[float] | None:
    return [round(end, 1) for end in (part.value, part.low, part.high)] if part else None


def watched(one: Swept) -> list[str]:
    """The nodes whose history is shown: those that are named, then the slowest."""
    named = [node for found in one.found for node in found.nodes][:LISTED]
    slow = node_history.slowest(node_history.ways(one.sweep), LISTED) if one.sweep.measures else []
    known = set(one.sweep.nodes)
    names = dict.fromkeys([*named, *(one.sweep.nodes[node] for node in slow)])
    return [name for name in names if name in known]


def _of_congestion(one: Congestion) -> dict:
    """Ratios of the victims."""
    return {
        "by_switch": False,
        "maps": [],
        "beside": {
            "traffic": one.traffic,
            "victims": len(one.victims),
            "generators": len(one.nodes) - len(one.victims),
            "left": one.left,
            "rows": [
                {
                    "words": row.words,
                    "cells": [
                        row.alone,
                        *map(
                            render.ratio,
                            (row.ratio, row.ratio_mean, row.ratio_99, row.ratio_worst),
                        ),
                        f"{row.worst_node}, {render.ratio(row.worst_node_ratio)}",
                    ],
                }
                for row in one.rows
            ],
        },
    }


def _map(what: str, sweep: Sweep, order: np.ndarray) -> dict:
    """A heat map: time of each link beyond the fleet's median, in percent.

    Slow nodes come first, among those of their switch where the switches are known.

    Rows send and columns receive. A block holds the median of its links.
    """
    times = sweep.slowness(what)[np.ix_(order, order)]
    parts = np.array_split(np.arange(len(order)), min(MOST, len(order)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a median of nothing is NaN
        np.fill_diagonal(times, np.nan)
        beyond = 100 * (times / np.nanmedian(times) - 1)
        blocks = np.array(
            [[np.nanmedian(beyond[np.ix_(rows, columns)]) for columns in parts] for rows in parts]
        )
    names = [sweep.nodes[node] for node in order]
    return {
        "title": TITLES[what],
        "sides": [
            names[part[0]] if len(part) == 1 else f"{names[part[0]]} and {len(part) - 1} more"
            for part in parts
        ],
        "z": [[None if math.isnan(z) else round(float(z), 1) for z in row] for row in blocks],
        "blocks": len(parts) < len(order),
    }
