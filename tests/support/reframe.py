"""ReFrame's command, and its dry run on a system that a test describes."""

import os
import subprocess
import sys
from pathlib import Path

from tests.support.paths import CHECKOUT

REFRAME = (sys.executable, "-c", "from reframe.frontend.cli import main; main()", "--nocolor")


def dry_run(systems: Path, prefix: Path, *words: str) -> str:
    """What a dry run prints. Its job scripts are below `prefix`.

    :arg systems: the directory of the systems' files.
    """
    settings = {
        "RFM_CONFIG_PATH": "site-config",
        "NEARMETAL_SYSTEMS_PATH": str(systems),
        "RFM_PREFIX": str(prefix),
        "RFM_RESOLVE_MODULE_CONFLICTS": "0",
    }
    done = subprocess.run(
        [*REFRAME, "--dry-run", *words],
        cwd=CHECKOUT,
        check=False,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **settings},
    )
    return done.stdout
