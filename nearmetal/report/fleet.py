"""The page of a fleet: a heat map of all links, the slowest nodes, what differs between nodes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence

import numpy as np

from nearmetal.fleet import blame, render
from nearmetal.fleet.model import Fit
from nearmetal.fleet.render import Swept
from nearmetal.fleet.sweep import BANDWIDTH, LATENCY
from nearmetal.report import summary

#: Most rows of a heat map. A larger fleet is shown by blocks of nodes.
MOST = 128
#: Nodes in the table of the slowest.
LISTED = 10
TITLES = {LATENCY: "Start-up latency", BANDWIDTH: "Time of long messages"}
#: Heads of a row's cells.
HEADS = (LATENCY, f"{BANDWIDTH}, sends", f"{BANDWIDTH}, receives")
#: Half width of a 95 % interval, in standard errors.
NORMAL = 1.96


def drawn(swept: Sequence[Swept]) -> list[dict]:
    """What the page shows of each sweep (`_sweep`)."""
    return [_sweep(number, one) for number, one in enumerate(swept)]


def _sweep(number: int, one: Swept) -> dict:
    fits = one.sweep.fits
    worst = _worst(list(fits.values()))
    # Nodes of one switch stand together.
    switches = np.unique(one.sweep.switches, return_inverse=True)[1] if one.sweep.members else ()
    by_effect = np.argsort(-worst, kind="stable")
    order = np.lexsort((-worst, switches)) if one.sweep.members else by_effect
    return {
        "case": " | ".join(one.case.where),
        "nodes": len(one.sweep.nodes),
        "repeats": one.sweep.repeats,
        "left_out": one.case.facts.get("left_out", "none"),
        "confirmed": one.confirmed,
        "findings": [(found, summary.date(found.since)) for found in one.found],
        "vanished": one.vanished,
        "fabric": one.fabric,
        "by_switch": bool(one.sweep.members),
        "odd": render.odd(one.sweep),
        "maps": [
            {"id": f"fleet-{number}-{place}", **_map(what, one, order)}
            for place, what in enumerate(fits)
        ],
        "slowest": [_row(one.sweep.nodes[node], node, fits) for node in by_effect[:LISTED]],
    }


def _worst(fits: Sequence[Fit]) -> np.ndarray:
    """The largest effect of each node, (n,); nodes without any value come first."""
    effects = np.array([effect for fit in fits for effect in (fit.out, fit.into)])
    return np.where(np.isnan(effects), math.inf, effects).max(axis=0)


def _map(what: str, one: Swept, order: np.ndarray) -> dict:
    """A heat map: time of each link beyond the fleet's median, in percent.

    Slow nodes come first, among those of their switch where the switches are known.

    Rows send and columns receive. A block holds the median of its links.
    """
    times = one.sweep.slowness(what)[np.ix_(order, order)]
    parts = np.array_split(np.arange(len(order)), min(MOST, len(order)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a median of nothing is NaN
        np.fill_diagonal(times, np.nan)
        beyond = 100 * (times / np.nanmedian(times) - 1)
        blocks = np.array(
            [[np.nanmedian(beyond[np.ix_(rows, columns)]) for columns in parts] for rows in parts]
        )
    names = [one.sweep.nodes[node] for node in order]
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
        for effect, axis in ways:
            error = NORMAL * blame.errors(fit, axis)[node]
            ends = [100 * math.expm1(effect[node] + sign * error) for sign in (-1, 1)]
            value = 100 * math.expm1(effect[node])
            cells.append(
                "no value"
                if math.isnan(value)
                else f"{value:+.1f} % ({ends[0]:+.1f} to {ends[1]:+.1f})"
            )
    return {"node": name, "cells": cells}
