"""README in a forge's column of 838 px: its pictures are shown and no table is cut off."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from docs import links, pictures
from tests.support import large_database
from tests.support.paths import CHECKOUT

pytestmark = pytest.mark.browser
README = CHECKOUT / "README.md"
#: The rules of a forge's stylesheet that decide how wide a table is.
STYLE = """
body { margin: 0; width: %dpx; line-height: 1.5;
       font: 16px -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; }
table { display: block; width: max-content; max-width: 100%%; overflow: auto;
        border-collapse: collapse; }
th, td { padding: 6px 13px; border: 1px solid; }
code { padding: .2em .4em; font: 85%% ui-monospace, "Liberation Mono", monospace;
       white-space: break-spaces; }
img { max-width: 100%%; }
pre { padding: 16px; overflow: auto; font-size: 85%%; }
pre code { padding: 0; font-size: 100%%; white-space: pre; }
"""
#: For each table and each block of commands: its first words, its width, and that of its content.
WIDE = """[...document.querySelectorAll('table, pre')].map(
    t => [t.innerText.slice(0, 40), t.clientWidth, t.scrollWidth])"""
#: First words of the gate's output, which a forge lets scroll.
SCROLLS = "regressed:"
#: Of a drawing, each text and each box: its left edge and its width.
WORDS = """[...document.querySelectorAll('text')].map(
    t => [t.textContent, t.getBBox().x, t.getBBox().width])"""
BOXES = """[...document.querySelectorAll('rect:not(.ground)')].map(
    r => [r.getBBox().x, r.getBBox().width])"""
#: For each picture: its address, its own width, the width that it takes, and its words.
PICTURES = "[...document.images].map(i => [i.src, i.naturalWidth, i.clientWidth, i.alt])"


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium") or shutil.which("google-chrome")
    assert path, "these tests need Chromium: apt-get install --no-install-recommends chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def shown(browser):
    """shown(path of a page) -> the page in a forge's column."""
    opened = []

    def show(path: Path):
        html = path.with_name(f".{path.stem}.{os.getpid()}.shown.html")
        body = links.MARKDOWN.render(path.read_text(encoding="utf-8"))
        html.write_text(f"<style>{STYLE % pictures.WIDTH}</style>{body}", encoding="utf-8")
        page = browser.new_page(viewport={"width": pictures.WIDTH, "height": 800})
        opened.append((page, html))
        page.goto(html.as_uri())
        return page

    yield show
    for page, html in opened:
        page.close()
        html.unlink()


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_no_table_or_command_is_wider_than_the_column(shown, name):
    page = shown(CHECKOUT / name)
    blocks = [one for one in page.evaluate(WIDE) if not one[0].startswith(SCROLLS)]
    assert blocks
    assert [one for one in blocks if one[2] > pictures.WIDTH or one[2] > one[1]] == []


def test_a_table_that_is_cut_off_is_found(shown, tmp_path):
    page = tmp_path / "wide.md"
    page.write_text(f"| a | b |\n|---|---|\n| {'x' * 200} | y |\n")
    ((_, width, content),) = shown(page).evaluate(WIDE)
    assert content > width


def test_the_pictures_are_shown_within_the_column(shown):
    found = shown(README).evaluate(PICTURES)
    assert [Path(source).name for source, *_ in found] == ["nearness.png", "report.png", "lab.svg"]
    for source, own, taken, words in found:
        assert own > 0, f"{source} is no picture"
        assert 0 < taken <= pictures.WIDTH and words


def test_the_labs_picture_is_that_of_its_topology():
    drawn = pictures.lab(pictures.topology.load())
    assert (pictures.DIRECTORY / "lab.svg").read_text() == drawn, "run `make pictures`"


def test_the_reports_pictures_are_made_from_a_database(tmp_path):
    session = large_database.made_up(large_database.TEMPLATE.read_bytes(), 1, 5, whole=True)
    database = large_database.store(tmp_path / "results.db", [session])
    command = [sys.executable, "-m", "docs.pictures", "--database", database]
    subprocess.run([*command, "--directory", tmp_path], cwd=CHECKOUT, check=True)
    for name in ("nearness.png", "report.png"):
        content = (tmp_path / name).read_bytes()
        assert content.startswith(b"\x89PNG") and len(content) > 10_000
    assert (tmp_path / "lab.svg").is_file()


def test_plots_of_the_papers_figures_are_drawn_and_missing_ones_are_named(tmp_path):
    session = large_database.made_up(large_database.TEMPLATE.read_bytes(), 1, 5, whole=True)
    database = large_database.store(tmp_path / "results.db", [session])
    command = [sys.executable, "-m", "docs.pictures", "--database", database]
    command += ["--figures", "figure4", "figure5"]
    done = subprocess.run(
        [*command, "--directory", tmp_path], cwd=CHECKOUT, text=True, stderr=subprocess.PIPE
    )
    drawn = {path.stem for path in tmp_path.glob("*.png")}
    assert "figure4" in drawn and "figure5" not in drawn
    assert done.returncode == 1 and "latency-intranode (figure5)" in done.stderr
    assert "latency-internode" not in done.stderr


def test_no_word_of_the_labs_picture_leaves_its_box(browser):
    page = browser.new_page(viewport={"width": pictures.WIDTH, "height": 400})
    page.goto((pictures.DIRECTORY / "lab.svg").as_uri())
    found, frames = page.evaluate(WORDS), page.evaluate(BOXES)
    assert found and frames
    for words, x, width in found:
        inside = any(left <= x and x + width <= left + wide for left, wide in frames)
        assert inside or words.startswith("partition"), words
    page.close()
