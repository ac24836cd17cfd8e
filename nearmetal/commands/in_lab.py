"""Runs a command with --confirm in this host's lab, as the lab's user."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from nearmetal import results
from nearmetal.checkout import CHECKOUT
from nearmetal.errors import NearmetalError
from nearmetal.judge import rerun
from nearmetal.lab import cluster
from nearmetal.lab.namespaces import Namespaces
from nearmetal.util.own import User

#: Environment variables that the lab gets from here.
SETTINGS = (*rerun.PASSED, "RFM_SQLITE_DB_FILE")


def run_there(arguments, user: User) -> None:
    """Replace this process of root's by the same command in the lab. Raises NearmetalError.

    Returns where no lab of the user runs here, or where Slurm does. Only root can enter the lab,
    and it does so before it reads anything of the user's.
    """
    lab = Namespaces()
    if shutil.which("sbatch") or not lab.state or cluster.owner(lab)[0] != user.uid:
        return
    here = Path.cwd().resolve()
    if not _is_there(here):
        here = CHECKOUT
    for path in _paths(arguments):
        if not _is_there(path):
            raise NearmetalError(
                f"{path} is not in the lab, which runs --confirm and has this checkout alone. Fix: "
                f"give a path below {CHECKOUT / 'results'}"
            )
    settings = [f"{name}={os.environ[name]}" for name in SETTINGS if name in os.environ]
    words = [f"--chdir={here}", *settings, "nearmetal"]
    sys.stdout.flush()
    os.execv(sys.executable, [*rerun.LAB_EXEC, "env", *words, *sys.argv[1:]])


def _paths(arguments) -> Iterator[Path]:
    """What the command reads and writes."""
    yield from arguments.database or [results.default_database()]
    for value in vars(arguments).values():
        if isinstance(value, Path):
            yield value


def _is_there(path: Path) -> bool:
    """Whether the lab has the same file by this path."""
    return path.resolve().is_relative_to(CHECKOUT.resolve()) or path.is_relative_to("/dev")
