"""The kernels of the NAS Parallel Benchmarks over a number of processes."""

import math

import reframe as rfm
import reframe.core.builtins as builtin

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.pages import LEAST, Pages
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.programs import is_theirs
from nearmetal.checks.scaling import Scaling
from nearmetal.checks.settings import JavaSettings, setting

#: Sizes of the problem.
CLASSES = ("S", "W", "A", "B", "C")


class npb_base(Scaling, NearmetalCheck):
    """What the official programs and ours have in common."""

    #: Size of the problem. Default: the partition's `npb_class` (extras), or B, the messaging
    #: paper's. :values: `S`, `W`, `A`, `B`, `C`
    npb_class = setting(str, "B", extra="npb_class", choices=CLASSES)
    #: Most processes of a launch. :type: int
    most_processes = setting(int, 128, least=1)

    #: Numbers of processes that the program allows, as `use_processes` takes them.
    numbers = ()

    valid_prog_environs = ["+mpi"]
    time_limit = "2h"
    tags = {"mpi", "cpu", "network"}

    def configure(self):
        self.use_processes(self.most_processes, *self.numbers)

    def name_variables(self):
        self.name_mops()

    def name_mops(self) -> None:
        """Define the rates and the parallel efficiency."""
        self.name_values(
            "mops", "Mop/s", self.npb_class, lambda run: run.mops, lambda run: run.iteration_mops
        )

    def run_official(self):
        self.run_theirs(
            f"{self.benchmark}.{self.npb_class}.x",
            "the official programs come from the `npb` module or Spack environment, as "
            "BENCHMARK.CLASS.x",
        )

    def read_output(self, text):
        launches = parse_npb(text)
        self.runs = self.rounds(launches)
        self.check_binding()
        self.record_program(launches[0].facts, "NPB")

    def requested(self):
        return {"kernel": self.benchmark.upper(), "class": self.npb_class}


#: Powers of two in the number of keys (IS) and of points (FT), and points of an axis (MG and the
#: simulated applications), by class.
KEYS = dict(zip(CLASSES, (16, 20, 23, 25, 27)))
POINTS = dict(zip(CLASSES, (18, 19, 23, 25, 27)))
AXIS = {
    "mg": dict(zip(CLASSES, (32, 128, 256, 256, 512))),
    "bt": dict(zip(CLASSES, (12, 24, 64, 102, 162))),
    "lu": dict(zip(CLASSES, (12, 33, 64, 102, 162))),
    "sp": dict(zip(CLASSES, (12, 36, 64, 102, 162))),
}
#: Rows of CG's matrix and non-zeros of the vectors that it is made of, by class.
ROWS = dict(zip(CLASSES, ((1400, 7), (7000, 8), (14000, 11), (75000, 13), (150000, 15))))


def array_bytes(benchmark: str, npb_class: str) -> float:
    """Bytes of a kernel's main arrays, on all processes together: a lower bound.

    0 for EP, which works in the caches.
    """
    if benchmark == "is":
        return 2 * 4 * 2.0 ** KEYS[npb_class]
    if benchmark == "ft":
        return 2 * 16 * 2.0 ** POINTS[npb_class]
    if benchmark == "cg":
        rows, nonzeros = ROWS[npb_class]
        # An element and its column. Some of the non-zeros fall into the same place.
        return 0.85 * 12 * rows * (nonzeros + 1) ** 2
    if benchmark == "mg":
        return 3 * 8 * float(AXIS[benchmark][npb_class]) ** 3
    if benchmark in AXIS:  # the solution and the right-hand side, of five variables
        return 2 * 5 * 8 * float(AXIS[benchmark][npb_class]) ** 3
    return 0.0


#: Simulated applications: only the official suite has them.
SIMULATED = ["bt", "lu", "sp"]


@rfm.simple_test
class npb(Pages, JavaSettings, npb_base):
    """Mop/s and parallel efficiency of the NAS Parallel Benchmarks over the number of processes.

    Method: NPB 3.4 (RNR-94-007 and its later classes), each run verified by its own values. One job
    interleaves all numbers of processes. `-S npb.suite=official` runs the official programs. The
    simulated applications BT, LU and SP are always the official programs, in environments with the
    feature `npb`.

    Why: five kernels lose to virtualization for five reasons. EP loses only CPU time. MG loses
    memory bandwidth. CG loses to the start-up latency of short messages. FT and IS lose to the
    bandwidth of an all-to-all.

    Reproduces: the messaging paper's figure 6 and section 5.3, class B on 1 to 128 processes. So it
    runs by default, as far as the partition has nodes (`nodes` in its extras; without it, two). The
    paper had 8 processes on each node: `-S npb.ranks_per_node=8`. Also the InfiniBand post's
    degradations (class C).

    `-S pages=large` has the arrays in pages of 2 MiB, `-S pages=small` in small ones. Classes whose
    arrays are small are skipped then, and so is EP.

    Read: `mops_B_8` is the Mop/s of all 8 processes together. `efficiency_B_8` is that value over 8
    times the Mop/s of one process. It is relative to the fewest processes of the same round.
    Compare partitions by efficiency: the loss against native is the link's. EP beside it shows the
    CPU's part.
    """

    #: The kernel. `cg`: irregular memory and short messages. `ep`: only the processor. `ft`:
    #: all-to-all. `is`: integers and all-to-all. `mg`: memory bandwidth and neighbours. `bt`, `lu`,
    #: `sp`: solvers of fluid dynamics with neighbours. :values: `cg`, `ep`, `ft`, `is`, `mg`, `bt`,
    #: `lu`, `sp`
    benchmark = builtin.parameter(["cg", "ep", "ft", "is", "mg", *SIMULATED], loggable=True)

    #: Whose program: ours, or that of the suite named above. :values: `nearmetal`, `official`
    suite = builtin.variable(str, value="nearmetal", loggable=True)

    valid_prog_environs = ["+mpi", "+mpj"]
    default_nodes = 128

    @builtin.run_after("init")
    def take_simulated_applications_from_the_environment(self):
        if self.benchmark in SIMULATED:
            self.valid_prog_environs, self.suite = ["+mpi +npb"], "official"
        self.java_program = self.benchmark.upper()
        if self.benchmark in ("bt", "sp"):
            self.numbers = (
                "square numbers of processes",
                lambda count: math.isqrt(count) ** 2 == count,
            )

    def buffer_bytes(self):
        total = array_bytes(self.benchmark, self.npb_class)
        return total * sum(total / count >= LEAST for count in self.counts)

    def build(self):
        if is_theirs(self, "official"):
            self.run_official()
        else:
            self.build_ours(f"npb/{self.benchmark}.c")

    def launches(self):
        if self.suite == "official":
            return self.on_each_count()  # the class is in the program's name
        return self.on_each_count(self.npb_class)
