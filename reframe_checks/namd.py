"""NAMD on an input of the site's."""

import re
import shlex
from pathlib import Path

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError
from reframe.core.runtime import runtime

from nearmetal.checks.application import TIME, Application
from nearmetal.checks.base import all_of
from nearmetal.checks.parsing import request
from nearmetal.checks.parsing.namd import parse_namd
from nearmetal.checks.settings import setting


@rfm.simple_test
class namd(Application):
    """Seconds a step and parallel efficiency of NAMD on an input of the site's, such as APOA1 or STMV, over the processes.

    Method: NAMD's own benchmark times of a run of the input; its licence lets nobody pass the program on, and its inputs are
    large, so that the site brings both: an environment with the feature `namd`, whose NAMD speaks MPI (or PMI), and the
    path of the input as `namd_input` in the partition's extras. Every energy must be a number, and the potential energy of the
    first step the same on all numbers of processes.

    Where no environment of a system has the feature, one single case is there, which is skipped and says so: a check that
    vanished would leave nobody a hint, and a skip in each partition with each MPI would bury the others.

    Why: a real code whose many small tasks hide latency: what it loses under a hypervisor is the least that others lose.

    Reproduces: the ESX 4.1 NAMD post, tables 1 and 2 (500 steps of STMV, -S namd.processes=4,8,16; their seconds are 500 times
    ours), the InfiniBand post's APOA1 on 64 processes (about 3 % over native).

    Read: `step_stmv_8` is the wall time in s of a step of the input stmv.namd on 8 processes, `efficiency_stmv_8` the time on
    the fewest processes over 8 times that.
    """

    #: Path of NAMD's configuration file; default: the partition's `namd_input` (extras). :type: str
    input = setting(
        str, "", extra="namd_input", pattern="^/", meaning="the absolute path of a file"
    )

    program = "namd3"
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
            [(partition, environ), *_] = with_mpi
            self.valid_systems, self.valid_prog_environs = [partition.fullname], [environ.name]

    @builtin.run_before("setup")
    def skip_where_it_is_absent(self):
        if self.valid_prog_environs != ["+mpi +namd"]:
            self.skip(
                f"no environment of {runtime().system.name} has the feature namd: where the site has NAMD under its "
                "licence, give the feature to the environment whose module brings it"
            )

    @builtin.run_after("setup")
    def choose_size(self):
        path = Path(self.input)
        if not path.is_absolute() or not path.is_file():
            raise SanityError(
                f"no input for NAMD: {self.input!r} is not the absolute path of a file; give it as `namd_input` "
                f"in the extras of {self.current_partition.fullname} or by -S namd.input=..."
            )
        self.decide("size", re.sub(r"\W", "_", path.stem), "but the input is the size: set `input`")
        self.use_processes(1 << 20)

    @builtin.run_before("run")
    def choose_problem(self):
        self.executable_opts = [shlex.quote(self.input)]

    @builtin.run_before("performance")
    def name_variables(self):
        self.name_values("step", "s/step", self.size, **TIME)

    def requested(self):
        return {}

    def expect_what_was_asked(self):
        """NAMD says the name of its input where it has the line; its problem is compared between launches."""
        name = Path(self.input).name
        for run in all_of(self.launches):
            request.expect({"input": name}, {"input": name, **run.did})

    def read_output(self, text):
        launches = parse_namd(text)
        if len(problems := {(run.atoms, run.step) for run in launches}) > 1:
            raise SanityError(
                f"launches differ in (atoms, first step): {', '.join(map(str, sorted(problems)))}"
            )
        # Its sums are of single precision and their order is the processes'.
        self.expect_equal(
            "the potential energy of the first step",
            launches,
            [run.potential for run in launches],
            1e-4,
        )
        self.keep(launches, "NAMD")
