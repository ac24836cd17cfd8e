"""GROMACS on a box of water."""

import shlex

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.application import RATE, Application
from nearmetal.checks.parsing.gromacs import parse_gromacs

#: Of the 216 molecules that GROMACS brings, kJ/mol each, by a plain Ewald sum outside of GROMACS (in double precision with a
#: fine grid it gives -46.1711), and the part of it that grid and single precision may take.
POTENTIAL, TOLERANCE = -46.1715, 5e-4
EDGE = 1.86206  # nm, of their box


@rfm.simple_test
class gromacs(Application):
    """Simulated ns a day and parallel efficiency of GROMACS on a box of water over the number of processes.

    Method: SPC/E water with PME, 2 fs a step, at constant energy, built by GROMACS itself from the 216 molecules that it
    brings, a thread a process, no GPU. The potential energy of the first step must be that of those molecules, equal on all
    numbers of processes, and the total energy conserved.

    Why: beside its neighbours' atoms each process exchanges the grid of PME, an all-to-all of short messages several times in
    a step of a millisecond. It stops scaling sooner than LAMMPS where latency is large.

    Reproduces: no figure; the molecular dynamics of the InfiniBand post with a program that every site has.

    Read: `simulated_A_8` is the ns/day of 8 processes on size A, `efficiency_A_8` that over 8 times the ns/day of the fewest
    processes in the same round.
    """

    #: Boxes of 216 molecules along an edge, and steps: A has 331776 atoms.
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
                f"-quiet solvate -cs spc216 -scale 0.1 -box {edge} {edge} {edge} -p apps/water.top -o water.gro",
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
                    f"the potential energy of a molecule is {run.potential / molecules:.5g} kJ/mol at the first "
                    f"step on {run.processes} processes instead of {POTENTIAL}: GROMACS computes wrongly"
                )
        self.keep(launches, "GROMACS")
