"""The index of several systems' reports: one HTML file beside their pages."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from nearmetal.judge.verdict import GateReport
from nearmetal.model import naming
from nearmetal.report import overview, page, summary
from nearmetal.results import Session

#: Newest sessions that the index lists of each system.
LISTED = 30


@dataclass(frozen=True)
class Entry:
    """A system with its page."""

    file: str  #: name of the page beside the index
    sessions: list[Session]  #: of this system, oldest first
    report: GateReport | None  #: on the newest one


def file_of(system: str, taken: Iterable[str]) -> str:
    """A name for the system's page that no other has: a foreign database may hold any name."""
    stem = naming.stem(system)
    names = [f"{stem}.html", *(f"{stem}-{number}.html" for number in range(2, 10000))]
    return next(name for name in names if name not in {"index.html", *taken})


def render(entries: list[Entry]) -> str:
    """The index as HTML."""
    return (
        page.environment()
        .get_template("index.html")
        .render(
            systems=[_system(one) for one in entries],
            style=(page.ASSETS / "page.css").read_text(encoding="utf-8"),
        )
    )


def _system(entry: Entry) -> dict:
    newest = entry.sessions[-1]
    rows = [
        {
            "when": summary.date(one.started),
            "id": one.uuid[:8],
            "cases": len(one.cases),
            "failed": len(one.failures),
        }
        for one in entry.sessions[: -LISTED - 1 : -1]
    ]
    return {
        "name": newest.system,
        "file": entry.file,
        "when": summary.date(newest.started),
        "headline": overview.headline(entry.report, newest),
        "count": len(entry.sessions),
        "rows": rows,
    }
