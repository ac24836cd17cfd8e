"""Stored results for other programs: a table of samples, and series for a monitor."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

import polars
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

from nearmetal.results import Case, Session, Value

#: Columns of the table. `fact_NAME` follows for each requested fact.
COLUMNS: dict[str, polars.DataType] = {
    "system": polars.String(),
    "session": polars.String(),  #: ReFrame's id of it
    "started": polars.Datetime("us", "UTC"),
    "kind": polars.String(),  #: campaign or duet
    "partition": polars.String(),
    "link_class": polars.String(),
    "node": polars.String(),  #: given by --distribute
    "environment": polars.String(),
    "check": polars.String(),
    "variable": polars.String(),
    "unit": polars.String(),
    "better": polars.String(),  #: less or more
    "repeat": polars.Int64(),  #: from 1
    "value": polars.Float64(),
    "disturbed": polars.String(),  #: why the case's repeats were disturbed
    "failure": polars.String(),  #: why the case failed
}
#: Labels of a series, as the gate's OpenMetrics has them.
LABELS = ("system", "partition", "node", "environment", "check", "variable", "unit")
#: Better values in words, by `Value.lower_is_better`.
BETTER = {True: "less", False: "more", None: None}


def table(sessions: Iterable[Session], facts: Iterable[str] = ()) -> polars.DataFrame:
    """One row a sample, in the order of storage; an unknown text is null.

    A case without values has one row without variable, so that its failure is not lost.

    :arg facts: each is a further column, null in a case without that fact.
    """
    facts = tuple(dict.fromkeys(facts))
    schema = COLUMNS | {f"fact_{name}": polars.String() for name in facts}
    rows = []
    for session in sessions:
        of_session = (
            session.system,
            session.uuid,
            datetime.fromtimestamp(session.time, UTC),
            session.kind,
        )
        for case in session.cases:
            told = tuple(_text(case.facts.get(name)) for name in facts)
            rows += [(*of_session, *row, *told) for row in _rows(case)]
    return polars.DataFrame(rows, schema, orient="row")


def absent(sessions: Iterable[Session], facts: Iterable[str]) -> list[str]:
    """Those of the facts that no case has."""
    there = {name for session in sessions for case in session.cases for name in case.facts}
    return [name for name in dict.fromkeys(facts) if name not in there]


def _text(fact) -> str | None:
    """A fact in a cell: names are separated by commas, and what is neither is JSON."""
    if fact is None or isinstance(fact, str):
        return fact
    if isinstance(fact, list) and all(isinstance(one, str) for one in fact):
        return ", ".join(fact)
    return json.dumps(fact, sort_keys=True)


def _rows(case: Case) -> Iterable[tuple]:
    disturbed = "; ".join(cause.text for cause in case.disturbed) or None
    where = (case.partition, case.link_class or None, case.node or None, case.environ, case.check)
    if not case.values:
        yield (*where, None, None, None, None, None, disturbed, case.failure)
    for value in case.values:
        named = value.variable, value.unit, BETTER[value.lower_is_better]
        for number, sample in enumerate(value.samples or (value.value,), 1):
            yield (*where, *named, number, sample, disturbed, case.failure)


def csv(frame: polars.DataFrame) -> str:
    """The table as CSV, times as ISO 8601 with zone, null as nothing."""
    return frame.write_csv(datetime_format="%Y-%m-%dT%H:%M:%S%:z")


def parquet(frame: polars.DataFrame) -> bytes:
    """The table as Parquet, compressed by zstd."""
    sink = io.BytesIO()
    frame.write_parquet(sink)
    return sink.getvalue()


def openmetrics(sessions: Iterable[Session]) -> str:
    """Every value of every session as a series with times.

    Prometheus takes it from a file: `promtool tsdb create-blocks-from openmetrics FILE DIRECTORY`.

    - nearmetal_value: median over the repeats
    - nearmetal_value_least, nearmetal_value_most: of the samples
    - nearmetal_case_failed: 1 if the case failed, else 0
    """
    sessions = sorted(sessions, key=lambda one: one.time)
    registry = CollectorRegistry()
    registry.register(_Series(sessions))
    return generate_latest(registry).decode()


class _Series(Collector):
    """Series of the sessions; two that began in one second have the later one's values."""

    def __init__(self, sessions: list[Session]):
        self.sessions = sessions

    def collect(self):
        measures: dict[str, tuple[str, Callable[[Value], float]]] = {
            "nearmetal_value": ("Median over the repeats.", lambda one: one.value),
            "nearmetal_value_least": ("Least sample.", lambda one: min(_samples(one))),
            "nearmetal_value_most": ("Largest sample.", lambda one: max(_samples(one))),
        }
        for name, (text, measure) in measures.items():
            points = (
                (_labels(session, case, value.variable, value.unit), session.time, measure(value))
                for session in self.sessions
                for case in session.cases
                for value in case.values
            )
            yield _family(name, text, LABELS, points)
        yield _family(
            "nearmetal_case_failed",
            "1 if the case failed.",
            LABELS[:-2],
            (
                (_labels(session, case), session.time, float(case.failure is not None))
                for session in self.sessions
                for case in session.cases
            ),
        )


def _samples(value: Value) -> tuple[float, ...]:
    return value.samples or (value.value,)


def _labels(session: Session, case: Case, *further: str) -> tuple[str, ...]:
    return (session.system, case.partition, case.node, case.environ, case.check, *further)


def _family(name: str, text: str, labels: tuple[str, ...], points) -> GaugeMetricFamily:
    """OpenMetrics wants a series' points together, in the order of their times."""
    series: dict[tuple[str, ...], dict[int, float]] = {}
    for key, time, number in points:
        series.setdefault(key, {})[int(time)] = number
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, found in series.items():
        for time, number in found.items():
            family.add_metric(key, number, timestamp=time)
    return family
