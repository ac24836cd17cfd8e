"""Where a checkout's data is, and its version, for code that may be installed without one."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
#: The line of the version in pyproject.toml, its only source. Python 3.9 cannot read TOML.
VERSION = re.compile(r'^version = "(.+)"$', re.MULTILINE)


def is_checkout(directory: Path) -> bool:
    """Whether a directory is a checkout of Nearmetal."""
    return all((directory / name).is_dir() for name in ("reframe_checks", "nearmetal"))


def version() -> str:
    """Version of the checkout, whose installation may be older; else of the installed package."""
    project = PACKAGE.parent / "pyproject.toml"
    if (PACKAGE.parent / "reframe_checks").is_dir() and project.is_file():
        return VERSION.findall(project.read_text(encoding="utf-8"))[0]
    from importlib import metadata  # not at the top: it takes longer than the rest of `--version`

    return metadata.version("nearmetal")


def other_checkout() -> Path | None:
    """The checkout around the working directory, if this package is of another one."""
    here = Path.cwd()
    for directory in (here, *here.parents):
        if is_checkout(directory):
            return None if directory == CHECKOUT.resolve() else directory
    return None


def _checkout() -> Path:
    beside = PACKAGE.parent
    return beside if (beside / "reframe_checks").is_dir() else Path.cwd()


def _sources() -> Path:
    """A wheel carries the scripts that a job needs; a checkout has them beside its checks."""
    within = PACKAGE / "src"
    return within if within.is_dir() else CHECKOUT / "reframe_checks" / "src"


def _references() -> Path:
    """A wheel carries published figures; a checkout has them beside its checks."""
    within = PACKAGE / "references"
    return within if within.is_dir() else CHECKOUT / "reframe_checks" / "references"


#: The checkout that this package is part of; of a wheel, the working directory.
CHECKOUT = _checkout()
#: The directory of the programs of checks, and of the scripts that a job needs.
SOURCES = _sources()
#: The directory of the published figures.
REFERENCES = _references()
#: Recorded values of systems, unless RFM_REFERENCE_PREFIX names another directory.
BASELINES = CHECKOUT / "reframe_checks" / "references" / "baselines"
