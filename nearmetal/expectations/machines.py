"""Machines like this one: what was published of them, and what a new one may be.

The figures are of references/machines/*.yaml. A source is one repository's measurements of one
machine at one time. On logarithms, a new machine's value is taken as a draw from the sources'
distribution. Its 95 % prediction interval is Student's, over the medians of the sources, with the
spread of all groups of a level as a prior: the posterior predictive of a normal with a scaled
inverse chi-squared variance (Gelman et al., Bayesian Data Analysis, 3rd edition, section 3.2).
`python -m bench.like` measures its coverage.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from scipy import special

from nearmetal.checkout import PACKAGE, REFERENCES
from nearmetal.errors import NearmetalError
from nearmetal.expectations.judge import Measured, Place
from nearmetal.model import facts
from nearmetal.util import documents
from nearmetal.util.text import rounded

FILES = REFERENCES / "machines"
SCHEMA = PACKAGE / "expectations" / "machines-schema.yaml"
#: Probability of the interval, and degrees of freedom of the prior spread.
COVERAGE, PRIOR_DEGREES = 0.95, 3
#: Factor from the centre to an end of an interval that judges, at most: beyond, sources disagree.
WIDEST = 5
#: Hypervisors of clouds: all published figures of TCP are of their machines.
CLOUDS = ("nitro", "xen-hvm", "hyper-v", "google")
#: Levels, the nearest first.
MACHINE, FAMILY, LINK = "the same machine", "the same family", "the same link"
#: Sources of the machine, or else machines, that judge, at least. One machine of a family said
#: nothing of the next one: bench/like.py had both of a pair beyond each other's interval.
LEAST = {MACHINE: 1, FAMILY: 2, LINK: 2}
#: Intel's second digit, the number after `v` and AMD's last digit -> family.
INTEL = {"1": "Skylake", "2": "Cascade Lake", "3": "Ice Lake", "4": "Sapphire Rapids"}
INTEL["5"] = "Emerald Rapids"
INTEL_V = {"2": "Ivy Bridge", "3": "Haswell", "4": "Broadwell"}
AMD, AMD_9000 = {"1": "Naples", "2": "Rome", "3": "Milan"}, {"5": "Turin"}
CODENAMES = [*INTEL.values(), *INTEL_V.values(), *AMD.values(), "Genoa", "Turin", "Grace"]
#: Numbers of processors in a model's name.
XEON = re.compile(r"(?:Xeon|Platinum|Gold|Silver|Bronze) (?:CPU )?[3-9]([1-5])\d\d\w?\b")
XEON_V = re.compile(r"(?:E[57]-|Xeon )\d{4}\w? ?v(\d)", re.I)
EPYC = re.compile(r"EPYC (\d)\w\w(\w)(H?)")
#: Number of a processor that AMD makes for Azure.
OF_AZURE = re.compile(r"\b[79]V\d\d[A-Z]?\b")
#: What Amazon writes into the firmware of each instance: its type.
EC2 = re.compile(r"Amazon EC2 (\w+\.[\w-]+)")
#: Number of threads in the name of a variable of STREAM.
THREADS = re.compile(r"_(\d+)$")


class MachinesError(NearmetalError):
    """A file of published figures is not usable. The message names file, line and fix."""


@dataclass(frozen=True)
class Fingerprint:
    """What a machine is, as far as figures of others depend on it; '' and None: not known."""

    machine: str = ""  #: instance type, or system
    processor: str = ""  #: family
    link: str = ""
    link_gbps: float | None = None  #: of one NIC
    model: str = ""  #: number of a processor that is Azure's own
    emulated: bool = False  #: whether the hypervisor copies each frame

    def __str__(self) -> str:
        parts = [self.machine, self.processor, self.link]
        if self.link_gbps:
            parts.append(f"{rounded(self.link_gbps)} Gb/s")
        return ", ".join(filter(None, parts))


@dataclass(frozen=True)
class Subject:
    """What is compared: a variable as sources name it. Collectives are of a number of nodes."""

    check: str
    variable: str
    nodes: int | None = None

    @property
    def kind(self) -> str:
        """The kind of variable, whose spread between sources is alike."""
        if self.check in ("collectives", "stream"):
            return self.check
        if "bandwidth" in self.variable:
            return "bandwidth"
        return "latency"

    @property
    def unit(self) -> str:
        return {"stream": "MB/s", "bandwidth": "Gb/s"}.get(self.kind, "us")

    def __str__(self) -> str:
        name = f"{self.check} {self.variable}"
        if self.nodes:
            name += f" on {self.nodes} nodes"
        return name


@dataclass(frozen=True, eq=False)
class Source:
    """What one repository published of one machine at one time."""

    of: Fingerprint
    repository: str
    path: str
    when: str
    licence: str
    mpi: str
    condition: str
    values: Mapping[Subject, tuple[float, ...]]

    def __str__(self) -> str:
        """`aws/aws-parallelcluster (c5n.18xlarge, Open MPI, 2022-02-16)`."""
        about = [self.of.machine, self.mpi, self.condition, self.when]
        return f"{self.repository} ({', '.join(filter(None, about))})"


@dataclass(frozen=True)
class Alike:
    """What sources say of a variable on machines like one."""

    subject: Subject
    level: str
    label: str  #: what they have in common
    figures: Mapping[Source, tuple[float, ...]]
    #: Ends of the interval; these: nothing is judged on that side.
    least: float = 0.0
    most: float = math.inf
    why: str = ""  #: why nothing is judged

    def fast_side(self) -> Alike:
        """Judged where it is faster than others, and not where it is slower."""
        if self.subject.unit == "us":
            return replace(self, most=math.inf)
        return replace(self, least=0.0)

    def deviates(self, value: float) -> bool:
        """Whether a value is beyond the interval."""
        return value < self.least or value > self.most

    def place(self, value: float) -> str:
        """Where a value stands among the sources."""
        less = sum(statistics.median(runs) < value for runs in self.figures.values())
        return f"{less} of {len(self.figures)} are less"

    @property
    def range(self) -> str:
        """From the least to the most of all runs."""
        return span(list(itertools.chain.from_iterable(self.figures.values())))

    @property
    def interval(self) -> str:
        """What 95 % of further machines have; without it, why nothing is judged."""
        if self.why:
            return self.why
        if not self.least:
            return f"up to {rounded(self.most)}"
        if math.isinf(self.most):
            return f"at least {rounded(self.least)}"
        return span([self.least, self.most])

    def described(self) -> str:
        """`machines like this one (c5n.18xlarge, efa; sources: 6): 17.3 to 22.3 us, ...`."""
        about = f"machines like this one ({self.label}; sources: {len(self.figures)})"
        text = f"{about}: {self.range} {self.subject.unit}, "
        return text + (self.why or f"95 % have {self.interval}")

    def beside(self, value: float) -> str:
        """`17.9 us; machines like this one ...`."""
        return f"{rounded(value)} {self.subject.unit}; {self.described()}"


def span(values: list[float]) -> str:
    """`17.3 to 22.3`."""
    least, most = rounded(min(values)), rounded(max(values))
    if least == most:
        return most
    return f"{least} to {most}"


def family(model: str) -> str:
    """The family of a processor, by its model's name; '' for an unknown one."""
    name = re.sub(r"\((?:R|TM)\)", "", model, flags=re.I).partition(";")[0]
    if match := EPYC.search(name):
        series, generation, stacked = match.groups()
        if stacked:  # with HBM
            return "Genoa HBM"
        if series == "9":
            return AMD_9000.get(generation, "Genoa")
        return AMD.get(generation, "")
    if match := XEON_V.search(name):
        return INTEL_V.get(match[1], "")
    if match := XEON.search(name):
        return INTEL[match[1]]
    return next((codename for codename in CODENAMES if codename in name), "")


def azures_own(model: str) -> str:
    """The number of a processor that only Azure has, such as 7V73X; '' for another one."""
    return next(iter(OF_AZURE.findall(model)), "")


def load(directory: Path = FILES) -> list[Source]:
    """The sources of all files. Raises MachinesError."""
    listed = []
    for path in sorted(directory.glob("*.yaml")):
        for name, machine in documents.read(path, SCHEMA, MachinesError)["machines"].items():
            cpu = machine.get("cpu", "")
            for entry in machine["sources"]:
                listed.append(source_of(name, cpu, entry))
    return listed


def source_of(machine: str, cpu: str, entry: Mapping) -> Source:
    """A source of a machine, from its entry in a file."""
    link, gbps = entry.get("link", ""), entry.get("link_gbps")
    values = {}
    for check, variables in entry["values"].items():
        for variable, runs in variables.items():
            values[Subject(check, variable, entry.get("nodes"))] = tuple(runs)
    return Source(
        Fingerprint(machine, family(cpu), link, gbps, azures_own(cpu)),
        entry["repository"],
        entry["path"],
        entry["when"],
        entry["licence"],
        entry.get("mpi", ""),
        entry.get("condition", ""),
        values,
    )


#: A level, what is compared, and what machines of a group have in common.
Key = tuple[str, Subject, tuple]


def keys(of: Fingerprint, subject: Subject) -> list[Key]:
    """The groups that a machine belongs to, the nearest first."""
    traits: list[tuple[str, tuple]] = []
    if subject.kind == "stream":
        # Memory belongs to the processor.
        traits = [(MACHINE, (of.machine,)), (FAMILY, (of.processor,))]
    elif of.link:
        link: tuple = of.link, of.link_gbps
        traits = [(MACHINE, (of.machine, of.link)), (FAMILY, (of.processor, *link))]
        if subject.kind == "latency":
            link = (of.link,)  # it hardly depends on the rate
        traits.append((LINK, link))
    return [(level, subject, common) for level, common in traits if all(common)]


class Known:
    """Published figures, by what machines have in common."""

    def __init__(self, sources: Iterable[Source]):
        self._groups: dict[Key, dict[Source, tuple[float, ...]]] = {}
        #: Machines by number of Azure's own processors.
        self.azures: dict[str, str] = {}
        for source in sources:
            of = source.of
            if of.model:
                self.azures[of.model] = of.machine
            for subject, runs in source.values.items():
                for key in keys(of, subject):
                    self._groups.setdefault(key, {})[source] = runs
        self._spreads = self._pooled()

    def _pooled(self) -> dict[tuple[str, str], float]:
        """The standard deviation of logarithms between the sources of a group, over all groups.

        By level and kind of variable.
        """
        squares: dict[tuple[str, str], list[float]] = {}
        for (level, subject, _), figures in self._groups.items():
            logs = _logarithms(level, figures)
            number = len(logs)
            if number > 1:
                mean = statistics.mean(logs)
                pooled = squares.setdefault((level, subject.kind), [])
                pooled += [(log - mean) ** 2 * number / (number - 1) for log in logs]
        return {key: math.sqrt(statistics.mean(pooled)) for key, pooled in squares.items()}

    def alike(self, of: Fingerprint, subject: Subject) -> Alike | None:
        """Figures of machines like one: at the nearest level that judges, or else at the nearest.

        None where there is no figure.
        """
        nearest = None
        for key in keys(of, subject):
            alike = self.group(key)
            if alike is None or alike.why:
                nearest = nearest or alike
                continue
            # An emulated NIC may be slower than any that was published.
            if of.emulated and alike.level == LINK:
                alike = alike.fast_side()
            return alike
        return nearest

    def subjects(self, of: Fingerprint) -> list[Subject]:
        """What is known of machines like one; of collectives what is known of the same machine."""
        subjects: dict[Subject, None] = {}
        for key in self._groups:
            level, subject, _ = key
            listed = subject.check != "collectives" or level == MACHINE
            if listed and key in keys(of, subject):
                subjects[subject] = None
        return list(subjects)

    def group(self, key: Key) -> Alike | None:
        """The figures of one group; None without one."""
        level, subject, common = key
        figures = self._groups.get(key)
        if figures is None:
            return None
        label = ", ".join(map(str, filter(None, common)))
        spread, logs = self._spreads.get((level, subject.kind)), _logarithms(level, figures)
        if len(logs) < LEAST[level] or spread is None:
            return Alike(subject, level, label, figures, why="too few to judge")
        low, high = interval(logs, spread)
        if high - low > 2 * math.log(WIDEST):
            return Alike(subject, level, label, figures, why="too far apart to judge")
        alike = Alike(subject, level, label, figures, math.exp(low), math.exp(high))
        # A part of a node, or fewer sockets, has less memory bandwidth, and never more.
        if (level, subject.kind) == (FAMILY, "stream"):
            alike = alike.fast_side()
        return alike


def _logarithms(level: str, figures: Mapping[Source, tuple[float, ...]]) -> list[float]:
    """Of each source of a machine, or of each machine: its sources are no further evidence."""
    logs: dict[object, list[float]] = {}
    for source, runs in figures.items():
        unit: object = source
        if level != MACHINE:
            unit = source.of.machine
        logs.setdefault(unit, []).append(math.log(statistics.median(runs)))
    return [statistics.mean(several) for several in logs.values()]


def interval(medians: list[float], spread: float) -> tuple[float, float]:
    """The prediction interval of a further source.

    :arg spread: standard deviation between sources that the prior expects.
    """
    number = len(medians)
    mean = statistics.mean(medians)
    squares = sum((median - mean) ** 2 for median in medians)
    degrees = PRIOR_DEGREES + number - 1
    scale = math.sqrt((PRIOR_DEGREES * spread**2 + squares) / degrees * (1 + 1 / number))
    reach = float(special.stdtrit(degrees, (1 + COVERAGE) / 2)) * scale
    return mean - reach, mean + reach


@functools.cache
def known() -> Known:
    """The shipped figures. Raises MachinesError."""
    return Known(load())


def of_case(case: Measured, variable: str) -> Alike | None:
    """Figures of machines like a case's, for one of its variables."""
    subject = subject_of(case, variable)
    if subject is None:
        return None
    return known().alike(fingerprint(case.place, case.facts), subject)


def fingerprint(place: Place, recorded: Mapping) -> Fingerprint:
    """What a partition is, from the site's file and the facts of a case."""
    extras = place.extras
    machine = whole(str(extras.get("instance_type", "")))
    if instance := EC2.fullmatch(str(recorded.get("dmi", ""))):
        machine = instance[1]
    link = str(extras.get("link_type", ""))
    if link == "ethernet" and "rdma" in place.features:
        link = "roce"
    if link == "software" or (link == "ethernet" and extras.get("hypervisor") not in CLOUDS):
        link = ""
    gbps = extras.get("link_speed_gbps")
    if not isinstance(gbps, (int, float)):
        gbps = None  # `unknown`
    model = str(recorded.get("cpu_model") or extras.get("cpu", ""))
    # Azure hides the instance type. Machines with InfiniBand are whole nodes.
    if not machine and link == "infiniband":
        machine = known().azures.get(azures_own(model), "")
    emulated = extras.get("link_class") == "emulated"
    return Fingerprint(machine, family(model), link, gbps, azures_own(model), emulated)


def whole(machine: str) -> str:
    """The instance type with all of its cores: Standard_HB120-16rs_v3 is a Standard_HB120rs_v3."""
    return re.sub(r"^(Standard_[A-Z]+\d+)-\d+", r"\1", machine)


def subject_of(case: Measured, variable: str) -> Subject | None:
    """How sources name a variable of a case; None for one that they have not."""
    check, parameters = case.check, case.parameters
    if "mpj" in case.place.environ_features:
        return None  # all sources are of programs in C
    if check == "collectives":
        return Subject(check, variable, len(facts.nodes_in(dict(case.facts))))
    if check == "stream":
        return _of_stream(case, variable)
    if check == "rdma":
        return Subject(f"rdma {parameters.get('operation', '')}", variable)
    if check == "pingpong" and parameters.get("placement", "internode") != "internode":
        return None
    return Subject(check, variable)


def _of_stream(case: Measured, variable: str) -> Subject | None:
    """Sources print the rate of all cores, with bound threads."""
    counts = [int(match[1]) for match in map(THREADS.search, case.values) if match]
    kernel = THREADS.sub("", variable)
    if (
        case.parameters.get("binding") != "bound"
        or variable != f"{kernel}_{max(counts, default=0)}"
    ):
        return None
    return Subject(case.check, kernel)
