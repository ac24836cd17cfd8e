"""Paths in the checkout that tests read."""

from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
#: Recorded output of programs, and sessions as ReFrame stored them.
RECORDED = CHECKOUT / "tests" / "recorded"
#: Java programs for tests, and FastMPJ's stand-in.
JAVA = CHECKOUT / "tests" / "support" / "java"
#: The checks' own programs.
SOURCES = CHECKOUT / "reframe_checks" / "src"
#: The committed lock of an environment of spack-env.
SPACK_LOCK = "locks/debian13-x86_64_v3.lock"
