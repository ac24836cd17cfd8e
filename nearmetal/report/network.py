"""Plots over message sizes: figures 4 and 5 of the messaging paper, and overheads of partitions."""

from __future__ import annotations

import re
from collections.abc import Mapping

from nearmetal.compare import published, published_ratios
from nearmetal.report import plots, summary
from nearmetal.results import base_first

#: Checks that measure a link, and message sizes of their variables. The peak bandwidth is drawn at
#: 4 MiB, whatever its message size was.
CHECKS = ("pingpong", "tcp", "rdma")
LATENCIES = {"startup_latency": 1, "latency_1KiB": 1024}
BANDWIDTHS = {"bandwidth_64KiB": 65536, "peak_bandwidth": 4 * 2**20}
SIZES = {**LATENCIES, **BANDWIDTHS}
#: Curves that cases store.
LATENCY, BANDWIDTH, READ = "half_round_trip_us", "bandwidth_gbps", "round_trip_us"
COLLECTIVE = re.compile(r"(\w+)_us_(\d+)")
#: Variable of published figures beside each plot; title, unit, and title of the y axis.
AXES = {
    "startup_latency": ("Latency", "us", "half round trip, µs"),
    "peak_bandwidth": ("Bandwidth", "Gb/s", "Gb/s"),
}
X = ("message size", "bytes")
PLACES = {
    "internode": "between nodes",
    "intranode": "within a node",
    "guests": "between guests of one host",
}
#: Summaries by message size.
Curve = Mapping[int, summary.Summary]


def drawn(session, figures) -> list[dict]:
    """Latency and bandwidth, RDMA Read, overheads, and collectives."""
    cases = plots.measured(session, CHECKS)
    curves = {case.where: _curves(case) for case in cases}
    return [
        *_links(session, cases, curves, figures),
        *_reads(session),
        *_overheads(session, cases, curves, figures),
        *_collectives(session),
    ]


def holds(session) -> bool:
    """Whether the session measured a link."""
    return any(case.values for case in plots.measured(session, CHECKS))


def has_no_curves(session) -> bool:
    """Whether the session measured a link and stored no curve of it."""
    cases = plots.measured(session, CHECKS)
    return bool(cases) and not any(case.curves for case in cases)


def _curves(case) -> dict[str, Curve]:
    """Latency in us and bandwidth in Gb/s by message size, by the variable of AXES.

    A case without curves has two sizes of each, from its variables.
    """
    latency, bandwidth = case.curves.get(LATENCY), case.curves.get(BANDWIDTH)
    if latency is not None and not bandwidth:
        bandwidth = {}
        for size, samples in latency.items():
            # From each sample, so that the interval is one of bandwidths.
            bandwidth[size] = tuple(8 * size / us / 1000 for us in samples)  # in Gb/s
    latencies: dict[int, summary.Summary] = {}
    bandwidths: dict[int, summary.Summary] = {}
    if bandwidth is not None:
        # RDMA Read has whole round trips, which have a plot of their own.
        latencies, bandwidths = map(summary.of_curve, (latency or {}, bandwidth))
    else:
        for value in case.values:
            for sizes, points in ((LATENCIES, latencies), (BANDWIDTHS, bandwidths)):
                if value.variable in sizes:
                    points[sizes[value.variable]] = summary.of_value(value)
        # Of RDMA Read these are whole round trips.
        if summary.parameters(case.check).get("operation") == "read":
            latencies = {}
    return {"startup_latency": latencies, "peak_bandwidth": bandwidths}


def _links(session, cases, curves: Mapping[tuple, Mapping[str, Curve]], figures) -> list[dict]:
    """Latency and bandwidth against message size, for each placement."""
    lines: dict[tuple[str, str], list[dict]] = {}
    for placement in dict.fromkeys([*PLACES, *map(published.placement, cases)]):
        for name in AXES:
            lines[placement, name] = []
    for case in cases:
        for name, points in curves[case.where].items():
            if points:
                line = plots.line(session, case.place, stack(case), AXES[name][1], points)
                lines[published.placement(case), name].append(line)
    marks: dict[tuple[str, str], list] = {}
    for case, value, figure in published.beside(session, figures):
        name = value.variable
        # Other checks may have variables of these names.
        if figure.check not in CHECKS or name not in AXES:
            continue
        # Only where the case measured the message size for which the figure was published.
        if SIZES[name] in curves[case.where][name]:
            placed = marks.setdefault((published.placement(case), name), [])
            placed.append((figure, SIZES[name]))
    bends: dict[tuple[str, str], dict] = {}
    for case, figure in published.bends(session, figures):
        where = published.placement(case), published.BENDS[figure.variable]
        # Several cases may have the same figure.
        bends.setdefault(where, {})[id(figure)] = figure
    drawn_plots = []
    for (placement, name), drawn in lines.items():
        quantity, _, y = AXES[name]
        seen = plots.marks_of(marks.get((placement, name), ()))
        if drawn or seen:
            figures_of_bends = bends.get((placement, quantity.lower()), {}).values()
            bent = plots.distinct(map(plots.bend, figures_of_bends))
            title = f"{quantity} {PLACES.get(placement, placement)}"
            key = f"{quantity.lower()}-{placement}"
            drawn_plots.append(plots.plot(key, title, X, (y, True), drawn, seen, bent))
    return drawn_plots


def stack(case) -> str:
    """Name of a line: the environment, with the check's own parameters."""
    # The ping-pong's lines are the plots' subject, so that their names need no check.
    base = summary.base_name(case.check)
    words = [base, case.environ]
    if base == "pingpong":
        words = [case.environ]
    for name, value in summary.parameters(case.check).items():
        if name != "placement":
            words.append(value)
    return " ".join(words)


def _reads(session) -> list[dict]:
    """Latency of RDMA Read, whose curve is of whole round trips: the adapter answers alone."""
    lines = []
    for case in plots.measured(session, ("rdma",)):
        if READ in case.curves:
            points = summary.of_curve(case.curves[READ])
            lines.append(plots.line(session, case.place, stack(case), "us", points))
    if not lines:
        return []
    return [plots.plot("latency-read", "Latency of RDMA Read", X, ("round trip, µs", True), lines)]


def _collectives(session) -> list[dict]:
    """Time of each collective against message size, on the most processes that ran it."""
    lines: dict[str, dict[int, list]] = {}
    for case in plots.measured(session, ("collectives",)):
        name = " ".join([case.environ, *summary.parameters(case.check).values()])
        for curve, points in case.curves.items():
            if match := COLLECTIVE.fullmatch(curve):
                operation, processes = match[1], int(match[2])
                line = plots.line(session, case.place, name, "us", summary.of_curve(points))
                lines.setdefault(operation, {}).setdefault(processes, []).append(line)
    drawn_plots = []
    for operation, by_count in lines.items():
        most = max(by_count)
        title = f"{operation.capitalize()} on {most} processes"
        y = "slowest process, µs", True
        drawn_plots.append(plots.plot(f"collective-{operation}", title, X, y, by_count[most]))
    return drawn_plots


def _overheads(session, cases, curves: Mapping[tuple, Mapping[str, Curve]], figures) -> list[dict]:
    """Overhead over the base partition against message size, for each placement.

    Overhead is the ratio of half round trips of one check and environment: 2 is twice the time. A
    factor of 1.3, which five decades of latency hide, is seen here. Published figures of the
    start-up latency and of the peak bandwidth stand at the smallest and largest messages.
    """
    places = base_first(session, (case.place for case in cases))
    if len(places) < 2:
        return []
    base = places[0]
    checks = set()
    lines: dict[str, list] = {}
    for case in cases:
        on_base = curves.get((case.check, base, case.environ), {}).get("startup_latency", {})
        points = {}
        for size, here in curves[case.where]["startup_latency"].items():
            if size in on_base:
                points[size] = _divided(here, on_base[size])
        checks.add(summary.base_name(case.check))
        if points and case.place != base:
            line = plots.line(session, case.place, stack(case), "1", points)
            lines.setdefault(published.placement(case), []).append(line)
    drawn_plots = []
    for placement, drawn in lines.items():
        title = f"Overhead over {base} {PLACES.get(placement, placement)}"
        marks = _published_overheads(figures, placement, checks)
        y = f"time / {base}'s", True
        drawn_plots.append(plots.plot(f"overhead-{placement}", title, X, y, drawn, marks))
    return drawn_plots


def _divided(other: summary.Summary, base: summary.Summary) -> summary.Summary:
    """The ratio of two summaries, whose interval holds all ratios of their intervals."""
    repeats = min(other.repeats, base.repeats)
    ends = other.low / base.high, other.high / base.low
    return summary.Summary(other.value / base.value, *ends, repeats)


def _published_overheads(figures, placement: str, checks: set[str]) -> list[dict]:
    """Marks of the published overheads of a placement."""
    marks = []
    for overhead in published_ratios.overheads(figures):
        figure = overhead.figure
        where = figure.parameters.get("placement")
        if figure.check not in checks or figure.variable not in SIZES or where != placement:
            continue
        low, high, bound = plots.one_sided(overhead.low, overhead.high)
        # Figures that bound nothing, such as two that are both "less than".
        if low is None:
            continue
        text = f"{bound} {low:.3g}".strip()
        if low != high:
            text = f"{low:.3g}-{high:.3g}"
        y, low, high = map(summary.short, ((low * high) ** 0.5, low, high))
        place = {"x": SIZES[figure.variable], "y": y, "low": low, "high": high}
        words = {"bound": bound, "text": text, **plots.source(figure), "quote": overhead.text}
        marks.append({**place, **words})
    return plots.distinct(marks)
