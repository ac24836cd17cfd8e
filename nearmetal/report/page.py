"""`nearmetal report`: one HTML file for people, which needs no network.

Tables are plain HTML. plotly.js draws the plots. It is compressed in the file, and the browser
inflates it when a plot is first shown. Contents of sessions are untrusted: the template escapes
them, and data for the script is JSON in base64. The content security policy admits the page's own
two scripts, by hash, and no connection.
"""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jinja2
import markupsafe
import orjson

from nearmetal.compare import side_by_side
from nearmetal.errors import NearmetalError
from nearmetal.fleet.render import Swept
from nearmetal.report import fleet as fleet_page
from nearmetal.report import history, named, overview, plots, summary
from nearmetal.util import sanitize

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("tabs.js", "plots.js", "fleet.js", "history.js")
#: Most partitions in the columns of a table. `--distribute` makes each node one.
MOST_COLUMNS = 500
#: Published figures that a page lists, by check.
CONTEXT = {
    "network": ("pingpong", "tcp", "rdma"),
    "kernels": ("npb", "npb_mz", "eigen", "namd", "nwchem"),
    "memory": ("stream", "hpcc"),
}


class ReportError(NearmetalError):
    """There is no session to report on, or a part of the report is missing."""


def render(
    sessions: Iterable,
    report,
    changes,
    figures,
    base: str | None = None,
    numbers=None,
    fleet: Mapping[str, Sequence[Swept]] | None = None,
) -> str:
    """The report as HTML. Raises ReportError.

    :arg sessions: all stored sessions of one system, oldest first. They are read once and not kept.
    :arg report: the gate's report on one of them; None: no verdict, and the newest is shown.
    :arg changes: change points in the history.
    :arg figures: published figures.
    :arg base: the partition that others are compared with (default: `native`, else the first).
    :arg numbers: gives extras that are numbers, by partition, for sessions without a native link.
    :arg fleet: sweeps of all nodes, by the id of their session; the newest session's are shown.
    """
    changes, figures = sanitize.every(list(changes)), sanitize.every(list(figures))
    if report is not None:
        verdicts, notes, causes = sanitize.every((report.verdicts, report.notes, report.causes))
        report = replace(report, verdicts=verdicts, notes=notes, causes=causes)
    collector, shown, newest = history.Collector(), {}, None
    has = {
        "overhead": overview.has_overhead,
        "network": lambda one: plots.has_network(one) or named.holds(one, "network"),
        "memory": lambda one: plots.has_memory(one) or named.holds(one, "memory"),
        "kernels": lambda one: plots.has_kernels(one) or named.holds(one, "kernels"),
        "provenance": history.has_facts,
        "fleet": lambda one: one.uuid in (fleet or {}),
    }
    for newest in sessions:
        collector.add(newest)
        shown.update({page: newest for page, holds in has.items() if holds(newest)})
    if newest is None:
        raise ReportError("no session is stored: run `reframe -c reframe_checks -r` first")
    subject = report.session if report is not None else newest
    # A page shows the judged session. If that has no values for it, it shows the newest that has
    # some, and says so.
    shown = {page: subject if holds(subject) else shown.get(page) for page, holds in has.items()}
    drawn = {
        page: [*draw(shown[page], figures), *named.drawn(shown[page], page)]
        for page, draw in (
            ("network", plots.network),
            ("memory", plots.memory),
            ("kernels", plots.kernels),
        )
    }
    over_time = collector.plot(changes)
    swept = fleet_page.drawn(fleet[shown["fleet"].uuid]) if fleet and shown["fleet"] else []
    places = {
        page: overview.partitions(shown[page] or subject, base)
        for page in ("overhead", "provenance")
    }
    columns = {page: found[:MOST_COLUMNS] for page, found in places.items()}
    everywhere = list(dict.fromkeys([*places["overhead"], *(key[1] for key in collector.series)]))
    rows = collector.rows(over_time, changes)
    facts, all_facts = collector.facts()
    data = {
        "partitions": everywhere,
        "plots": [plot for page in drawn.values() for plot in page],
        "history": over_time,
        "fleet": [one for sweep in swept for one in sweep["maps"]],
        "fleet_past": [sweep["past"] for sweep in swept if sweep["past"]],
    }
    library, library_hash = _library()
    script = "\n".join((ASSETS / name).read_text(encoding="utf-8") for name in SCRIPTS)
    return (
        environment()
        .get_template("report.html")
        .render(
            subject=subject,
            when=summary.date(subject.started),
            headline=overview.headline(report, subject),
            verdicts=overview.verdicts(report),
            notes=report.notes if report is not None else sanitize.every(subject.notes),
            causes=report.causes if report is not None else (),
            failures=overview.failures(subject),
            disturbed=side_by_side.disturbed(subject),
            nearness=overview.nearness(shown["overhead"] or subject, columns["overhead"], numbers),
            ratios=overview.published(subject, figures),
            columns=columns,
            all_columns={page: len(found) for page, found in places.items()},
            steps=overview.STEPS,
            heat=overview.heat_map(shown["overhead"], columns["overhead"]),
            changes=[(c, history.sentence(c)) for c in changes],
            shown=shown,
            curveless=plots.has_no_curves(shown["network"]),
            plots=drawn,
            bindings_of={
                page: overview.bindings(shown[page], CONTEXT[page])
                for page in ("kernels", "memory")
            },
            reaches=overview.reaches(shown["kernels"], figures),
            context={
                page: [figure for figure in figures if figure.check in checks]
                for page, checks in CONTEXT.items()
            },
            fleet=swept,
            rows=rows,
            # A single session has no tab of its history.
            index={row["key"][:4]: row["index"] for row in rows if len(collector.sessions) > 1},
            series=len(collector.series),
            sessions=len(collector.sessions),
            slots=over_time["slots"],
            provenance=history.provenance(shown["provenance"], columns["provenance"]),
            facts=facts,
            all_facts=all_facts,
            style=(ASSETS / "page.css").read_text(encoding="utf-8"),
            script=script,
            script_hash=_hash(script),
            library_hash=library_hash,
            library=library,
            data=_packed(orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS)),
        )
    )


@functools.cache  # it keeps the compiled template
def environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ASSETS),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=_shown,
    )
    environment.filters.update(
        unit=summary.unit,
        plain=summary.plain,
        number=summary.number,
        named=summary.named,
        code=_code,
        places=_places,
    )
    return environment


def _shown(value):
    """A value as a page shows it: text without control characters, and our own markup unchanged."""
    if isinstance(value, str) and not isinstance(value, markupsafe.Markup):
        return sanitize.text(value)
    return value


def _code(text: str) -> markupsafe.Markup:
    """Escaped text, with parts between backticks as code."""
    return markupsafe.Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(markupsafe.escape(text))))


def _places(lines: Iterable[Mapping]) -> Iterator:
    """The places on the x axis of a plot's lines."""
    for line in lines:
        yield from line["x"]


@functools.cache
def _library() -> tuple[str, str]:
    """plotly.js from the Python package, packed, and its hash."""
    try:
        script = (resources.files("plotly") / "package_data" / "plotly.min.js").read_text(
            encoding="utf-8"
        )
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise ReportError(
            "plotly, which draws the report, is not installed: run `make .venv/ready`, "
            "or install requirements-login.lock"
        ) from error
    return _packed(script.encode()), _hash(script)


def _hash(script: str) -> str:
    """Hash of an inline script for the content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _packed(data: bytes) -> str:
    """Gzip in base64, which is safe in HTML. The same data give the same bytes."""
    return base64.b64encode(gzip.compress(data, 9, mtime=0)).decode()
