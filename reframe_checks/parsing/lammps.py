"""LAMMPS: the output of ``src/apps/lj.lmp``."""

import math
import re
from dataclasses import dataclass

from . import ParseError, launches_of, positive

#: Energy of a pair-wise interacting atom in the lattice that the run begins with, by LAMMPS's own log of in.lj (any size).
LATTICE_ENERGY = -6.7733681
#: Of the total energy: what the run may lose or gain. The cut-off and the time step take 0.2 % while the lattice melts.
DRIFT = 0.005
COLUMNS = ["Step", "Temp", "E_pair", "TotEng", "CPU"]


@dataclass(frozen=True)
class LammpsRun:
    """One launch, whole, whose energies are right."""

    processes: int
    atoms: int
    steps: int
    seconds: float  #: of the time steps
    energy: float  #: total energy an atom after the last step
    parts: list[float]  #: steps/s between two lines of the table
    payload_bytes: int  #: at least
    facts: dict[str, str]

    @property
    def rate(self) -> float:
        """Steps/s."""
        return self.steps / self.seconds


def _payload(text: str, grid: list[int], edge: float, atoms: int, steps: int) -> int:
    """Bytes that processes must send each other: of a grid of them, each sends to two neighbours in a direction that is split,
    at every step, the three coordinates of all atoms so near to their common face, and with `newton on` gets forces back."""
    reach = re.search(r"^ghost atom cutoff = (\S+)", text, re.M)
    slab = (
        atoms * (float(reach[1]) if reach else 0) / edge
    )  # of all faces across one direction together
    back = 2 if "newton on" in text else 1
    return int(steps * 24 * back * sum(2 * parts * slab for parts in grid if parts > 1))


def _energies(lines: list[str]) -> list[list[float]]:
    begin = next((number for number, line in enumerate(lines) if line.split() == COLUMNS), None)
    if begin is None:
        raise ParseError(
            f"LAMMPS gave no table of {' '.join(COLUMNS)}: it stopped before the first step; see the job's "
            "stderr"
        )
    rows = []
    for line in lines[begin + 1 :]:
        if line.startswith("Loop time"):
            break
        try:
            row = [float(word) for word in line.split()]
        except ValueError:
            continue  # a warning in between
        if len(row) == len(COLUMNS):
            rows.append(row)
    return rows


def _parse(lines: list[str]) -> LammpsRun:
    text = "\n".join(lines)
    if error := re.search(r"^ERROR.*", text, re.M):
        raise ParseError(f"LAMMPS says {error[0]!r}")
    rows = _energies(lines)
    loop = re.search(
        r"^Loop time of (\S+) on (\d+) procs for (\d+) steps with (\d+) atoms", text, re.M
    )
    grid = re.search(r"^(\d+) by (\d+) by (\d+) MPI processor grid", text, re.M)
    box = re.search(r"^Created orthogonal box = \(0 0 0\) to \(([\d.]+) ", text, re.M)
    if not (loop and grid and box and rows and re.search(r"^Total wall time:", text, re.M)):
        raise ParseError(
            "the output of LAMMPS stops before its end: the job was cut off (time limit, crash); see its stderr"
        )
    processes, steps, atoms = (int(number) for number in loop.groups()[1:])
    if [int(row[0]) for row in rows] != list(range(0, steps + 1, 10)):
        raise ParseError(
            f"the table of LAMMPS should have steps 0 to {steps} by 10: lines were lost; rerun"
        )
    if bad := [row for row in rows if not all(map(math.isfinite, row))]:
        raise ParseError(
            f"the energies of LAMMPS are no numbers from step {bad[0][0]:.0f} on: it computes wrongly"
        )
    if not math.isclose(rows[0][2], LATTICE_ENERGY, rel_tol=1e-5):
        raise ParseError(
            f"the energy of the lattice is {rows[0][2]:.8g} instead of {LATTICE_ENERGY}: LAMMPS computes wrongly"
        )
    first, last = rows[0][3], rows[-1][3]
    if abs(last - first) > DRIFT * abs(first):
        raise ParseError(
            f"the total energy went from {first:.8g} to {last:.8g}, although it is conserved: LAMMPS computes "
            "wrongly"
        )
    seconds = [after[4] - before[4] for before, after in zip(rows, rows[1:])]
    parts = [10 / each for each in seconds] if min(seconds) > 0 else []
    version = re.match(r"LAMMPS \((.*)\)", lines[0])[1]
    return LammpsRun(
        processes,
        atoms,
        steps,
        positive(loop[1], "the loop time of LAMMPS"),
        last,
        parts,
        _payload(text, [int(number) for number in grid.groups()], float(box[1]), atoms, steps),
        {"application": f"LAMMPS {version}"},
    )


def parse_lammps(text: str) -> list[LammpsRun]:
    """Every launch in the output of LAMMPS on ``src/apps/lj.lmp``, in order.

    Method: bench/in.lj of LAMMPS; its "Loop time" counts the time steps alone. Raises ParseError on truncated or non-numeric
    results, where the energy of the lattice is not the known one, and where the total energy is not conserved.
    """
    return [_parse(lines) for lines in launches_of(text, r"LAMMPS \(", "LAMMPS")]
