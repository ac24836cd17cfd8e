"""A system's expectations, and a session compared with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from nearmetal.compare import nearness
from nearmetal.errors import NearmetalError
from nearmetal.expectations import entries, judge, known, machines, odd
from nearmetal.expectations.entries import Expectation
from nearmetal.expectations.expression import Names
from nearmetal.expectations.judge import Deviation, Judgement, Measured, Place
from nearmetal.judge.verdict import EXPECTATION, GateReport, Verdict, worst_first
from nearmetal.judge.without_baseline import Bounded
from nearmetal.model import naming
from nearmetal.results import Case, Session
from nearmetal.site.system import NotDescribed, System
from nearmetal.util import suggest


class Partition:
    """A partition of a site's file, with the expectations that apply there."""

    def __init__(self, system: System, described: dict, shipped: dict):
        configured = system.configured(described)
        extras, features = configured["extras"], frozenset(configured["features"])
        self.extras = judge.of_extras(extras)
        self.name, self.fullname = described["name"], f"{system.name}:{described['name']}"
        where = f"{system.path}: {self.fullname}"
        environments = system.environments
        self.places: dict[str, Place] = {}
        for name in described["environs"]:
            own = frozenset(environments[name].get("features", ()))
            self.places[name] = Place(extras, features, own, where)
        self.expectations: dict[str, Expectation] = shipped
        if entries.OVERRIDES in extras:
            self.expectations = entries.overridden(
                shipped, extras[entries.OVERRIDES], f"{where}: extras.{entries.OVERRIDES}"
            )
        self.names = Names(self.extras)
        self._refuse_bounds_without_a_value()

    def _refuse_bounds_without_a_value(self) -> None:
        """Raise ExpectationError if no value is within the bounds of a shipped check's variable."""
        seen = set()
        for place in self.places.values():
            # Environments with the same features have the same bounds.
            if place.environ_features in seen:
                continue
            seen.add(place.environ_features)
            selected = []
            for expectation in self.expectations.values():
                if judge.selects(expectation, place):
                    selected.append(expectation)
            for check, chosen, variables in known.cases():
                judge.references(selected, Measured(check, place, chosen), variables)

    def applying(self) -> list[Expectation]:
        """Those that select it with at least one of its environments."""
        applying = []
        for expectation in self.expectations.values():
            if any(judge.selects(expectation, place) for place in self.places.values()):
                applying.append(expectation)
        return applying


def read_partitions(system: str) -> dict[str, Partition]:
    """The partitions of a system's file by name. Raises NearmetalError."""
    site, shipped = System.named(system), entries.load()
    partitions = {}
    for described in site.partitions:
        partitions[described["name"]] = Partition(site, described, shipped)
    return partitions


def partitions_at(place: str) -> dict[str, Partition]:
    """The partitions of SYSTEM, or the one of SYSTEM:PARTITION. Raises NearmetalError."""
    system, _, wanted = place.partition(":")
    partitions = read_partitions(system)
    if not wanted:
        return partitions
    if wanted not in partitions:
        raise NearmetalError(
            f"{system}: {suggest.unknown_value('the partition', wanted, partitions)}. Fix: correct "
            "it, or describe the partition in the system's file"
        )
    return {wanted: partitions[wanted]}


def numbers_of(system: str) -> nearness.Numbers:
    """Numbers in the extras of a system's partitions; {} if the system's file cannot be read."""
    try:
        site = System.named(system)
    except NearmetalError:
        return {}
    return {part["name"]: judge.of_extras(part["extras"]) for part in site.partitions}


@dataclass(frozen=True)
class Expectations:
    """The expectations of a system's partitions, or why there are none."""

    partitions: Mapping[str, Partition] = field(default_factory=dict)
    #: no file describes the system
    note: str = ""
    #: the file, or one of the expectations, cannot be used
    broken: str = ""

    @classmethod
    def of(cls, system: str) -> Expectations:
        """Those of a system's file."""
        try:
            return cls(read_partitions(system))
        except NotDescribed as error:
            return cls(note=f"not held against expectations: {error}")
        except NearmetalError as error:
            return cls(broken=str(error))

    @property
    def nodes(self) -> dict[str, int]:
        """Number of nodes of the partitions whose extras say it."""
        nodes = {}
        for name, partition in self.partitions.items():
            if "nodes" in partition.extras:
                nodes[name] = int(str(partition.extras["nodes"]))
        return nodes

    def bounded(self, session: Session) -> Bounded:
        """The variables of each case that an expectation bounds. Raises ExpectationError.

        A relation bounds all values that it compares. One of repeats bounds none.
        """
        cases = list(measured_cases(session, self.partitions))
        related: dict[int, set[str]] = {}
        for judgement in self.judged([measured for _, measured in cases]):
            if not judgement.of_repeats:
                for measured, name in judgement.values():
                    related.setdefault(id(measured), set()).add(name)
        bounded = Bounded()
        for case, measured in cases:
            expectations = self.partitions[case.partition].expectations.values()
            references = judge.references(expectations, measured, measured.values)
            bounded[case.where] = frozenset({*references, *related.get(id(measured), ())})
        return bounded

    def deviations(self, session: Session) -> list[Deviation]:
        """What of a session is beyond expectations, over one case and over several."""
        cases = [measured for _, measured in measured_cases(session, self.partitions)]
        return odd.with_odd_values(judge.of_session(self._by_partition, cases))

    def judged(self, cases: list[Measured]) -> list[Judgement]:
        """Each case held against each expectation whose numbers are known."""
        return list(judge.judged(self._by_partition, cases))

    @property
    def _by_partition(self) -> dict[str, Mapping[str, Expectation]]:
        return {name: each.expectations for name, each in self.partitions.items()}

    def apply(self, report: GateReport) -> GateReport:
        """The report, with `deviates` in place of the verdicts on variables beyond an expectation.

        Of a disturbed case these are `disturbed`, with the deviation in the reason. If it cannot be
        known what deviates, the session is incomplete.
        """
        session = report.session
        verdicts = self._with_places(session, with_deviations(report, self.deviations(session)))
        # Nothing passes silently: without its expectations a session is not clean.
        if self.broken:
            reason = f"the session was not held against expectations: {self.broken}"
            verdicts.append(Verdict.incomplete(reason, reference=EXPECTATION))
        note = self.note or self._not_described(session)
        return replace(report, verdicts=worst_first(verdicts)).noting(note)

    def _with_places(self, session: Session, verdicts: list[Verdict]) -> list[Verdict]:
        """The verdicts. Those that judge nothing say where the value is among published figures."""
        cases = {case.where: each for case, each in measured_cases(session, self.partitions)}
        placed = []
        for verdict in verdicts:
            case, value = cases.get(verdict.where), verdict.value
            if verdict.name == "not judged" and case is not None and value is not None:
                alike = machines.of_case(case, verdict.variable)
                if alike is not None:
                    beside = f"{alike.described()}, {alike.place(value)} than this one"
                    verdict = replace(verdict, reason=f"{verdict.reason}; {beside}")
            placed.append(verdict)
        return placed

    def _not_described(self, session: Session) -> str:
        """A note on the measured partitions and environments that the file does not describe."""
        missing = set()
        for case in session.cases:
            partition = self.partitions.get(case.partition)
            if case.measured and not (partition and case.environ in partition.places):
                missing.add(f"{case.partition} with {case.environ}")
        if not missing or not self.partitions:
            return ""
        return (
            f"not held against expectations: {suggest.shorten(sorted(missing))}, which the file of "
            f"{session.system} does not describe now"
        )


def measured_cases(
    session: Session, partitions: Mapping[str, Partition]
) -> Iterator[tuple[Case, Measured]]:
    """The measured cases of partitions that the site's file describes, as expectations see them."""
    for case in session.cases:
        partition = partitions.get(case.partition)
        if not case.measured or partition is None or case.environ not in partition.places:
            continue
        values, samples, units = {}, {}, {}
        for value in case.values:
            values[value.variable] = value.value
            units[value.variable] = value.unit
            if value.samples:
                samples[value.variable] = value.samples
        measured = Measured(
            check=naming.base_name(case.check),
            place=partition.places[case.environ],
            parameters=dict(naming.parameters(case.check)),
            partition=case.partition,
            environ=case.environ,
            values=values,
            samples=samples,
            facts=case.facts,
            units=units,
            node=case.node,
        )
        yield case, measured


def with_deviations(report: GateReport, deviations: Iterable[Deviation]) -> list[Verdict]:
    """The verdicts of a report; those on variables beyond an expectation say so."""
    verdicts = list(report.verdicts)
    cases = report.session.by_where
    places: dict[tuple, list[int]] = {}
    for place, verdict in enumerate(verdicts):
        places.setdefault(_subject_of(verdict), []).append(place)
    for deviation in deviations:
        case = deviation.case
        subject = (
            *(case.check, case.partition, case.node, case.environ, deviation.variable),
            frozenset(case.parameters.items()),
        )
        if subject not in places:
            # It is of no single variable.
            places[subject] = [len(verdicts)]
            where = displayed(case), case.partition, case.environ, deviation.variable
            verdicts.append(Verdict(*where, unit="", name="deviates", node=case.node))
        for place in places[subject]:
            case_of_verdict = cases.get(verdicts[place].where)
            verdicts[place] = _beyond(verdicts[place], deviation, case_of_verdict)
    return verdicts


def displayed(case: Measured) -> str:
    """The case's check with its parameters, as ReFrame displays it."""
    text = case.check
    for key, value in case.parameters.items():
        text += f" %{key}={value}"
    return text


def _subject_of(verdict: Verdict) -> tuple:
    """What a verdict shares with the deviations that are about it."""
    check = naming.base_name(verdict.check)
    chosen = frozenset(naming.parameters(verdict.check).items())
    return check, verdict.partition, verdict.node, verdict.environ, verdict.variable, chosen


def _beyond(verdict: Verdict, deviation: Deviation, case: Case | None) -> Verdict:
    """The verdict on a variable beyond an expectation."""
    if verdict.name == "regressed" and deviation.beside:
        # That it got worse says more than that another value contradicts it.
        both = "; ".join(filter(None, [verdict.reason, deviation.said]))
        return replace(verdict, reason=both)
    name, reasons, kept = "deviates", [deviation.said], ""
    if verdict.reason and verdict.name in ("deviates", "disturbed"):
        kept = verdict.reason
        reasons.append(kept)
    for cause in case.disturbed if case else ():
        if deviation.of_values:
            name = "disturbed"
        if cause.text not in kept:
            reasons.append(cause.text)
    return replace(
        verdict,
        name=name,
        reason="; ".join(filter(None, reasons)),
        reference=EXPECTATION,
        # Beside another deviation, the median deviates if it does by either of them.
        of_repeats=deviation.of_repeats and (verdict.of_repeats or verdict.name != "deviates"),
    )
