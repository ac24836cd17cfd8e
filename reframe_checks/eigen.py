"""A non-linear eigensolver by contour integrals over a number of processes."""

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.parsing.eigen import parse_eigen
from nearmetal.checks.scaling import Hybrid, Scaling
from nearmetal.checks.settings import setting

#: By class the points of the grid in each of three directions, and those of the contour.
SIZES = {"S": (16, 32), "W": (24, 32), "A": (32, 64), "B": (48, 64)}


@rfm.simple_test
class eigen(Hybrid, Scaling, NearmetalCheck):
    """Time and parallel efficiency of a non-linear eigensolver by contour integrals, MPI x OpenMP, over a number of processes.

    Method: the contour integral method of Sakurai and Sugiura for non-linear problems (J. Asakura et al., JSIAM Letters 1,
    2009), as SLEPc's NEPCISS. Of a heat equation with delay in a cube it seeks all 17 eigenvalues within an ellipse, which are
    known by Lambert's W: one that is missing, wrong or too many fails the case. The size is the same for all processes.

    Groups of processes, of one each where their number divides the 16 (S, W) or 32 (A, B) linear systems, share these out and
    factorize them by MUMPS. OpenMP is that of the BLAS below it (and MUMPS' own where it was built so) and nothing else: the
    `threads` of a process share the dense blocks of its factors, which are small in class S, where they gain nothing. How many
    take part in a product of matrices is read back. The factors of all systems are kept, which takes 8 GB in class A and some
    40 GB in B, shared out over the processes.

    Why: coarse-grained programs, which compute for long between few messages, are those that clouds are good for. What
    virtualization takes of them is memory and processor, the more as threads wander between NUMA nodes.

    Reproduces: the HPC Cloud slides, whose own solver Bloss is not public: 11 (elapsed time bound and not: `-S
    eigen.processes=1 -S eigen.threads=8 -S eigen.binding=core`, and `none`), 13 and 16 (parallel efficiency on 1 to 16 nodes:
    `-S eigen.processes=1,2,4,8,16 -S eigen.ranks_per_node=1 -S eigen.threads=8`).

    Read: `solve_A_8` is the time of 8 processes from the assembled matrices to the eigenvectors, `efficiency_A_8` that of the
    fewest processes in the same round over 8 times it (all of it relative to these). Efficiency against native is what the
    slides give: KVM loses 8 %, EC2 22 %. Bound against unbound in a guest tells whether its NUMA nodes are those of the host.
    """

    #: Size of the problem; default: the partition's `eigen_class` (extras), or A. :values: S, W, A, B
    eigen_class = setting(str, "A", extra="eigen_class", choices=tuple(SIZES))

    valid_prog_environs = ["+mpi +slepc"]
    time_limit = "2h"
    tags = {"mpi", "openmp", "cpu", "network"}

    @builtin.run_after("setup")
    def choose_size(self):
        self.use_processes(4096)

    @builtin.run_before("compile")
    def build_with_slepc(self):
        self.build_ours("eigen.c")
        self.prebuild_cmds += [
            (
                'pkg-config --exists slepc || { echo "pkg-config finds no slepc although this environment has '
                'the feature slepc: give it PKG_CONFIG_PATH, or take the feature away" >&2; exit 1; }'
            )
        ]
        self.build_system.cflags += ["$(pkg-config --cflags slepc)"]
        # The directories at run time too: some modules and Spack give no LD_LIBRARY_PATH.
        self.build_system.ldflags += [
            "$(pkg-config --libs slepc)",
            "$(pkg-config --libs-only-L slepc | sed 's|-L */|-Wl,-rpath,/|g')",
        ]

    @builtin.run_before("run")
    def set_command(self):
        side, points = SIZES[self.eigen_class]
        self.executable_opts = ["--side", str(side), "--points", str(points)]

    @builtin.run_before("performance")
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
        self.launches = self.rounds(launches)
        if others := {run.threads for run in launches} - {self.threads}:
            raise SanityError(
                f"a process computed on {others.pop()} threads instead of {self.threads}: is the BLAS of this "
                "SLEPc threaded, and does it heed OMP_NUM_THREADS?"
            )
        self.check_binding()
        self.record_program(launches[0].facts, "eigen")
        self.facts = {**self.facts, "solver": launches[0].facts.get("solver", "not told")}

    def payload_of(self, run):
        return run.payload_bytes
