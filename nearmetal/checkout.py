"""Where a checkout's data is, for code that may also be installed without one."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


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
