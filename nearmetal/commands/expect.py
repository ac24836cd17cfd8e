"""`nearmetal expect`: what is expected of a partition and why, and what of a session deviates."""

from collections.abc import Iterator

from nearmetal import results
from nearmetal.errors import NearmetalError
from nearmetal.expectations import entries, judge
from nearmetal.expectations.entries import Expectation
from nearmetal.expectations.expression import Names, UnknownValue
from nearmetal.judge.expected import Expectations, Partition, displayed, read_partitions
from nearmetal.results import Session, place
from nearmetal.util import suggest
from nearmetal.util.text import rounded


def run(arguments) -> int:
    """List what is expected of a system or partition; with --judge, what deviates from it."""
    system, _, wanted = arguments.place.partition(":")
    partitions = read_partitions(system)
    if wanted and wanted not in partitions:
        raise NearmetalError(
            f"{system}: {suggest.unknown_value('the partition', wanted, partitions)}. Fix: correct "
            "it, or describe the partition in the system's file"
        )
    chosen = {name: one for name, one in partitions.items() if wanted in ("", name)}
    if arguments.judge or arguments.session:
        session = results.load_session(arguments.database, system, arguments.session)
        return _judge(session, Expectations(chosen))
    print("\n\n".join("\n".join(listed(one)) for one in chosen.values()))
    return 0


def listed(partition: Partition) -> Iterator[str]:
    """Lines on each expectation of a partition: bound, reason and source."""
    yield partition.fullname
    unknown = []
    for one in partition.applying():
        limits = ""
        try:
            if not _late(one):
                limits = _limits(one, partition.names)
        except UnknownValue as why:
            unknown.append(f"  {one.name}: {why}")
            continue
        what = " ".join([", ".join(one.checks), *_selected(one)])
        yield f"  {one.name}: {what}: {one.variables or 'the case'}: {limits or one.asked}"
        yield f"    why: {one.reason}"
        yield f"    source: {one.source}"
        if one.overridden:
            yield f"    the site's bound: {one.overridden}"
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
    unit = f" {expectation.unit}" if expectation.unit else ""
    parts = []
    for word, limit in (("at least", limits.least), ("at most", limits.most)):
        if limit is not None:
            parts.append(f"{word} {rounded(limit)}{unit}")
    text = ", ".join(parts)
    if expectation.of.text != "value":
        text = f"{expectation.of.text} {text}"
    computed = [limit.text for limit in expectation.bounds if limit.names]
    return f"{text} ({'; '.join(computed)})" if computed else text


def _judge(session: Session, expectations: Expectations) -> int:
    """Print what deviates in a session; 1 if something does."""
    deviations = expectations.deviations(session)
    for deviation in deviations:
        where = place(deviation.case.partition, deviation.case.node)
        print(f"{displayed(deviation.case)} on {where} with {deviation.case.environ}: {deviation}")
    cases = sum(case.measured for case in session.cases)
    print(f"session {session.uuid}: {cases} measured cases, {len(deviations)} deviations")
    return 1 if deviations else 0
