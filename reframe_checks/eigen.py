"""A non-linear eigensolver by contour integrals over a number of processes."""

import reframe as rfm
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.parsing.eigen import parse_eigen
from nearmetal.checks.scaling import Hybrid, Scaling
from nearmetal.checks.settings import setting

#: Class -> points of the grid in each of three directions, and points of the contour.
SIZES = {"S": (16, 32), "W": (24, 32), "A": (32, 64), "B": (48, 64)}


@rfm.simple_test
class eigen(Hybrid, Scaling, NearmetalCheck):
    """Time and parallel efficiency of a non-linear eigensolver (MPI and OpenMP) over the number of
    processes.

    Method: the contour integral method of Asakura et al. for non-linear problems, as SLEPc's
    NEPCISS. The problem is a heat equation with delay in a cube. The solver seeks all 17
    eigenvalues within an ellipse. Lambert's W gives the true ones. A missing, wrong or extra
    eigenvalue fails the case. The problem is the same for all numbers of processes.

    Groups of processes share 16 linear systems (S, W) or 32 (A, B), and factorize them with MUMPS.
    A group is one process where the number of processes divides these. Only the BLAS below MUMPS
    has threads, and MUMPS where it was built so. Threads share the dense blocks of the factors. In
    class S the blocks are small, and threads gain nothing. The number of threads in a matrix
    product is read back. All factors are kept: 8 GB in class A and some 40 GB in B, divided among
    the processes.

    Why: coarse-grained programs compute for long between few messages, and suit clouds.
    Virtualization takes memory bandwidth and processor time from them. It takes more where threads
    wander between NUMA nodes.

    Reproduces: the HPC Cloud slides, whose own solver Bloss is not public.

    - Slide 11, elapsed time bound: `-S eigen.processes=1 -S eigen.threads=8 -S eigen.binding=core`;
      unbound: `none`.
    - Slides 13 and 16, parallel efficiency on 1 to 16 nodes: `-S eigen.processes=1,2,4,8,16 -S
      eigen.ranks_per_node=1 -S eigen.threads=8`.

    Read: `solve_A_8` is the time of 8 processes from the assembled matrices to the eigenvectors.
    `efficiency_A_8` is the speed of 8 processes over 8 times the speed of one. It is relative to
    the fewest processes of the same round. The slides give efficiency against native: KVM loses 8
    %, EC2 22 %. Bound against unbound in a guest says whether its NUMA nodes are those of the host.
    """

    #: Size of the problem. Default: the partition's `eigen_class` (extras), or A. :values: `S`,
    #: `W`, `A`, `B`
    eigen_class = setting(str, "A", extra="eigen_class", choices=tuple(SIZES))

    valid_prog_environs = ["+mpi +slepc"]
    time_limit = "2h"
    tags = {"mpi", "openmp", "cpu", "network"}

    def configure(self):
        self.use_processes(4096)

    def build(self):
        self.build_ours("eigen.c")
        self.prebuild_cmds += [
            (
                'pkg-config --exists slepc || { echo "pkg-config finds no slepc although this '
                "environment has the feature slepc: give it PKG_CONFIG_PATH, or take the feature "
                'away" >&2; exit 1; }'
            )
        ]
        self.build_system.cflags += ["$(pkg-config --cflags slepc)"]
        # The directories at run time too: some modules and Spack give no LD_LIBRARY_PATH.
        self.build_system.ldflags += [
            "$(pkg-config --libs slepc)",
            "$(pkg-config --libs-only-L slepc | sed 's|-L */|-Wl,-rpath,/|g')",
        ]

    def launches(self):
        side, points = SIZES[self.eigen_class]
        return self.on_each_count("--side", side, "--points", points)

    def name_variables(self):
        self.name_values(
            "solve",
            "s",
            self.eigen_class,
            lambda run: run.seconds,
            rate=lambda run: 1 / run.seconds,
        )

    def read_output(self, text):
        launches = parse_eigen(text)
        self.runs = self.rounds(launches)
        if others := {run.threads for run in launches} - {self.threads}:
            raise SanityError(
                f"a process computed on {others.pop()} threads instead of {self.threads}: is the "
                "BLAS of this SLEPc threaded, and does it heed OMP_NUM_THREADS?"
            )
        self.check_binding()
        self.record_program(launches[0].facts, "eigen")
        self.facts = {**self.facts, "solver": launches[0].facts.get("solver", "not told")}
