"""The digest of the sources of our programs: of this checkout, or of an image."""

import functools
import subprocess
from pathlib import Path

from reframe.core.logging import getlogger

from nearmetal.checkout import SOURCES


def digest(directory: Path = SOURCES) -> str:
    """SHA-256 of the sources, in hexadecimal digits."""
    command = ["sh", str(directory / "digest.sh")]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@functools.cache
def of_checkout() -> str:
    """The digest of this checkout's sources."""
    return digest()


@functools.cache  # once a run
def warn_of_others(environ_name: str, there: str) -> None:
    """Warn if the programs of an image were built from sources other than this checkout's."""
    if there != of_checkout():
        getlogger().warning(
            f"{environ_name} runs programs built from other sources than reframe_checks/src: "
            f"digest {there[:12]} there, {of_checkout()[:12]} here. To run these: make images"
        )
