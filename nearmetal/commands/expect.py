"""`nearmetal expect`: what is expected of a partition and why, and what of a session deviates."""

from collections.abc import Iterator

from nearmetal import results
from nearmetal.errors import NearmetalError
from nearmetal.expectations import entries, judge, known, sentence
from nearmetal.expectations.entries import Expectation
from nearmetal.expectations.expression import Names, UnknownValue
from nearmetal.expectations.judge import Deviation, Measured, Place
from nearmetal.results import Case, Session, parameters
from nearmetal.results.session import place as place_of
from nearmetal.site.system import System
from nearmetal.util import suggest


class Partition:
    """A partition of a site's file, with the expectations that apply there."""

    def __init__(self, system: System, described: dict, shipped: dict):
        configured = system.configured(described)
        extras, features = configured["extras"], frozenset(configured["features"])
        self.name, self.fullname = described["name"], f"{system.name}:{described['name']}"
        where = f"{system.path}: {self.fullname}"
        environments = system.environments
        self.places = {
            name: Place(extras, features, frozenset(environments[name].get("features", ())), where)
            for name in described["environs"]
        }
        self.expectations: dict[str, Expectation] = shipped
        if entries.OVERRIDES in extras:
            self.expectations = entries.overridden(
                shipped, extras[entries.OVERRIDES], f"{where}: extras.{entries.OVERRIDES}"
            )
        self.names = Names(judge.of_extras(extras))
        self._refuse_bounds_without_a_value()

    def _refuse_bounds_without_a_value(self) -> None:
        """Raise ExpectationError if no value is within the bounds of a shipped check's variable."""
        places = {place.environ_features: place for place in self.places.values()}
        for place in places.values():
            selected = [one for one in self.expectations.values() if judge.selects(one, place)]
            for check, chosen, variables in known.cases():
                judge.references(selected, Measured(check, place, chosen), variables)

    def applying(self) -> list[Expectation]:
        """Those that select it with at least one of its environments."""
        return [
            one
            for one in self.expectations.values()
            if any(judge.selects(one, place) for place in self.places.values())
        ]


def run(arguments) -> int:
    """List what is expected of a system or partition; with --judge, what deviates from it."""
    system, _, wanted = arguments.place.partition(":")
    partitions = read_partitions(system)
    if wanted and wanted not in partitions:
        raise NearmetalError(
            f"{system}: {suggest.unknown_value('the partition', wanted, partitions)}. Fix: correct "
            "it, or describe the partition in the system's file"
        )
    chosen = [one for name, one in partitions.items() if wanted in ("", name)]
    if arguments.judge or arguments.session:
        session = results.load_session(arguments.database, system, arguments.session)
        return _judge(session, {one.name: one for one in chosen})
    print("\n\n".join("\n".join(listed(one)) for one in chosen))
    return 0


def read_partitions(system: str) -> dict[str, Partition]:
    """The partitions of a system's file by name. Raises NearmetalError."""
    site, shipped = System.named(system), entries.load()
    return {one["name"]: Partition(site, one, shipped) for one in site.partitions}


def extras_of(system: str) -> dict[str, dict]:
    """Numbers in the extras of a system's partitions by name. Raises NearmetalError."""
    site = System.named(system)
    return {one["name"]: judge.of_extras(one["extras"]) for one in site.partitions}


def listed(partition: Partition) -> Iterator[str]:
    """Lines on each expectation of a partition: bound, reason and source."""
    yield partition.fullname
    unknown = []
    for one in partition.applying():
        try:
            limits = "" if _late(one) else _limits(one, partition.names)
        except UnknownValue as why:
            unknown.append(f"  {one.name}: {why}")
            continue
        about = one.variables or "the case"
        at = f" {_shown(one)}" if one.parameters or "cpu_model" in one.where else ""
        yield f"  {one.name}: {', '.join(one.checks)}{at}: {about}: {limits or one.asked}"
        yield f"    why: {one.reason}"
        yield f"    source: {one.source}"
        if one.overridden:
            yield f"    the site's bound: {one.overridden}"
    if unknown:
        yield "  no bound here, since a value is not known:"
        yield from unknown


def _late(one: Expectation) -> bool:
    """Whether its bounds follow from what is measured."""
    before = set(entries.OF_EXTRAS)
    return any(limit.over_own or limit.names - before for limit in one.bounds)


def _shown(one: Expectation) -> str:
    """The parameters and the processor that it is about."""
    shown = [f"{key}={value}" for key, value in one.parameters.items()]
    if "cpu_model" in one.where:
        shown.append(f"(processor {one.where['cpu_model']})")
    return " ".join(shown)


def _limits(one: Expectation, names: Names) -> str:
    """The bounds in numbers, and the expressions that they follow from."""
    limits = judge.bounds(one, names)
    unit = f" {one.unit}" if one.unit else ""
    what = "" if one.of.text == "value" else f"{one.of.text} "
    parts = [
        f"{word} {sentence.number(limit)}{unit}"
        for word, limit in (("at least", limits.least), ("at most", limits.most))
        if limit is not None
    ]
    computed = [limit.text for limit in one.bounds if limit.names]
    return what + ", ".join(parts) + (f" ({'; '.join(computed)})" if computed else "")


def _judge(session: Session, partitions: dict[str, Partition]) -> int:
    """Print what deviates in a session; 1 if something does."""
    found = deviations(session, partitions)
    for one in found:
        where = place_of(one.case.partition, one.case.node)
        print(f"{called(one.case)} on {where} with {one.case.environ}: {one}")
    cases = sum(case.measured for case in session.cases)
    print(f"session {session.uuid}: {cases} measured cases, {len(found)} deviations")
    return 1 if found else 0


def called(case: Measured) -> str:
    """The case's check with its parameters, as ReFrame displays it."""
    return " ".join([case.check, *(f"%{key}={value}" for key, value in case.parameters.items())])


def deviations(session: Session, partitions: dict[str, Partition]) -> list[Deviation]:
    """What of a session is beyond expectations, over one case and over several."""
    cases = [measured for _, measured in _measured(session, partitions)]
    return judge.of_session({name: one.expectations for name, one in partitions.items()}, cases)


def bounded(
    session: Session, partitions: dict[str, Partition]
) -> dict[tuple[str, str, str], frozenset[str]]:
    """The variables of each case that an expectation bounds, by check, place and environment."""
    return {
        case.where: frozenset(
            judge.references(
                partitions[case.partition].expectations.values(), measured, measured.values
            )
        )
        for case, measured in _measured(session, partitions)
    }


def _measured(
    session: Session, partitions: dict[str, Partition]
) -> Iterator[tuple[Case, Measured]]:
    """The measured cases of partitions that the site's file describes, as expectations see them."""
    for case in session.cases:
        if not case.measured or case.partition not in partitions:
            continue
        if case.environ not in partitions[case.partition].places:
            continue
        yield (
            case,
            Measured(
                case.check.split(" ", 1)[0],
                partitions[case.partition].places[case.environ],
                dict(parameters(case.check)),
                case.partition,
                case.environ,
                {value.variable: value.value for value in case.values},
                {value.variable: value.samples for value in case.values if value.samples},
                case.facts,
                {value.variable: value.unit for value in case.values},
                case.node,
            ),
        )
