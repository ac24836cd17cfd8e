"""Measures Mop/s and memory of our NAS Parallel Benchmarks kernels.

With --official, compares them with the official build. With --imb, compares our ping-pong with that
of the Intel MPI Benchmarks.

Launches of both programs are interleaved, so that a disturbance of the machine affects both. They
are judged as pairs (`nearmetal.stats.ranks`). `mpicc` and `mpirun` of one MPI library must be on
PATH. The official programs must be built with the same library, compiler and flags.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
from tabulate import tabulate

from nearmetal.checks.disturbance import without_usage
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.parsing.pingpong import parse_imb
from nearmetal.stats import ranks
from nearmetal.util.text import number

SOURCES = Path(__file__).parents[1] / "reframe_checks" / "src"
KERNELS = ("cg", "ep", "ft", "is", "mg")
#: Message sizes in bytes, from start-up latency to bandwidth.
SIZES = tuple(4**n for n in range(12))
#: Largest relative difference of our half round trip from IMB's.
AS_IMB = 0.02
HEAD = ["", "class", "processes", "ours Mop/s", "official", "ratio", "95 %", "ours MB", "official"]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench-kernels",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 ours are as fast and as small as required, or nothing was compared; "
        "1 one is slower or larger; 2 one could not be run",
    )
    parser.add_argument(
        "--official",
        type=Path,
        metavar="DIR",
        help="bin/ of the MPI version of NPB 3.4, with cg.A.x and so on",
    )
    parser.add_argument(
        "--imb", type=Path, metavar="FILE", help="IMB-MPI1, to compare the ping-pongs too"
    )
    parser.add_argument(
        "--kernels",
        default=",".join(KERNELS),
        help="kernels to run; '' for none (default: %(default)s)",
    )
    parser.add_argument("--classes", default="A", help="classes (default: %(default)s)")
    parser.add_argument(
        "--processes", default="1,2", help="numbers of processes (default: %(default)s)"
    )
    parser.add_argument(
        "--pairs", type=int, default=10, help="launches of each program (default: %(default)s)"
    )
    parser.add_argument(
        "--most-memory",
        type=float,
        default=1.1,
        help="most memory of ours, relative to the official program's (default: %(default)s)",
    )
    arguments = parser.parse_args()
    rows, sizes, faults = [], [], []
    kernels = list(filter(None, arguments.kernels.split(",")))
    if unknown := set(kernels) - set(KERNELS):
        parser.error(
            f"--kernels takes some of {','.join(KERNELS)}, not {','.join(sorted(unknown))}"
        )
    with tempfile.TemporaryDirectory() as directory:
        where = "building ours"
        ours_in = f"{directory}/bin/nearmetal-"
        try:
            subprocess.run(
                ["sh", SOURCES / "install.sh", directory, "mpi"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            for kernel, letter, processes in product(
                kernels, arguments.classes, arguments.processes.split(",")
            ):
                where = f"{kernel.upper()} {letter} on {processes}"
                ours, official = (
                    [f"{ours_in}npb-{kernel}", letter],
                    [f"{arguments.official}/{kernel}.{letter}.x"],
                )
                row, fault = compared(
                    ours,
                    official if arguments.official else [],
                    processes,
                    arguments.pairs,
                    arguments.most_memory,
                )
                rows.append([kernel.upper(), letter, processes, *row])
                print(" ".join(map(str, rows[-1])), flush=True)
                faults += [f"{where}: {fault}"] if fault else []
            if arguments.imb:
                where = "ping-pong"
                sizes, found = pingpongs(f"{ours_in}pingpong", str(arguments.imb), arguments.pairs)
                faults += found
        except (ParseError, subprocess.CalledProcessError) as error:
            print(f"bench-kernels: {where}: {error}", file=sys.stderr)
            return 2
    for head, table in ((HEAD, rows), (["bytes", "ours us", "IMB", "ratio", "95 %"], sizes)):
        if table:
            print(
                "\n" + tabulate(table, head, disable_numparse=True, colalign=["right"] * len(head))
            )
    print("\n".join(faults))
    return 1 if faults else 0


def interleaved(first, second, pairs: int) -> tuple[list, list]:
    """The results of `pairs` calls of each function. The order of the two changes from pair to
    pair."""
    a, b = [], []
    for turn in range(pairs):
        for call, found in [(first, a), (second, b)][:: 1 if turn % 2 else -1]:
            found.append(call())
    return a, b


def ratio_of(ours: list[float], theirs: list[float]) -> tuple[float, np.ndarray]:
    """The Hodges-Lehmann centre of the pairs' ratios, and its 95 % interval."""
    differences = np.log(ours) - np.log(theirs)
    return float(np.exp(ranks.centre(differences))), np.exp(ranks.centre_interval(differences))


def pingpongs(ours: str, imb: str, pairs: int) -> tuple[list[list[str]], list[str]]:
    """A table row for each of SIZES, and the faults found.

    Both programs have their messages at the same place of a page. IMB's second table counts, as its
    first one warms up; our program warms up by itself.
    """
    same_place = f"{Path(ours).parent}/same_place.so"
    subprocess.run(
        [
            "mpicc",
            "-shared",
            "-fPIC",
            "-O2",
            Path(__file__).with_name("same_place.c"),
            "-o",
            same_place,
        ],
        check=True,
    )

    def launched(*command: str):
        text, _ = launch(command, "2", {"LD_PRELOAD": same_place})
        head, *tables = text.split("# Benchmarking PingPong")
        [run] = parse_imb("# Benchmarking PingPong".join([head, *tables[-1:]]))
        return run

    a, b = interleaved(lambda: launched(ours), lambda: launched(imb, "PingPong", "PingPong"), pairs)
    rows, faults = [], []
    for size in SIZES:
        # From MB/s: for short messages, IMB prints more digits of the rate than of the time.
        us, theirs = ([size / run.rows[size].mbytes_per_s for run in runs] for runs in (a, b))
        ratio, interval = ratio_of(us, theirs)
        rows.append(
            [
                str(size),
                number(statistics.median(us)),
                number(statistics.median(theirs)),
                f"{ratio:.3f}",
                f"{interval[0]:.3f} to {interval[1]:.3f}",
            ]
        )
        if interval[0] > 1 + AS_IMB or interval[1] < 1 - AS_IMB:
            faults.append(f"ping-pong of {size} bytes: {ratio:.3f} times IMB's half round trip")
    return rows, faults


def compared(
    ours: list[str], official: list[str], processes: str, pairs: int, most_memory: float
) -> tuple[list[str], str]:
    """A row of the table, and a fault or ''."""

    def measured(command: list[str]):
        if not command:
            return None
        text, memory = launch(command, processes)
        [run] = parse_npb(text)
        return run.mops, memory

    a, b = interleaved(lambda: measured(ours), lambda: measured(official), pairs)
    mops, memory = (statistics.median(one[i] for one in a) for i in (0, 1))
    if not official:
        return [number(mops), "-", "-", "-", f"{memory:.0f}", "-"], ""
    ratio, interval = ratio_of([one[0] for one in a], [one[0] for one in b])
    their_memory = statistics.median(one[1] for one in b)
    fault = f"{ratio:.3f} times the official Mop/s" if interval[1] < 1 else ""
    if memory > most_memory * their_memory:
        fault += f"{', ' if fault else ''}{memory / their_memory:.2f} times the official memory"
    return [
        number(mops),
        number(statistics.median(one[0] for one in b)),
        f"{ratio:.3f}",
        f"{interval[0]:.3f} to {interval[1]:.3f}",
        f"{memory:.0f}",
        f"{their_memory:.0f}",
    ], fault


def launch(
    command: Sequence[str], processes: str, environment: Mapping[str, str] = {}
) -> tuple[str, float]:
    """(output, resident MB of the largest process). Raises ParseError."""
    reader, writer = os.pipe()
    child = os.fork()  # a child of its own: the largest resident size is then of this launch alone
    if child == 0:
        done = subprocess.run(
            ["mpirun", *os.environ.get("MPIRUN_FLAGS", "").split(), "-n", processes, *command],
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
        )
        kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        os.write(
            writer,
            f"{done.returncode} {kilobytes}\n"
            f"{done.stdout}{done.stderr[-2000:] if done.returncode else ''}".encode(),
        )
        os._exit(0)
    os.close(writer)
    with open(reader, errors="replace") as pipe:
        head, _, text = pipe.read().partition("\n")
    os.waitpid(child, 0)
    code, kilobytes = map(int, head.split())
    if code:
        raise ParseError(f"{' '.join(command)} ended with {code}: {text[-500:]}")
    return without_usage(text), kilobytes * 1024 / 1e6


if __name__ == "__main__":
    sys.exit(main())
