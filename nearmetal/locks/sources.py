"""The digest of our programs' sources, which locks and results are held against."""

import subprocess
from pathlib import Path

from nearmetal.checkout import CHECKOUT

#: Our programs' sources, and the script that computes their digest wherever they are built.
DIRECTORY = CHECKOUT / "reframe_checks" / "src"
#: Where an installation of our programs has the digest of what it was built from, below its prefix.
INSTALLED = "share/nearmetal-sources.sha256"


def digest(directory: Path = DIRECTORY) -> str:
    """SHA-256 of the sources, in hexadecimal digits."""
    done = subprocess.run(
        ["sh", directory / "digest.sh"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()
