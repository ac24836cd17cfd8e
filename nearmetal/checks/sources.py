"""The digest of the sources of a program: from this checkout, an image, or an installation."""

import functools
import shlex
from pathlib import Path

from reframe.core.logging import getlogger

from nearmetal.locks.sources import INSTALLED, digest

#: Recorded for an installation that does not state its sources.
UNKNOWN = "unknown"


@functools.cache
def of_checkout() -> str:
    """The digest of this checkout's sources."""
    return digest()


def record(program: str, environ_name: str) -> str:
    """The command that writes the source digest of an installed program into a file."""
    found = f'"$(dirname "$(readlink -f "$(command -v {program})")")/../{INSTALLED}"'
    file = shlex.quote(f"sources.{environ_name}")
    return f"cat {found} > {file} 2> /dev/null || echo {UNKNOWN} > {file}"


def recorded(stagedir: str, environ_name: str) -> str:
    """The digest that the command wrote. Without its file: the checkout's."""
    try:
        return Path(stagedir, f"sources.{environ_name}").read_text().strip()
    except FileNotFoundError:
        return of_checkout()


@functools.cache  # once a run
def warn_of_others(environ_name: str, found: str, fix: str) -> None:
    """Warn if an environment's programs were built from sources other than this checkout's."""
    if found not in (of_checkout(), UNKNOWN):
        getlogger().warning(
            f"{environ_name} runs programs built from other sources than reframe_checks/src: "
            f"digest {found[:12]} there, {of_checkout()[:12]} here. To run these: {fix}"
        )
