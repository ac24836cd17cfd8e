"""The version: of the installed package, else of the checkout's pyproject.toml, its only source."""

import tomllib
from importlib import metadata

from nearmetal.checkout import PACKAGE


def version() -> str:
    """Version of the checkout, whose installation may be older; else of the metadata."""
    project = PACKAGE.parent / "pyproject.toml"
    if (PACKAGE.parent / "reframe_checks").is_dir() and project.is_file():
        return tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]
    return metadata.version("nearmetal")
