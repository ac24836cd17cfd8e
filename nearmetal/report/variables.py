"""Plots of variables: where a check's file says so, and of each that is named by its processes.

The files are reframe_checks/references/checks/NAME.yaml. `mops_B_8` and `step_stmv_8x4` are drawn
against processes without a word there: figure 6 of the messaging paper.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.compare import published, scaling
from nearmetal.model import catalogue
from nearmetal.report import plots, summary

#: What a title adds for a quantity.
QUANTITIES = {
    "efficiency": ": parallel efficiency",
    "speedup": ": speed-up",
    "elapsed": ": time",
    "bandwidth": ": memory bandwidth",
}


@dataclass(frozen=True)
class Chart:
    """A plot before its lines are known."""

    page: str
    id: str
    title: str
    x: str  #: title of the axis
    unit: str
    log: bool
    #: Categories of the x axis; (): numbers. None: the partitions.
    order: tuple[str, ...] | None = ()


@dataclass
class Drawn:
    """The lines and published figures of a chart."""

    lines: dict[tuple[str, str], dict] = field(default_factory=dict)  #: by partition and stack
    marks: list[tuple] = field(default_factory=list)  #: figure and x


@dataclass(frozen=True)
class Spot:
    """Where a value is drawn."""

    chart: Chart
    x: int | str
    without: str = ""  #: the parameter that its line's name lacks


def drawn(session, page: str, figures) -> list[dict]:
    """The plots of a page. None for checks that the session did not measure."""
    spots: dict[tuple, Spot] = {}
    charts: dict[Chart, Drawn] = {}
    for case in plots.measured(session):
        for value in scaling.with_speedups(case.values):
            spot = _spot(case, value)
            if spot is None or spot.chart.page != page:
                continue
            spots[case.where, value.variable] = spot
            lines = charts.setdefault(spot.chart, Drawn()).lines
            points = lines.setdefault((case.place, _stack(case, spot.without)), {})
            points[spot.x] = summary.of_value(value)
    # A published figure stands where the measured value does that it belongs to.
    for case, value, figure in published.beside(session, figures):
        spot = spots.get((case.where, value.variable))
        if spot is not None:
            charts[spot.chart].marks.append((figure, spot.x))
    return [_plot(session, chart, what) for chart, what in charts.items()]


def pages(session) -> set[str]:
    """The pages for whose plots the session measured something."""
    pages = set()
    for case in plots.measured(session):
        for value in case.values:
            spot = _spot(case, value)
            if spot is not None:
                pages.add(spot.chart.page)
    return pages


def _spot(case, value) -> Spot | None:
    known = catalogue.variable(case.check, value.variable)
    if known is not None and known.plot is not None:
        return _declared(case, value.unit, known, known.plot)
    return _over_processes(case, value)


def _declared(case, unit: str, known: catalogue.Variable, plot: catalogue.Plot) -> Spot | None:
    """Where a check's file puts a variable."""
    check = summary.base_name(case.check)
    facts = catalogue.check(check)
    assert facts is not None
    order: tuple[str, ...] | None = tuple(facts.labels(plot))
    x: int | str
    if plot.by:
        x = summary.parameters(case.check).get(plot.by, "")
    elif plot.at:
        x = plot.at
    elif known.numbers:
        # The last number of a name; `4x2` are processes and threads.
        x = int(known.numbers[-1].partition("x")[0])
    else:
        order, x = None, case.place
    # A title may begin with what CLASS stands for.
    title = plot.title[0].upper() + plot.title[1:]
    name = re.sub(r"\W+", "-", f"{check} {title}".lower())
    chart = Chart(plot.page, name, title, plot.x, unit, plot.log, order)
    if not x:
        return None
    return Spot(chart, x, plot.by)


def _over_processes(case, value) -> Spot | None:
    """Where a variable is drawn whose name ends with its processes."""
    check = summary.base_name(case.check)
    match = published.SCALED.fullmatch(value.variable)
    # Sites name NAMD's inputs. Other checks' sizes are one capital letter.
    if match is None and check == "namd":
        match = published.OF_INPUT.fullmatch(value.variable)
    if match is None:
        return None
    quantity, size, processes, threads = match.groups(default="")
    name = summary.parameters(case.check).get("benchmark", check)
    title = f"{name.upper()} {size}"
    if re.fullmatch("[A-Z]", size):
        title = f"{name.upper()} class {size}"
    if threads:
        title += f", {threads} threads a process"
    title += QUANTITIES.get(quantity, "")
    key = f"{quantity}-{name}-{size}{threads}"
    # Ideal scaling is a straight line, but for an efficiency, which is a percentage.
    log = quantity != "efficiency"
    chart = Chart("kernels", key, title, "processes", value.unit, log)
    return Spot(chart, int(processes), "benchmark")


def _stack(case, without: str) -> str:
    """Name of a line: the environment, with the check's parameters but for one."""
    words = [case.environ]
    for name, value in summary.parameters(case.check).items():
        if name != without:
            words.append(value)
    return " ".join(words)


def _plot(session, chart: Chart, what: Drawn) -> dict:
    lines = []
    places: dict[str, None] = {}
    for (place, stack), points in what.lines.items():
        places[place] = None
        categories = chart.order
        if categories is None:
            categories = tuple(points)  # a line of a partition has its own place alone
        lines.append(plots.line(session, place, stack, chart.unit, points, categories))
    order, kind = chart.order, "count"
    if order is None:
        order = tuple(places)
    if order:
        kind = "category"
    return plots.plot(
        chart.id,
        chart.title,
        (chart.x, kind),
        (summary.unit(chart.unit), chart.log),
        lines,
        plots.marks_of(what.marks),
        order=order,
    )
