"""Stored results for other programs: a table of samples, and series for a monitor."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone

import polars
import polars.selectors as cs
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
#: Columns that differ between the rows of a case.
OF_SAMPLES = ("variable", "unit", "better", "repeat", "value")
#: Text that a spreadsheet takes for a formula, unless it is a number (OWASP, CSV Injection).
FORMULA, NUMBER = r"^[=+\-@\t\r]", r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
#: Labels of a series, as the gate's OpenMetrics has them.
LABELS = ("system", "partition", "node", "environment", "check", "variable", "unit")
#: Better values in words, by `Value.lower_is_better`.
BETTER = {True: "less", False: "more", None: None}
#: Labels of a series, time and value.
Point = tuple[tuple[str, ...], float, float]
#: Least number of rows of a part of the table, but the last one.
ROWS = 50_000


def parts(sessions: Iterable[Session], facts: Iterable[str] = ()) -> Iterator[polars.DataFrame]:
    """The table in parts: one row a sample, in the order of storage; an unknown text is null.

    A case without values has one row without variable, so that its failure is not lost.

    :arg facts: each is a further column, null in a case without that fact.
    """
    facts = tuple(dict.fromkeys(facts))
    schema = COLUMNS | dict.fromkeys(map("fact_{}".format, facts), polars.String())
    columns: dict[str, list] = defaultdict(list)
    for session in sessions:
        of_session = _of_session(session)
        for case in session.cases:
            samples = _samples_of(case)
            for name, values in zip(OF_SAMPLES, zip(*samples)):
                columns[name] += values
            of_case = of_session | _of_case(case)
            for name in facts:
                of_case[f"fact_{name}"] = _text(case.facts.get(name))
            for name, value in of_case.items():
                columns[name] += [value] * len(samples)
        # A part ends with a session, so that parts are larger than ROWS.
        if len(columns["value"]) >= ROWS:
            yield polars.DataFrame(columns, schema)
            columns.clear()
    yield polars.DataFrame(columns, schema)


def absent(sessions: Iterable[Session], facts: Iterable[str]) -> list[str]:
    """Those of the facts that no case has."""
    absent = dict.fromkeys(facts)
    for session in sessions:
        for case in session.cases:
            for name in case.facts:
                absent.pop(name, None)
    return list(absent)


def _text(fact) -> str | None:
    """A fact in a cell: names are separated by commas, and what is neither is JSON."""
    if fact is None or isinstance(fact, str):
        return fact
    if isinstance(fact, list) and set(map(type, fact)) <= {str}:
        return ", ".join(fact)
    return json.dumps(fact, sort_keys=True)


def _of_session(session: Session) -> dict[str, object]:
    return {
        "system": session.system,
        "session": session.uuid,
        "started": datetime.fromtimestamp(session.time, timezone.utc),
        "kind": session.kind,
    }


def _of_case(case: Case) -> dict[str, object]:
    return {
        "partition": case.partition,
        "link_class": case.link_class or None,
        "node": case.node or None,
        "environment": case.environ,
        "check": case.check,
        "disturbed": "; ".join(cause.text for cause in case.disturbed) or None,
        "failure": case.failure,
    }


def _samples_of(case: Case) -> list[tuple]:
    """What each row of a case has in the columns OF_SAMPLES."""
    rows = []
    for value in case.values:
        named = value.variable, value.unit, BETTER[value.lower_is_better]
        for number, sample in enumerate(_samples(value), 1):
            rows.append((*named, number, sample))
    return rows or [(None,) * len(OF_SAMPLES)]


def csv(tables: Iterable[polars.DataFrame]) -> Iterator[bytes]:
    """The parts of the table as CSV, times as ISO 8601 with zone, null as nothing."""
    for number, frame in enumerate(tables):
        safe = frame.with_columns(_inert(cs.string()))
        text = safe.write_csv(include_header=not number, datetime_format="%Y-%m-%dT%H:%M:%S%:z")
        yield text.encode()


def _inert(column: polars.Expr) -> polars.Expr:
    """Texts that no spreadsheet takes for a formula."""
    formula = column.str.contains(FORMULA) & ~column.str.contains(NUMBER)
    return polars.when(formula).then(column.str.replace("^", "'")).otherwise(column)


def parquet(tables: Iterable[polars.DataFrame]) -> bytes:
    """The table as Parquet, compressed by zstd."""
    # A text is repeated in many rows. As a category, it takes four bytes in each.
    small = [frame.with_columns(cs.string().cast(polars.Categorical)) for frame in tables]
    texts = cs.categorical().cast(polars.String)
    sink = io.BytesIO()
    polars.concat([frame.lazy().with_columns(texts) for frame in small]).sink_parquet(sink)
    return sink.getvalue()


def openmetrics(sessions: Iterable[Session]) -> str:
    """Every value of every session as a series with times.

    Prometheus takes it from a file: `promtool tsdb create-blocks-from openmetrics FILE DIRECTORY`.

    - nearmetal_value: median over the repeats
    - nearmetal_value_least, nearmetal_value_most: of the samples
    - nearmetal_case_failed: 1 if the case failed, else 0
    """
    registry = CollectorRegistry()
    registry.register(_Series(sorted(sessions, key=lambda session: session.time)))
    return generate_latest(registry).decode()


class _Series(Collector):
    """Series of the sessions; two that began in one second have the later one's values."""

    def __init__(self, sessions: list[Session]):
        self.sessions = sessions

    def collect(self):
        measures: dict[str, tuple[str, Callable[[Value], float]]] = {
            "nearmetal_value": ("Median over the repeats.", lambda value: value.value),
            "nearmetal_value_least": ("Least sample.", lambda value: min(_samples(value))),
            "nearmetal_value_most": ("Largest sample.", lambda value: max(_samples(value))),
        }
        for name, (text, measure) in measures.items():
            yield _family(name, text, LABELS, self._values(measure))
        yield _family("nearmetal_case_failed", "1 if the case failed.", LABELS[:-2], self._failed())

    def _values(self, measure: Callable[[Value], float]) -> Iterator[Point]:
        for session in self.sessions:
            for case in session.cases:
                for value in case.values:
                    labels = _labels(session, case, value.variable, value.unit)
                    yield labels, session.time, measure(value)

    def _failed(self) -> Iterator[Point]:
        for session in self.sessions:
            for case in session.cases:
                yield _labels(session, case), session.time, float(case.failure is not None)


def _samples(value: Value) -> tuple[float, ...]:
    return value.samples or (value.value,)


def _labels(session: Session, case: Case, *further: str) -> tuple[str, ...]:
    return (session.system, case.partition, case.node, case.environ, case.check, *further)


def _family(
    name: str, text: str, labels: tuple[str, ...], points: Iterable[Point]
) -> GaugeMetricFamily:
    """OpenMetrics wants a series' points together, in the order of their times."""
    series: dict[tuple[str, ...], dict[int, float]] = {}
    for key, time, number in points:
        # OpenMetrics allows one point a second.
        series.setdefault(key, {})[int(time)] = number
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, numbers in series.items():
        for time, number in numbers.items():
            family.add_metric(key, number, timestamp=time)
    return family
