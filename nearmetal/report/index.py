"""The index of several systems' reports: one HTML file beside their pages."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from nearmetal.judge.verdict import GateReport
from nearmetal.model import naming
from nearmetal.report import overview, page
from nearmetal.results import Session

#: Newest sessions that the index lists of each system.
LISTED = 30


@dataclass(frozen=True)
class Entry:
    """A system with its page."""

    file: str  #: name of the page beside the index
    sessions: list[Session]  #: of this system, oldest first
    report: GateReport | None  #: on the newest one

    @property
    def newest(self) -> Session:
        return self.sessions[-1]

    @property
    def headline(self) -> dict:
        return overview.headline(self.report, self.newest)

    @property
    def listed(self) -> list[Session]:
        """The newest sessions, newest first."""
        return self.sessions[: -LISTED - 1 : -1]


def file_of(system: str, taken: Iterable[str]) -> str:
    """A name for the system's page that no other has: a foreign database may hold any name."""
    unusable = {"index.html", *taken}
    stem = naming.stem(system)
    name = f"{stem}.html"
    for number in itertools.count(2):
        if name not in unusable:
            break
        name = f"{stem}-{number}.html"
    return name


def render(entries: list[Entry]) -> str:
    """The index as HTML."""
    template = page.environment().get_template("index.html")
    style = (page.ASSETS / "page.css").read_text(encoding="utf-8")
    return template.render(entries=entries, style=style)
