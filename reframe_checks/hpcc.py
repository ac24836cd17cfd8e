"""The HPC Challenge benchmark with small and with large pages."""

from __future__ import annotations

import math

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks import pages, provenance
from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.instances import Instances
from nearmetal.checks.parsing.hpcc import parse_hpcc, together
from nearmetal.checks.scaling import Scaling
from nearmetal.checks.settings import PEAK_GFLOPS, cores_of_node, setting
from nearmetal.expectations import hardware

UNITS = {
    "star_random_access": "GUP/s",
    "mpi_random_access": "GUP/s",
    "hpl": "Gflop/s",
    "star_dgemm": "Gflop/s",
    "star_stream_triad": "MB/s",
    "ptrans": "Gb/s",
    "mpi_fft": "Gflop/s",
    "ring_latency": "us",
    "ring_bandwidth": "Gb/s",
}
#: Most part of HPL's matrix in large pages, with small pages.
SMALL = 0.05
RINGS = 100_000_000


@rfm.simple_test
class hpcc(Instances, Scaling, NearmetalCheck):
    """RandomAccess, HPL, STREAM, PTRANS, FFT and rings of HPCC, with small and with large pages.

    Method: HPC Challenge 1.5 (P. Luszczek et al.), with its input computed from memory and
    processes. Transparent huge pages are withdrawn from the program, or advised to it. The kernel's
    counters say which pages it had.

    Why: a hypervisor adds a second level of page tables (EPT, NPT), which makes each TLB miss
    dearer. RandomAccess misses all the time, HPL seldom. Large pages reduce the cost of both.

    Reproduces: the ESX 4.1 memory virtualization post, tables 1 and 2: `-S hpcc.megabytes=12800 -S
    hpcc.block=100 -S hpcc.processes=4 -S hpcc.socket=0`. Also slide 15 of the HPC Cloud slides,
    LINPACK in percent of the peak, and the InfiniBand post, where HPCC is within five percent of
    native.

    `-S hpcc.instances=2` runs two HPCCs at once, each on nodes of its own, such as guests of one
    host. Rates of all processes (HPL, PTRANS, FFT, MPIRandomAccess) are then summed; the others,
    of one process or message, are means.

    Read: `star_random_access` with small against large pages is the cost of the TLB. Compare that
    ratio with the one on bare metal: the difference is the hypervisor's share. `hpl_of_dgemm` is
    HPL's Gflop/s in percent of what all processes reach in DGEMM by themselves. `hpl_of_peak` is
    its percentage of the theoretical peak of their cores: `peak_gflops` (extras), or else cores,
    clock and vectors of the first node. It is absent where neither is known.
    """

    #: Pages of the program's memory. :values: `small`, `large`
    page_size = builtin.parameter(["small", "large"], loggable=True)
    #: Megabytes (1e6) of each node for HPL's matrix. Default: the partition's `hpcc_megabytes`
    #: (extras), or 60 % of the available memory of the first node. (The post: 12800.) :type: int
    megabytes = setting(int, 0, extra="hpcc_megabytes", least=1)
    #: Block size of HPL. (The post: 100.) :type: int
    block = setting(int, 128, least=1)

    own_extras = {"processes": "hpcc_processes", "ranks_per_node": "hpcc_ranks_per_node"}
    valid_prog_environs = ["+mpi +hpcc"]
    repeats = 1
    time_limit = "4h"
    tags = {"cpu", "memory", "network", "mpi"}
    build_system = "SingleSource"
    sourcepath = "pages.c"
    executable = "./pages"

    def configure(self):
        self.use_processes(1 << 20)
        # HPCC is no study of scaling: its variables are of the most processes.
        self.counts = self.counts[:1]
        if self.socket >= 0:
            reason = "but numactl holds the processes to a socket: leave binding or socket out"
            self.decide("binding", "none", reason)
        self.multiply_the_job()
        # A threaded BLAS would take the other processes' cores.
        self.env_vars["OMP_NUM_THREADS"] = "1"

    def build(self):
        self.build_system.cflags = ["-std=c11", "-O2"]
        self.prebuild_cmds += [
            (
                'command -v hpcc > /dev/null || { echo "hpcc is not on PATH although this '
                'environment has the feature hpcc: load its module, or take the feature away" '
                ">&2; exit 1; }"
            )
        ]

    def preparations(self):
        each = f"{self._processes_each} {self._nodes_each}"
        problem = f"{each} {self.megabytes} {self.block}"
        return [f"sh hpccinf.sh {problem} > hpccinf.txt", *super().preparations()]

    def launches(self):
        # HPCC appends its results to this file. Here each launch prints its own, so that those of a
        # repeat that ran again are left out with its output.
        after = ("cat hpccoutf.txt", "rm hpccoutf.txt")
        return [self.placed(self.counts[0], options=[self.page_size, "hpcc"], after=after)]

    def read_output(self, text):
        self.runs = [together(runs) for runs in self.each_repeat(parse_hpcc(text))]
        self.rounds(self.runs, lambda run: run.processes // self.instances)
        self.check_binding()

    def requested(self):
        asked = {"block": self.block, "processes": self.num_tasks}
        if self.megabytes:  # as hpccinf.sh has it
            rows = math.isqrt(int(self._nodes_each * self.megabytes * 1e6 / 8))
            asked["n"] = rows // self.block * self.block
        return asked

    def check_pages(self):
        """Raises SanityError if the program's memory was not in the wanted pages."""
        needed = sum(run.matrix_bytes for run in self.runs) / self.num_nodes
        for host, given in provenance.large_page_bytes(*self._counters).items():
            if why := pages.fault(self.page_size, given, needed, host, "HPL alone needs", SMALL):
                raise SanityError(why)

    def payload_bytes(self):
        """A lower bound: the rings of 2 MB messages move far more, 900 MB a process in the lab."""
        return RINGS * self.repeats if self.num_tasks > 1 else 0

    def name_variables(self):
        self.perf_variables = {}
        for name, unit in UNITS.items():
            self.define(name, unit, lambda run, name=name: run.values[name])
        self.define("hpl_of_dgemm", "% of DGEMM", lambda run: run.hpl_of_dgemm)
        if core_peak := self._core_peak():
            peak = core_peak * self.num_tasks
            self.define("hpl_of_peak", "% of peak", lambda run: 100 * run.values["hpl"] / peak)

    def _core_peak(self) -> float | None:
        """Theoretical peak of one core in Gflop/s; None where it is not known."""
        node = PEAK_GFLOPS.of(self.current_partition)
        cores = cores_of_node(self.current_partition)
        return node / cores if node and cores else hardware.core_gflops(self.facts)
