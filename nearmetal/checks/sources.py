"""Which sources a program was built from: this checkout's, an image's, or an installation's."""

import functools
import shlex
from pathlib import Path

from reframe.core.logging import getlogger

from nearmetal.locks.sources import INSTALLED, digest

#: What an installation is recorded as that does not name its sources.
UNKNOWN = "unknown"


@functools.cache
def of_checkout() -> str:
    """The digest of this checkout's sources."""
    return digest()


def record(program: str, environ_name: str) -> str:
    """The command that writes the digest of an installed program's sources into a file."""
    found = f'"$(dirname "$(readlink -f "$(command -v {program})")")/../{INSTALLED}"'
    file = shlex.quote(f"sources.{environ_name}")
    return f"cat {found} > {file} 2> /dev/null || echo {UNKNOWN} > {file}"


def recorded(stagedir: str, environ_name: str) -> str:
    """What the command wrote; without it the program is built from the checkout."""
    try:
        return Path(stagedir, f"sources.{environ_name}").read_text().strip()
    except FileNotFoundError:
        return of_checkout()


@functools.cache  # once a run
def warn_of_others(environ_name: str, found: str, fix: str) -> None:
    """Say it where the programs of an environment are of other sources than this checkout's."""
    if found not in (of_checkout(), UNKNOWN):
        getlogger().warning(
            f"{environ_name} runs programs of other sources than reframe_checks/src: digest "
            f"{found[:12]} there, {of_checkout()[:12]} here. To run these: {fix}"
        )
