"""The page of a fleet: a heat map of all links, the slowest nodes, what differs between nodes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from nearmetal.fleet import blame, render
from nearmetal.fleet.congestion import Congestion
from nearmetal.fleet.model import Fit
from nearmetal.fleet.nodes import NodeSweep
from nearmetal.fleet.render import Swept
from nearmetal.fleet.sweep import BANDWIDTH, LATENCY, Sweep
from nearmetal.report import summary

#: Most rows of a heat map. A larger fleet is shown by blocks of nodes.
MOST = 128
#: Nodes in the table of the slowest.
LISTED = 10
TITLES = {LATENCY: "Start-up latency", BANDWIDTH: "Time of long messages"}
#: Heads of a row's cells, of a sweep of links.
HEADS = (LATENCY, f"{BANDWIDTH}, sends", f"{BANDWIDTH}, receives")
#: Half width of a 95 % interval, in standard errors.
NORMAL = 1.96


def drawn(swept: Sequence[Swept]) -> list[dict]:
    """What the page shows of each sweep (`_sweep`)."""
    return [_sweep(number, one) for number, one in enumerate(swept)]


def _sweep(number: int, one: Swept) -> dict:
    if isinstance(one.sweep, Sweep):
        of_kind = _of_links(number, one.sweep)
    elif isinstance(one.sweep, NodeSweep):
        of_kind = _of_nodes(one.sweep)
    else:
        of_kind = _of_congestion(one.sweep)
    return {
        "case": " | ".join(one.case.where),
        "nodes": len(one.sweep.nodes),
        "repeats": one.sweep.repeats,
        "left_out": one.case.facts.get("left_out", "none"),
        "confirmed": one.confirmed,
        "findings": [(found, summary.date(found.since)) for found in one.found],
        "nobody": one.nobody.capitalize()
        + ("." if isinstance(one.sweep, Congestion) else " than the others."),
        "gone": one.gone,
        "fabric": one.fabric,
        "odd": render.odd(one.sweep),
        "beside": None,
        **of_kind,
    }


def _of_links(number: int, sweep: Sweep) -> dict:
    """Heat maps, and the slowest nodes."""
    fits = sweep.fits
    worst = _worst([way for fit in fits.values() for way in (fit.out, fit.into)])
    # Nodes of one switch stand together.
    switches = np.unique(sweep.switches, return_inverse=True)[1] if sweep.members else ()
    by_effect = np.argsort(-worst, kind="stable")
    order = np.lexsort((-worst, switches)) if sweep.members else by_effect
    return {
        "by_switch": bool(sweep.members),
        "maps": [
            {"id": f"fleet-{number}-{place}", **_map(what, sweep, order)}
            for place, what in enumerate(fits)
        ],
        "heads": HEADS,
        "slowest": [_row(sweep.nodes[node], node, fits) for node in by_effect[:LISTED]],
        "noise": "of links",
    }


def _of_nodes(sweep: NodeSweep) -> dict:
    """The slowest nodes."""
    found = sweep.effects
    worst = _worst([one.values for one in found.values()])
    return {
        "by_switch": False,
        "maps": [],
        "heads": sweep.measures,
        "slowest": [
            {
                "node": sweep.nodes[node],
                "cells": [_cell(one.values[node], one.errors[node]) for one in found.values()],
            }
            for node in np.argsort(-worst, kind="stable")[:LISTED]
        ],
        "noise": "between repeats",
    }


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


def _worst(ways: Sequence[np.ndarray]) -> np.ndarray:
    """The largest of each node's effects, (n,); nodes without any value come first."""
    effects = np.array(ways)
    return np.where(np.isnan(effects), math.inf, effects).max(axis=0)


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


def _row(name: str, node: int, fits: dict[str, Fit]) -> dict:
    """A node's parts of the times, in percent beyond the fleet's median, with 95 % intervals."""
    cells = []
    for what, fit in fits.items():
        ways = ((fit.out, 1), (fit.into, 0)) if what == BANDWIDTH else ((fit.out, 1),)
        cells += [_cell(effect[node], blame.errors(fit, axis)[node]) for effect, axis in ways]
    return {"node": name, "cells": cells}


def _cell(effect: float, error: float) -> str:
    """An effect in percent of the median's time, with its 95 % interval."""
    if math.isnan(effect):
        return "no value"
    ends = [100 * math.expm1(effect + sign * NORMAL * error) for sign in (-1, 1)]
    return f"{100 * math.expm1(effect):+.1f} % ({ends[0]:+.1f} to {ends[1]:+.1f})"
