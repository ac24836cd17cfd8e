"""What recording evidence costs a program, in pairs: without any, and as a check records it.

    make bench-evidence                            # our ping-pong and NPB's CG
    make bench-evidence BENCH='--pairs 30 --class W'
    python -m bench.evidence --pairs 50 --value 'Mop/s total *= *([0-9.]+)' -- mpirun ./cg.S.x

As a check records it: counters before and after the launch (src/provenance.sh counters), and the
program's own usage (src/usage.h). Without any: our programs are compiled without src/usage.h. A
program of others, as in the last line, differs by the counters alone. The compared value is the
program's own, as in a check. The order within a pair alternates. Run it on a quiet machine, where
`mpicc` and `mpirun` of one MPI are on PATH (in the lab: `make lab-exec`).
"""

import argparse
import functools
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tabulate import tabulate

from nearmetal.checks.programs import SOURCES, flags_of
from nearmetal.stats import ranks

SCRIPT = SOURCES / "provenance.sh"
#: Largest difference that is none, as a fraction.
ALLOWED = 0.01
#: Compiler flags that leave out src/usage.h, by its own guard.
WITHOUT = ("-DNEARMETAL_USAGE_H", "-Dbegin_usage()=((void)0)")
#: Compiler flags of both, so that the place of a loop in memory does not differ too.
ALIGNED = ("-falign-functions=64", "-falign-loops=64")
#: Message sizes of the ping-pong in bytes: latency and bandwidth.
SIZES = (1, 1 << 20)
HEAD = ["value", "with evidence", "95 % interval", "pairs"]


@dataclass(frozen=True)
class Measured:
    """What is compared: commands by whether evidence is recorded, and values of the output."""

    commands: dict[bool, list[str]]
    values: dict[str, Callable[[str], float]]


def record() -> float:
    """Seconds that one record takes."""
    start = time.perf_counter()
    subprocess.run(["sh", SCRIPT, "counters"], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def launch(command: Sequence[str], recorded: bool, records: list[float]) -> str:
    """The output of one launch."""
    if recorded:
        records.append(record())
    text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    if recorded:
        records.append(record())
    return text


def found(pattern: re.Pattern, text: str) -> float:
    """The number that a pattern's group finds. Raises SystemExit without one."""
    match = pattern.search(text)
    if not match:
        raise SystemExit(f"evidence: {pattern.pattern!r} matches nothing that the program printed")
    return float(match[1])


def value(pattern: str | re.Pattern) -> Callable[[str], float]:
    return functools.partial(found, re.compile(pattern))


def built(source: str, directory: str) -> dict[bool, str]:
    """Our program with src/usage.h and without it."""
    paths = {}
    for usage in (True, False):
        paths[usage] = f"{directory}/{Path(source).stem}.{'with' if usage else 'without'}"
        command = ["mpicc", "-std=c11", *flags_of()[source], '-DNEARMETAL_CFLAGS="bench"']
        command += [*ALIGNED, *(() if usage else WITHOUT), "-I", SOURCES, SOURCES / source]
        command += ["-o", paths[usage], "-lm"]
        subprocess.run(command, check=True)
    return paths


def ours(directory: str, letter: str) -> list[Measured]:
    """Our ping-pong and NPB's CG on two processes."""
    run = ["mpirun", *os.environ.get("MPIRUN_FLAGS", "").split(), "-n", "2"]
    rows = {f"ping-pong, {size} bytes": value(rf"(?m)^ *{size} +\d+ +([0-9.]+)") for size in SIZES}
    rate = {f"CG {letter}": value(r"Mop/s total *= *([0-9.]+)")}
    return [
        Measured({usage: [*run, path, *options] for usage, path in paths.items()}, values)
        for paths, options, values in (
            (built("pingpong.c", directory), [], rows),
            (built("npb/cg.c", directory), [letter], rate),
        )
    ]


def compared(one: Measured, pairs: int, records: list[float]) -> tuple[list[list], set[int]]:
    """A row for each value, and the exit codes."""
    texts: dict[bool, list[str]] = {True: [], False: []}
    for number in range(pairs):
        for recorded in (False, True) if number % 2 == 0 else (True, False):
            texts[recorded].append(launch(one.commands[recorded], recorded, records))
    rows, codes = [], set()
    for name, read in one.values.items():
        with_it, without = (list(map(read, texts[recorded])) for recorded in (True, False))
        if len({*with_it, *without}) == 1:
            raise SystemExit(
                f"evidence: {name} is {without[0]} in all launches: it matches something else than "
                "a measurement"
            )
        differences = np.log(with_it) - np.log(without)
        low, high = map(math.expm1, ranks.centre_interval(differences))
        middle = math.expm1(ranks.centre(differences))
        interval = f"{100 * low:+.2f} to {100 * high:+.2f} %"
        rows.append([name, f"{100 * middle:+.2f} %", interval, pairs])
        if low >= -ALLOWED and high <= ALLOWED:
            codes.add(0)
        else:
            codes.add(1 if low > ALLOWED or high < -ALLOWED else 2)
    return rows, codes


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(
        prog="bench-evidence",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 the cost of each value is below 1 %%; 1 that of one is not; "
        "2 the pairs do not tell",
    )
    parser.add_argument("--pairs", type=int, default=50, help="default: %(default)s")
    parser.add_argument(
        "--class", dest="letter", default="A", help="class of CG (default: %(default)s)"
    )
    parser.add_argument("--value", type=re.compile, help="of a program: its group is the value")
    parser.add_argument("program", nargs="*", help="a program of others, with its launcher")
    options = parser.parse_args(arguments)
    if options.pairs < 2:
        parser.error("--pairs must be at least 2")
    if bool(options.value) != bool(options.program):
        parser.error("--value and a program belong together")
    records: list[float] = []
    codes, rows = set(), []
    with tempfile.TemporaryDirectory() as directory:
        if options.program:
            same = dict.fromkeys((True, False), options.program)
            every = [Measured(same, {options.value.pattern: value(options.value)})]
        else:
            every = ours(directory, options.letter)
        for one in every:
            more, these = compared(one, options.pairs, records)
            rows += more
            codes |= these
    print(f"one record takes {1000 * statistics.median(records):.1f} ms (median)")
    print(tabulate(rows, HEAD, disable_numparse=True))
    return 1 if 1 in codes else max(codes)


if __name__ == "__main__":
    sys.exit(main())
