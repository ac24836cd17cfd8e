"""GROMACS on a box of water."""

import shlex

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.application import RATE, Application
from nearmetal.checks.parsing.gromacs import parse_gromacs

#: Potential energy of the 216 molecules that GROMACS ships, in kJ/mol each, and its tolerance. A
#: plain Ewald sum outside of GROMACS gives it. GROMACS in double precision with a fine grid gives
#: -46.1711. The tolerance covers grid and single precision.
POTENTIAL, TOLERANCE = -46.1715, 5e-4
EDGE = 1.86206  # nm, of their box


@rfm.simple_test
class gromacs(Application):
    """Simulated ns per day and parallel efficiency of GROMACS on a box of water over the number of
    processes.

    Method: SPC/E water with PME at constant energy, 2 fs a step, one thread per process, no GPU.
    GROMACS builds the box from the 216 molecules that it ships. The potential energy of the first
    step must be the known one. It must be equal on all numbers of processes, and the total energy
    must be conserved.

    Why: besides its neighbours' atoms each process exchanges the grid of PME. That is an all-to-all
    of short messages, several times in a step of a millisecond. GROMACS stops scaling sooner than
    LAMMPS where latency is large.

    Reproduces: no figure. It is the molecular dynamics of the InfiniBand post with a program that
    every site has.

    Read: `simulated_A_8` is the ns per day of 8 processes on size A. `efficiency_A_8` is that value
    over 8 times the ns per day of one process. It is relative to the fewest processes of the same
    round.
    """

    #: Size -> boxes of 216 molecules along an edge, and steps: `S`, `W`, `A` (331776 atoms), `B`.
    sizes = {"S": (2, 100), "W": (4, 1000), "A": (8, 1000), "B": (16, 1000)}
    own_extras = {"size": "gromacs_size"}
    program = "gmx_mpi"
    valid_prog_environs = ["+mpi +gromacs"]
    after_launch = ["cat md.log"]

    @builtin.run_before("run")
    def choose_problem(self):
        boxes, steps = self.sizes[self.size]
        edge = f"{boxes * EDGE:.5f}"
        program = shlex.quote(self.program)
        self.env_vars["GMX_MAXBACKUP"] = "-1"  # each launch writes its md.log over the last one's
        # -scale: nearly no radius, so that the boxes' own molecules stay, all of them.
        self.prerun_cmds += [
            self.launch_on(1, f"{program} {command}")
            for command in (
                (
                    f"-quiet solvate -cs spc216 -scale 0.1 -box {edge} {edge} {edge} -p "
                    "apps/water.top -o water.gro"
                ),
                "-quiet grompp -f apps/water.mdp -c water.gro -p apps/water.top -o water.tpr",
            )
        ]
        self.executable_opts = [
            "-quiet",
            "mdrun",
            "-s",
            "water.tpr",
            "-g",
            "md.log",
            "-nsteps",
            str(steps),
            "-ntomp",
            "1",
            "-pin",
            "off",
            "-nb",
            "cpu",
            "-notunepme",
            "-noconfout",
        ]

    @builtin.run_before("performance")
    def name_variables(self):
        self.name_values("simulated", "ns/day", self.size, **RATE)

    @property
    def _molecules(self):
        return 216 * self.sizes[self.size][0] ** 3

    def requested(self):
        _, steps = self.sizes[self.size]
        return {"nsteps": steps, "steps": steps, "atoms": 3 * self._molecules}

    def read_output(self, text):
        launches = parse_gromacs(text)
        molecules = self._molecules
        for run in launches:
            if abs(run.potential / molecules - POTENTIAL) > TOLERANCE * abs(POTENTIAL):
                raise SanityError(
                    f"the potential energy of a molecule is {run.potential / molecules:.5g} "
                    f"kJ/mol at the first step on {run.processes} processes instead of "
                    f"{POTENTIAL}: GROMACS computes wrongly"
                )
        self.keep(launches, "GROMACS")
