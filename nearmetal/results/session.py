"""A session of ReFrame as plain data: its cases and their values."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import cached_property

from nearmetal.errors import Incomplete, NearmetalError
from nearmetal.model import metrics
from nearmetal.model.disturbed import Cause
from nearmetal.model.facts import nodes_in

#: Facts of every case, beside the further ones of its nodes (nearmetal/checks/node_facts.py).
FACTS = (
    "kernel",
    "hypervisor",
    "cpu_model",
    "governor",
    "smt",
    "thp",
    "nic_driver",
    "mtu",
    "mpi_library",
    "transport",
    "compiler",
    "image",
    "revision",
)
#: Key of a session's extras that names the session which it confirms.
CONFIRMS = "nearmetal_confirms"
#: Behind that id: it measured on other nodes, and confirms nothing.
OTHER_NODES = "/elsewhere"
#: Seconds by which clocks of two machines may differ.
CLOCKS_DIFFER = 60
#: ReFrame's words for an expected failure, and for one that passed.
XFAIL, XPASS = "xfail", "xpass"


class ResultsError(NearmetalError):
    """The database or one of its sessions is not usable."""


class NewestError(Incomplete, ResultsError):
    """The newest session is not stored, or is not readable. No older session replaces it."""


@dataclass(frozen=True)
class Value:
    """One performance variable of one case."""

    #: Of its case, as are `environ`, `partition` and `node`
    check: str
    environ: str
    partition: str
    variable: str
    #: Median of the samples.
    value: float
    unit: str
    #: One for each repeat.
    samples: tuple[float, ...] = ()
    #: The parts of each sample; () without parts.
    within: tuple[tuple[float, ...], ...] = ()
    node: str = ""
    #: metrics.LESS or MORE, where the unit does not say it (results/directions.py)
    better: str = metrics.UNKNOWN
    #: XFAIL if its reference is missed as expected, XPASS if it is met unexpectedly
    expected: str = ""

    @property
    def place(self) -> str:
        """The partition, or `PARTITION@NODE`."""
        return place(self.partition, self.node)

    @property
    def lower_is_better(self) -> bool | None:
        """True for times and losses, False for rates, None for what has no direction."""
        return metrics.unit(self.unit).lower_is_better_or(self.better)


@dataclass(frozen=True)
class Disturbed:
    """A repeat that did not have its nodes to itself (nearmetal/checks/disturbance.py)."""

    #: Of the repeat in its job, from 1.
    number: int
    #: Whether another repeat ran in its place, so that its samples are left out.
    again: bool
    causes: tuple[Cause, ...]


@dataclass(frozen=True)
class Case:
    """One test case: a check on a partition with an environment, and with `--distribute` on a node.

    Check, partition, environment and node identify a case in its session. All of ReFrame's runs of
    them are one case: the clones of `--repeat`, and the further runs of `--reruns` and
    `--duration`. Each run adds its samples. If one run failed, the case failed. Of several retries
    (`--max-retries`), the last one counts.
    """

    #: Display name, e.g. `pingpong %placement=internode`; `-P` adds `%.VARIABLE=VALUE`
    check: str
    partition: str
    environ: str
    values: tuple[Value, ...]
    #: FACTS and the facts of its nodes. Read only: cases share them.
    facts: dict[str, str]
    #: {"half_round_trip_us": {bytes: samples}}
    curves: dict[str, dict[int, tuple[float, ...]]]
    #: Reason; None: it passed.
    failure: str | None
    #: ReFrame's phase of the failure; "performance": measured completely, but beyond its reference
    phase: str | None
    #: reason of its expected failure, by its sanity or by references; "": none
    xfail: str = ""
    #: Of its name: {"placement": "internode"}
    parameters: dict = field(default_factory=dict)
    #: The check's own reason for having no reference.
    no_baseline: str = ""
    #: End of its job, seconds since 1970; 0: unknown.
    ended: float = 0.0
    #: Whether it only prepares others (checks/spack_install.py)
    fixture: bool = False
    #: Variables that failed because the baseline lacks them.
    unreferenced: tuple[str, ...] = ()
    #: Expectations that it failed by, and by nothing else.
    unexpected: tuple[str, ...] = ()
    #: processes, nodes, ... (outcome.WORKLOAD)
    workload: dict = field(default_factory=dict)
    #: Given by `--distribute`; empty: Slurm chose it.
    node: str = ""
    #: Number of ReFrame's runs of it in this session.
    runs: int = 1
    #: native, passthrough, ...; of its partition. "": not stored.
    link_class: str = ""
    #: All of its job's disturbed repeats.
    disturbances: tuple[Disturbed, ...] = ()
    #: of each repeat of its job: {quantity of references/disturbance.yaml: value}; (): not stored
    evidence: tuple[dict[str, float], ...] = ()
    #: sentences on repeats of which nobody knows whether they were disturbed
    unknown_evidence: tuple[str, ...] = ()
    #: whether a check of others stored it: one launch, without facts of the nodes and evidence
    foreign: bool = False
    #: Between all nodes, of all nodes, and of nodes beside traffic: nearmetal/fleet/ reads them.
    links: dict = field(default_factory=dict)
    node_values: dict = field(default_factory=dict)
    congestion: dict = field(default_factory=dict)

    def value(self, variable: str) -> Value | None:
        """The value of a variable; None if the case has none."""
        return self._by_variable.get(variable)

    @cached_property
    def _by_variable(self) -> dict[str, Value]:
        return {value.variable: value for value in self.values}

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes that its facts name; () where they are unknown."""
        return nodes_in(self.facts)

    @property
    def of_fleet(self) -> bool:
        """Whether the case holds a sweep of all nodes, or nodes beside traffic."""
        return bool(self.links or self.node_values or self.congestion)

    @property
    def quantities(self) -> dict[str, tuple[float, ...]]:
        """Quantity of its evidence -> the values of the repeats that have one."""
        quantities: dict[str, tuple[float, ...]] = {}
        for repeat in self.evidence:
            for name, value in repeat.items():
                quantities[name] = (*quantities.get(name, ()), value)
        return quantities

    @property
    def median_evidence(self) -> dict[str, float]:
        """The median of each quantity of evidence, over the repeats that count."""
        counted = dict(enumerate(self.evidence, 1))
        for disturbed in self.disturbances:
            # Several runs of a case number their repeats alike, so those that count are unknown.
            if self.runs == 1 and disturbed.again:
                counted.pop(disturbed.number, None)
        quantities = replace(self, evidence=tuple(counted.values())).quantities
        return {name: statistics.median(values) for name, values in quantities.items()}

    @property
    def disturbed(self) -> tuple[Cause, ...]:
        """Causes of the disturbances of repeats whose samples count: the worst by each rule."""
        return worst(repeat for repeat in self.disturbances if not repeat.again)

    @property
    def counts(self) -> bool:
        """Whether its samples count: it was measured, and nothing else used the nodes."""
        return self.measured and not self.disturbed

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity of the case in a baseline, for any node."""
        return self.check, self.partition, self.environ

    @property
    def place(self) -> str:
        """The partition, or `PARTITION@NODE` with `--distribute`."""
        return place(self.partition, self.node)

    @property
    def where(self) -> tuple[str, str, str]:
        """Identity of the case in its session."""
        return self.check, self.place, self.environ

    @property
    def varied(self) -> bool:
        """Whether `-P` set variables of its check. A baseline holds no such case."""
        return any(name.startswith(".") for name in self.parameters)

    @property
    def duet(self) -> bool:
        """Whether it measured A and B interleaved (reframe_checks/duet)."""
        return "duet" in self.facts

    @property
    def measured(self) -> bool:
        """Whether its values are judged: it passed, or is only beyond its reference."""
        if self.failure is None:
            return bool(self.values) or not self.xfail
        return self.phase == "performance" and bool(self.values)


@dataclass(frozen=True)
class Session:
    """One run of ReFrame."""

    uuid: str
    #: As ReFrame writes it, 20261121T061529+0000.
    started: str
    system: str
    cases: tuple[Case, ...]
    #: Start, seconds since 1970.
    time: float = 0.0
    #: ReFrame's command line.
    command: str = ""
    #: Cases that their check skipped.
    skipped: tuple[tuple[str, str, str], ...] = ()
    #: Cases that ReFrame selected.
    promised: int = 0
    #: Working directory of ReFrame.
    directory: str = ""
    #: Id of the session whose cases it measured again (judge/confirm.py)
    confirms: str = ""
    #: the requested selection, as its checks recorded it (site/selection.py); {}: not recorded
    selection: dict = field(default_factory=dict)
    #: Host on which ReFrame ran.
    host: str = ""
    #: `skipped` case -> the reason that its check gave
    reasons: dict[tuple[str, str, str], str] = field(default_factory=dict)
    #: Place in the history, ascending; 0: not from a database.
    stored: int = 0

    def case(self, where: tuple[str, str, str]) -> Case | None:
        """The case with this identity (`Case.where`); None if the session has none."""
        return self.by_where.get(where)

    @cached_property
    def by_where(self) -> dict[tuple[str, str, str], Case]:
        """The cases by their identity in the session."""
        return {case.where: case for case in self.cases}

    @cached_property
    def by_key(self) -> dict[tuple[str, str, str], Case]:
        """The cases by their identity in a baseline; of those of several nodes, the first."""
        return {case.key: case for case in reversed(self.cases)}

    @property
    def order(self) -> tuple[int, float]:
        """Sort key: the order of storage, else the start."""
        return self.stored, self.time

    def precedes(self, other: Session) -> bool:
        """Whether it is an earlier session of the same system."""
        return self.system == other.system and self.order < other.order

    @property
    def lacks(self) -> int:
        """Number of the selected cases that it neither holds nor skipped."""
        return max(0, self.promised - len(self.cases) - len(self.skipped))

    @property
    def ahead(self) -> bool:
        """Whether its start is in the future: the clock was ahead then, or is behind now."""
        return self.time > time.time() + CLOCKS_DIFFER

    @property
    def kind(self) -> str:
        """`campaign`, `confirmation` (of a session), or `duet` if it holds nothing else."""
        if self.confirms:
            return "confirmation"
        # A fixture prepares a duet as it prepares others.
        if self.cases and all(case.duet for case in self.cases if not case.fixture):
            return "duet"
        return "campaign"

    @property
    def measured(self) -> list[Case]:
        """The cases whose values are judged: also those beyond their reference."""
        return [case for case in self.cases if case.measured]

    @property
    def values(self) -> list[Value]:
        """The values of all measured cases."""
        return [value for case in self.measured for value in case.values]

    @property
    def skipped_notes(self) -> list[str]:
        """One sentence for each reason, with the cases that were skipped for it."""
        by_reason: dict[str, list[str]] = {}
        for key in self.skipped:
            by_reason.setdefault(self.reasons.get(key, ""), []).append(" | ".join(key))
        notes = []
        for reason, cases in by_reason.items():
            note = f"skipped by its check: {'; '.join(cases)}"
            if reason:
                note += f": {reason}"
            notes.append(note)
        return notes

    @property
    def processor_notes(self) -> list[str]:
        """A sentence, if some partitions ran on an emulated processor and others did not."""
        accelerators = {}
        for case in self.cases:
            if "accelerator" in case.facts:
                accelerators[case.partition] = case.facts["accelerator"]
        with_tcg = [name for name, accelerator in accelerators.items() if accelerator == "tcg"]
        others = [name for name in accelerators if name not in with_tcg]
        if not with_tcg or not others:
            return []
        note = (
            f"QEMU emulated the processor (TCG) of {', '.join(with_tcg)}, and not that of "
            f"{', '.join(others)}: their values do not compare. Run the guests with KVM"
        )
        return [note]

    @property
    def xfail_notes(self) -> list[str]:
        """A sentence on each case that failed as expected."""
        notes = []
        for case in self.cases:
            if case.xfail:
                where = f"{case.check} on {case.place} with {case.environ}"
                notes.append(f"xfail: {where}: {case.xfail}")
        return notes

    @property
    def notes(self) -> list[str]:
        """Sentences on what limits every judgement of the session."""
        return [*self.processor_notes, *self.skipped_notes]

    @property
    def failures(self) -> list[Case]:
        return [case for case in self.cases if case.failure is not None]


def worst(disturbed: Iterable[Disturbed]) -> tuple[Cause, ...]:
    """The worst cause by each rule."""
    causes: dict[str, Cause] = {}
    for repeat in disturbed:
        for cause in repeat.causes:
            if cause.rule not in causes or cause.value > causes[cause.rule].value:
                causes[cause.rule] = cause
    return tuple(causes.values())


def base_first(session: Session, places: Iterable[str]) -> list[str]:
    """Places in their order, but first the base of comparisons: those with a native link, else the
    one named `native`."""
    # Names of partitions are the site's; the class of the link says what they are.
    native = {case.place for case in session.cases if case.link_class == "native"}
    names = list(dict.fromkeys(places))
    first = native.intersection(names) or {"native"}
    return sorted(names, key=lambda name: name not in first)


def date(started: str) -> str:
    """`20261121T061529+0000` as `2026-11-21 06:15 UTC`; any other text unchanged."""
    try:
        return (
            datetime.strptime(started, "%Y%m%dT%H%M%S%z")
            .astimezone(timezone.utc)
            .strftime("%Y-%m-%d %H:%M UTC")
        )
    except ValueError:
        return started


def place(partition: str, node: str) -> str:
    """A partition, or `PARTITION@NODE`."""
    return f"{partition}@{node}" if node else partition


@dataclass(frozen=True)
class BadSession:
    """An unusable session or report of a run."""

    uuid: str
    stored: int
    reason: str
    #: Systems that it ran on; empty: unknown.
    systems: frozenset[str] = frozenset()
    #: `confirmation`; empty: unknown.
    kind: str = ""
    #: That holds it, where several are read.
    file: str = ""

    def may_be(self, system: str | None, kinds: tuple[str, ...]) -> bool:
        """Whether it may be a session of these kinds on the system."""
        if self.kind and self.kind not in kinds:
            return False
        return system is None or not self.systems or system in self.systems

    def __str__(self) -> str:
        name = f"session {self.uuid}"
        if self.systems:
            name += f" on {', '.join(sorted(self.systems))}"
        if self.file:
            name += f" in {self.file}"
        return f"{name}: {self.reason}"
