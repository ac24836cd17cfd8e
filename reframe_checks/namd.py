"""NAMD on an input of the site's."""

import re
import shlex
from pathlib import Path

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError
from reframe.core.runtime import runtime

from nearmetal.checks.application import TIME, Application, Problem, expect_equal
from nearmetal.checks.parsing import request
from nearmetal.checks.parsing.namd import parse_namd
from nearmetal.checks.settings import setting


class SitesInput(Problem):
    """An input of the site's, which is its size."""

    program, title = "namd3", "NAMD"
    quantity, unit, value = "step", "s/step", TIME

    def __init__(self, path: str, where: str):
        """Raises SanityError where there is no such file.

        :arg where: who may give the path, for the error.
        """
        self.path = Path(path)
        if not self.path.is_absolute() or not self.path.is_file():
            raise SanityError(
                f"no input for NAMD: {path!r} is not the absolute path of a file; give it "
                f"as `namd_input` in the extras of {where}"
            )
        self.size = re.sub(r"\W", "_", self.path.stem)

    def options(self):
        return [shlex.quote(str(self.path))]

    def read(self, text):
        launches = parse_namd(text)
        for run in launches:  # where NAMD prints the name; launches are compared for the rest
            request.expect({"input": self.path.name}, {"input": self.path.name, **run.did})
        if len(problems := {(run.atoms, run.step) for run in launches}) > 1:
            raise SanityError(
                f"launches differ in (atoms, first step): {', '.join(map(str, sorted(problems)))}"
            )
        # Its sums are of single precision and their order is the processes'.
        expect_equal(
            "the potential energy of the first step",
            launches,
            [run.potential for run in launches],
            1e-4,
        )
        return launches


@rfm.simple_test
class namd(Application):
    """Seconds per step and parallel efficiency of NAMD on an input of the site's, such as APOA1 or
    STMV, over the processes.

    Method: NAMD's own benchmark times of a run of the input. NAMD's licence forbids passing the
    program on, and its inputs are large. So the site gives an environment with the feature `namd`,
    whose NAMD uses MPI (or PMI). It also gives the path of the input as `namd_input` in the
    partition's extras. Every energy must be a number. The potential energy of the first step must
    be the same on all numbers of processes.

    Where no environment of a system has the feature, there is a single case, which is skipped and
    says so. Without it nobody would learn of the check, and one skip for each partition and MPI
    library would hide other skips.

    Why: NAMD is a real code whose many small tasks hide latency. Others lose at least what NAMD
    loses under a hypervisor.

    Reproduces: the ESX 4.1 NAMD post, tables 1 and 2 (500 steps of STMV): `-S
    namd.processes=4,8,16`; its seconds are 500 times ours. Also the InfiniBand post's APOA1 on 64
    processes (about 3 % over native).

    Read: `step_stmv_8` is the wall time in s of a step of the input stmv.namd on 8 processes.
    `efficiency_stmv_8` is the time of one process over 8 times that. It is relative to the fewest
    processes of the same round.
    """

    #: Path of NAMD's configuration file. Default: the partition's `namd_input` (extras). :type: str
    input = setting(
        str, "", extra="namd_input", pattern="^/", meaning="the absolute path of a file"
    )

    program = SitesInput.program
    valid_prog_environs = ["+mpi +namd"]

    @builtin.run_after("init")
    def say_where_it_is_absent(self):
        with_mpi = [
            (partition, environ)
            for partition in runtime().system.partitions
            for environ in partition.environs
            if "mpi" in environ.features
        ]
        if with_mpi and not any("namd" in environ.features for _, environ in with_mpi):
            # One case that says so; a skip for each environment would hide other skips.
            [(partition, environ), *_] = with_mpi
            self.valid_systems, self.valid_prog_environs = [partition.fullname], [environ.name]

    @builtin.run_before("setup")
    def skip_where_it_is_absent(self):
        if self.valid_prog_environs != ["+mpi +namd"]:
            self.skip(
                f"no environment of {runtime().system.name} has the feature namd: where the site "
                "has NAMD under its licence, give the feature to the environment whose module "
                "brings it"
            )

    def choose_problem(self):
        place = f"{self.current_partition.fullname} or by -S namd.input=..."
        problem = SitesInput(self.input, place)
        self.decide("size", problem.size, "but the input is the size: set `input`")
        return problem
