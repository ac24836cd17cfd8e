"""The digests of our programs' sources and of mpj-native's, which locks and results are held
against."""

import subprocess
from pathlib import Path

from nearmetal.checkout import CHECKOUT

#: Our programs' sources, and the script that computes their digest wherever they are built.
DIRECTORY = CHECKOUT / "reframe_checks" / "src"
#: Where an installation of our programs has the digest of what it was built from, below its prefix.
INSTALLED = "share/nearmetal-sources.sha256"
#: The library for Java, and what of it its classes are made from and by.
MPJ_NATIVE, BUILT = CHECKOUT / "mpj-native", ("build.sh", "src/main")


def digest(directory: Path = DIRECTORY) -> str:
    """SHA-256 of the sources, in hexadecimal digits."""
    return _printed(directory / "digest.sh")


def digest_of_mpj_native(directory: Path = MPJ_NATIVE) -> str:
    """SHA-256 of mpj-native's sources, in hexadecimal digits."""
    return _printed(DIRECTORY / "digest.sh", directory, *BUILT)


def _printed(*words) -> str:
    done = subprocess.run(["sh", *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()
