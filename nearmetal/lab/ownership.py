"""Give the results of a checkout to the lab's user."""

import os
from pathlib import Path

from nearmetal.lab.namespaces import LabError
from nearmetal.util import own


def settle(checkout: Path, uid: int, gid: int) -> None:
    """Make results/baselines for the user, to whom root's results go. Raises LabError."""
    results = checkout / "results"
    if results.is_symlink():
        raise LabError(
            f"{results} is a link, and only the checkout is mounted on the lab's nodes; "
            "replace it by a directory or a mount"
        )
    try:
        with own.as_owner(checkout):
            results.mkdir(exist_ok=True)
        # Where the checkout is the user's, the user may have put anything there.
        if checkout.stat().st_uid == results.stat().st_uid == 0:
            _give(results, uid, gid)
        with own.as_owner(results):
            (results / "baselines").mkdir(exist_ok=True)
    except OSError as error:
        raise LabError(f"{error}; the lab's user must be able to write there") from error


def _give(directory: Path, uid: int, gid: int) -> None:
    """Give a directory of root's, and what root has in it. It comes last: until then, nobody else
    can put anything there."""
    for entry in os.scandir(directory):
        if entry.stat(follow_symlinks=False).st_uid:
            continue
        if entry.is_dir(follow_symlinks=False):
            _give(Path(entry.path), uid, gid)
        else:
            os.chown(entry.path, uid, gid, follow_symlinks=False)
    os.chown(directory, uid, gid)
