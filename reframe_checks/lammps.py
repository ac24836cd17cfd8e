"""LAMMPS on a melting Lennard-Jones lattice."""

import reframe as rfm
import reframe.core.builtins as builtin

from nearmetal.checks.application import RATE, Application
from nearmetal.checks.parsing.lammps import parse_lammps

STEPS = 100


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
    sizes = {"S": 10, "W": 20, "A": 40, "B": 80, "C": 160}
    own_extras = {"size": "lammps_size"}
    program = "lmp"
    valid_prog_environs = ["+mpi +lammps"]

    @builtin.run_before("run")
    def choose_problem(self):
        self.executable_opts = [
            "-in",
            "apps/lj.lmp",
            "-log",
            "none",
            "-var",
            "cells",
            str(self.sizes[self.size]),
            "-var",
            "steps",
            str(STEPS),
        ]

    @builtin.run_before("performance")
    def name_variables(self):
        self.name_values("timesteps", "timesteps/s", self.size, **RATE)

    def requested(self):
        return {"cells": self.sizes[self.size], "steps": STEPS}

    def read_output(self, text):
        launches = parse_lammps(text)
        self.expect_equal(
            "the total energy an atom after the last step",
            launches,
            [run.energy for run in launches],
            1e-5,
        )
        self.keep(launches, "LAMMPS")
