"""Relative links of README, CONTRIBUTING and these pages: file and heading must exist."""

import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parent.parent
PAGES = (
    *("*.md", "docs/*.md", "bench/results/*.md"),
    *("mpj-native/*.md", "site-config/aws/*.md", "tests/recorded/*.md"),
)
#: CommonMark and tables: what a forge renders.
MARKDOWN = MarkdownIt("commonmark").enable("table")
#: Links from a page of docs/ to a file outside.
OUTSIDE = re.compile(r"\]\((\.\./[^)#]+)(#[^)]*)?\)")


def pages(root: Path = ROOT) -> list[Path]:
    """All pages whose links are checked."""
    return sorted(path for pattern in PAGES for path in root.glob(pattern))


def dead(page: Path) -> list[str]:
    """One message for each relative link of a page that leads nowhere."""
    return [problem for target in targets(page) if (problem := _problem(page, target))]


def targets(page: Path) -> list[str]:
    """Targets of all links and images of a page."""
    tokens = MARKDOWN.parse(page.read_text(encoding="utf-8"))
    inner = [child for token in tokens for child in token.children or []]
    found = [token.attrGet("href") or token.attrGet("src") for token in inner]
    return [str(target) for target in found if target]


def _problem(page: Path, target: str) -> str:
    parts = urlsplit(target)
    if parts.scheme:
        return ""
    path = page.parent / unquote(parts.path) if parts.path else page
    if not path.exists():
        return f"{page}: the link {target} leads to no file: correct its path"
    if parts.fragment and path.suffix == ".md" and parts.fragment not in anchors(path):
        return f"{page}: {path.name} has no heading #{parts.fragment}: correct the link"
    return ""


def anchors(page: Path) -> set[str]:
    """What a forge calls the headings of a page."""
    tokens = MARKDOWN.parse(page.read_text(encoding="utf-8"))
    texts = [
        _text(tokens[number + 1])
        for number, token in enumerate(tokens)
        if token.type == "heading_open"
    ]
    return {slug(text) for text in texts}


def _text(heading: Token) -> str:
    return "".join(child.content for child in heading.children or [])


def slug(heading: str) -> str:
    """The anchor that a forge makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def setup(app) -> dict:
    """Entry point of a Sphinx extension."""
    app.connect("builder-inited", _warn)
    app.connect("source-read", _download)
    return {"parallel_read_safe": True}


def _warn(app) -> None:
    """A dead link is a warning, which fails `make docs`."""
    from sphinx.util import logging

    for page in pages():
        for problem in dead(page):
            logging.getLogger(__name__).warning(problem)


def _download(app, name: str, source: list[str]) -> None:
    """A link to a file outside of docs/ is a copy of the file on the built page."""
    source[0] = OUTSIDE.sub(r"](path:\1)", source[0])
