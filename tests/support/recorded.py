"""Recorded output and sessions, and databases with them."""

import json
from pathlib import Path

from tests.support import large_database
from tests.support.paths import RECORDED

SIZES = [2**power for power in range(23)]  # 1 B to 4 MiB


def recorded(name: str) -> str:
    """A program's recorded output."""
    return (RECORDED / f"{name}.txt").read_text()


def session(name: str) -> dict:
    """A recorded session, as ReFrame stored it."""
    return json.loads((RECORDED / f"{name}.json").read_text())


def store(path: Path, *sessions: dict) -> Path:
    """Write a database with these sessions, as ReFrame does."""
    return large_database.store(path, sessions)


def namd(processes=2, potential=-222494.9229, benchmark="0.25"):
    """Output of NAMD in the format of its User's Guide ("Standard output"). It is not recorded,
    because NAMD's licence keeps it off our machines."""
    return f"""Charm++> Running on MPI version: 3.1
Info: NAMD 2.14 for Linux-x86_64-MPI
Info: Running on {processes} processors, {processes} nodes, 1 physical nodes.
Info: 92224 ATOMS
ETITLE:      TS           BOND        KINETIC        POTENTIAL           TOTAL
ENERGY:       0      20974.9307     45358.7931     {potential}    -177136.1298
Info: Initial time: {processes} CPUs 0.3 s/step 3.5 days/ns 300 MB memory
Info: Benchmark time: {processes} CPUs {benchmark} s/step 2.89352 days/ns 300 MB memory
Info: Benchmark time: {processes} CPUs 0.35 s/step 4.05093 days/ns 300 MB memory
TIMING: 500  CPU: 130.2, 0.24/step  Wall: 130.5, 0.25/step, 0 hours remaining, 300.1 MB of memory in use.
ENERGY:     500      20974.9307     45358.7931     {potential}    -177136.1298
WallClock: 131.1  CPUTime: 130.3  Memory: 300.1 MB
"""  # noqa: E501
