"""Log of GROMACS's mdrun on ``src/apps/water.mdp``."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, damaged, numbers
from nearmetal.checks.parsing.output import Figures, Launch, Output, each_launch

#: Largest relative drift of the total energy in a run at constant energy. A correct run has 0.02 %
#: or less.
DRIFT = 0.002
#: Recorded facts about the program, and their names in the log.
FACTS = {
    "application": "GROMACS version",
    "mpi_library": "MPI library version",
    "compiler": r"C\+\+ compiler",
    "simd": "SIMD instructions",
}
#: Figures of the log that a run needs.
FIGURES = {
    "performance": r"^Performance: +(?P<performance>\S+) +(?P<hours_for_a_ns>\S+)$",
    "time": r"^ *Time: +\S+ +(?P<wall_time>\S+) +\S+$",
    "processes": r"^Using (?P<processes>\d+) MPI process",
    "atoms": r"^There are: (?P<atoms>\d+) Atoms",
    "statistics": r"^Statistics over (?P<steps>\d+) steps",
    "step": r"^ *dt += (?P<time_step>\S+)$",
    "interval": r"^ *nstlog += (?P<interval>\d+)$",
    "end": r"^Finished mdrun",
}
#: Width of a column of energies.
WIDTH = 15


@dataclass
class GromacsRun(Launch):
    processes: int
    atoms: int
    steps: int
    #: ns/day
    rate: float
    #: At step 0, kJ/mol.
    potential: float
    #: Least number of bytes that processes exchanged.
    payload_bytes: int
    parts: tuple = ()


@each_launch("GROMACS", r" *:-\) GROMACS - gmx mdrun", "log of GROMACS")
def parse_gromacs(output: Output) -> GromacsRun:
    """Every launch in (concatenated) logs of mdrun, in order.

    Raises ParseError on truncated or non-numeric results, and if a run without thermostat does not
    conserve its total energy. The check verifies the potential energy of water.
    """
    output.refuse(r"^Fatal error:\n(.*)")
    figures = output.figures(FIGURES)
    potential, count = _energies(output.text)
    processes = figures.whole("processes")
    # The statistics count step 0 as well.
    steps = figures.whole("steps", 2) - 1
    interval = figures.whole("interval")
    # Energies are printed at step 0, at each interval and at the last step.
    if count != -(-steps // interval) + 1:
        raise damaged(f"GROMACS gives {count} energies for {steps} steps, one every {interval}")
    _check_processes(output.text, processes)
    atoms = figures.whole("atoms")
    did = {
        "processes": processes,
        "steps": steps,
        "atoms": atoms,
        "nsteps": _asked_steps(output, steps),
    }
    return GromacsRun(
        _facts(output.text),
        did,
        processes,
        atoms,
        steps,
        _rate(figures, steps),
        potential,
        _payload(output, processes, steps),
    )


def _energies(text: str) -> tuple[float, int]:
    """The potential energy at step 0, and the number of steps with energies.

    Raises ParseError if an energy is no number, or if the run does not conserve the total energy.
    """
    # The log repeats the energies as averages at its end.
    steps = text.split("A V E R A G E S", maxsplit=1)[0]
    blocks = re.findall(r"^Energies \(kJ/mol\)\n((?:.+\n)+)", steps, re.M)
    try:
        potential, kinetic, total = (
            _values(blocks, name) for name in ("Potential", "Kinetic En.", "Total Energy")
        )
    except (ParseError, IndexError) as error:
        raise ParseError(
            "an energy of GROMACS is not a number: its log is damaged, or it computes wrongly "
            f"({error})"
        ) from None
    complete = 2 <= len(total) == len(potential) == len(kinetic)
    if not complete or not all(map(math.isfinite, [*potential, *total])):
        raise ParseError(
            "the energies of GROMACS are not numbers, or are missing: it computes wrongly"
        )
    if abs(total[-1] - total[0]) > DRIFT * abs(total[0]):
        raise ParseError(
            f"the total energy went from {total[0]:.6g} to {total[-1]:.6g} kJ/mol, but it must be "
            "conserved: GROMACS computes wrongly"
        )
    for whole_energy, still, moving in zip(total, potential, kinetic):
        # Each is printed with six digits.
        rounding = 1e-5 * (abs(still) + abs(moving))
        numbers.agree("GROMACS's total energy", whole_energy, still + moving, rounding)
    return potential[0], len(potential)


def _values(blocks: list[str], name: str) -> list[float]:
    """The values of an energy term in blocks of lines: names, then numbers below them."""
    values = []
    for block in blocks:
        lines = block.splitlines()
        for names, figures in zip(lines[::2], lines[1::2]):
            terms = _columns(names)
            if name in terms:
                values.append(
                    numbers.real(_columns(figures)[terms.index(name)], name, finite=False)
                )
    return values


def _columns(line: str) -> list[str]:
    """Right-aligned columns. Leading blanks may have been stripped."""
    # A stripped line lacks the blanks of its first column.
    line = line.rjust(-(-len(line) // WIDTH) * WIDTH)
    return [line[at : at + WIDTH].strip() for at in range(0, len(line), WIDTH)]


def _facts(text: str) -> dict[str, str]:
    facts = {}
    for key, name in FACTS.items():
        if match := re.search(rf"^{name}: +(.*)$", text, re.M):
            facts[key] = match[1].strip()
    words = ["GROMACS", facts.get("application", ""), facts.get("simd", "")]
    return {**facts, "application": " ".join(filter(None, words))}


def _rate(figures: Figures, steps: int) -> float:
    """ns/day. It must agree with the inverse that is printed beside it, and with time and steps."""
    rate, hours = figures.positive("performance"), figures.positive("hours for a ns")
    digit, seconds = numbers.unit(figures["performance"]), figures.positive("wall time")
    rounding = digit / 2 + rate / hours * numbers.unit(figures["hours for a ns"]) / 2
    figures.agree("performance", 24 / hours, rounding)
    simulated = figures.positive("time step") * (steps + 1) / 1000
    computed = simulated * 86400 / seconds
    rounding = digit + computed * numbers.unit(figures["wall time"]) / seconds
    figures.agree("performance", computed, rounding)
    return rate


def _check_processes(text: str, processes: int) -> None:
    """Raise ParseError unless the log's counts of processes agree. With several processes, the log
    prints their number again."""
    for count in re.findall(r"^On (\d+) MPI ranks?", text, re.M):
        if count != str(processes):
            raise damaged(f"GROMACS used {processes} processes and counted time on {count}")


def _asked_steps(output: Output, steps: int) -> int:
    """Steps that the command line requested, if the log reports them; else those that ran. Raises
    ParseError if both differ."""
    match = output.only(r"^Overriding nsteps with value passed on the command line: (\S+) steps")
    if match and numbers.whole(match[1], "the steps of GROMACS") != steps:
        raise damaged(f"GROMACS was asked for {match[1]} steps and ran {steps}")
    return steps


def _payload(output: Output, processes: int, steps: int) -> int:
    """Least number of bytes of coordinates that processes exchanged."""
    sent = output.only(r"av\. #atoms communicated per step for force: +(\S+) x (\S+)$")
    if sent is None:
        if processes > 1:
            raise damaged("GROMACS does not report how many atoms it communicated")
        return 0
    times = numbers.whole(sent[1], "how often GROMACS communicated atoms", 1)
    atoms = numbers.real(sent[2], "the atoms that GROMACS communicated")
    # One process has no neighbour to send atoms to.
    if (atoms > 0) != (processes > 1):
        raise damaged(f"GROMACS communicated {atoms} atoms a step on {processes} processes")
    # Three coordinates of four bytes each.
    return int(times * atoms * 12 * steps)
