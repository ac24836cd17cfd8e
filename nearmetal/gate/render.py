"""A gate's report for whoever reads it: a terminal, a program (JSON), a CI system (JUnit), a merge request (Markdown), a
monitor (OpenMetrics)."""

import functools
import math
import re
from dataclasses import asdict, replace
from datetime import UTC, datetime
from xml.etree import ElementTree

from prometheus_client import CollectorRegistry, Gauge, Info
from prometheus_client.openmetrics.exposition import generate_latest
from tabulate import tabulate

from nearmetal import clean
from nearmetal.compare import number, percent, plain
from nearmetal.gate.session import WORDS, Judged, Report

#: Of the JSON document; the schema beside this file says what it holds.
FORMAT = 1
HEADERS = (
    "verdict",
    "check",
    "partition",
    "environment",
    "variable",
    "baseline",
    "now",
    "change",
    "95 % interval",
    "finds",
    "launches",
)
SUMMARY = {
    "clean": "nothing got worse",
    "regressed": "regressed",
    "incomplete": "not everything is known",
}
ADVICE = {
    "ok": "ok: no change as large as the variable's noise lets find (`finds`; --all prints it)",
    "inconclusive": "inconclusive: `nearmetal gate --confirm` measures these again until they are decided",
    "improved": "improved: `nearmetal baseline record` makes that the new standard",
}


def readable(output):
    """Decorator of an output: what it gets of the report's texts is one line each, without control characters."""

    @functools.wraps(output)
    def cleaned(report: Report, *arguments):
        # The outputs need of the session what identifies it, and not its cases, of which there may be thousands.
        session = clean.every(replace(report.session, cases=(), skipped=()))
        judged, notes = clean.every((report.judged, report.notes))
        return output(replace(report, session=session, judged=judged, notes=notes), *arguments)

    return cleaned


def headline(report: Report) -> str:
    counts = {word: sum(one.word == word for one in report.judged) for word in WORDS}
    return f"{SUMMARY[report.word]}: " + (
        ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        or "nothing was judged"
    )


def subject(report: Report) -> str:
    return f"session {report.session.uuid} on {report.session.system}, started {when(report)}"


def when(report: Report) -> str:
    """The session's start in UTC, and how long ago that is: a gate that judges yesterday's session should not go unseen."""
    started = datetime.fromtimestamp(report.session.time, UTC)
    age = (datetime.now(UTC) - started).total_seconds()
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if age >= 2 * size:
            return f"{started:%Y-%m-%d %H:%M} UTC ({age // size:.0f} {unit} ago)"
    return f"{started:%Y-%m-%d %H:%M} UTC"


def row(one: Judged) -> list[str]:
    wanted = f" of {one.wanted} wanted" if one.wanted else ""
    interval = f"{percent(one.interval[0])} to {percent(one.interval[1])}" if one.interval else ""
    return [
        one.word,
        plain(one.check),
        one.place,
        one.environ,
        one.variable,
        *(
            f"{number(value)} {one.unit}" if value is not None else ""
            for value in (one.baseline, one.value)
        ),
        percent(one.change) if one.change is not None else "",
        interval,
        f"{100 * one.finds:.0f} %" if one.finds else "",
        f"{one.launches}{wanted}" if one.launches else "",
    ]


def reasons(report: Report) -> list[str]:
    """Lines under the table: why a variable is incomplete or not judged, each reason once with its variables."""
    grouped: dict[str, list[Judged]] = {}
    for one in report.judged:
        if one.reason:
            grouped.setdefault(f"{one.word}: {one.reason}", []).append(one)
    lines = [
        f"{reason} ({some([' '.join(filter(None, [*one.where, one.variable])) for one in ones])})"
        for reason, ones in grouped.items()
    ]
    changed: dict[tuple, list[str]] = {}
    for one in report.judged:
        if one.word in ("regressed", "improved", "inconclusive"):
            for name, (then, now) in (one.facts or {}).items():
                changed.setdefault((name, then, now), []).append(one.place)
    lines += [
        f"changed since the baseline: {name}: {then} -> {now} ({', '.join(dict.fromkeys(where))})"
        for (name, then, now), where in changed.items()
    ]
    words = {one.word for one in report.judged}
    return [*lines, *(text for word, text in ADVICE.items() if word in words), *report.notes]


def some(names: list[str], most: int = 3) -> str:
    """The first few, and how many more."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


@readable
def table(report: Report, every: bool = False) -> str:
    """For a terminal: what is not ok, or everything."""
    rows = [row(one) for one in report.judged if every or (one.word != "ok" and one.variable)]
    text = (
        tabulate(rows, HEADERS, disable_numparse=True, colalign=["left"] * 5 + ["right"] * 6)
        if rows
        else ""
    )
    return "\n\n".join(
        filter(None, [f"{headline(report)}\n{subject(report)}", text, "\n".join(reasons(report))])
    )


@readable
def document(report: Report) -> dict:
    """For programs, by gate-schema.yaml."""

    def plain(value):
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return {
        "format": FORMAT,
        "verdict": report.word,
        "exit_code": report.exit_code,
        "notes": list(report.notes),
        "session": {
            "uuid": report.session.uuid,
            "system": report.session.system,
            "started": report.session.started,
        },
        "judged": [
            {
                ("environment" if name == "environ" else name): plain(value)
                for name, value in asdict(one).items()
            }
            for one in report.judged
        ],
    }


@readable
def junit(report: Report) -> str:
    """JUnit XML: a regression is a failure, what is not known an error, what is not judged skipped."""
    kinds = {
        "regressed": "failure",
        "incomplete": "error",
        "inconclusive": "error",
        "not judged": "skipped",
    }
    words = [kinds.get(one.word) for one in report.judged]
    suite = ElementTree.Element(
        "testsuite",
        name=f"nearmetal gate {report.session.system}",
        tests=str(len(words)),
        failures=str(words.count("failure")),
        errors=str(words.count("error")),
        skipped=str(words.count("skipped")),
    )
    for one in report.judged:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            name=f"{one.check} {one.variable}".strip(),
            classname=f"{report.session.system}.{one.place}.{one.environ}",
        )
        if kind := kinds.get(one.word):
            message = f"{one.word}: " + (one.reason or ", ".join(filter(None, row(one)[5:])))
            ElementTree.SubElement(case, kind, message=message)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def escaped(text) -> str:
    """Text that Markdown shows as it is: no table cell ends in it, and it is no HTML, link or picture."""
    entities = str(text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\|\[\]])", r"\\\1", entities)


@readable
def markdown(report: Report) -> str:
    """For a merge request: the headline, what is not ok, and the rest folded away."""

    def cells(values):
        return "| " + " | ".join(map(escaped, values)) + " |"

    def block(ones):
        return [cells(HEADERS), cells(["---"] * len(HEADERS)), *(cells(row(one)) for one in ones)]

    loud = [one for one in report.judged if one.word not in ("ok", "not judged")]
    rest = [one for one in report.judged if one.word in ("ok", "not judged")]
    lines = [
        f"### Nearmetal: {headline(report)}",
        "",
        escaped(subject(report)),
        "",
        *(block(loud) if loud else []),
    ]
    lines += ["", *(f"- {escaped(reason)}" for reason in reasons(report))]
    if rest:
        lines += [
            "",
            f"<details><summary>{len(rest)} more</summary>",
            "",
            *block(rest),
            "",
            "</details>",
        ]
    return "\n".join(lines) + "\n"


@readable
def openmetrics(report: Report) -> str:
    """Gauges for a monitor that scrapes a file."""
    registry, labels = (
        CollectorRegistry(),
        ("system", "partition", "node", "environment", "check", "variable"),
    )
    value = Gauge(
        "nearmetal_value", "Median over the launches.", (*labels, "unit"), registry=registry
    )
    change = Gauge(
        "nearmetal_change_ratio",
        "Change against the baseline as a fraction.",
        labels,
        registry=registry,
    )
    word = Gauge(
        "nearmetal_verdict",
        "1 for the verdict that a variable has.",
        (*labels, "verdict"),
        registry=registry,
    )
    Info("nearmetal_session", "The session judged.", registry=registry).info(
        {"uuid": report.session.uuid, "system": report.session.system, "verdict": report.word}
    )
    Gauge("nearmetal_session_start_seconds", "When it started.", registry=registry).set(
        report.session.time
    )
    for one in report.judged:
        partition = report.session.system, one.partition, one.node
        where = *partition, one.environ, one.check, one.variable
        word.labels(*where, one.word).set(1)
        if one.value is not None:
            value.labels(*where, one.unit).set(one.value)
        if one.change is not None:
            change.labels(*where).set(one.change)
    return generate_latest(registry).decode()
