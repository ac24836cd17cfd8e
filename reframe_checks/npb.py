"""The kernels of the NAS Parallel Benchmarks over a number of processes."""

import math

import reframe as rfm
import reframe.core.builtins as builtin

from nearmetal.checkout import REFERENCES
from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.pages import LEAST, Pages
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.programs import is_theirs
from nearmetal.checks.scaling import MOST_PROCESSES, Scaling
from nearmetal.checks.settings import JavaSettings, setting
from nearmetal.util import documents

#: Sizes of the problem.
CLASSES = ("S", "W", "A", "B", "C", "D", "E")
#: What a run of each program and class needs.
NEEDS = documents.read(REFERENCES / "npb.yaml")
#: Seconds that a job may take by default, or more.
USUAL = 7200
#: A job may take so many times as long as its processes compute at the rate of NEEDS.
SLOWER = 4


class npb_base(Scaling, NearmetalCheck):
    """What the official programs and ours have in common."""

    #: Size of the problem. Default: the partition's `npb_class` (extras), or B, the messaging
    #: paper's. :values: `S`, `W`, `A`, `B`, `C`, `D`, `E`
    npb_class = setting(str, "B", extra="npb_class", choices=CLASSES)
    #: Most processes of a launch. :type: int
    most_processes = setting(int, MOST_PROCESSES, least=1)

    #: Numbers of processes that the program allows, as `use_processes` takes them.
    numbers = ()

    valid_prog_environs = ["+mpi"]
    time_limit = USUAL  # or more, by the class and the processes
    tags = {"mpi", "cpu", "network"}

    def configure(self):
        self.use_processes(self.most_processes, *self.numbers)
        if self.time_limit == USUAL:  # neither the command line nor the site limits it
            self.time_limit = max(USUAL, SLOWER * self.seconds_of_computing())
            self.keep_to_the_partitions_limits()

    def seconds_of_computing(self) -> float:
        """Seconds of all launches if nothing but the cores' rate limits them."""
        needs = NEEDS[self.benchmark]
        rounds = max(self.repeats + self.spare_repeats, 2 * getattr(self, "pairs", 0))
        cores = sum(1 / (count * self._threads) for count in self.counts)
        return rounds * cores * needs["operations"][self.npb_class] / needs["rate"]

    def bytes_of_node(self):
        # The fewest processes have the most memory each, on the first node.
        fewest = self.counts[-1]
        return array_bytes(self.benchmark, self.npb_class) * min(1, self.per_node / fewest)

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


def array_bytes(benchmark: str, npb_class: str) -> float:
    """Bytes of a program's main arrays, on all processes together: a lower bound.

    0 for EP, which works in the caches.
    """
    return NEEDS[benchmark].get("bytes", {}).get(npb_class, 0)


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
    runs by default, as far as the partition has nodes (`nodes` in its extras; without it, two).
    Where two nodes hold more than 128 processes, it fills two. The paper had 8 processes on each
    node: `-S npb.ranks_per_node=8`. Also the InfiniBand post's degradations (class C).

    `-S pages=large` has the arrays in pages of 2 MiB, `-S pages=small` in small ones. Classes whose
    arrays are small are skipped then, and so is EP.

    A class whose arrays exceed a node's memory (`memory_gb` in the extras) is skipped. A job may
    take two hours, or four times its operations' time at the rates of `references/npb.yaml`.

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
    default_nodes, default_processes = 128, 128

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
