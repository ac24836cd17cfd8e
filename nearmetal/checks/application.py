"""Applications that a site has installed, on a fixed problem and several numbers of processes."""

import math
from collections.abc import Mapping

import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.scaling import Scaling
from nearmetal.checks.settings import setting

#: Arguments of `name_values`: the rate of a launch, or its inverse, the time.
RATE = {"value": lambda run: run.rate, "parts": lambda run: run.parts}
TIME = {
    "value": lambda run: 1 / run.rate,
    "parts": lambda run: [1 / part for part in run.parts],
    "rate": lambda run: run.rate,
}


class Application(Scaling, NearmetalCheck):
    """Base of the applications: strong scaling of a fixed problem.

    A check has a table `sizes`, and a hook that sets the options of its program.
    """

    #: Size of the problem. Default: the partition's `CHECK_size` (extras), or A. :values: the names
    #: in `sizes`
    size = setting(str, "A", choices_of="sizes")
    #: Name of the program on PATH. :type: str
    program = builtin.variable(str)

    #: Parameters of each size, by letter. Size A takes a minute on one or two nodes.
    sizes: Mapping = {}
    #: Command lines after each launch.
    after_launch = ()
    time_limit = "2h"
    tags = {"mpi", "cpu", "network", "application"}

    @builtin.run_after("setup")
    def choose_size(self):
        self.use_processes(1 << 20)

    @builtin.run_before("compile")
    def choose_program(self):
        self.run_installed(self.program)
        self.env_vars["OMP_NUM_THREADS"] = "1"  # one thread for each process

    def launch(self, launcher, executable, options=()):
        return [
            line
            for launch in super().launch(launcher, executable, options)
            for line in (launch, *self.after_launch)
        ]

    def keep(self, launches: list, program: str) -> None:
        """Store verified launches as the measurement.

        :arg launches: each has processes, rate, parts, facts and payload_bytes.
        """
        self.launches = self.rounds(launches)
        self.check_binding()
        self.record_program(launches[0].facts, program)
        self.facts = {**self.facts, "application": launches[0].facts["application"]}

    def payload_of(self, run):
        return run.payload_bytes if run.processes > 1 else 0

    def expect_equal(
        self, what: str, launches: list, values: list[float], tolerance: float
    ) -> None:
        """Raise SanityError if a launch computed another value than the first.

        :arg tolerance: allowed relative difference.
        """
        if len(values) != len(launches):
            raise SanityError(f"{len(values)} values of {what}, but {len(launches)} launches")
        for run, value in zip(launches, values):
            if not math.isclose(value, values[0], rel_tol=tolerance):
                raise SanityError(
                    f"{what} is {value:.9g} on {run.processes} processes, but {values[0]:.9g} on "
                    f"{launches[0].processes}: the machine, the program or its MPI library "
                    "computes wrongly"
                )
