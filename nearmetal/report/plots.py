"""Plots of network, kernels and memory over message sizes, processes and threads.

Published figures are drawn beside them.

A plot is a dictionary that the page's script draws and the template writes as a table: {id, title,
x: {title, kind}, y: {title, log}, lines: [{partition, stack, unit, session, x, y, low, high, n}],
marks: [...], places: of the marks, bends: [...]}. Each y is a median of samples (summary.py). Each
mark is a published figure (`mark`), and each bend a published message size (`bend`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nearmetal.compare import published, published_ratios, speedup
from nearmetal.compare.published import Figure
from nearmetal.report import summary
from nearmetal.results import base_first

SIZES = {
    "startup_latency": 1,
    "latency_1KiB": 1024,
    "bandwidth_64KiB": 65536,
    "peak_bandwidth": 4 * 2**20,
}
#: Most lines of a plot. `--distribute` gives one a node.
MOST_LINES = 200
LATENCY, BANDWIDTH = "half_round_trip_us", "bandwidth_gbps"
NETWORK = ("pingpong", "tcp", "rdma")
READ = "round_trip_us"
PAGES = ("small", "large")
PLACES = {
    "internode": "between nodes",
    "intranode": "within a node",
    "guests": "between guests of one host",
}


def line(
    session,
    partition: str,
    stack: str,
    unit: str,
    points: Mapping[Any, summary.Summary],
    categories: Sequence[str] = (),
) -> dict:
    """A line of a plot through the points, in the order of x.

    :arg categories: of x, in their order; (): x is a number.
    """
    order = [x for x in categories if x in points] if categories else sorted(points)
    return {
        "partition": partition,
        "stack": stack,
        "unit": summary.unit(unit),
        "session": summary.named(session),
        "x": order,
        "y": [summary.short(points[x].value) for x in order],
        "low": [summary.short(points[x].low) for x in order],
        "high": [summary.short(points[x].high) for x in order],
        "n": [points[x].repeats for x in order],
    }


def _bound(figure) -> str:
    if figure.below is not None:
        return "<"
    return ">" if figure.above is not None else ""


def mark(figure, x) -> dict:
    """A published figure at x, from `low` to `high`. `bound` is `<` or `>` for a limit."""
    given = [one for one in (figure.value, figure.below, figure.above) if one is not None]
    low, high = figure.range or (given[0], given[0])
    if figure.read_off_plot and figure.value is not None:
        low, high = low - figure.read_off_plot["error"], high + figure.read_off_plot["error"]
    return {
        "x": x,
        "y": figure.value if figure.value is not None else (low * high) ** 0.5,
        "low": low,
        "high": high,
        "bound": _bound(figure),
        "text": f"{figure.text} {summary.unit(figure.unit)}".strip(),
        **_source(figure),
    }


def _source(figure) -> dict:
    """Where a published figure comes from, as a tooltip says it."""
    return {
        "software": figure.software,
        "place": figure.population or f"{figure.system} {figure.partition}",
        "settings": ", ".join(
            f"{name} {value}"
            for name, value in figure.parameters.items()
            if name not in ("placement", "threads")
        ),
        "where": f"{figure.document}, {figure.where}",
        "quote": figure.quote or f"read off a plot, ± {figure.read_off_plot['error']:g}",
    }


def bend(figure) -> dict:
    """A published message size where a curve bends, as a vertical line at x."""
    what, size = figure.variable.removesuffix("_at").rpartition("_")[2], published.bend(figure)
    return {"x": size, "text": f"{what} at {_bytes(size)}", **_source(figure)}


def _bytes(size: int) -> str:
    """A message size as axes print it: `128 B`, `3 MiB`."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if size >= unit:
            return f"{size / unit:g} {name}"
    return f"{size} B"


def plot(
    name: str,
    title: str,
    x: tuple[str, str],
    y: tuple[str, bool],
    lines: list[dict],
    marks: list[dict],
    bends: Sequence[dict] = (),
    order: Sequence[str] = (),
) -> dict:
    """A plot.

    :arg x: title and kind: `bytes`, `count` or `category`.
    :arg y: title, and whether the axis is logarithmic.
    :arg order: categories of x.
    """
    found: dict[str, Any] = {
        "id": name,
        "title": title,
        "x": {"title": x[0], "kind": x[1], "order": list(order)},
        "y": {"title": y[0], "log": y[1]},
        "lines": lines[:MOST_LINES],
        "marks": marks,
        "places": list(dict.fromkeys(mark["place"] for mark in marks)),
        "bends": list(bends),
    }
    if len(lines) > MOST_LINES:
        found["all_lines"] = len(lines)
    return found


def network(session, figures) -> list[dict]:
    """Latency and bandwidth against message size: figures 4 and 5 of the messaging paper."""
    found: dict[str, tuple[list, list]] = {place: ([], []) for place in PLACES}
    sizes_of = {case.where: _by_size(case) for case in measured(session, NETWORK)}
    for case in measured(session, NETWORK):
        place = published.placement(case)
        for lines, unit, points in zip(
            found.setdefault(place, ([], [])), ("us", "Gb/s"), sizes_of[case.where]
        ):
            if points:
                lines.append(line(session, case.place, stack(case), unit, points))
    at = {"startup_latency": 0, "peak_bandwidth": 1}
    marks_of: dict[str, tuple[list, list]] = {place: ([], []) for place in found}
    for case, value, figure in published.beside(session, figures):
        which = at.get(value.variable) if figure.check in NETWORK else None
        # Only where the case measured the message size for which the figure was published.
        if which is not None and SIZES[value.variable] in sizes_of[case.where][which]:
            placed = marks_of[published.placement(case)][which]
            placed.append((figure, SIZES[value.variable]))
    bends_of: dict[tuple[str, str], dict[int, Figure]] = {}
    for case, figure in published.bends(session, figures):
        where = published.placement(case), published.BENDS[figure.variable]
        bends_of.setdefault(where, {})[id(figure)] = figure
    plots = []
    for place, both in found.items():
        marks = [_marks(placed) for placed in marks_of[place]]
        for name, title, lines, seen in zip(
            ("Latency", "Bandwidth"), ("half round trip, µs", "Gb/s"), both, marks
        ):
            if lines or seen:
                plots.append(
                    plot(
                        f"{name.lower()}-{place}",
                        f"{name} {PLACES.get(place, place)}",
                        ("message size", "bytes"),
                        (title, True),
                        lines,
                        seen,
                        distinct(list(map(bend, bends_of.get((place, name.lower()), {}).values()))),
                    )
                )
    overheads = _overheads(session, figures, sizes_of)
    return [*plots, *_reads(session), *overheads, *_collectives(session)]


def _reads(session) -> list[dict]:
    """Latency of RDMA Read, whose curve is of whole round trips: the adapter answers alone."""
    lines = [
        line(session, case.place, stack(case), "us", _summaries(case.curves[READ]))
        for case in measured(session, ("rdma",))
        if READ in case.curves
    ]
    axes = ("message size", "bytes"), ("round trip, µs", True)
    return [plot("latency-read", "Latency of RDMA Read", *axes, lines, [])] if lines else []


def _collectives(session) -> list[dict]:
    """Time of each collective against message size, on the most processes that ran it."""
    found: dict[str, dict[int, list]] = {}
    for case in measured(session, ("collectives",)):
        for name, curve in case.curves.items():
            if match := re.fullmatch(r"(\w+)_us_(\d+)", name):
                where = (
                    case.place,
                    " ".join([case.environ, *summary.parameters(case.check).values()]),
                )
                drawn = line(session, *where, "us", _summaries(curve))
                found.setdefault(match[1], {}).setdefault(int(match[2]), []).append(drawn)
    return [
        plot(
            f"collective-{name}",
            f"{name.capitalize()} on {max(by_count)} processes",
            ("message size", "bytes"),
            ("slowest process, µs", True),
            by_count[max(by_count)],
            [],
        )
        for name, by_count in found.items()
    ]


def _overheads(session, figures, sizes_of: Mapping[tuple, tuple[dict, dict]]) -> list[dict]:
    """Overhead over the base partition against message size, for each placement.

    Overhead is the ratio of half round trips of one check and environment: 2 is twice the time. A
    factor of 1.3, which five decades of latency hide, is seen here. Published figures of the
    start-up latency and of the peak bandwidth stand at the smallest and largest messages.

    :arg sizes_of: `_by_size` of each case.
    """
    cases = measured(session, NETWORK)
    places = base_first(session, (case.place for case in cases)) if cases else []
    if len(places) < 2:
        return []
    lines: dict[str, list] = {}
    for case in cases:
        placement = published.placement(case)
        base, _ = sizes_of.get((case.check, places[0], case.environ), ({}, {}))
        own, _ = sizes_of[case.where]
        if case.place == places[0] or not base:
            continue
        points = {size: _divided(own[size], base[size]) for size in own if size in base}
        if points:
            lines.setdefault(placement, []).append(
                line(session, case.place, stack(case), "1", points)
            )
    return [
        plot(
            f"overhead-{placement}",
            f"Overhead over {places[0]} {PLACES.get(placement, placement)}",
            ("message size", "bytes"),
            (f"time / {places[0]}'s", True),
            found,
            _published_overheads(
                figures, placement, {summary.base_name(one.check) for one in cases}
            ),
        )
        for placement, found in lines.items()
    ]


def _published_overheads(figures, placement: str, checks: set[str]) -> list[dict]:
    """Marks of the published overheads of a placement."""
    marks = []
    for one in published_ratios.overheads(figures):
        figure = one.figure
        where = figure.parameters.get("placement")
        if figure.check not in checks or figure.variable not in SIZES or where != placement:
            continue
        given = [bound for bound in (one.low, one.high) if bound is not None]
        if not given:
            continue
        low, high = given[0], given[-1]
        bound = "<" if one.low is None else ">" if one.high is None else ""
        marks.append(
            {
                "x": SIZES[figure.variable],
                "y": summary.short((low * high) ** 0.5),
                "low": summary.short(low),
                "high": summary.short(high),
                "bound": bound,
                "text": f"{bound} {low:.3g}" if bound or low == high else f"{low:.3g}-{high:.3g}",
                **_source(figure),
                "quote": one.text,
            }
        )
    return distinct(marks)


def _divided(own: summary.Summary, base: summary.Summary) -> summary.Summary:
    """The ratio of two summaries, whose interval holds all ratios of their intervals."""
    return summary.Summary(
        own.value / base.value,
        own.low / base.high,
        own.high / base.low,
        min(own.repeats, base.repeats),
    )


def distinct(marks: list[dict]) -> list[dict]:
    """Each published figure once, even if several partitions and stacks measured it."""
    found: dict[tuple, dict] = {}
    for one in marks:
        found.setdefault(tuple(one.items()), one)
    return list(found.values())


def _marks(placed: Iterable[tuple]) -> list[dict]:
    """The marks of published figures, each with its x. Each is made once."""
    once = {(id(figure), x): (figure, x) for figure, x in placed}
    return distinct([mark(figure, x) for figure, x in once.values()])


def stack(case) -> str:
    """Name of a line: the environment, with the check's own parameters."""
    base = summary.base_name(case.check)
    others = [
        value for name, value in summary.parameters(case.check).items() if name != "placement"
    ]
    return " ".join(
        [case.environ, *others] if base == "pingpong" else [base, case.environ, *others]
    )


def _by_size(case) -> tuple[dict, dict]:
    """Summaries of the latency in us and of the bandwidth in Gb/s, by message size.

    A case without curves has two sizes of each, from its variables. The peak bandwidth is drawn at
    4 MiB, whatever its message size was.
    """
    if LATENCY in case.curves:
        latency = case.curves[LATENCY]
        # From each sample, so that the interval is one of bandwidths. 8 bits / us / 1000 is Gb/s.
        bandwidth = case.curves.get(BANDWIDTH) or {
            size: tuple(8 * size / us / 1000 for us in samples) for size, samples in latency.items()
        }
        return _summaries(latency), _summaries(bandwidth)
    if BANDWIDTH in case.curves:  # RDMA Read has whole round trips, which have a plot of their own
        return {}, _summaries(case.curves[BANDWIDTH])
    points = {
        value.variable: summary.summarize(value.samples, value.value) for value in case.values
    }
    latency, bandwidth = (
        {SIZES[name]: points[name] for name in names if name in points}
        for names in (("startup_latency", "latency_1KiB"), ("bandwidth_64KiB", "peak_bandwidth"))
    )
    whole_round_trips = summary.parameters(case.check).get("operation") == "read"
    return {} if whole_round_trips else latency, bandwidth


def _summaries(curve: dict[int, tuple[float, ...]]) -> dict[int, summary.Summary]:
    return {size: summary.summarize(samples) for size, samples in curve.items() if samples}


def has_network(session) -> bool:
    return any(
        case.measured and case.values and summary.base_name(case.check) in NETWORK
        for case in session.cases
    )


def has_no_curves(session) -> bool:
    """Whether the session measured a network and stored no curve of it."""
    cases = measured(session, NETWORK)
    return bool(cases) and not any(case.curves for case in cases)


def memory(session, figures) -> list[dict]:
    """STREAM's functions against threads; RandomAccess and HPL by page size."""
    plots, beside = [], list(published.beside(session, figures))
    for function in ("copy", "scale", "add", "triad"):
        lines: dict[tuple[str, str], dict] = {}
        for case in measured(session, ("stream",)):
            name = " ".join([case.environ, *summary.parameters(case.check).values()])
            for value in case.values:
                found = re.fullmatch(rf"{function}_(\d+)", value.variable)
                if found:
                    points = lines.setdefault((case.place, name), {})
                    points[int(found[1])] = summary.summarize(value.samples, value.value)
        marks = _marks(
            (figure, figure.parameters["threads"])
            for _, value, figure in beside
            if figure.check == "stream" and re.fullmatch(rf"{function}_\d+", value.variable)
        )
        plots.append(
            plot(
                f"stream-{function}",
                f"STREAM {function.capitalize()}",
                ("threads", "count"),
                ("MB/s", False),
                [line(session, *where, "MB/s", points) for where, points in lines.items()],
                marks,
            )
        )
    for variable, title, unit in (
        ("star_random_access", "RandomAccess by page size", "GUP/s"),
        ("hpl", "HPL by page size", "Gflop/s"),
    ):
        lines = {}
        for case in session.cases if session else ():
            settings = dict(summary.parameters(case.check))
            size = settings.pop("page_size", None)
            for value in case.values if case.measured and size else ():
                if value.variable == variable:
                    name = " ".join([case.environ, *settings.values()])
                    lines.setdefault((case.place, name), {})[size] = summary.summarize(
                        value.samples, value.value
                    )
        marks = _marks(
            (figure, figure.parameters["page_size"])
            for _, value, figure in beside
            if value.variable == variable and "page_size" in figure.parameters
        )
        plots.append(
            plot(
                f"pages-{variable}",
                title,
                ("page size", "category"),
                (unit, False),
                [line(session, *where, unit, points, PAGES) for where, points in lines.items()],
                marks,
                order=PAGES,
            )
        )
    return [entry for entry in plots if entry["lines"] or entry["marks"]]


def measured(session, checks: tuple[str, ...] = ()) -> list:
    """The session's measured cases (of these checks)."""
    return [
        case
        for case in (session.cases if session else ())
        if case.measured and (not checks or summary.base_name(case.check) in checks)
    ]


def has_memory(session) -> bool:
    return any(
        case.measured
        and (
            summary.base_name(case.check) == "stream"
            or "page_size" in summary.parameters(case.check)
        )
        for case in session.cases
    )


SCALED, OF_INPUT = published.SCALED, published.OF_INPUT


def _scaled(case, variable: str) -> tuple[str, str, str, str] | None:
    """Quantity, size, processes and threads of a process, by a variable's name."""
    if found := SCALED.fullmatch(variable):
        return found[1], found[2], found[3], found[4] or ""
    if summary.base_name(case.check) == "namd" and (found := OF_INPUT.fullmatch(variable)):
        return found[1], found[2], found[3], found[4] or ""
    return None


def kernels(session, figures) -> list[dict]:
    """Rates, efficiency and speed-up against processes: figure 6 of the messaging paper."""
    found: dict[tuple, dict[tuple[str, str], dict]] = {}
    keys: dict[tuple, tuple] = {}  # (variable, case) -> key of the plot that shows it
    for case in measured(session):
        others = dict(summary.parameters(case.check))
        name = others.pop("benchmark", summary.base_name(case.check))
        where = case.place, " ".join([case.environ, *others.values()])
        for value in speedup.added(case.values):
            if not (scaled := _scaled(case, value.variable)):
                continue
            quantity, size, processes, threads = scaled
            key = name, size, threads, quantity, value.unit
            points = found.setdefault(key, {}).setdefault(where, {})
            points[int(processes)] = summary.summarize(value.samples, value.value)
            keys[value.variable, case.key] = key
    marks_of: dict[tuple, list] = {}
    for case, value, figure in published.beside(session, figures):
        of = keys.get((value.variable, case.key))
        if of:
            marks_of.setdefault(of, []).append((figure, figure.parameters["processes"]))
    return [
        plot(
            f"{quantity}-{name}-{size}{threads}",
            _title(name, size, threads, quantity),
            ("processes", "count"),
            (summary.unit(unit), quantity != "efficiency"),
            [line(session, *where, unit, points) for where, points in lines.items()],
            _marks(marks_of.get((name, size, threads, quantity, unit), [])),
        )
        for (name, size, threads, quantity, unit), lines in found.items()
    ]


#: What a title adds for a quantity.
QUANTITIES = {
    "efficiency": ": parallel efficiency",
    "speedup": ": speed-up",
    "elapsed": ": time",
    "bandwidth": ": memory bandwidth",
}


def _title(name: str, size: str, threads: str, quantity: str) -> str:
    of = f"class {size}" if re.fullmatch("[A-Z]", size) else size
    by = f", {threads} threads a process" if threads else ""
    return f"{name.upper()} {of}{by}{QUANTITIES.get(quantity, '')}"


def has_kernels(session) -> bool:
    return any(
        case.measured and any(_scaled(case, value.variable) for value in case.values)
        for case in session.cases
    )
