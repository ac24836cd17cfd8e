"""Log of GROMACS's mdrun on ``src/apps/water.mdp``."""

from __future__ import annotations

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

#: Largest relative drift of the total energy in a run at constant energy. A correct run has 0.02 %
#: or less.
DRIFT = 0.002
#: Recorded facts about the program, and their names in the log.
FACTS = (
    ("application", "GROMACS version"),
    ("mpi_library", "MPI library version"),
    ("compiler", r"C\+\+ compiler"),
    ("simd", "SIMD instructions"),
)


@dataclass(frozen=True)
class GromacsRun:
    """One complete launch that conserved its energy."""

    processes: int
    atoms: int
    steps: int
    rate: float  #: ns/day
    potential: float  #: at step 0, kJ/mol
    payload_bytes: int  #: least number of bytes that processes exchanged
    facts: dict[str, str]
    parts: tuple = ()
    did: dict = field(default_factory=dict)  #: parameters that the log reports


def _energies(text: str, name: str) -> list[float]:
    """The values of an energy term at each step in the log."""
    values = []
    for block in re.findall(
        r"^Energies \(kJ/mol\)\n((?:.+\n)+)", text.split("A V E R A G E S", maxsplit=1)[0], re.M
    ):
        lines = block.splitlines()
        for names, numbers in zip(lines[::2], lines[1::2]):
            terms = _columns(names)
            if name in terms:
                values.append(real(_columns(numbers)[terms.index(name)], name, finite=False))
    return values


def _columns(line: str) -> list[str]:
    """Right-aligned columns of 15 characters. Leading blanks may have been stripped."""
    line = line.rjust(-(-len(line) // 15) * 15)
    return [line[at : at + 15].strip() for at in range(0, len(line), 15)]


def _parse(lines: list[str]) -> GromacsRun:
    text = "\n".join(lines) + "\n"
    if error := re.search(r"^Fatal error:\n(.*)", text, re.M):
        raise ParseError(f"GROMACS says {error[1]!r}")
    found = {
        "performance": _only(text, r"^Performance: +(\S+) +(\S+)$"),
        "time": _only(text, r"^ *Time: +(\S+) +(\S+) +(\S+)$"),
        "processes": _only(text, r"^Using (\d+) MPI process"),
        "atoms": _only(text, r"^There are: (\d+) Atoms"),
        "statistics": _only(text, r"^Statistics over (\d+) steps"),
        "step": _only(text, r"^ *dt += (\S+)$"),
        "interval": _only(text, r"^ *nstlog += (\d+)$"),
        "end": _only(text, r"^(Finished mdrun)"),
    }
    try:
        potential, kinetic, total = (
            _energies(text, name) for name in ("Potential", "Kinetic En.", "Total Energy")
        )
    except (ParseError, IndexError) as error:
        raise ParseError(
            "an energy of GROMACS is not a number: its log is damaged, or it computes wrongly "
            f"({error})"
        ) from None
    missing = [name for name, each in found.items() if each is None]
    said = {name: each for name, each in found.items() if each is not None}
    if missing or len(potential) < 2:
        raise ParseError(
            f"the log of GROMACS lacks {', '.join(missing) or 'energies'}: it stops before its "
            "end, or lines were lost (time limit, crash); see the job's stderr"
        )
    if not len(total) == len(potential) == len(kinetic) or not all(
        map(math.isfinite, [*potential, *total])
    ):
        raise ParseError(
            "the energies of GROMACS are not numbers, or are missing: it computes wrongly"
        )
    if abs(total[-1] - total[0]) > DRIFT * abs(total[0]):
        raise ParseError(
            f"the total energy went from {total[0]:.6g} to {total[-1]:.6g} kJ/mol, but it must be "
            "conserved: GROMACS computes wrongly"
        )
    for sum_of, one, other in zip(total, potential, kinetic):
        # Each is printed with six digits.
        agree("GROMACS's total energy", sum_of, one + other, 1e-5 * (abs(one) + abs(other)))
    facts = {
        key: said[1].strip()
        for key, said in ((key, re.search(rf"^{name}: +(.*)$", text, re.M)) for key, name in FACTS)
        if said
    }
    facts["application"] = " ".join(
        filter(None, ["GROMACS", facts.get("application", ""), facts.get("simd", "")])
    )
    processes = whole(said["processes"][1], "the processes of GROMACS", 1)
    count = whole(said["statistics"][1], "the steps of GROMACS", 2) - 1
    interval = whole(said["interval"][1], "the steps between energies of GROMACS", 1)
    if len(potential) != -(-count // interval) + 1:
        raise ParseError(
            f"GROMACS gives {len(potential)} energies for {count} steps, one every {interval}: "
            "lines were lost; rerun"
        )
    rate = _rate(said, count)
    _check_processes(text, processes)
    atoms = whole(said["atoms"][1], "the atoms of GROMACS", 1)
    return GromacsRun(
        processes,
        atoms,
        count,
        rate,
        potential[0],
        _payload(text, processes, count),
        facts,
        did={
            "processes": processes,
            "steps": count,
            "atoms": atoms,
            "nsteps": _asked_steps(text, count),
        },
    )


def _only(text: str, pattern: str) -> re.Match | None:
    """The only match in the log, or None. Raises ParseError for a second match."""
    found = list(re.finditer(pattern, text, re.M))
    if len(found) > 1:
        raise ParseError(
            f"GROMACS prints {found[1][0].strip()!r} a second time: logs were mixed; rerun"
        )
    return found[0] if found else None


def _rate(found: dict, steps: int) -> float:
    """ns/day. It must agree with the inverse that is printed beside it, and with time and steps."""
    rate = positive(found["performance"][1], "the performance of GROMACS")
    inverse = positive(found["performance"][2], "the hours that GROMACS takes for a ns")
    half = unit(found["performance"][1]) / 2 + rate / inverse * unit(found["performance"][2]) / 2
    agree("the performance of GROMACS", rate, 24 / inverse, half)
    seconds = positive(found["time"][2], "the wall time of GROMACS")
    simulated = positive(found["step"][1], "the time step of GROMACS") * (steps + 1) / 1000
    computed = simulated * 86400 / seconds
    half = unit(found["performance"][1]) + computed * unit(found["time"][2]) / seconds
    agree("the performance of GROMACS", rate, computed, half)
    return rate


def _check_processes(text: str, processes: int) -> None:
    """Raise ParseError unless the log's counts of processes agree. With several processes, the log
    prints their number again."""
    for again in re.findall(r"^On (\d+) MPI ranks?", text, re.M):
        if again != str(processes):
            raise ParseError(
                f"GROMACS used {processes} processes and counted time on {again}: logs were "
                "mixed; rerun"
            )


def _asked_steps(text: str, steps: int) -> int:
    """Steps that the command line requested, if the log reports them; else those that ran. Raises
    ParseError if both differ."""
    found = _only(text, r"^Overriding nsteps with value passed on the command line: (\S+) steps")
    if not found:
        return steps
    if whole(found[1], "the steps of GROMACS") != steps:
        raise ParseError(f"GROMACS was asked for {found[1]} steps and ran {steps}: rerun")
    return steps


def _payload(text: str, processes: int, steps: int) -> int:
    """Least number of bytes of coordinates that processes exchanged."""
    sent = _only(text, r"av\. #atoms communicated per step for force: +(\S+) x (\S+)$")
    if sent is None:
        if processes > 1:
            raise ParseError(
                "GROMACS does not report how many atoms it communicated: lines were lost; rerun"
            )
        return 0
    times = whole(sent[1], "how often GROMACS communicated atoms", 1)
    atoms = real(sent[2], "the atoms that GROMACS communicated")
    if (atoms > 0) != (processes > 1):
        raise ParseError(
            f"GROMACS communicated {atoms} atoms a step on {processes} processes: digits were "
            "damaged; rerun"
        )
    return int(times * atoms * 12 * steps)


@bounded
def parse_gromacs(text: str) -> list[GromacsRun]:
    """Every launch in (concatenated) logs of mdrun, in order.

    Raises ParseError on truncated or non-numeric results, and if a run without thermostat does not
    conserve its total energy. The check verifies the potential energy of water.
    """
    return [
        _parse(lines)
        for lines in launches_of(text, r" *:-\) GROMACS - gmx mdrun", "log of GROMACS")
    ]
