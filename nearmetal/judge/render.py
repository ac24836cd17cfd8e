"""A gate's report as text for a terminal, JSON, JUnit, Markdown or OpenMetrics. Writes no file."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from xml.etree import ElementTree

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest
from tabulate import tabulate

from nearmetal.compare import nearness, side_by_side
from nearmetal.judge.baseline import MAY_DIFFER
from nearmetal.judge.verdict import (
    MEASURED_AGAIN,
    RECORDED,
    UNCHANGED,
    UNJUDGED,
    VERDICT_NAMES,
    GateReport,
    Likely,
    Verdict,
)
from nearmetal.model.naming import plain
from nearmetal.util import sanitize
from nearmetal.util.suggest import shorten
from nearmetal.util.text import number, percent

#: Version of the JSON document, which the schema beside this file describes.
FORMAT = 2
#: Keys of the JSON document that differ from the names of a verdict's attributes.
KEYS = {"environ": "environment", "name": "verdict"}
#: Verdicts whose variables the table leaves out.
QUIET = (*UNCHANGED, UNJUDGED)
#: Reasons of variables that are not judged, in the outputs for people: the most common ones.
COMMON = 3
#: Attributes of a verdict that the document leaves out: they steer `--confirm`.
INTERNAL = ("more", "better", "screened", "by_fresh", "selected", "one_day", "of_repeats", "pooled")
#: Most likely causes in the outputs for people.
LIKELY = 6
HEADERS = (
    *("verdict", "check", "partition", "environment", "variable"),
    *("baseline", "now", "change", "95 % interval", "finds", "repeats"),
)
CAUSES = ("where", "", "likely cause", "support", "evidence")
#: Least scores of the words for a cause's support.
SUPPORT = ((4.0, "strong"), (2.0, "fair"), (0.1, "weak"))
SUMMARY = {
    "clean": "nothing got worse",
    "regressed": "regressed",
    "deviates": "not what one may expect",
    "incomplete": "not everything is known",
}
ADVICE = {
    "deviates": "deviates: beyond what one may expect of this system; `nearmetal expect` says why",
    "selected": "at least: repeats that are the reason to report a change exaggerate it, and the "
    "interval allows for that. `nearmetal gate --confirm` estimates the change",
    "ok": "ok: no change as large as the minimum detectable one (`finds`; --all prints it)",
    "disturbed": "disturbed: end what disturbs the nodes, and run these checks again",
    "inconclusive": "inconclusive: `nearmetal gate --confirm` measures these again",
    "improved": "improved: `nearmetal baseline record` makes that the new standard",
    UNJUDGED: "not judged: without a reference; --all prints these variables",
}


def readable(output):
    """Decorator of an output: each text of its report is one line, without control characters."""

    @functools.wraps(output)
    def cleaned(report: GateReport, *arguments):
        session = sanitize.every(replace(report.session, cases=(), skipped=(), reasons={}))
        # Cases may be thousands: an output cleans what it takes of them.
        session = replace(session, cases=report.session.cases)
        shown = sanitize.every((report.verdicts, report.notes, report.causes))
        verdicts, notes, causes = shown
        cleaned = replace(report, session=session, verdicts=verdicts, notes=notes, causes=causes)
        return output(cleaned, *arguments)

    return cleaned


def headline(report: GateReport) -> str:
    summary = report.known or SUMMARY[report.verdict]
    if report.mostly_unjudged:
        summary += "; less than half of the variables are judged"
    return f"{summary}: {counted(report.verdicts) or 'nothing was judged'}"


def counted(verdicts: Iterable[Verdict]) -> str:
    """`2 regressed, 4 not judged, 30 ok`."""
    counts = dict.fromkeys(VERDICT_NAMES, 0)
    for verdict in verdicts:
        counts[verdict.name] += 1
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)


def subject(report: GateReport) -> str:
    if not report.session.uuid:
        return f"no session on {report.session.system} can be judged"
    return f"session {report.session.uuid} on {report.session.system}, started {when(report)}"


def when(report: GateReport) -> str:
    """The session's start in UTC, and its age, which shows that a session is old."""
    started = datetime.fromtimestamp(report.session.time, UTC)
    age = (datetime.now(UTC) - started).total_seconds()
    for seconds, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if age >= 2 * seconds:
            return f"{started:%Y-%m-%d %H:%M} UTC ({age // seconds:.0f} {unit} ago)"
    return f"{started:%Y-%m-%d %H:%M} UTC"


def row(verdict: Verdict) -> list[str]:
    cells = dict.fromkeys(HEADERS, "")
    cells |= {"verdict": verdict.name, "check": plain(verdict.check), "partition": verdict.place}
    cells |= {"environment": verdict.environ, "variable": verdict.variable}
    if verdict.baseline is not None:
        cells["baseline"] = f"{number(verdict.baseline)} {verdict.unit}"
    if verdict.value is not None:
        cells["now"] = f"{number(verdict.value)} {verdict.unit}"
    if verdict.change is not None:
        cells["change"] = percent(verdict.change)
    if verdict.selected and verdict.interval:
        least = min(verdict.interval, key=abs)
        cells["change"] = f"at least {percent(least)}" if least else "more than 0"
    if verdict.interval:
        cells["95 % interval"] = " to ".join(map(percent, verdict.interval))
    if verdict.finds:
        cells["finds"] = f"{100 * verdict.finds:.0f} %"
    if verdict.wanted:
        cells["repeats"] = f"{verdict.repeats} of {verdict.wanted} wanted"
    elif _repeats(verdict):
        cells["repeats"] = str(_repeats(verdict))
    return list(cells.values())


def _repeats(verdict: Verdict) -> int:
    """Number of repeats whose median is the row's value."""
    return verdict.pooled or verdict.repeats


def likely(report: GateReport) -> list[str]:
    """A line on each likely cause, with the first piece of its evidence."""
    if not report.causes:
        return []
    lines = map(likely_line, report.causes[:LIKELY])
    return [*lines, "`nearmetal explain` lists the evidence of each"]


def likely_line(cause: Likely) -> str:
    """`native: MTU: the network interfaces have another MTU (mtu: 1500 -> 1200)`."""
    line = f"{', '.join(cause.places)}: {named(cause)}"
    if cause.evidence:
        line += f" ({cause.evidence[0]})"
    return line


def named(cause: Likely) -> str:
    """The rule's name and sentence; of an unknown cause, the sentence."""
    if not cause.score:
        return cause.says
    return f"{cause.name}: {cause.says}"


def support(score: float) -> str:
    """A score as a word; "" for no support."""
    for least, name in SUPPORT:
        if score >= least:
            return name
    return ""


@readable
def table_of_causes(report: GateReport) -> str:
    """The causes as a table, with their evidence."""
    if not report.causes and report.verdict != "clean":
        return "no cause can be given: nothing that got worse, failed or was disturbed has a layer"
    if not report.causes:
        return "nothing got worse, so there is nothing to explain"
    rows: list[list[str]] = []
    counts: dict[str, int] = {}
    for cause in report.causes:
        # A cause is numbered on its first partition.
        number = counts[cause.places[0]] = counts.get(cause.places[0], 0) + 1
        where, (first, *others) = ", ".join(cause.places), cause.evidence or ("",)
        rows.append([where, str(number), named(cause), support(cause.score), first])
        for line in others:
            rows.append(["", "", "", "", line])
    widths = [None, None, 40, None, 72]
    return tabulate(rows, CAUSES, disable_numparse=True, maxcolwidths=widths)


def reasons(report: GateReport, every: bool) -> list[str]:
    """Lines below the table: each reason with its variables, changed facts, advice and notes."""
    lines = [*_of_variables(report, every), *_changed_facts(report)]
    names = set()
    for verdict in report.verdicts:
        # Where `--confirm` has ended, or needs a baseline, it is no advice.
        confirmable = verdict.reference in RECORDED and not report.confirmed
        if verdict.name != "inconclusive" or confirmable:
            names.add(verdict.name)
        if verdict.selected:
            names.add("selected")
    for name, text in ADVICE.items():
        if name in names:
            lines.append(text)
    return [*lines, *report.notes]


def _of_variables(report: GateReport, every: bool) -> list[str]:
    """A line for each reason of a verdict, with its variables."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for verdict in report.verdicts:
        if verdict.reason:
            variable = " ".join(filter(None, [*verdict.where, verdict.variable]))
            grouped.setdefault((verdict.name, verdict.reason), []).append(variable)
    rest: list[str] = []
    if not every:
        # Beside machines like this one, each variable that is not judged has its own reason.
        folded = [key for key in grouped if key[0] == UNJUDGED]
        folded.sort(key=lambda key: -len(grouped[key]))
        for key in folded[COMMON:]:
            rest += grouped.pop(key)
    lines = []
    for (name, reason), variables in grouped.items():
        lines.append(f"{name}: {reason} ({shorten(variables)})")
    if rest:
        lines.append(f"{UNJUDGED}: {len(rest)} more, for other reasons ({shorten(rest)})")
    return lines


def _changed_facts(report: GateReport) -> list[str]:
    """A line for each fact that changed. Facts that may differ stand beside a change alone."""
    changed: dict[tuple, list[str]] = {}
    for verdict in report.verdicts:
        suspicious = verdict.name in (*MEASURED_AGAIN["suspicious"], "deviates")
        for name, (then, now) in (verdict.facts or {}).items():
            if suspicious or name not in MAY_DIFFER:
                changed.setdefault((name, then, now), []).append(verdict.place)
    lines = []
    for (name, then, now), places in changed.items():
        where = ", ".join(dict.fromkeys(places))
        lines.append(f"changed since the baseline: {name}: {then} -> {now} ({where})")
    return lines


def _disturbed(report: GateReport) -> list[str]:
    """What disturbed the session's repeats, a line each."""
    return sanitize.every(side_by_side.disturbed(report.session))


@readable
def table(report: GateReport, every: bool = False) -> str:
    """Table for a terminal.

    :arg every: print what is ok or not judged as well.
    """
    blocks = ["\n".join([headline(report), subject(report), *_disturbed(report)])]
    rows = []
    for verdict in report.verdicts:
        if every or (verdict.name not in QUIET and verdict.variable):
            rows.append(row(verdict))
    if rows:
        alignment = ["left"] * 5 + ["right"] * 6
        blocks.append(tabulate(rows, HEADERS, disable_numparse=True, colalign=alignment))
    if report.causes:
        blocks.append("\n".join(["likely causes:", *likely(report)]))
    blocks.append("\n".join(reasons(report, every)))
    return "\n\n".join(filter(None, blocks))


def _evidence(report: GateReport) -> list[dict]:
    """The evidence of each case that has some, as medians over its repeats."""
    evidence = []
    for case in report.session.cases:
        if case.evidence or case.unknown_evidence:
            entry = {
                "check": case.check,
                "partition": case.partition,
                "node": case.node,
                "environment": case.environ,
                "repeats": len(case.evidence),
                "unknown": list(case.unknown_evidence),
                "medians": case.median_evidence,
            }
            evidence.append(entry)
    return sanitize.every(evidence)


@readable
def document(report: GateReport) -> dict:
    """JSON document for programs, as gate-schema.yaml describes it."""
    session = report.session
    return {
        "format": FORMAT,
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "confirmed": report.confirmed,
        "notes": list(report.notes),
        "session": {"uuid": session.uuid, "system": session.system, "started": session.started},
        "judged": list(map(_entry, report.verdicts)),
        "causes": list(map(_cause, report.causes)),
        "evidence": _evidence(report),
    }


def document_of_causes(report: GateReport) -> dict:
    """The part of the document that `nearmetal explain` writes."""
    whole = document(report)
    return {key: whole[key] for key in ("format", "verdict", "exit_code", "session", "causes")}


def _cause(cause: Likely) -> dict:
    """A likely cause for programs."""
    return {
        "cause": cause.name,
        "says": cause.says,
        "partitions": list(cause.places),
        "score": cause.score,
        "evidence": list(cause.evidence),
    }


def together(documents: list[dict], code: int) -> dict:
    """One document: that of the one system, or those of several; with the command's exit code."""
    if len(documents) == 1:
        return {**documents[0], "exit_code": code}
    return {"format": FORMAT, "exit_code": code, "systems": documents}


def _entry(verdict: Verdict) -> dict:
    """A verdict with the document's keys; None instead of NaN and infinity, which JSON lacks."""
    entry = {}
    for name, value in asdict(verdict).items():
        if name in INTERNAL:
            continue
        if isinstance(value, float) and not math.isfinite(value):
            value = None
        entry[KEYS.get(name, name)] = value
    entry["repeats"] = _repeats(verdict)
    return entry


def junit(reports: Sequence[GateReport], every: bool = False) -> str:
    """JUnit XML: regressed is a failure, incomplete an error, not judged and xfail skipped.

    :arg every: list each variable that is not judged; else one case counts them.
    """
    suites = [_suite(report, every) for report in reports]
    root = suites[0]
    if len(suites) > 1:
        root = ElementTree.Element("testsuites")
        root.extend(suites)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


@readable
def _suite(report: GateReport, every: bool) -> ElementTree.Element:
    kinds = {
        "regressed": "failure",
        "deviates": "failure",
        "incomplete": "error",
        "disturbed": "error",
        "inconclusive": "error",
        "xfail": "skipped",
        UNJUDGED: "skipped",
    }
    listed = [verdict for verdict in report.verdicts if every or verdict.name != UNJUDGED]
    outcomes = [kinds.get(verdict.name) for verdict in listed]
    folded = len(listed) < len(report.verdicts)
    if folded:
        outcomes.append("skipped")
    suite = ElementTree.Element(
        "testsuite",
        name=f"nearmetal gate {report.session.system}",
        tests=str(len(outcomes)),
        failures=str(outcomes.count("failure")),
        errors=str(outcomes.count("error")),
        skipped=str(outcomes.count("skipped")),
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in (("exit_code", report.exit_code), ("confirmed", _yes(report.confirmed))):
        ElementTree.SubElement(properties, "property", name=name, value=str(value))
    for verdict in listed:
        case = ElementTree.SubElement(
            suite,
            "testcase",
            name=f"{verdict.check} {verdict.variable}".strip(),
            classname=f"{report.session.system}.{verdict.place}.{verdict.environ}",
        )
        kind = kinds.get(verdict.name)
        if kind:
            numbers = ", ".join(filter(None, row(verdict)[5:]))
            message = f"{verdict.name}: {verdict.reason or numbers}"
            ElementTree.SubElement(case, kind, message=message)
    if folded:
        case = ElementTree.SubElement(
            suite, "testcase", name=UNJUDGED, classname=report.session.system
        )
        message = f"{report.without_reference}: `nearmetal gate --all` lists them"
        ElementTree.SubElement(case, "skipped", message=message)
    return suite


def _yes(is_true: bool) -> str:
    return "yes" if is_true else "no"


def escaped(text) -> str:
    """Escaped text: in Markdown it cannot end a table cell, or become HTML, a link or a picture."""
    entities = str(text).replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\|\[\]])", r"\\\1", entities)


@readable
def markdown(report: GateReport, every: bool = False) -> str:
    """Comment for a merge request: the headline, variables that are not ok, and the others in a
    closed block.

    :arg every: all variables stand in the open.
    """
    quiet = (*QUIET, "xfail")
    loud = [verdict for verdict in report.verdicts if every or verdict.name not in quiet]
    rest = [verdict for verdict in report.verdicts if not every and verdict.name in quiet]
    lines = [
        f"### Nearmetal: {headline(report)}",
        "",
        escaped(subject(report)),
        f"Exit code {report.exit_code}; confirmed by fresh repeats: {_yes(report.confirmed)}.",
        "",
        *_listed(_disturbed(report)),
        "",
        *_markdown_table(loud),
    ]
    if report.causes:
        lines += ["", "Likely causes:", "", *_listed(likely(report))]
    lines += ["", *_listed(reasons(report, every))]
    if rest:
        lines += [
            "",
            f"<details><summary>{counted(rest)}</summary>",
            "",
            *_markdown_table(rest),
            "",
            "</details>",
        ]
    return "\n".join(lines) + "\n"


def _listed(lines: Iterable[str]) -> list[str]:
    """The items of a list in Markdown."""
    return [f"- {escaped(line)}" for line in lines]


def _markdown_table(verdicts: Sequence[Verdict]) -> list[str]:
    """The lines of a table; [] without a verdict."""
    if not verdicts:
        return []
    rows = [HEADERS, ["---"] * len(HEADERS), *map(row, verdicts)]
    return [f"| {' | '.join(map(escaped, cells))} |" for cells in rows]


LABELS = ("system", "partition", "node", "environment", "check", "variable")
NEAR = ("system", "partition", "base", "aspect")
#: Gauge -> its sentence and labels.
GAUGES = {
    "nearmetal_nearness_ratio": (
        "Share of the base that is left; 1 is as near, below 1 is worse.",
        NEAR,
    ),
    "nearmetal_nearness_interval_ratio": (
        "Bounds of the share's interval, 95 % of bootstrap draws over repeats.",
        (*NEAR, "bound"),
    ),
    "nearmetal_value": ("Median over the repeats.", (*LABELS, "unit")),
    "nearmetal_change_ratio": ("Change against the baseline as a fraction.", LABELS),
    "nearmetal_verdict": ("1 for the verdict on a variable.", (*LABELS, "verdict")),
    # No Info: node_exporter's textfile collector refuses a file with that type.
    "nearmetal_session_info": ("1 for the judged session.", ("system", "uuid", "verdict")),
    "nearmetal_exit_code": ("Exit code of the command, or of its verdict so far.", ("system",)),
    "nearmetal_confirmed": ("1 if --confirm has ended, 0 if not.", ("system",)),
    "nearmetal_session_start_seconds": ("Start of the session.", ("system",)),
}


def openmetrics(
    reports: Sequence[GateReport], numbers: Callable[[str], nearness.Numbers] | None = None
) -> str:
    """Gauges for a monitor that scrapes a file: first the nearness that `compare` prints.

    :arg numbers: function: a system -> the numbers of its partitions' extras, for the limits of a
        session without a native link.
    """
    registry = CollectorRegistry()
    gauges = {}
    for name, (text, labels) in GAUGES.items():
        gauges[name] = Gauge(name, text, labels, registry=registry)
    for report in reports:
        session, of_system, near = report.session, None, None
        if numbers:
            of_system = functools.partial(numbers, session.system)
        if places := side_by_side.columns(session, None):
            near = nearness.of_session(session, places, of_system)
        _add(report, near, gauges)
    return generate_latest(registry).decode()


@readable
def _add(report: GateReport, near: nearness.Nearness | None, gauges: dict[str, Gauge]) -> None:
    """Set the gauges of one system."""
    session = report.session
    system = session.system
    if near is not None:
        _add_nearness(gauges, system, near)
    gauges["nearmetal_session_info"].labels(system, session.uuid, report.verdict).set(1)
    gauges["nearmetal_exit_code"].labels(system).set(report.exit_code)
    gauges["nearmetal_confirmed"].labels(system).set(report.confirmed)
    if session.uuid:
        gauges["nearmetal_session_start_seconds"].labels(system).set(session.time)
    for verdict in report.verdicts:
        place = system, verdict.partition, verdict.node
        where = *place, verdict.environ, verdict.check, verdict.variable
        gauges["nearmetal_verdict"].labels(*where, verdict.name).set(1)
        if verdict.value is not None:
            gauges["nearmetal_value"].labels(*where, verdict.unit).set(verdict.value)
        if verdict.change is not None:
            gauges["nearmetal_change_ratio"].labels(*where).set(verdict.change)


def _add_nearness(gauges: dict[str, Gauge], system: str, near: nearness.Nearness) -> None:
    for aspect, shares in near.rows:
        for place, share in zip(near.places, shares):
            if share is None:
                continue
            where = system, place, near.base, aspect
            gauges["nearmetal_nearness_ratio"].labels(*where).set(share.value)
            for bound, value in zip(("low", "high"), share.interval or ()):
                gauges["nearmetal_nearness_interval_ratio"].labels(*where, bound).set(value)
