"""The version: of the installed package, else of the checkout's pyproject.toml, its only source."""

import re
from importlib import metadata

from nearmetal.checkout import PACKAGE

#: Its line in pyproject.toml. Python 3.9 cannot read TOML.
LINE = re.compile(r'^version = "(.+)"$', re.MULTILINE)


def version() -> str:
    """Version of the checkout, whose installation may be older; else of the metadata."""
    project = PACKAGE.parent / "pyproject.toml"
    if (PACKAGE.parent / "reframe_checks").is_dir() and project.is_file():
        return LINE.findall(project.read_text(encoding="utf-8"))[0]
    return metadata.version("nearmetal")
