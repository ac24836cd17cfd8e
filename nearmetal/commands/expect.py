"""`nearmetal expect`: what is expected of a partition and why, and what of a session deviates."""

from collections.abc import Iterator

from nearmetal import results
from nearmetal.expectations import entries, judge
from nearmetal.expectations.entries import Expectation
from nearmetal.expectations.expression import Names, UnknownValue
from nearmetal.judge.expected import Expectations, Partition, displayed, partitions_at
from nearmetal.results import Session, place
from nearmetal.util.text import rounded


def run(arguments) -> int:
    """List what is expected of a system or partition; with --judge, what deviates from it."""
    system = arguments.place.partition(":")[0]
    partitions = partitions_at(arguments.place)
    if arguments.judge or arguments.session:
        session = results.load_session(arguments.database, system, arguments.session)
        return _judge(session, Expectations(partitions))
    print("\n\n".join(map("\n".join, map(listed, partitions.values()))))
    return 0


def listed(partition: Partition) -> Iterator[str]:
    """Lines on each expectation of a partition: bound, reason and source."""
    yield partition.fullname
    unknown = []
    for expectation in partition.applying():
        limits, name = "", expectation.name
        try:
            if not _late(expectation):
                limits = _limits(expectation, partition.names)
        except UnknownValue as why:
            unknown.append(f"  {name}: {why}")
            continue
        what = " ".join([", ".join(expectation.checks), *_selected(expectation)])
        variables = expectation.variables or "the case"
        yield f"  {name}: {what}: {variables}: {limits or expectation.asked}"
        yield f"    why: {expectation.reason}"
        yield f"    source: {expectation.source}"
        if expectation.overridden:
            yield f"    the site's bound: {expectation.overridden}"
    if unknown:
        yield "  no bound here, since a value is not known:"
        yield from unknown


def _late(expectation: Expectation) -> bool:
    """Whether its bounds follow from what is measured."""
    before = set(entries.OF_EXTRAS)
    return any(limit.over_own or limit.names - before for limit in expectation.bounds)


def _selected(expectation: Expectation) -> Iterator[str]:
    """The parameters and the processor that it is about."""
    for key, value in expectation.parameters.items():
        yield f"{key}={value}"
    if "cpu_model" in expectation.where:
        yield f"(processor {expectation.where['cpu_model']})"


def _limits(expectation: Expectation, names: Names) -> str:
    """The bounds in numbers, and the expressions that they follow from."""
    limits = judge.bounds(expectation, names)
    parts = []
    for word, limit in (("at least", limits.least), ("at most", limits.most)):
        if limit is not None:
            parts.append(f"{word} {rounded(limit)} {expectation.unit or ''}".rstrip())
    text = ", ".join(parts)
    if expectation.of.text != "value":
        text = f"{expectation.of.text} {text}"
    computed = [limit.text for limit in expectation.bounds if limit.names]
    if computed:
        text += f" ({'; '.join(computed)})"
    return text


def _judge(session: Session, expectations: Expectations) -> int:
    """Print what deviates in a session; 1 if something does."""
    deviations = expectations.deviations(session)
    for deviation in deviations:
        where = place(deviation.case.partition, deviation.case.node)
        print(f"{displayed(deviation.case)} on {where} with {deviation.case.environ}: {deviation}")
    cases = sum(case.measured for case in session.cases)
    print(f"session {session.uuid}: {cases} measured cases, {len(deviations)} deviations")
    return 1 if deviations else 0
