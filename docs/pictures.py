"""`make pictures`: draw README's pictures.

The lab's picture comes from its topology, the others from the report of the newest session (`make
demo`).
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
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
#: Each plot of the network's tab is drawn.
DRAWN = """[...document.querySelectorAll('#network .plot')]
    .every(plot => plot.querySelector('.main-svg'))"""
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
    options = parser.parse_args(arguments)
    options.directory.mkdir(parents=True, exist_ok=True)
    drawing = lab(topology.load())
    (options.directory / "lab.svg").write_text(drawing, encoding="utf-8")
    return _report(options.database, options.directory)


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


def _report(database: Path, pictures: Path) -> int:
    """Write the pictures of the report: nearness, and the tab on the network."""
    with tempfile.TemporaryDirectory() as directory:
        page = Path(directory) / "report.html"
        command = [sys.executable, "-m", "nearmetal", "report", "--database", database]
        done = subprocess.run([*command, "--output", page], check=False)
        if page.is_file():
            photograph(page, pictures)
    return done.returncode


def photograph(page: Path, pictures: Path) -> None:
    """Write pictures of a report: the table of nearness, and the top of the tab on the network."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit(NO_CHROMIUM)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        view = browser.new_page(viewport=VIEW)
        view.goto(f"{page.resolve().as_uri()}#overview")
        near = view.locator("table.near")
        if near.count():
            near.screenshot(path=pictures / "nearness.png")
        view = browser.new_page(viewport=VIEW)
        view.goto(f"{page.resolve().as_uri()}#network")
        view.wait_for_function(DRAWN)
        view.screenshot(path=pictures / "report.png")
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
