"""The kernels of the NAS Parallel Benchmarks over a number of processes."""

import math

import reframe as rfm
import reframe.core.builtins as builtin

from nearmetal.checks.base import NearmetalCheck
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

    @builtin.run_after("setup")
    def choose_size(self):
        self.use_processes(self.most_processes, *self.numbers)

    @builtin.run_before("performance")
    def name_variables(self):
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
        self.launches = self.rounds(launches)
        self.check_binding()
        self.record_program(launches[0].facts, "NPB")

    def requested(self):
        return {"kernel": self.benchmark.upper(), "class": self.npb_class}

    def payload_of(self, run):
        return float(run.facts["payload_bytes"]) if "payload_bytes" in run.facts else None


#: Simulated applications: only the official suite has them.
SIMULATED = ["bt", "lu", "sp"]


@rfm.simple_test
class npb(JavaSettings, npb_base):
    """Mop/s and parallel efficiency of the NAS Parallel Benchmarks over the number of processes.

    Method: NPB 3.4 (RNR-94-007 and its later classes), each run verified by its own values. One job
    interleaves all numbers of processes. `-S npb.suite=official` runs the official programs. The
    simulated applications BT, LU and SP are always the official programs, in environments with the
    feature `npb`.

    Why: five kernels lose to virtualization for five reasons. EP loses only CPU time. MG loses
    memory bandwidth. CG loses to the start-up latency of short messages. FT and IS lose to the
    bandwidth of an all-to-all.

    Reproduces: the messaging paper's figure 6 and section 5.3 (class B on up to 16 and 128
    processes): `-S npb.npb_class=B -S npb.processes=1,2,4,8,16`. Also the InfiniBand post's
    degradations (class C).

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

    @builtin.run_before("compile")
    def choose_program(self):
        if is_theirs(self, "official"):
            self.run_official()
        else:
            self.build_ours(f"npb/{self.benchmark}.c")
            self.executable_opts = [self.npb_class]
