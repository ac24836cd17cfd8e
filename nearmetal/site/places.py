"""Where results go, and that root does not leave its own among those of another user."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

from reframe.core.exceptions import ConfigError


def owner(path: Path) -> int:
    """Number of the user that owns a path, or the nearest directory above it that is there."""
    while not path.exists():
        path = path.parent
    return path.stat().st_uid


@functools.cache
def results(prefix: str | None, checkout: Path, home: Path | None = None) -> str:
    """The directory of results: RFM_PREFIX, or results/ of the checkout. Raises ConfigError.

    Root gets one of its own where these are another user's. That user could not write beside root's
    files, and could plant a link that root would write through.
    """
    wanted = Path(prefix) if prefix else checkout / "results"
    if os.geteuid() != 0 or owner(wanted.absolute()) == 0:
        return str(wanted)
    if prefix:
        raise ConfigError(
            f"RFM_PREFIX={prefix}: it belongs to user {owner(wanted.absolute())}, who could not "
            "use what root writes there. Fix: start ReFrame as that user, or in the lab (make "
            "lab-exec), or set another RFM_PREFIX"
        )
    own = (home or Path("~root").expanduser()) / ".local/state/nearmetal"
    own /= str(checkout).strip("/").replace("/", "-")
    print(
        f"nearmetal: {wanted} belongs to user {owner(wanted)}: "
        f"what ReFrame writes as root goes to {own}",
        file=sys.stderr,
    )
    return str(own)
