"""LAMMPS on a melting Lennard-Jones lattice."""

import reframe as rfm

from nearmetal.checks.application import Application, Problem, expect_equal
from nearmetal.checks.parsing.lammps import parse_lammps

STEPS = 100


class Liquid(Problem):
    """A melting lattice. Its sizes are the cells of four atoms along an edge."""

    program, title = "lmp", "LAMMPS"
    sizes = {"S": 10, "W": 20, "A": 40, "B": 80, "C": 160}
    quantity, unit = "timesteps", "timesteps/s"

    def options(self):
        variables = {"cells": self.sizes[self.size], "steps": STEPS}
        words = [word for name, value in variables.items() for word in ("-var", name, str(value))]
        return ["-in", "apps/lj.lmp", "-log", "none", *words]

    def requested(self):
        return {"cells": self.sizes[self.size], "steps": STEPS}

    def read(self, text):
        launches = parse_lammps(text)
        # The order of sums follows the processes; a chaotic system amplifies the difference.
        expect_equal(
            "the total energy an atom after the last step",
            launches,
            [run.energy for run in launches],
            1e-5,
        )
        return launches


@rfm.simple_test
class lammps(Application):
    """Time steps per second and parallel efficiency of LAMMPS on a Lennard-Jones liquid over the
    number of processes.

    Method: LAMMPS's own benchmark (bench/in.lj): 32000 atoms, 100 steps, replicated. The energy of
    the lattice must be the known one to six digits. The total energy must be conserved, and be the
    same on all numbers of processes.

    Why: short-range molecular dynamics exchanges a few messages with its neighbours in each step.
    It scales where start-up latency is small against the time of a step. An emulated NIC shows as
    soon as processes have few atoms.

    Reproduces: no figure. The InfiniBand post names LAMMPS (4 to 64 processes, 16 a node).

    Read: `timesteps_A_8` is the rate of 8 processes on size A. `efficiency_A_8` is that rate over 8
    times the rate of one process. It is relative to the fewest processes of the same round. Compare
    partitions by efficiency: the loss against native is the link's.
    """

    #: Size -> cells of four atoms along an edge: `S`, `W` (LAMMPS's benchmark unchanged, 32000
    #: atoms), `A`, `B`, `C`.
    sizes = Liquid.sizes
    computes = Liquid
    own_extras = {"size": "lammps_size"}
    program = Liquid.program
    valid_prog_environs = ["+mpi +lammps"]
