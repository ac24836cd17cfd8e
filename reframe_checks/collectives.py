"""Collective operations over message size and number of processes."""

import itertools

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.pages import LEAST, Pages
from nearmetal.checks.parsing.collectives import MOST_TO_ALL, parse_collectives
from nearmetal.checks.programs import SUITES, is_theirs
from nearmetal.checks.scaling import MOST_PROCESSES, Scaling
from nearmetal.checks.settings import JavaSettings, setting

#: Message sizes (bytes) that have variables. The curves have all sizes.
SIZES = {"8B": 8, "64KiB": 65536}
#: The operations on messages.
MESSAGES = ("Alltoall", "Allreduce", "Bcast")


@rfm.simple_test
class collectives(Pages, JavaSettings, Scaling, NearmetalCheck):
    """Time of Alltoall, Allreduce, Bcast and Barrier on the slowest process, 8 B to 1 MiB.

    Method: Intel MPI Benchmarks. The time is t_max: the mean time of a call on the process where it
    is longest. The results are verified at each size. `-S collectives.suite=imb` runs IMB's own
    program.

    Why: FT, IS and CG wait for collectives. A collective is as slow as the slowest path and the
    most disturbed process. An emulated NIC adds its cost to each of the log N or N steps.

    Reproduces: no figure. The messaging paper explains the scaling of FT and IS by collectives
    (section 5.3).

    `-S pages=large` has the buffers in pages of 2 MiB, `-S pages=small` in small ones.

    Read: `alltoall_64KiB_16` is the time in us of an Alltoall of 64 KiB to each of 16 processes.
    Barrier and the 8 B sizes follow start-up latency, the others bandwidth. The curves in the
    results have all sizes. An Alltoall to more than 8192 processes stops below 64 KiB: messages to
    all have 512 MiB at most.
    """

    #: Origin of the program: ours, or the suite named above. :values: `nearmetal`, `imb`
    suite = builtin.variable(str, value="nearmetal", loggable=True)
    #: Most seconds for a message size. Default: the partition's `collectives_max_time` (extras), or
    #: 0.5. :type: float
    max_time = setting(float, 0.5, extra="collectives_max_time", above=0)
    #: Longest message in bytes. Default: the partition's `collectives_max_bytes` (extras), or
    #: 1048576. :type: int
    max_bytes = setting(int, 1 << 20, extra="collectives_max_bytes", least=max(SIZES.values()))

    valid_prog_environs = ["+mpi", "+mpj"]
    java_program = "Collectives"
    time_limit = "1h"
    tags = {"network", "mpi"}

    def configure(self):
        self.use_processes(MOST_PROCESSES, "2 processes or more", lambda count: count > 1)

    def build(self):
        if is_theirs(self, "imb"):
            self.run_theirs(*SUITES["imb"])
        else:
            self.build_ours("collectives.c")

    def launches(self):
        seconds = f"{self.max_time:g}"
        if self.suite == "imb":
            sizes = f"3:{self.max_bytes.bit_length() - 1}"
            on_all_processes_only = ["-npmin", "1000000"]
            return self.on_each_count(
                *(*MESSAGES, "Barrier"),
                *("-msglog", sizes, "-time", seconds, *on_all_processes_only),
            )
        return self.on_each_count("--max-time", seconds, "--max-bytes", self.max_bytes)

    def name_variables(self):
        self.perf_variables = {}
        for count in self.counts:
            for name, (label, size) in itertools.product(MESSAGES, SIZES.items()):
                if name == "Alltoall" and size * count > MOST_TO_ALL:
                    continue
                self._define(f"{name.lower()}_{label}_{count}", name, size, count)
            self._define(f"barrier_{count}", "Barrier", 0, count)
        if self.is_dry_run():
            return
        self.curves = {}
        for count, name in itertools.product(self.counts, MESSAGES):
            self.curves[f"{name.lower()}_us_{count}"] = self._curve(name, count)

    def _define(self, variable, name, size, count):
        self.define(variable, "us", lambda run: run.slowest_us[name][size], on=count)

    def _curve(self, name, count):
        sizes = self.runs[0][count].slowest_us[name]
        return self.curve(lambda runs, size: runs[count].slowest_us[name][size], sizes)

    def read_output(self, text):
        launches = parse_collectives(text)
        self.runs = self.rounds(launches)
        self.check_binding()
        measured = launches[0].slowest_us["Bcast"]
        missing = [size for size in SIZES.values() if size not in measured]
        if missing:
            raise SanityError(
                f"messages of {missing} bytes were not measured: raise collectives.max_bytes"
            )
        self.record_program(launches[0].facts, "IMB")

    def buffer_bytes(self):
        total = 0
        for count in self.counts:
            # Of each process: one to send, one to receive, with a message for each process.
            size = 2 * min(self.max_bytes * count, MOST_TO_ALL)
            if size >= LEAST:
                total += count * size
        return total
