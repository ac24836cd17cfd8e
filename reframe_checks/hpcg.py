"""The HPCG benchmark."""

from __future__ import annotations

import reframe as rfm

from nearmetal.checks.application import Application, Problem
from nearmetal.checks.parsing.hpcg import parse_hpcg
from nearmetal.checks.settings import setting

#: Least ratio of the edges of HPCG's grid of processes.
SQUAT = 1 / 8


def processes_fit(count: int) -> bool:
    """Whether HPCG can arrange so many processes in a grid near to a cube."""
    edges = [edge for edge in range(1, count + 1) if count % edge == 0]
    grids = [(x, y, count // (x * y)) for x in edges for y in edges if count % (x * y) == 0]
    x, y, z = min(grids, key=lambda grid: (sum(1 / edge for edge in grid), grid))
    return min(x, y, z) >= SQUAT * max(x, y, z)


class Cubes(Problem):
    """A cube for each process. Its sizes are their edges."""

    program, title = "xhpcg", "HPCG"
    sizes = {"S": 16, "W": 32, "A": 64, "B": 104, "C": 160}
    quantity, unit = "rating", "Gflop/s"
    # HPCG writes a report and a log into the directory in which it runs.
    after_launch = ("cat HPCG-Benchmark*.txt", "echo", "rm HPCG-Benchmark*.txt hpcg[0-9]*.txt")

    def __init__(self, size: str, seconds: int):
        super().__init__(size)
        self.seconds = seconds

    def options(self):
        edge = self.sizes[self.size]
        return [f"--n{axis}={edge}" for axis in "xyz"] + [f"--rt={self.seconds}"]

    def requested(self):
        edge = self.sizes[self.size]
        return {"threads": 1, "nx": edge, "ny": edge, "nz": edge}

    def read(self, text):
        return parse_hpcg(text)


@rfm.simple_test
class hpcg(Application):
    """Rating and memory bandwidth of HPCG over the number of processes.

    Method: the official HPCG 3.1 (M. Heroux and J. Dongarra, Toward a new metric for ranking high
    performance computing systems, SAND2013-4744), one thread per process. Each process has a cube
    of its own, so that the problem grows with the processes. HPCG's tests of symmetry, convergence
    and reproducibility must pass, and its result must be valid.

    HPCG calls a result official if it took 30 minutes and a quarter of the memory: `-S
    hpcg.seconds=1800 -S hpcg.size=C`.

    Why: HPCG does about one operation for eight bytes that it reads. Memory bandwidth limits it.
    Between nodes, so does the latency of small messages and of a sum over all processes.

    Reproduces: no figure.

    Read: `rating_A_8` is HPCG's Gflop/s of 8 processes with cubes of size A. `efficiency_A_8` is
    that rating over 8 times the one of one process. Within a node it falls where the memory is
    shared; from node to node the loss is the link's. `bandwidth_A_8` follows from HPCG's count of
    reads and writes. It is near to that of STREAM where the program is good.
    """

    #: Size -> edge of each process's cube: `S`, `W`, `A` (0.2 GB a process), `B` (HPCG's default,
    #: 0.8 GB), `C` (2.9 GB).
    sizes = Cubes.sizes
    #: Seconds of the solver in a launch; its sets of 50 iterations are finished. Default: the
    #: partition's `hpcg_seconds` (extras), or 10. :type: int
    seconds = setting(int, 10, extra="hpcg_seconds", least=1)

    own_extras = {"size": "hpcg_size"}
    program = Cubes.program
    valid_prog_environs = ["+mpi +hpcg"]
    tags = {"mpi", "cpu", "memory", "network", "application"}

    def configure(self):
        self.problem = Cubes(self.size, self.seconds)
        self.use_processes(1 << 20, "numbers that a grid near to a cube has", processes_fit)

    def name_variables(self):
        super().name_variables()
        for count in self.counts:
            name = f"bandwidth_{self.size}_{count}"
            self.define(name, "MB/s", lambda run: run.mbytes_per_s, on=count)
