"""Output of LAMMPS on ``src/apps/lj.lmp``."""

from __future__ import annotations

import math
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, damaged, numbers
from nearmetal.checks.parsing.output import Figures, Launch, Output, each_launch

#: Energy of an atom in the initial lattice, from LAMMPS's own log of in.lj (any size).
LATTICE_ENERGY = -6.7733681
#: Largest relative drift of the total energy. The cut-off and the time step cause 0.2 % while the
#: lattice melts.
DRIFT = 0.005
COLUMNS = ["Step", "Temp", "E_pair", "TotEng", "CPU"]
#: Steps between two lines of the table.
INTERVAL = 10
FIGURES = {
    "loop time": (
        r"^Loop time of (?P<loop_time>\S+) on (?P<processes>\d+) procs for (?P<steps>\d+) steps "
        r"with (?P<atoms>\d+) atoms$"
    ),
    "grid of processors": (
        r"^(?P<grid_x>\d+) by (?P<grid_y>\d+) by (?P<grid_z>\d+) MPI processor grid$"
    ),
    "box": (
        r"^Created orthogonal box = \(0 0 0\) "
        r"to \((?P<edge_x>\S+) (?P<edge_y>\S+) (?P<edge_z>\S+)\)$"
    ),
    "lattice spacing": r"^Lattice spacing in x,y,z = (?P<lattice_spacing>\S+) ",
    "atoms": r"^Created (?P<created_atoms>\d+) atoms$",
    "ghost atom cutoff": r"^ghost atom cutoff = (?P<ghost_atom_cutoff>\S+)",
    "newton": r"^attributes: .*newton (?P<newton>on|off)",
    "timesteps/s": r"^Performance: .* (?P<timesteps>\S+) timesteps/s",
    "wall time": r"^Total wall time:",
}


@dataclass
class LammpsRun(Launch):
    processes: int
    atoms: int
    steps: int
    #: Of the time steps.
    seconds: float
    #: Total energy of an atom after the last step.
    energy: float
    #: Steps/s between two lines of the table.
    parts: list[float]
    #: Least number of bytes that processes exchanged.
    payload_bytes: int

    @property
    def rate(self) -> float:
        """Steps/s."""
        return self.steps / self.seconds


@each_launch("LAMMPS", r"LAMMPS \(")
def parse_lammps(output: Output) -> LammpsRun:
    """Every launch in the output of LAMMPS on ``src/apps/lj.lmp``, in order.

    Method: bench/in.lj of LAMMPS. Its "Loop time" is the time of the steps alone. Raises ParseError
    on truncated or non-numeric results, on a wrong energy of the lattice, and if the total energy
    is not conserved.
    """
    output.refuse(r"^ERROR.*")
    rows = _table(output.lines)
    figures = output.figures(FIGURES)
    processes, steps, atoms = map(figures.whole, ("processes", "steps", "atoms"))
    seconds, edge = figures.positive("loop time"), figures.positive("edge x")
    grid = [figures.whole(f"grid {axis}") for axis in "xyz"]
    numbers.agree("LAMMPS's number of processes", processes, math.prod(grid), 0)
    figures.agree("edge y", edge, 0)
    figures.agree("edge z", edge, 0)
    # Four atoms in each cell of the face-centred lattice.
    cells = edge / figures.positive("lattice spacing")
    figures.agree("atoms", 4 * cells**3, 1e-5 * atoms)
    figures.agree("created atoms", atoms, 0)
    # The rounding of the rate, and that of the time that it follows from.
    rounding = steps / seconds**2 * numbers.unit(figures["loop time"])
    rounding += numbers.unit(figures["timesteps"])
    figures.agree("timesteps", steps / seconds, rounding)
    if [row[0] for row in rows] != list(range(0, steps + 1, INTERVAL)):
        raise damaged(f"the table of LAMMPS lacks steps of 0, {INTERVAL}, ... {steps}")
    _check_energies(rows)
    return LammpsRun(
        output.application(r"LAMMPS \((.*)\)"),
        {"processes": processes, "cells": round(cells), "steps": steps, "atoms": atoms},
        processes,
        atoms,
        steps,
        seconds,
        rows[-1][3],
        _rates(rows, seconds),
        _payload(figures, grid),
    )


def _table(lines: list[str]) -> list[list[float]]:
    """The rows of the table of COLUMNS."""
    rows: list[list[float]] | None = None
    for line in lines:
        words = line.split()
        if words == COLUMNS:
            rows = []
        # The table ends here; statistics follow.
        elif line.startswith("Loop time"):
            break
        elif rows is not None and len(words) == len(COLUMNS) and not words[0].startswith("WARNING"):
            what = f"a figure in the line {line!r} of LAMMPS"
            rows.append([numbers.real(word, what, finite=False) for word in words])
    if rows is None:
        raise ParseError(
            f"LAMMPS printed no table with {' '.join(COLUMNS)}: it stopped before the first step; "
            "see the job's stderr"
        )
    return rows


def _check_energies(rows: list[list[float]]) -> None:
    """Raise ParseError if LAMMPS computes wrongly."""
    for row in rows:
        if not all(map(math.isfinite, row)):
            raise ParseError(
                f"the energies of LAMMPS are not numbers from step {row[0]:.0f} on: it computes "
                "wrongly"
            )
    lattice, first, last = rows[0][2], rows[0][3], rows[-1][3]
    if not math.isclose(lattice, LATTICE_ENERGY, rel_tol=1e-5):
        raise ParseError(
            f"the energy of the lattice is {lattice:.8g} instead of {LATTICE_ENERGY}: LAMMPS "
            "computes wrongly"
        )
    if abs(last - first) > DRIFT * abs(first):
        raise ParseError(
            f"the total energy went from {first:.8g} to {last:.8g}, but it must be conserved: "
            "LAMMPS computes wrongly"
        )


def _rates(rows: list[list[float]], seconds: float) -> list[float]:
    """Steps/s between two lines of the table; [] where a time is 0."""
    times = [row[4] for row in rows]
    between = [after - before for before, after in zip(times, times[1:])]
    if min(between, default=-1) < 0 or times[0] != 0:
        raise damaged("the times in LAMMPS's table run backwards")
    # The last line is printed just before the loop ends.
    numbers.agree("the loop time of LAMMPS", seconds, times[-1], 0.02 * seconds + 0.01)
    return [INTERVAL / time for time in between] if min(between) > 0 else []


def _payload(figures: Figures, grid: list[int]) -> int:
    """Bytes that processes must exchange.

    The processes form a grid. In each direction with several processes, each has two neighbours. At
    every step it sends them the three coordinates of its atoms near their common face. With
    `newton on` it gets the forces back.
    """
    # Atoms near one face of the whole box.
    reach = figures.positive("ghost atom cutoff") / figures.positive("edge x")
    slab = figures.whole("atoms") * reach
    slabs = 0.0
    for parts in grid:
        if parts > 1:
            slabs += 2 * parts * slab
    # 24 bytes of coordinates there, and as many of forces back.
    sent = figures.whole("steps") * 24 * slabs
    if figures["newton"] == "on":
        sent *= 2
    return int(sent)
