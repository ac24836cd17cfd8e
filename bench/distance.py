"""Does the host move this machine's processors? `python -m bench.distance`

A virtual processor that the host moves to cores with another last-level cache is farther from the
others: a cache line takes longer to reach them. MPI within and between nodes of the lab then takes
several times as long, for seconds or minutes, and nothing else shows why.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from nearmetal import lab

SOURCE = Path(lab.__file__).parent / "processors.c"
#: Factor between the least and the largest distance from which the processors have moved.
MOVED = 2


def distances(seconds: int) -> list[float]:
    """The time in ns in which the first two processors hand over a cache line, twice a second.

    Raises OSError without a compiler or a second processor, or where one of them fails.
    """
    if len(os.sched_getaffinity(0)) < 2:
        raise OSError("this process has a single processor, so nothing can be far from it")
    with tempfile.TemporaryDirectory() as directory:
        program = f"{directory}/processors"
        _output("cc", "-O2", "-pthread", str(SOURCE), "-o", program)
        found = _output(program, "distance", str(2 * seconds))
    return [float(line) for line in found.split()]


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError(done.stderr.strip() or f"{command[0]} ended with {done.returncode}")
    return done.stdout


def said(found: Sequence[float]) -> str:
    """What the distances mean, in words."""
    least, most = min(found), max(found)
    span = f"two processors hand over a cache line in {least:.0f} to {most:.0f} ns"
    if not moved(found):
        return f"{span}: they stayed where they are"
    far = sum(one >= MOVED * least for one in found) / len(found)
    return (
        f"{span}, and in {100 * far:.0f} % of {len(found)} times they are far apart: the host "
        "moves them between caches. Latency and bandwidth differ by several times. The lab brings "
        "two processors together before each launch. Elsewhere, pin them on the host"
    )


def moved(found: Sequence[float]) -> bool:
    """Whether the processors were nearer to each other at one time than at another."""
    return max(found) >= MOVED * min(found)


def watched(seconds: int) -> str:
    """What the distances of so many seconds mean, or why they are not known."""
    try:
        return said(distances(seconds))
    except OSError as error:
        return f"whether the host moves processors is not known: {error}"


def main() -> int:
    """0: they stayed. 1: they moved. 2: not known."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.distance",
        description="Keep two processors busy, and measure how far they are apart twice a second. "
        "Exit status: 0 if they stay, 1 if the host moves them, 2 if that is not known.",
    )
    parser.add_argument(
        "seconds",
        type=int,
        nargs="?",
        default=60,
        choices=range(1, 86401),
        metavar="SECONDS",
        help="from 1 to 86400 (default: %(default)s)",
    )
    seconds = parser.parse_args().seconds
    try:
        found = distances(seconds)
    except OSError as error:
        print(f"distance: {error}", file=sys.stderr)
        return 2
    print(said(found))
    return int(moved(found))


if __name__ == "__main__":
    sys.exit(main())
