"""Output of LAMMPS on ``src/apps/lj.lmp``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, damaged, numbers
from nearmetal.checks.parsing.output import Launch, Output, each_launch

#: Energy of an atom in the initial lattice, from LAMMPS's own log of in.lj (any size).
LATTICE_ENERGY = -6.7733681
#: Largest relative drift of the total energy. The cut-off and the time step cause 0.2 % while the
#: lattice melts.
DRIFT = 0.005
COLUMNS = ["Step", "Temp", "E_pair", "TotEng", "CPU"]
#: Steps between two lines of the table.
INTERVAL = 10
FIGURES = {
    "loop time": r"^Loop time of (\S+) on (\d+) procs for (\d+) steps with (\d+) atoms$",
    "grid of processors": r"^(\d+) by (\d+) by (\d+) MPI processor grid$",
    "box": r"^Created orthogonal box = \(0 0 0\) to \((\S+) (\S+) (\S+)\)$",
    "lattice spacing": r"^Lattice spacing in x,y,z = (\S+) ",
    "atoms": r"^Created (\d+) atoms$",
    "ghost atom cutoff": r"^ghost atom cutoff = (\S+)",
    "newton": r"^attributes: .*newton (on|off)",
    "timesteps/s": r"^Performance: .* (\S+) timesteps/s",
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
    time, *counts = figures["loop time"].groups()
    processes, steps, atoms = numbers.wholes(counts, "a count in LAMMPS's loop time", 1)
    seconds = numbers.positive(time, "the loop time of LAMMPS")
    grid = numbers.wholes(figures["grid of processors"].groups(), "LAMMPS's grid", 1)
    edges = numbers.positives(figures["box"].groups(), "the edge of LAMMPS's box")
    cells = edges[0] / numbers.positive(figures["lattice spacing"][1], "LAMMPS's lattice spacing")
    numbers.agree("the edge of LAMMPS's box", edges[0], edges[1], 0)
    numbers.agree("the edge of LAMMPS's box", edges[0], edges[2], 0)
    # Four atoms in each cell of the face-centred lattice.
    numbers.agree("LAMMPS's number of atoms", atoms, 4 * cells**3, 1e-5 * atoms)
    numbers.agree(
        "LAMMPS's number of atoms", atoms, numbers.whole(figures["atoms"][1], "LAMMPS's atoms"), 0
    )
    numbers.agree("LAMMPS's number of processes", processes, math.prod(grid), 0)
    rate = figures["timesteps/s"][1]
    # The rounding of the rate, and that of the time that it follows from.
    within = numbers.unit(rate) + steps / seconds**2 * numbers.unit(time)
    numbers.agree(
        "LAMMPS's timesteps/s",
        numbers.positive(rate, "LAMMPS's timesteps/s"),
        steps / seconds,
        within,
    )
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
        _payload(figures, grid, edges[0], atoms, steps),
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


def _payload(
    figures: dict[str, re.Match], grid: list[int], edge: float, atoms: int, steps: int
) -> int:
    """Bytes that processes must exchange.

    The processes form a grid. In each direction with several processes, each has two neighbours. At
    every step it sends them the three coordinates of its atoms near their common face. With
    `newton on` it gets the forces back.
    """
    # Atoms near one face of the whole box.
    reach = numbers.positive(figures["ghost atom cutoff"][1], "LAMMPS's ghost atom cutoff")
    slab = atoms * reach / edge
    # 24 bytes of coordinates there, and as many of forces back.
    ways = 2 if figures["newton"][1] == "on" else 1
    return int(steps * 24 * ways * sum(2 * parts * slab for parts in grid if parts > 1))
