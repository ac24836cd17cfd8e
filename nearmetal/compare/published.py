"""Published figures: context beside measured values. No verdict depends on them.

Data in reframe_checks/references/published/, one file a document, by published-schema.yaml.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from nearmetal.checkout import REFERENCES
from nearmetal.errors import NearmetalError
from nearmetal.model import metrics, naming
from nearmetal.results import Case, Session, Value
from nearmetal.util import documents

SCHEMA = Path(__file__).with_name("published-schema.yaml")
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
#: Variable of a published difference between two compilers.
COMPILERS = "compiler_difference"


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
        if self.below is not None:
            return f"< {self.below:g}"
        if self.above is not None:
            return f"> {self.above:g}"
        text = f"{self.value:g}"
        if self.error:
            text += f" ± {self.error:g}"
        return text

    @property
    def unit_text(self) -> str:
        """The unit as people read it; '' for a plain ratio."""
        if self.unit == 1:
            return ""
        return str(self.unit)

    @property
    def workload(self) -> dict:
        """Its parameters that say what ran."""
        return {key: value for key, value in self.parameters.items() if key in WORKLOAD}

    @property
    def error(self) -> float:
        """How far off the value may be that somebody read off a plot."""
        return (self.read_off_plot or {}).get("error", 0)

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """Lower and upper bound; None if the document sets none."""
        if self.range:
            return self.range
        if self.value is not None:
            return self.value - self.error, self.value + self.error
        return self.above, self.below

    @property
    def experiment(self) -> tuple:
        """What figures of two environments have in common that may be compared."""
        where = self.document, self.system, self.partition, self.population
        return *where, self.unit, self.parameters


def load(directory: Path = REFERENCES / "published") -> list[Figure]:
    """Every figure of every document, in the files' order. Raises PublishedError."""
    figures = []
    for path in sorted(directory.glob("*.yaml")):
        data = documents.read(path, SCHEMA, PublishedError)
        for entry in data["figures"]:
            if "range" in entry:
                entry["range"] = tuple(entry["range"])
            figures.append(Figure(document=data["document"]["title"], **entry))
    if not figures:
        raise PublishedError(f"{directory}: holds no figure")
    return figures


def placement(case: Case) -> str:
    """Placement of a network check's ranks; without a parameter, between nodes."""
    return naming.parameters(case.check).get("placement", "internode")


@dataclass(frozen=True)
class Workload:
    """A measured variable as figures name it."""

    check: str
    variable: str
    named: dict  #: its parameters
    known: dict  #: these, and the case's numbers

    def is_of(self, figure: Figure) -> bool:
        """Whether a figure has this variable and workload, and is no ratio."""
        if (figure.check, figure.variable) != (self.check, self.variable):
            return False
        if figure.relative_to is not None:
            return False
        stated = set(figure.workload)
        # Some documents say how many cores were used, and not how processes and threads shared
        # them.
        if "cores" in stated:
            stated |= {"processes", "threads"}
        if set(DECISIVE) & set(self.named) - stated:
            return False
        return is_alike(figure.workload, self.known)


def workload(
    check: str, settings: Mapping, variable: str, numbers: Mapping | None = None
) -> Workload:
    """The workload of a measured variable.

    :arg settings: the parameters in the check's name.
    :arg numbers: of the case, such as its processes (Case.workload).
    """
    named = dict(settings)
    # Checks without the parameter measure between nodes.
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
    elif check == "namd" and (match := OF_INPUT.fullmatch(variable)):
        variable, named["input"], named["processes"], _ = match.groups()
    known = {**(numbers or {}), **named}
    if scaled:
        processes, per_node = int(named["processes"]), known.get("processes_per_node")
        known["cores"] = processes * int(named.get("threads", 1))
        if per_node:  # the job fills each node before the next; its launches differ in processes
            known["nodes"] = -(-processes // int(per_node))
    return Workload(check, variable, named, known)


def of_value(case: Case, value: Value) -> Workload:
    """The workload of a case's variable."""
    settings = naming.parameters(case.check)
    return workload(naming.base_name(case.check), settings, value.variable, case.workload)


def is_alike(published: Mapping, measured: Mapping) -> bool:
    """Whether all published parameters are as measured, in any case of letters."""
    for key, value in published.items():
        if str(value).lower() != str(measured.get(key)).lower():
            return False
    return True


def beside(session: Session, figures: list[Figure]) -> Iterator[tuple[Case, Value, Figure]]:
    """Each measured variable with each figure that may be shown beside it."""
    figures_of: dict[tuple[str, str], list[Figure]] = {}
    for figure in per_step(figures):
        figures_of.setdefault((figure.check, figure.variable), []).append(figure)
    for case in session.measured:
        for value in case.values:
            here = of_value(case, value)
            for figure in figures_of.get((here.check, here.variable), ()):
                same_unit = metrics.unit(figure.unit) == metrics.unit(value.unit)
                if same_unit and here.is_of(figure):
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
    size = figure.value
    if "l3_megabytes" in figure.parameters:
        size *= figure.parameters["l3_megabytes"] * 2**20
    return round(size)


def bends(session: Session, figures: list[Figure]) -> Iterator[tuple[Case, Figure]]:
    """Each measured case with each figure of a message size where its curve bends."""
    for case in session.measured:
        settings = {"placement": placement(case), **naming.parameters(case.check)}
        for figure in figures:
            if figure.variable not in BENDS or figure.check != naming.base_name(case.check):
                continue
            wanted = dict(figure.parameters)
            # The bend follows from the cache. The figure gives the size of the paper's.
            wanted.pop("l3_megabytes", None)
            if is_alike(wanted, settings):
                yield case, figure


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
    comparables = list(filter(workload(check, settings, variable, numbers).is_of, figures))
    environs = STANDS_FOR.get(a, a), STANDS_FOR.get(b, b)
    both = []
    for of_a, of_b in itertools.permutations(comparables, 2):
        same_experiment = of_a.experiment == of_b.experiment
        if same_experiment and (of_a.environ, of_b.environ) == environs:
            both.append((of_a, of_b))
    return both


def ratio(a: Figure, b: Figure) -> str:
    """B over A: `2.33-2.55`, `< 0.54`, `> 2`; empty if the figures do not bound it."""
    low, high = quotient(b.bounds, a.bounds)
    if low is None and high is None:
        return ""
    if high is None:
        return f"> {low:.3g}"
    if low is None:
        return f"< {high:.3g}"
    ends = dict.fromkeys([f"{low:.3g}", f"{high:.3g}"])
    return "-".join(ends)


#: Lower and upper bound; None: none.
Bounds = tuple[float | None, float | None]


def quotient(over: Bounds, under: Bounds) -> Bounds:
    """Bounds of a ratio of two numbers."""
    (least, most), (least_under, most_under) = over, under
    low = high = None
    if least is not None and most_under:
        low = least / most_under
    if most is not None and least_under:
        high = most / least_under
    return low, high
