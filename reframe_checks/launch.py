"""Time until an MPI program can begin."""

import reframe as rfm

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.parsing.launch import parse_launch
from nearmetal.checks.scaling import Scaling


def asked(count: int) -> list[str]:
    """The program's options; the job's shell takes the time when it comes to the line."""
    # Nanoseconds: a launch within a node takes some hundredths of a second.
    return ["--ranks", str(count), "--since", "$(date +%s.%N)"]


@rfm.simple_test
class launch(Scaling, NearmetalCheck):
    """Seconds from the launcher's call until MPI_Init has returned, over the number of processes.

    Method: the job notes the time before it calls the launcher. The first process, on the same
    node, notes it when MPI_Init has returned. Every process also times MPI_Init itself, and the
    longest time counts. No other variable contains these times.

    Why: a container, a network file system or many guests cost time before the program computes.
    That cost is paid once for each launch and grows with the number of processes. It must be kept
    apart from the cost while the program runs.

    Reproduces: no figure. It shows where environments in images differ from bare ones.

    Read: `launch_8` is the time of 8 processes in s. `mpi_init_8` is the part in MPI_Init, where
    the library finds its peers. The rest is the launcher's, the loader's and the container's.
    Compare environments by `launch_duet`.
    """

    valid_prog_environs = ["+mpi"]
    time_limit = "30m"
    tags = {"mpi"}

    def configure(self):
        self.use_processes(1 << 20)

    def build(self):
        self.build_ours("launch.c")

    def launches(self):
        return [self.placed(count, options=asked(count)) for count in self.counts]

    def read_output(self, text):
        launches = parse_launch(text)
        self.runs = self.rounds(launches)
        self.check_binding()
        self.record_program(launches[0].facts, "launch")

    def requested(self):
        return {}  # each launch its own number of processes, which `rounds` compares

    def payload_of(self, run):
        return 0

    def name_variables(self):
        self.perf_variables = {}
        for count in self.counts:
            self.define(f"launch_{count}", "s", lambda run: run.seconds, on=count)
        for count in self.counts:
            self.define(f"mpi_init_{count}", "s", lambda run: run.mpi_init_seconds, on=count)
