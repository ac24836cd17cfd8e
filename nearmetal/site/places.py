"""Where results go, and that root does not leave its own among those of another user."""

from __future__ import annotations

import functools
import os
import pwd
import sys
from pathlib import Path

from reframe.core.exceptions import ConfigError

#: What a run writes below the directory of results.
WRITTEN = ("results.db", "stage", "output", "reports", "perflogs")


def owner(path: Path) -> int:
    """Number of the user that owns a path, or the nearest directory above it that is there."""
    while not path.exists():
        path = path.parent
    return path.stat().st_uid


def refuse_results_of_another(directory: Path) -> None:
    """Raise ConfigError where this user cannot write results, which are another user's.

    ReFrame would store no session, and later commands would show that user's.
    """
    for path in (directory, *map(directory.joinpath, WRITTEN)):
        place = path
        while not _exists(place):
            place = place.parent
        access = os.W_OK
        if place.is_dir():
            access |= os.X_OK
        if os.access(place, access):
            continue
        owned_by, user = _name(place.stat().st_uid), _name(os.geteuid())
        raise ConfigError(
            f"{place} belongs to the user {owned_by}, and {user} cannot write there, so that no "
            "session would be stored. Fix: export RFM_PREFIX=DIRECTORY, a directory of your own on "
            "a file system that all nodes mount"
        )


def _exists(path: Path) -> bool:
    """Whether a path is there; false where this user may not ask."""
    try:
        return path.exists()
    except PermissionError:
        return False


def _name(number: int) -> str:
    """Name of a user by the number; the number without a name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


@functools.cache
def results(prefix: str | None, checkout: Path, home: Path | None = None) -> str:
    """The directory of results: RFM_PREFIX, or results/ of the checkout. Raises ConfigError.

    Root gets one of its own where these are another user's. That user could not write beside root's
    files, and could plant a link that root would write through.
    """
    wanted = Path(prefix or checkout / "results")
    # Whoever names the places of stage directories or sessions has chosen them.
    is_chosen = any(map(os.environ.get, ("RFM_SQLITE_DB_FILE", "RFM_STAGE_DIR")))
    if os.geteuid() != 0 and not is_chosen:
        refuse_results_of_another(wanted.absolute())
    if os.geteuid() != 0 or owner(wanted.absolute()) == 0:
        return str(wanted)
    if prefix:
        raise ConfigError(
            f"RFM_PREFIX={prefix}: it belongs to user {owner(wanted.absolute())}, who could not "
            "use what root writes there. Fix: start ReFrame as that user, or in the lab (make "
            "lab-exec), or set another RFM_PREFIX"
        )
    # A place for each checkout, since labs of several may run.
    own = (home or Path("~root").expanduser()) / ".local/state/nearmetal"
    own /= str(checkout).strip("/").replace("/", "-")
    print(
        f"nearmetal: {wanted} belongs to user {owner(wanted)}: "
        f"what ReFrame writes as root goes to {own}",
        file=sys.stderr,
    )
    return str(own)
