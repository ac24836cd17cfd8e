"""GROMACS on a box of water."""

import reframe as rfm
from reframe.core.exceptions import SanityError

from nearmetal.checks.application import Application, Problem
from nearmetal.checks.parsing.gromacs import parse_gromacs
from nearmetal.job.launch import Launch

#: Potential energy of the 216 molecules that GROMACS ships, in kJ/mol each, and its tolerance. A
#: plain Ewald sum outside of GROMACS gives it. GROMACS in double precision with a fine grid gives
#: -46.1711. The tolerance covers grid and single precision.
POTENTIAL, TOLERANCE = -46.1715, 5e-4
EDGE = 1.86206  # nm, of their box


class Water(Problem):
    """A box of water. Its sizes are boxes of 216 molecules along an edge, and steps."""

    program, title = "gmx_mpi", "GROMACS"
    sizes = {"S": (2, 100), "W": (4, 1000), "A": (8, 1000), "B": (16, 1000)}
    quantity, unit = "simulated", "ns/day"
    after_launch = ("cat md.log",)
    env_vars = {"GMX_MAXBACKUP": "-1"}  # each launch writes its md.log over the last one's

    @property
    def _molecules(self):
        return 216 * self.sizes[self.size][0] ** 3

    def preparations(self, program):
        edge = f"{self.sizes[self.size][0] * EDGE:.5f}"
        # -scale: nearly no radius, so that the boxes' own molecules stay, all of them.
        box = f"-cs spc216 -scale 0.1 -box {edge} {edge} {edge}"
        commands = (
            f"-quiet solvate {box} -p apps/water.top -o water.gro",
            "-quiet grompp -f apps/water.mdp -c water.gro -p apps/water.top -o water.tpr",
        )
        return [Launch(f"{program} {command}", nodes=1, processes=1) for command in commands]

    def options(self):
        _, steps = self.sizes[self.size]
        words = f"-quiet mdrun -s water.tpr -g md.log -nsteps {steps} -ntomp 1 -pin off -nb cpu"
        return [*words.split(), "-notunepme", "-noconfout"]

    def requested(self):
        _, steps = self.sizes[self.size]
        return {"nsteps": steps, "steps": steps, "atoms": 3 * self._molecules}

    def read(self, text):
        launches = parse_gromacs(text)
        molecules = self._molecules
        for run in launches:
            if abs(run.potential / molecules - POTENTIAL) > TOLERANCE * abs(POTENTIAL):
                raise SanityError(
                    f"the potential energy of a molecule is {run.potential / molecules:.5g} "
                    f"kJ/mol at the first step on {run.processes} processes instead of "
                    f"{POTENTIAL}: GROMACS computes wrongly"
                )
        return launches


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
    sizes = Water.sizes
    computes = Water
    own_extras = {"size": "gromacs_size"}
    program = Water.program
    valid_prog_environs = ["+mpi +gromacs"]
