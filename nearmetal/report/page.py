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
import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path

import jinja2
import markupsafe
import orjson

from nearmetal.compare import nearness, published_ratios, scaling, side_by_side
from nearmetal.compare.published import Figure
from nearmetal.errors import NearmetalError
from nearmetal.fleet.render import Swept
from nearmetal.judge.like import Table
from nearmetal.report import fleet as fleet_page
from nearmetal.report import history, network, overview, plots, summary, variables
from nearmetal.report import like as strips
from nearmetal.results import Session
from nearmetal.util import sanitize

ASSETS = Path(__file__).parent / "assets"
SCRIPTS = ("tabs.js", "plots.js", "fleet.js", "history.js")
#: Most partitions in the columns of a table. `--distribute` makes each node one.
MOST_COLUMNS = 500
#: What a page shows that no session measured for.
NOTHING = Session("", "", "", ())
#: Pages of plots. A check's published figures are on the page that lists it, else with the kernels.
PAGES: dict[str, tuple[str, ...]] = {
    "network": network.CHECKS,
    "kernels": (),
    "memory": ("stream", "hpcc"),
}


class ReportError(NearmetalError):
    """There is no session to report on, or a part of the report is missing."""


def render(
    sessions: Iterable,
    report,
    changes,
    figures,
    numbers=None,
    fleet: Mapping[str, Sequence[Swept]] | None = None,
    like: Sequence[Table] = (),
) -> str:
    """The report as HTML. Raises ReportError.

    :arg sessions: all stored sessions of one system, oldest first. They are read once and not kept.
    :arg report: the gate's report on one of them; None: no verdict, and the newest is shown.
    :arg changes: change points in the history.
    :arg figures: published figures.
    :arg numbers: gives extras that are numbers, by partition, for sessions without a native link.
    :arg fleet: sweeps of all nodes, by the id of their session; the newest session's are shown.
    :arg like: the partitions beside published figures of machines like them.
    """
    # What sessions, documents and other people's checks say is text of strangers.
    changes, figures = sanitize.every(list(changes)), sanitize.every(list(figures))
    if report is not None:
        verdicts, notes, causes = sanitize.every((report.verdicts, report.notes, report.causes))
        report = replace(report, verdicts=verdicts, notes=notes, causes=causes)
    fleet = fleet or {}
    collector, newest = history.Collector(), None
    shown: dict[str, Session | None] = dict.fromkeys((*PAGES, "overhead", "provenance", "fleet"))
    for newest in sessions:
        collector.add(newest)
        shown |= dict.fromkeys(_pages(newest, fleet), newest)
    if newest is None:
        raise ReportError("no session is stored: run `reframe -c reframe_checks -r` first")
    subject = newest
    if report is None:
        notes, causes = sanitize.every(subject.notes), ()
    else:
        subject = report.session
    # A page shows the judged session. If that has no values for it, it shows the newest that has
    # some, and says so.
    shown |= dict.fromkeys(_pages(subject, fleet), subject)
    held = {page: session or NOTHING for page, session in shown.items()}
    swept = fleet_page.drawn(fleet.get(held["fleet"].uuid, ()))
    maps, past = [], []
    for sweep in swept:
        maps += sweep["maps"]
        if sweep["past"]:
            past.append(sweep["past"])
    drawn = {page: variables.drawn(held[page], page, figures) for page in PAGES}
    drawn["network"] = [*network.drawn(held["network"], figures), *drawn["network"]]
    all_columns, columns = {}, {}
    for page in ("overhead", "provenance"):
        places = overview.partitions(shown[page] or subject)
        all_columns[page], columns[page] = places, places[:MOST_COLUMNS]
    near = None
    if columns["overhead"]:
        near = nearness.of_session(shown["overhead"] or subject, columns["overhead"], numbers)
    over_time = collector.plot(changes)
    rows = collector.rows(over_time, changes)
    facts, all_facts = collector.facts()
    every_plot = itertools.chain.from_iterable(drawn.values())
    data = {
        "partitions": collector.partitions(all_columns["overhead"]),
        "plots": [plot for plot in every_plot if plot["drawn"]],
        "history": over_time,
        "fleet": maps,
        "fleet_past": past,
    }
    index = {}
    if len(collector.sessions) > 1:  # a single session has no tab of its history
        index = {row["key"][:4]: row["index"] for row in rows}
    # Hashes in the content security policy admit the page's own scripts alone.
    library, library_hash = _library()
    script = "\n".join(map(_asset, SCRIPTS))
    template = environment().get_template("report.html")
    return template.render(
        subject=subject,
        headline=overview.headline(report, subject),
        verdicts=overview.verdicts(report),
        symbols=overview.SYMBOLS,
        notes=notes,
        causes=causes,
        disturbed=side_by_side.disturbed(subject),
        nearness=near,
        like=strips.strips(like),
        ratios=published_ratios.beside(subject, figures),
        columns=columns,
        all_columns=all_columns,
        steps=overview.STEPS,
        heat=overview.heat_map(held["overhead"], columns["overhead"]),
        changes=changes,
        figures=figures,
        shown=shown,
        curveless=network.has_no_curves(held["network"]),
        plots=drawn,
        bindings_of={page: _bindings(held[page], page) for page in ("kernels", "memory")},
        reaches=scaling.reaches(held["kernels"]),
        context=_context(figures),
        fleet=swept,
        rows=rows,
        index=index,
        series=len(collector.series),
        sessions=len(collector.sessions),
        slots=over_time["slots"],
        provenance=history.provenance(held["provenance"], columns["provenance"]),
        facts=facts,
        all_facts=all_facts,
        style=_asset("page.css"),
        script=script,
        script_hash=_hash(script),
        library_hash=library_hash,
        library=library,
        data=_packed(orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS)),
    )


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _pages(session: Session, fleet: Mapping[str, Sequence[Swept]]) -> set[str]:
    """The pages that a session has something for."""
    pages = variables.pages(session)
    if overview.has_overhead(session):
        pages.add("overhead")
    if network.holds(session):
        pages.add("network")
    if history.has_facts(session):
        pages.add("provenance")
    if session.uuid in fleet:
        pages.add("fleet")
    return pages


def _bindings(session: Session, page: str) -> list[side_by_side.Pair]:
    """The bound and unbound values that belong to a page."""
    return [pair for pair in side_by_side.bindings(session) if page_of(pair.check) == page]


def _context(figures: Iterable[Figure]) -> dict[str, list[Figure]]:
    """The published figures that each page lists."""
    listed: dict[str, list[Figure]] = {page: [] for page in PAGES}
    for figure in figures:
        listed[page_of(figure.check)].append(figure)
    return listed


def page_of(check: str) -> str:
    """The page of a check's published figures and bindings."""
    for page, checks in PAGES.items():
        if summary.base_name(check) in checks:
            return page
    return "kernels"


# It keeps the compiled template.
@functools.cache
def environment() -> jinja2.Environment:
    # A name that the template expects and nobody gives is an error, not an empty place.
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
        amount=summary.amount,
        hover=summary.hover,
        percent=summary.percent,
        fact=summary.text,
        means=summary.means,
        date=summary.date,
        sentence=history.sentence,
        first_line=sanitize.first_line,
        share=overview.share_cell,
        plain=summary.plain,
        number=summary.number,
        named=summary.named,
        code=_code,
        places=plots.places,
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
