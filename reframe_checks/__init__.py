"""The checks. They need the package `nearmetal`: without it, no check can be loaded.

ReFrame loads this file before each check, and would skip all checks with a warning and pass.
"""

import sys
from pathlib import Path

try:
    import nearmetal.checks.base  # noqa: F401 - what every check imports
except ModuleNotFoundError as error:
    raise SystemExit(
        f"{Path(__file__).parent}: {sys.executable} does not find the package {error.name}, "
        f"which these checks need. Fix: add a checkout of Nearmetal to PYTHONPATH, or install it "
        f"there: {sys.executable} -m pip install CHECKOUT"
    ) from None
