"""Published figures: context beside measured values. No verdict depends on them.

Data in reframe_checks/references/published/, one file a document, by published-schema.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearmetal.checkout import PACKAGE, REFERENCES
from nearmetal.errors import NearmetalError
from nearmetal.model import metrics
from nearmetal.results import Case, Session, Value, parameters
from nearmetal.util import documents

#: Variables such as `mops_B_16` and `efficiency_B_16x4`: quantity, class, processes, threads a
#: process.
SCALED = re.compile(r"([a-z]+)_([A-Z])_(\d+)(?:x(\d+))?")
#: NAMD's, such as `step_stmv_8`: quantity, input, processes, threads a process.
OF_INPUT = re.compile(r"(step|efficiency|speedup)_(\w+)_(\d+)(?:x(\d+))?")
#: STREAM's functions over the number of threads, such as `triad_4`.
THREADED = re.compile(r"(?:copy|scale|add|triad)_(\d+)")
#: Parameters of the workload: a figure's and the case's must agree. Others name a place (ept,
#: guests).
WORKLOAD = (
    "benchmark",
    "class",
    "processes",
    "threads",
    "cores",
    "nodes",
    "placement",
    "page_size",
    "megabytes",
    "input",
    "binding",
)
#: Workload parameters that a figure must give if the measured case has them. A figure of all cores
#: of some nodes gives `cores` in place of processes and threads, where the document does not tell
#: how these share them.
DECISIVE = ("benchmark", "class", "processes", "threads", "placement", "page_size")
#: Environments whose figures stand for others': the papers measured FastMPJ alone.
STANDS_FOR = {"mpj": "fastmpj", "mpj-native": "fastmpj", "mpj-native-mpich": "fastmpj"}
#: Variables that are a message size where a curve bends -> the curve.
BENDS = {"latency_blip_at": "latency", "bandwidth_drop_at": "bandwidth"}


class PublishedError(NearmetalError):
    """A file of published figures is not usable. The message names file, figure and fix."""


@dataclass(frozen=True)
class Figure:
    """One published number, of a partition or a population of systems. None: not published."""

    check: str
    variable: str
    software: str
    unit: str | int
    where: str  #: section, table or figure in the document
    document: str  #: the document's title
    system: str | None = None
    partition: str | None = None
    population: str | None = None
    parameters: dict = field(default_factory=dict)
    environ: str | None = None
    value: float | None = None
    range: tuple[float, float] | None = None
    below: float | None = None
    above: float | None = None
    relative_to: str | None = None
    quote: str | None = None
    read_off_plot: dict | None = None

    @property
    def text(self) -> str:
        """The figure as the document gives it: `55-60`, `< 2`, `> 10`, `0.95`."""
        if self.range:
            return f"{self.range[0]:g}-{self.range[1]:g}"
        if self.value is not None:
            return f"{self.value:g}" + (
                f" ± {self.read_off_plot['error']:g}" if self.read_off_plot else ""
            )
        return f"< {self.below:g}" if self.below is not None else f"> {self.above:g}"

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Lower and upper bound; None if the document sets none."""
        if self.range:
            return self.range
        if self.value is not None:
            error = self.read_off_plot["error"] if self.read_off_plot else 0
            return self.value - error, self.value + error
        return self.above, self.below


SCHEMA = PACKAGE / "compare" / "published-schema.yaml"


def load(directory: Path = REFERENCES / "published") -> list[Figure]:
    """Every figure of every document, in the files' order. Raises PublishedError."""
    figures = []
    for path in sorted(directory.glob("*.yaml")):
        data = documents.read(path, SCHEMA, PublishedError)
        for entry in data["figures"]:
            entry = {**entry, **({"range": tuple(entry["range"])} if "range" in entry else {})}
            figures.append(Figure(document=data["document"]["title"], **entry))
    if not figures:
        raise PublishedError(f"{directory}: holds no figure")
    return figures


def placement(case: Case) -> str:
    """Placement of a network check's ranks; without a parameter, between nodes."""
    return parameters(case.check).get("placement", "internode")


def workload(
    check: str, settings: Mapping, variable: str, numbers: Mapping | None = None
) -> tuple[str, dict, dict]:
    """A measured variable's name in the figures, its parameters, and these with the case's numbers.

    :arg settings: the parameters in the check's name.
    :arg numbers: of the case, such as its processes (Case.workload).
    """
    named = dict(settings)
    if check in ("pingpong", "tcp", "rdma"):
        named.setdefault("placement", "internode")
    scaled, threaded = SCALED.fullmatch(variable), THREADED.fullmatch(variable)
    if "threads_are" in named:
        named["binding"] = named.pop("threads_are")
    if scaled:
        variable, named["class"], named["processes"], threads = scaled.groups()
        if threads:
            named["threads"] = threads
    elif threaded:
        named["threads"] = threaded[1]
    elif check == "namd" and (found := OF_INPUT.fullmatch(variable)):
        variable, named["input"], named["processes"], _ = found.groups()
    known = {**(numbers or {}), **named}
    if scaled:
        processes, per_node = int(named["processes"]), known.get("processes_per_node")
        known["cores"] = processes * int(named.get("threads", 1))
        if per_node:  # the job fills each node before the next; its launches differ in processes
            known["nodes"] = -(-processes // int(per_node))
    return variable, named, known


def comparable(
    figure: Figure, check: str, settings: Mapping, variable: str, numbers: dict | None = None
) -> bool:
    """Whether a figure has the same workload as a measured variable, and is no ratio."""
    name, named, known = workload(check, settings, variable, numbers)
    if (figure.check, figure.variable) != (check, name):
        return False
    return _is_of(figure, named, known)


def _is_of(figure: Figure, named: Mapping, known: Mapping) -> bool:
    """Whether a figure of a variable has its workload, as `workload` gives it, and is no ratio."""
    if figure.relative_to is not None:
        return False
    given = {key: value for key, value in figure.parameters.items() if key in WORKLOAD}
    told = {*given, "processes", "threads"} if "cores" in given else given
    if any(key in named and key not in told for key in DECISIVE):
        return False
    return all(_same(value, known.get(key)) for key, value in given.items())


def _same(published, measured) -> bool:
    return str(published).lower() == str(measured).lower()


def beside(session: Session | None, figures: list[Figure]) -> Iterator[tuple[Case, Value, Figure]]:
    """Each measured variable with each figure that may be shown beside it."""
    figures_of: dict[tuple[str, str], list[Figure]] = {}
    for figure in per_step(figures):
        figures_of.setdefault((figure.check, figure.variable), []).append(figure)
    for case in _measured(session):
        check, settings = case.check.split(" ", 1)[0], parameters(case.check)
        for value in case.values:
            name, named, known = workload(check, settings, value.variable, case.workload)
            for figure in figures_of.get((check, name), ()):
                same = metrics.unit(figure.unit) == metrics.unit(value.unit)
                if same and _is_of(figure, named, known):
                    yield case, value, figure


def per_step(figures: list[Figure]) -> Iterator[Figure]:
    """The figures, and those of the time of a number of steps as the time of a step too."""
    for figure in figures:
        yield figure
        steps = figure.parameters.get("steps")
        if figure.variable == "elapsed" and figure.value is not None and steps:
            yield replace(
                figure,
                variable="step",
                unit="s/step",
                value=figure.value / steps,
                where=f"{figure.where}, divided by {steps} steps",
            )


def bend(figure: Figure) -> int:
    """Bytes of the message where a curve bends, of a figure in BENDS.

    A share of the L3 cache is converted by the cache's size, which the figure gives.
    """
    assert figure.value is not None
    cache = figure.parameters.get("l3_megabytes")
    return round(figure.value if cache is None else figure.value * cache * 2**20)


def bends(session: Session | None, figures: list[Figure]) -> Iterator[tuple[Case, Figure]]:
    """Each measured case with each figure of a message size where its curve bends."""
    chosen = [figure for figure in figures if figure.variable in BENDS]
    for case in _measured(session):
        settings = {"placement": placement(case), **parameters(case.check)}
        for figure in chosen:
            wanted = {key: one for key, one in figure.parameters.items() if key != "l3_megabytes"}
            here = figure.check == case.check.split(" ", 1)[0]
            if here and all(_same(one, settings.get(key)) for key, one in wanted.items()):
                yield case, figure


def _measured(session: Session | None) -> list[Case]:
    return [case for case in session.cases if case.measured] if session else []


def pairs(
    figures: list[Figure],
    check: str,
    settings: dict,
    variable: str,
    a: str,
    b: str,
    numbers: dict | None = None,
) -> list[tuple[Figure, Figure]]:
    """Figures of environments A and B for one variable: of the same document, system and unit."""

    def of(environ):
        return [
            one
            for one in figures
            if one.environ == STANDS_FOR.get(environ, environ)
            and comparable(one, check, settings, variable, numbers)
        ]

    def where(one):
        return (
            (one.document, one.system, one.partition, one.population, one.unit),
            one.parameters,
        )

    return [
        (one, other)
        for one in of(a)
        for other in of(b)
        if where(one) == where(other) and one is not other
    ]


def ratio(a: Figure, b: Figure) -> str:
    """B over A: `2.33-2.55`, `< 0.54`, `> 2`; empty if the figures do not bound it."""
    (least_a, most_a), (least_b, most_b) = a.bounds, b.bounds
    low = least_b / most_a if least_b is not None and most_a else None
    high = most_b / least_a if most_b is not None and least_a else None
    if low is None and high is None:
        return ""
    if low is None or high is None:
        return f"> {low:.3g}" if high is None else f"< {high:.3g}"
    return f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{low:.3g}-{high:.3g}"
