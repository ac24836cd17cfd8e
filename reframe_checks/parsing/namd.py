"""NAMD 2 and 3: what they say on standard output."""

import math
import re
from dataclasses import dataclass

from . import ParseError, launches_of, positive


@dataclass(frozen=True)
class NamdRun:
    """One launch, whole, all of whose energies are numbers."""

    processes: int
    seconds_a_step: float  #: mean of NAMD's benchmark times
    parts: list[float]  #: steps/s by each of them
    step: int  #: the first that an energy is told for
    potential: float  #: there, kcal/mol
    atoms: int
    facts: dict[str, str]
    payload_bytes: None = None  #: not told

    @property
    def rate(self) -> float:
        """Steps/s."""
        return 1 / self.seconds_a_step


def _parse(lines: list[str]) -> NamdRun:
    text = "\n".join(lines)
    if error := re.search(r"^(?:FATAL ERROR|ERROR):.*", text, re.M):
        raise ParseError(f"NAMD says {error[0]!r}")
    processes = re.search(r"^Info: Running on \d+ processors, (\d+) nodes", text, re.M)
    atoms = re.search(r"^Info: (\d+) ATOMS$", text, re.M)
    titles = re.search(r"^ETITLE: +(.*)", text, re.M)
    energies = [line.split()[1:] for line in lines if line.startswith("ENERGY:")]
    benchmarks = re.findall(r"^Info: Benchmark time: \d+ CPUs (\S+) s/step", text, re.M)
    if not (processes and atoms and titles and energies and re.search(r"^WallClock:", text, re.M)):
        raise ParseError(
            'the output of NAMD stops before its end ("WallClock:"): the job was cut off (time limit, crash); see '
            "its stderr"
        )
    if not benchmarks:
        raise ParseError(
            "NAMD tells no benchmark time, which it does after some hundred steps: raise numsteps in the input"
        )
    names = titles[1].split()
    try:
        table = [dict(zip(names, map(float, row), strict=True)) for row in energies]
    except ValueError:
        raise ParseError(
            "a line ENERGY: of NAMD is damaged: output got mixed, or lines were cut; rerun"
        ) from None
    if missing := {"TS", "POTENTIAL", "TOTAL"} - set(names):
        raise ParseError(
            f"the energies of NAMD lack {', '.join(sorted(missing))}: lines were lost; rerun"
        )
    if bad := [row["TS"] for row in table if not all(map(math.isfinite, row.values()))]:
        raise ParseError(
            f"the energies of NAMD are no numbers at step {bad[0]:.0f}: it computes wrongly, or the input does"
        )
    seconds = [positive(each, "the benchmark time of NAMD") for each in benchmarks]
    version = re.match(r"Info: NAMD (.*)", lines[0])[1]
    return NamdRun(
        int(processes[1]),
        sum(seconds) / len(seconds),
        [1 / each for each in seconds],
        int(table[0]["TS"]),
        table[0]["POTENTIAL"],
        int(atoms[1]),
        {"application": f"NAMD {version}"},
    )


def parse_namd(text: str) -> list[NamdRun]:
    """Every launch in the output of NAMD, in order.

    Method: NAMD User's Guide, "Standard output"; the benchmark times are NAMD's own of its steps once the load is balanced.
    Raises ParseError on truncated output, a missing benchmark time, and energies that are no numbers.
    """
    return [_parse(lines) for lines in launches_of(text, r"Info: NAMD \d", "NAMD")]
