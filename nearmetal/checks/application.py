"""Applications that a site has installed, on a fixed problem and several numbers of processes."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping

import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.scaling import Scaling
from nearmetal.checks.settings import setting
from nearmetal.job.job import Step

#: Arguments of `name_values`: the rate of a launch, or its inverse, the time.
RATE = {"value": lambda run: run.rate, "parts": lambda run: run.parts}
TIME = {
    "value": lambda run: 1 / run.rate,
    "parts": lambda run: [1 / part for part in run.parts],
    "rate": lambda run: run.rate,
}


class Problem:
    """What an application computes in one size, for every check that runs it.

    A check places the processes and groups the launches. The problem has the program's options,
    and reads and verifies its output.
    """

    #: Name of the program on PATH, and its name for people.
    program = ""
    title = ""
    #: Parameters of each size, by letter. Size A takes a minute on one or two nodes.
    sizes: Mapping = {}
    #: First part of the variables' names, their unit, and arguments of `name_values`.
    quantity, unit = "", ""
    value: Mapping = RATE
    #: Command lines after each launch.
    after_launch: tuple[str, ...] = ()
    #: Environment variables of the program.
    env_vars: Mapping = {}

    def __init__(self, size: str):
        if size not in self.sizes:
            raise SanityError(
                f"{self.title} has no size {size!r}: choose from {', '.join(self.sizes)}"
            )
        self.size = size

    def options(self) -> list[str]:
        """Options of the program."""
        raise NotImplementedError

    def preparations(self, program: str) -> list[Step]:
        """What runs before the first launch.

        :arg program: the program, quoted for a shell.
        """
        return []

    def clean_up(self) -> list[str]:
        """Command lines after the last launch."""
        return []

    def requested(self) -> dict:
        """Parameters that each launch reports; {} if the values say which problem it was."""
        return {}

    def read(self, text: str) -> list:
        """The verified launches in the output of the job.

        Each has processes, rate, parts, facts and payload_bytes. Raises ParseError, SanityError.
        """
        raise NotImplementedError


def expect_equal(what: str, launches: list, values: list[float], tolerance: float) -> None:
    """Raise SanityError if a launch computed another value than the first.

    :arg tolerance: allowed relative difference.
    """
    if len(values) != len(launches):
        raise SanityError(f"{len(values)} values of {what}, but {len(launches)} launches")
    for run, value in zip(launches, values):
        if not math.isclose(value, values[0], rel_tol=tolerance):
            # The same problem has one answer on all numbers of processes.
            raise SanityError(
                f"{what} is {value:.9g} on {run.processes} processes, but {values[0]:.9g} on "
                f"{launches[0].processes}: the machine, the program or its MPI library "
                "computes wrongly"
            )


def facts_of_program(launches: list) -> dict[str, str]:
    """Name and version of the program that ran."""
    return {"application": launches[0].facts["application"]}


class Application(Scaling, NearmetalCheck):
    """Base of the applications: strong scaling of a fixed problem.

    A check names the class of its problem, and its sizes.
    """

    #: Size of the problem. Default: the partition's `CHECK_size` (extras), or A. :values: the names
    #: in `sizes`
    size = setting(str, "A", choices_of="sizes")
    #: Name of the program on PATH. :type: str
    program = builtin.variable(str)

    #: The class of the check's problem, and its sizes, by letter.
    computes = Problem
    sizes: Mapping = {}
    time_limit = "2h"
    tags = {"mpi", "cpu", "network", "application"}

    def configure(self):
        self.problem = self.choose_problem()
        self.use_processes(1 << 20)

    def choose_problem(self) -> Problem:
        """What the application computes."""
        return self.computes(self.size)

    def build(self):
        self.run_installed(self.program)
        self.env_vars["OMP_NUM_THREADS"] = "1"  # one thread for each process
        self.env_vars.update(self.problem.env_vars)

    def preparations(self):
        program = shlex.quote(self.program)
        return [*self.problem.preparations(program), *super().preparations()]

    def launches(self):
        options, after = self.problem.options(), self.problem.after_launch
        return [self.placed(count, options=options, after=after) for count in self.counts]

    def clean_up(self):
        return self.problem.clean_up()

    def name_variables(self):
        problem = self.problem
        self.name_values(problem.quantity, problem.unit, self.size, **problem.value)

    def requested(self):
        return self.problem.requested()

    def read_output(self, text):
        launches = self.problem.read(text)
        self.runs = self.rounds(launches)
        self.check_binding()
        self.record_program(launches[0].facts, self.problem.title)
        self.facts = {**self.facts, **facts_of_program(launches)}

    def payload_of(self, run):
        if run.processes == 1:
            return 0
        return run.payload_bytes
