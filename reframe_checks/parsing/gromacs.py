"""GROMACS: mdrun's log of ``src/apps/water.mdp``."""

import math
import re
from dataclasses import dataclass

from . import ParseError, launches_of, positive

#: Of the total energy: what the run may lose or gain at constant energy; a right one has 0.02 % or less.
DRIFT = 0.002


@dataclass(frozen=True)
class GromacsRun:
    """One launch, whole, whose energy is conserved."""

    processes: int
    atoms: int
    steps: int
    rate: float  #: ns/day
    potential: float  #: at step 0, kJ/mol
    payload_bytes: int  #: at least
    facts: dict[str, str]
    parts: tuple = ()


def _energies(text: str, name: str) -> list[float]:
    """The values of a term at each step that the log tells."""
    values = []
    for block in re.findall(
        r"^Energies \(kJ/mol\)\n((?:.+\n)+)", text.split("A V E R A G E S")[0], re.M
    ):
        lines = block.splitlines()
        for names, numbers in zip(lines[::2], lines[1::2]):
            terms = _columns(names)
            if name in terms:
                values.append(float(_columns(numbers)[terms.index(name)]))
    return values


def _columns(line: str) -> list[str]:
    """Of 15 characters each, flush right, so that what was stripped on the left does not matter."""
    line = line.rjust(-(-len(line) // 15) * 15)
    return [line[at : at + 15].strip() for at in range(0, len(line), 15)]


def _parse(lines: list[str]) -> GromacsRun:
    text = "\n".join(lines) + "\n"
    if error := re.search(r"^Fatal error:\n(.*)", text, re.M):
        raise ParseError(f"GROMACS says {error[1]!r}")
    performance = re.search(r"^Performance: +(\S+)", text, re.M)
    processes = re.search(r"^Using (\d+) MPI process", text, re.M)
    atoms = re.search(r"^There are: (\d+) Atoms", text, re.M)
    steps = re.search(r"^Statistics over (\d+) steps", text, re.M)
    sent = re.search(r"av\. #atoms communicated per step for force: +(\d+) x ([\d.]+)", text)
    try:
        potential, total = _energies(text, "Potential"), _energies(text, "Total Energy")
    except (ValueError, IndexError):
        raise ParseError(
            "an energy of GROMACS is no number: its log is damaged, or it computes wrongly"
        ) from None
    if not (
        performance
        and processes
        and atoms
        and steps
        and len(potential) > 1
        and re.search(r"^Finished mdrun", text, re.M)
    ):
        raise ParseError(
            "the log of GROMACS stops before its end: the job was cut off (time limit, crash); see its stderr"
        )
    if len(total) != len(potential) or not all(map(math.isfinite, [*potential, *total])):
        raise ParseError("the energies of GROMACS are no numbers, or missing: it computes wrongly")
    if abs(total[-1] - total[0]) > DRIFT * abs(total[0]):
        raise ParseError(
            f"the total energy went from {total[0]:.6g} to {total[-1]:.6g} kJ/mol, although it is conserved: "
            "GROMACS computes wrongly"
        )
    facts = {
        key: found[1].strip()
        for key, name in (
            ("application", "GROMACS version"),
            ("mpi_library", "MPI library version"),
            ("compiler", r"C\+\+ compiler"),
            ("simd", "SIMD instructions"),
        )
        if (found := re.search(rf"^{name}: +(.*)$", text, re.M))
    }
    facts["application"] = " ".join(
        filter(None, ["GROMACS", facts.get("application", ""), facts.get("simd", "")])
    )
    count = int(steps[1]) - 1
    payload = int(sent[1]) * float(sent[2]) * 12 * count if sent else 0
    return GromacsRun(
        int(processes[1]),
        int(atoms[1]),
        count,
        positive(performance[1], "the performance of GROMACS"),
        potential[0],
        int(payload),
        facts,
    )


def parse_gromacs(text: str) -> list[GromacsRun]:
    """Every launch in (concatenated) logs of mdrun, in order.

    Raises ParseError on truncated or non-numeric results, and where the total energy of a run without thermostat is not
    conserved. Whether the potential energy is water's, the check knows.
    """
    return [
        _parse(lines)
        for lines in launches_of(text, r" *:-\) GROMACS - gmx mdrun", "log of GROMACS")
    ]
