"""Memory bandwidth of a node."""

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.instances import Instances
from nearmetal.checks.parsing.stream import parse_stream, together
from nearmetal.checks.settings import NUMBERS, setting
from nearmetal.job.launch import Launch

#: Binding -> OpenMP's environment variables.
OPENMP = {
    "bound": {"OMP_PROC_BIND": "spread", "OMP_PLACES": "threads"},
    "unbound": {"OMP_PROC_BIND": "false"},
}


class stream_program(NearmetalCheck):
    """The program on a whole node."""

    #: Passes. The best one counts; the first one never does. (The post: 40.) :type: int
    ntimes = setting(int, 10, least=2)

    valid_prog_environs = ["+openmp"]
    num_tasks = 1
    num_tasks_per_node = 1
    # The job has the node; OpenMP binds, and a launcher that bound the one task would hide the
    # other cores. Open MPI's does so by default.
    bound_to = "none"
    tags = {"memory"}

    def build(self):
        self.build_ours("stream.c")


class stream_base(stream_program):
    """STREAM with `self.binding`: a parameter, or the binding of each half of a duet."""

    #: Numbers of threads, separated by commas. Default: powers of two up to the node's CPUs. :type:
    #: str
    threads = setting(str, "", pattern=NUMBERS, meaning="numbers from 1 separated by commas")
    #: Elements of each array. Default: 4 times the last-level caches, as STREAM requires. (The
    #: post: 100000000.) :type: int
    elements = setting(int, 0, least=1)

    def configure(self):
        self.env_vars.update(OPENMP[self.binding])

    def options(self) -> list:
        """Options of the program."""
        options = ["--ntimes", self.ntimes]
        if self.threads:
            options += ["--threads", self.threads]
        if self.elements:
            options += ["--elements", self.elements]
        return options

    def launches(self):
        return [Launch(options=self.options())]

    def read_output(self, text):
        self.runs = self.of_repeats(parse_stream(text))
        counts = sorted(self.runs[0].tables)
        measured = [sorted(run.tables) for run in self.runs]
        if measured != [counts] * self.repeats:
            raise SanityError(
                f"the output holds thread counts {measured}, not the same ones for "
                f"{self.repeats} launches"
            )
        self.expect_the_whole_node(counts[-1])
        self.compiler = self.runs[0].facts["compiler"]
        for run in self.runs:
            for count, table in run.tables.items():
                free = [thread for thread, place in table.bindings.items() if place.allowed != 1]
                if self.binding == "bound" and free:
                    raise SanityError(
                        f"threads {free} of {count} were not bound to one CPU although asked to "
                        "be: does the scheduler or container hide the cores?"
                    )

    def of_repeats(self, runs: list) -> list:
        """The launches, one for each repeat."""
        return runs

    def expect_the_whole_node(self, most: int) -> None:
        """Raise SanityError if fewer threads ran than the node has processors for."""
        online = self.facts["cpus"]
        # Half of the CPUs are a node without its hyper-threads; fewer are a node that the job had
        # only a part of.
        if not self.threads and online.isdecimal() and most * 2 < int(online):
            raise SanityError(
                f"at most {most} threads ran where the node has {online} CPUs: "
                "does the scheduler or container hide the others?"
            )

    def name_variables(self):
        if self.is_dry_run():
            return
        self.perf_variables = {}
        for count in self.runs[0].tables:
            for function in ("copy", "scale", "add", "triad"):
                self._define(function, count)

    def _define(self, function, count):
        self.define(
            f"{function}_{count}",
            "MB/s",
            lambda run: run.tables[count].rates[function],
            lambda run: run.tables[count].pass_rates(function),
        )


@rfm.simple_test
class stream(Instances, stream_base):
    """Copy, Scale, Add and Triad in MB/s (10^6 bytes) over 1, 2, 4, ... threads, with threads bound
    to cores and unbound.

    Method: STREAM (McCalpin) as the ESX 4.1 STREAM post ran it (tables 1 and 2). It used gcc -O2
    -fopenmp and arrays far beyond the caches. The results in the arrays are validated.

    Why: a hypervisor hardly slows down a stream, but it may hide the NUMA nodes. Threads then use
    memory that is far away.

    Reproduces: the ESX 4.1 STREAM post, table 1 (native, 1 to 16 threads). Also table 2, two guests
    of one host together, on a partition of such guests: `-S stream.instances=2 -S
    stream.threads=1,2,4,8 -S stream.elements=50000000 -S stream.ntimes=40`. Its columns, and our
    variables, then count the threads of all guests. `-S stream.socket=0` measures one socket alone.

    Read: there is one variable for each function and thread count, such as `triad_4`. Bound far
    above unbound: the kernel moves threads away from their memory. If all threads reach no more
    than half of them, memory is the limit and not the cores, as it should be.
    """

    #: Whether threads are bound to cores. The actual binding is read back. :values: `bound`,
    #: `unbound`
    binding = builtin.parameter(["bound", "unbound"], loggable=True)

    def configure(self):
        super().configure()
        self.multiply_the_job()

    def launches(self):
        return [self.of_one(*self.options())]

    def of_repeats(self, runs):
        return [together(instances) for instances in self.each_repeat(runs)]

    def expect_the_whole_node(self, most):
        if self.socket < 0:
            super().expect_the_whole_node(most // self.instances)
