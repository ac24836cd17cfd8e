"""Our kernels of the NAS Parallel Benchmarks, and where it is given the official build beside them: Mop/s and memory.

Both are launched by turns, so that what troubles the machine troubles both, and judged as pairs (`nearmetal.pairs`). Needs
`mpicc` and `mpirun` of one MPI library on PATH, and of the same one the official programs, built with the same compiler and
flags.
"""
import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np
from tabulate import tabulate

from nearmetal import ranks
from nearmetal.compare import number
from reframe_checks.parsing import ParseError
from reframe_checks.parsing.npb import parse_npb

SOURCES = Path(__file__).parents[1] / "reframe_checks" / "src" / "npb"
KERNELS = ("cg", "ep", "ft", "is", "mg")
FLAGS = ["-std=c11", "-O3"]


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench-kernels", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="exit codes: 0 ours are as fast and as small as they have to be, or stand alone; "
                                            "1 one is slower or larger; 2 one could not be run")
    parser.add_argument("--official", type=Path, metavar="DIR", help="bin/ of NPB 3.4's MPI version, with cg.A.x and so on")
    parser.add_argument("--kernels", default=",".join(KERNELS), help="default: %(default)s")
    parser.add_argument("--classes", default="A", help="default: %(default)s")
    parser.add_argument("--processes", default="1,2", help="default: %(default)s")
    parser.add_argument("--pairs", type=int, default=10, help="launches of each (default: %(default)s)")
    parser.add_argument("--most-memory", type=float, default=1.1, help="of the official's, that ours may take (default: %(default)s)")
    arguments = parser.parse_args()
    rows, faults = [], []
    with tempfile.TemporaryDirectory() as directory:
        for kernel in arguments.kernels.split(","):
            subprocess.run(["mpicc", *FLAGS, str(SOURCES / f"{kernel}.c"), "-o", f"{directory}/{kernel}", "-lm"], check=True)
        for kernel, letter, processes in product(arguments.kernels.split(","), arguments.classes, arguments.processes.split(",")):
            ours, official = [f"{directory}/{kernel}", letter], [f"{arguments.official}/{kernel}.{letter}.x"]
            try:
                row, fault = compared(ours, official if arguments.official else [], processes, arguments.pairs, arguments.most_memory)
            except (ParseError, subprocess.CalledProcessError) as error:
                print(f"bench-kernels: {kernel} {letter} on {processes}: {error}", file=sys.stderr)
                return 2
            rows.append([kernel.upper(), letter, processes, *row])
            print(" ".join(map(str, rows[-1])), flush=True)
            faults += [f"{kernel.upper()} {letter} on {processes}: {fault}"] if fault else []
    print()
    print(tabulate(rows, ["", "class", "processes", "ours Mop/s", "official", "ratio", "95 %", "ours MB", "official"],
                   disable_numparse=True, colalign=["left"] * 2 + ["right"] * 7))
    print("\n".join(faults))
    return 1 if faults else 0


def compared(ours: list[str], official: list[str], processes: str, pairs: int, most_memory: float) -> tuple[list[str], str]:
    """A row of the table, and what is not as it has to be."""
    a, b = [], []
    for turn in range(pairs):
        for command, found in [(ours, a), (official, b)][::1 if turn % 2 else -1]:
            if command:
                found.append(launch(command, processes))
    mops, memory = (statistics.median(one[i] for one in a) for i in (0, 1))
    if not official:
        return [number(mops), "-", "-", "-", f"{memory:.0f}", "-"], ""
    differences = np.log([one[0] for one in a]) - np.log([one[0] for one in b])
    ratio, interval = np.exp(ranks.centre(differences)), np.exp(ranks.centre_interval(differences))
    their_memory = statistics.median(one[1] for one in b)
    fault = f"{ratio:.3f} of the official Mop/s" if interval[1] < 1 else ""
    if memory > most_memory * their_memory:
        fault += f"{', ' if fault else ''}{memory / their_memory:.2f} of the official memory"
    return [number(mops), number(statistics.median(one[0] for one in b)), f"{ratio:.3f}",
            f"{interval[0]:.3f} to {interval[1]:.3f}", f"{memory:.0f}", f"{their_memory:.0f}"], fault


def launch(command: list[str], processes: str) -> tuple[float, float]:
    """(Mop/s, resident MB of the largest process). Raises CalledProcessError, ParseError."""
    reader, writer = os.pipe()
    child = os.fork()  # so that the high-water mark of children is this launch's alone
    if child == 0:
        done = subprocess.run(["mpirun", *os.environ.get("MPIRUN_FLAGS", "").split(), "-n", processes, *command],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        kilobytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        os.write(writer, f"{done.returncode} {kilobytes}\n{done.stdout}{done.stderr[-2000:] if done.returncode else ''}".encode())
        os._exit(0)
    os.close(writer)
    with open(reader, errors="replace") as pipe:
        head, _, text = pipe.read().partition("\n")
    os.waitpid(child, 0)
    code, kilobytes = map(int, head.split())
    if code:
        raise ParseError(f"{' '.join(command)} ended with {code}: {text[-500:]}")
    [run] = parse_npb(text)
    return run.mops, kilobytes * 1024 / 1e6


if __name__ == "__main__":
    sys.exit(main())
