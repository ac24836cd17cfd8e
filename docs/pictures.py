"""`make pictures`: draw README's pictures.

The lab's picture comes from its topology, the others from the report of the newest session (`make
demo`). With `--figures`, the plots of the newest session that stand for figures of the messaging
paper are drawn instead (docs/figures.md).
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from contextlib import contextmanager
from functools import partial
from html import escape
from pathlib import Path

from playwright.sync_api import sync_playwright

from nearmetal import results
from nearmetal.lab import topology

DIRECTORY = Path(__file__).parent / "pictures"
#: Width of README on a forge, in pixels.
WIDTH = 838
#: Part of the report that the picture shows.
VIEW = {"width": 1100, "height": 700}
NO_CHROMIUM = (
    "pictures: there is no Chromium in PATH to show the report: install it, on Debian by "
    "`apt-get install --no-install-recommends chromium`"
)
#: Link -> what carries a frame, and what that means.
LINKS = {
    "bridge": ("veth + bridge", "in the kernel"),
    "macvlan": ("macvlan passthru", "the node owns the NIC"),
    "vde": ("TAP + user-space switch", "copies every frame"),
}
#: Each plot of a tab is drawn.
DRAWN = """tab => [...document.querySelectorAll(`#${tab} .plot`)]
    .every(plot => plot.querySelector('.main-svg'))"""
#: Hides all plots of a tab but those whose names begin so; returns how the missing ones begin.
ALONE = """([tab, starts]) => {
    const plots = [...document.querySelectorAll(`#${tab} .plot`)];
    const is = (plot, start) => plot.dataset.plot.startsWith(start);
    for (const plot of plots)
        if (!starts.some(start => is(plot, start))) plot.closest('.plot-box').remove();
    return starts.filter(start => !plots.some(plot => is(plot, start)));
}"""
#: Figure of the messaging paper -> tab of the report, and how the names of its plots begin.
FIGURES = {
    "figure4": ("network", ("latency-internode", "bandwidth-internode")),
    "figure5": ("network", ("latency-intranode", "bandwidth-intranode")),
    "figure6": ("kernels", tuple(f"mops-{kernel}-" for kernel in ("cg", "ft", "is", "mg"))),
}
STYLE = """
text { font: 15px sans-serif; fill: #1b2733; text-anchor: middle; }
.small { font-size: 12.5px; fill: #516173; }
.bold { font-weight: bold; }
rect { fill: #ffffff; stroke: #7d8ea1; rx: 6; }
.link { fill: #dfeefb; }
.ground { fill: #f5f8fb; stroke: none; }
line { stroke: #7d8ea1; stroke-width: 2; }
"""


def main(arguments=None) -> int:
    """Write the pictures. Returns the exit code of `nearmetal report`."""
    parser = argparse.ArgumentParser(prog="pictures", description=__doc__)
    parser.add_argument("--database", type=Path, default=results.default_database())
    parser.add_argument("--directory", type=Path, default=DIRECTORY)
    parser.add_argument(
        "--figures",
        nargs="*",
        choices=FIGURES,
        metavar="FIGURE",
        help=f"draw the messaging paper's instead: {', '.join(FIGURES)} (default: all of them)",
    )
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    if options.figures is not None:
        take = partial(photograph_figures, figures=options.figures or tuple(FIGURES))
        return _report(options.database, options.directory, take)
    drawing = lab(topology.load())
    (options.directory / "lab.svg").write_text(drawing, encoding="utf-8")
    return _report(options.database, options.directory, photograph)


def lab(plan: topology.Topology) -> str:
    """The lab as SVG: the login node, and a column for each link class of two nodes."""
    columns = _pairs(plan)
    step = WIDTH / len(columns)
    parts = [_box(WIDTH / 2, 20, 330, [f"{plan.controller}: slurmctld, slurmdbd, ReFrame"])]
    for number, (one, nodes) in enumerate(columns):
        parts += _column(step * (number + 0.5), step, one, nodes)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 335" width="{WIDTH}">\n'
        f"<style>{STYLE}</style>\n"
        f'<rect class="ground" width="{WIDTH}" height="335"/>\n{body}\n</svg>\n'
    )


def _pairs(plan: topology.Topology) -> list[tuple]:
    """(link class, names of its nodes) of the classes that partitions compare: two nodes each."""
    found = []
    for one in plan.classes:
        names = [node.name for node in plan.nodes if node.link_class is one]
        if one.link in LINKS and len(names) == 2:
            found.append((one, names))
    return found


def _column(middle: float, step: float, one, nodes: list[str]) -> list[str]:
    parts = [_wire(WIDTH / 2, 70, middle, 130), _box(middle, 130, step - 40, LINKS[one.link], True)]
    for place, name in zip((-1, 1), nodes, strict=True):
        centre = middle + place * step / 4.4
        parts += [
            _wire(middle, 180, centre, 240),
            _box(centre, 240, step / 2 - 30, [name, "slurmd"]),
        ]
    return [*parts, _text(middle, 318, f"partition {', '.join(one.partitions)}", "bold")]


def _box(x: float, y: float, width: float, lines, is_link: bool = False) -> str:
    """A box around a line of text, or a line and a smaller one."""
    frame = (
        f'<rect class="{"link" if is_link else ""}" x="{x - width / 2:.0f}" y="{y}" '
        f'width="{width:.0f}" height="50"/>'
    )
    first = y + (30 if len(lines) == 1 else 22)
    words = [_text(x, first, lines[0]), *(_text(x, y + 40, line, "small") for line in lines[1:])]
    return "\n".join([frame, *words])


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{escape(words)}</text>'


def _wire(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.0f}" y1="{y1:.0f}" x2="{x2:.0f}" y2="{y2:.0f}"/>'


def _report(database: Path, pictures: Path, take) -> int:
    """Write the report of the newest session and take pictures of it. Returns its exit code."""
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "report.html"
        command = [sys.executable, "-m", "nearmetal", "report", "--database", database]
        done = subprocess.run([*command, "--output", page], check=False)
        if page.is_file():
            take(page, pictures)
    return done.returncode


@contextmanager
def _chromium():
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise SystemExit(NO_CHROMIUM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def _tab(browser, page: Path, name: str):
    """A tab of a report, with its plots drawn."""
    view = browser.new_page(viewport=VIEW)
    view.goto(f"{page.resolve().as_uri()}#{name}")
    view.wait_for_function(DRAWN, arg=name)
    return view


def photograph(page: Path, pictures: Path) -> None:
    """Write pictures of a report: the table of nearness, and the top of the tab on the network."""
    with _chromium() as browser:
        near = _tab(browser, page, "overview").locator("table.near")
        if near.count():
            near.screenshot(path=pictures / "nearness.png")
        _tab(browser, page, "network").screenshot(path=pictures / "report.png")


def photograph_figures(page: Path, pictures: Path, figures: Iterable[str] = FIGURES) -> None:
    """Write a picture of the plots that stand for each of these figures of the messaging paper.

    SystemExit names the plots that the report lacks.
    """
    missing = []
    with _chromium() as browser:
        for figure in figures:
            tab, starts = FIGURES[figure]
            view = _tab(browser, page, tab)
            lacking = view.evaluate(ALONE, [tab, starts])
            missing += [f"{start.strip('-')} ({figure})" for start in lacking]
            if len(lacking) < len(starts):
                view.screenshot(
                    path=pictures / f"{figure}.png", full_page=True, clip=_plots(view, tab)
                )
    if missing:
        raise SystemExit(
            f"pictures: the report has no plot of {', '.join(missing)}: measure the session that "
            "docs/figures.md names"
        )


def _plots(view, tab: str) -> dict[str, float]:
    """The part of a tab from its legend to the end of its plots."""
    view.evaluate("scrollTo(0, 0)")  # a box is relative to the part of the page that is shown
    legend = view.locator(f"#{tab} .filters").first.bounding_box()
    plots = view.locator(f"#{tab} .plots").first.bounding_box()
    bottom = plots["y"] + plots["height"]
    return {
        "x": 0,
        "y": legend["y"],
        "width": VIEW["width"],
        "height": bottom - legend["y"],
    }


if __name__ == "__main__":
    sys.exit(main())
