"""Output of LAMMPS on ``src/apps/lj.lmp``."""

import math
import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    ParseError,
    agree,
    bounded,
    launches_of,
    positive,
    real,
    unit,
    whole,
)

#: Energy of an atom in the initial lattice, from LAMMPS's own log of in.lj (any size).
LATTICE_ENERGY = -6.7733681
#: Largest relative drift of the total energy. The cut-off and the time step cause 0.2 % while the
#: lattice melts.
DRIFT = 0.005
COLUMNS = ["Step", "Temp", "E_pair", "TotEng", "CPU"]


@dataclass(frozen=True)
class LammpsRun:
    """One complete launch with correct energies."""

    processes: int
    atoms: int
    steps: int
    seconds: float  #: of the time steps
    energy: float  #: total energy of an atom after the last step
    parts: list[float]  #: steps/s between two lines of the table
    payload_bytes: int  #: least number of bytes that processes exchanged
    facts: dict[str, str]
    did: dict = field(default_factory=dict)  #: parameters that LAMMPS reports

    @property
    def rate(self) -> float:
        """Steps/s."""
        return self.steps / self.seconds


def _payload(text: str, grid: list[int], edge: float, atoms: int, steps: int) -> int:
    """Bytes that processes must exchange.

    The processes form a grid. In each direction with several processes, each has two neighbours. At
    every step it sends them the three coordinates of its atoms near their common face. With
    `newton on` it gets the forces back.
    """
    reach = re.search(r"^ghost atom cutoff = (\S+)", text, re.M)
    if not reach:
        raise ParseError("LAMMPS does not report its ghost atom cutoff: lines were lost; rerun")
    # Atoms near one face of the whole box.
    slab = atoms * positive(reach[1], "LAMMPS's ghost atom cutoff") / edge
    newton = re.search(r"^attributes: .*newton (on|off)", text, re.M)
    if not newton:
        raise ParseError("LAMMPS does not report whether newton is on: lines were lost; rerun")
    back = 2 if newton[1] == "on" else 1
    return int(steps * 24 * back * sum(2 * parts * slab for parts in grid if parts > 1))


def _energies(lines: list[str]) -> list[list[float]]:
    begin = next((number for number, line in enumerate(lines) if line.split() == COLUMNS), None)
    if begin is None:
        raise ParseError(
            f"LAMMPS printed no table with {' '.join(COLUMNS)}: it stopped before the first step; "
            "see the job's stderr"
        )
    rows = []
    for line in lines[begin + 1 :]:
        if line.startswith("Loop time"):
            break
        words = line.split()
        if len(words) == len(COLUMNS) and not line.startswith("WARNING"):
            what = f"a figure in the line {line!r} of LAMMPS"
            rows.append([real(word, what, finite=False) for word in words])
    return rows


def _parse(lines: list[str]) -> LammpsRun:
    text = "\n".join(lines)
    if error := re.search(r"^ERROR.*", text, re.M):
        raise ParseError(f"LAMMPS says {error[0]!r}")
    rows = _energies(lines)
    loop = re.search(
        r"^Loop time of (\S+) on (\d+) procs for (\d+) steps with (\d+) atoms$", text, re.M | re.A
    )
    grid = re.search(r"^(\d+) by (\d+) by (\d+) MPI processor grid$", text, re.M | re.A)
    box = re.search(r"^Created orthogonal box = \(0 0 0\) to \((\S+) (\S+) (\S+)\)$", text, re.M)
    lattice = re.search(r"^Lattice spacing in x,y,z = (\S+) ", text, re.M)
    created = re.search(r"^Created (\d+) atoms$", text, re.M | re.A)
    whole_output = rows and re.search(r"^Total wall time:", text, re.M)
    if not (loop and grid and box and lattice and created and whole_output):
        raise ParseError(
            "the output of LAMMPS stops before its end, or lines were lost: the job was cut off "
            "(time limit, crash); see its stderr"
        )
    processes, steps, atoms = (
        whole(number, "a count in LAMMPS's loop time", 1) for number in loop.groups()[1:]
    )
    counts = [whole(number, "LAMMPS's processor grid", 1) for number in grid.groups()]
    edges = [positive(edge, "the edge of LAMMPS's box") for edge in box.groups()]
    cells = edges[0] / positive(lattice[1], "LAMMPS's lattice spacing")
    agree("the edge of LAMMPS's box", edges[0], edges[1], 0)
    agree("the edge of LAMMPS's box", edges[0], edges[2], 0)
    agree("LAMMPS's number of atoms", atoms, 4 * cells**3, 1e-5 * atoms)
    agree("LAMMPS's number of atoms", atoms, whole(created[1], "LAMMPS's atoms"), 0)
    agree("LAMMPS's number of processes", processes, math.prod(counts), 0)
    seconds = positive(loop[1], "the loop time of LAMMPS")
    _check_rate(text, seconds, steps, unit(loop[1]))
    wanted = range(0, steps + 1, 10)
    if len(rows) != len(wanted) or any(row[0] != step for row, step in zip(rows, wanted)):
        raise ParseError(
            f"the table of LAMMPS lacks steps of 0, 10, ... {steps}: lines were lost; rerun"
        )
    bad = [row for row in rows if not all(map(math.isfinite, row))]
    if bad:
        raise ParseError(
            f"the energies of LAMMPS are not numbers from step {bad[0][0]:.0f} on: it computes "
            "wrongly"
        )
    if not math.isclose(rows[0][2], LATTICE_ENERGY, rel_tol=1e-5):
        raise ParseError(
            f"the energy of the lattice is {rows[0][2]:.8g} instead of {LATTICE_ENERGY}: LAMMPS "
            "computes wrongly"
        )
    first, last = rows[0][3], rows[-1][3]
    if abs(last - first) > DRIFT * abs(first):
        raise ParseError(
            f"the total energy went from {first:.8g} to {last:.8g}, but it must be conserved: "
            "LAMMPS computes wrongly"
        )
    between = [after[4] - before[4] for before, after in zip(rows, rows[1:])]
    if min(between, default=-1) < 0 or rows[0][4] != 0:
        raise ParseError("the times in LAMMPS's table run backwards: digits were damaged; rerun")
    # The last line is printed just before the loop ends.
    agree("the loop time of LAMMPS", seconds, rows[-1][4], 0.02 * seconds + 0.01)
    version = re.match(r"LAMMPS \((.*)\)", lines[0])
    return LammpsRun(
        processes,
        atoms,
        steps,
        seconds,
        last,
        [10 / each for each in between] if min(between) > 0 else [],
        _payload(text, counts, edges[0], atoms, steps),
        {"application": f"LAMMPS {version[1] if version else 'unknown'}"},
        {"processes": processes, "cells": round(cells), "steps": steps, "atoms": atoms},
    )


def _check_rate(text: str, seconds: float, steps: int, rounding: float) -> None:
    """Raise ParseError unless LAMMPS's steps per second agree with its time."""
    rates = re.findall(r"^Performance: .* (\S+) timesteps/s", text, re.M)
    if len(rates) != 1:
        raise ParseError(
            f"LAMMPS prints its timesteps/s {len(rates)} times instead of once: lines were lost; "
            "rerun"
        )
    rate = positive(rates[0], "LAMMPS's timesteps/s")
    within = unit(rates[0]) + steps / seconds**2 * rounding
    agree("LAMMPS's timesteps/s", rate, steps / seconds, within)


@bounded
def parse_lammps(text: str) -> list[LammpsRun]:
    """Every launch in the output of LAMMPS on ``src/apps/lj.lmp``, in order.

    Method: bench/in.lj of LAMMPS. Its "Loop time" is the time of the steps alone. Raises ParseError
    on truncated or non-numeric results, on a wrong energy of the lattice, and if the total energy
    is not conserved.
    """
    return [_parse(lines) for lines in launches_of(text, r"LAMMPS \(", "LAMMPS")]
