"""Standard output of NAMD 2 and 3."""

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


@dataclass(frozen=True)
class NamdRun:
    """One complete launch with finite energies."""

    processes: int
    seconds_a_step: float  #: mean of NAMD's benchmark times
    parts: list[float]  #: steps/s of each benchmark time
    step: int  #: first step with an energy
    potential: float  #: potential energy at that step, kcal/mol
    atoms: int
    facts: dict[str, str]
    payload_bytes: None = None  #: NAMD does not report it
    did: dict = field(default_factory=dict)  #: parameters that NAMD reports

    @property
    def rate(self) -> float:
        """Steps/s."""
        return 1 / self.seconds_a_step


def _parse(lines: list[str]) -> NamdRun:
    text = "\n".join(lines)
    if error := re.search(r"^(?:FATAL ERROR|ERROR):.*", text, re.M):
        raise ParseError(f"NAMD says {error[0]!r}")
    processes = _only(text, r"^Info: Running on (\d+) processors, (\d+) nodes")
    atoms = _only(text, r"^Info: (\d+) ATOMS$")
    titles = re.search(r"^ETITLE: +(.*)", text, re.M)
    energies = [line.split()[1:] for line in lines if line.startswith("ENERGY:")]
    benchmarks = re.findall(r"^Info: Benchmark time: (.*)$", text, re.M)
    if not (processes and atoms and titles and energies and re.search(r"^WallClock:", text, re.M)):
        raise ParseError(
            'the output of NAMD stops before its end ("WallClock:"): the job was cut off (time '
            "limit, crash); see its stderr"
        )
    if not benchmarks:
        raise ParseError(
            "NAMD prints no benchmark time, which it does after some hundred steps: raise "
            "numsteps in the input"
        )
    names = titles[1].split()
    if any(len(row) != len(names) for row in energies):
        raise ParseError("a line ENERGY: of NAMD is damaged: lines were mixed or cut; rerun")
    table = [
        {name: real(number, f"NAMD's {name}", finite=False) for name, number in zip(names, row)}
        for row in energies
    ]
    if missing := {"TS", "POTENTIAL", "TOTAL"} - set(names):
        raise ParseError(
            f"the energies of NAMD lack {', '.join(sorted(missing))}: lines were lost; rerun"
        )
    bad = [row["TS"] for row in table if not all(map(math.isfinite, row.values()))]
    if bad:
        raise ParseError(
            f"the energies of NAMD are not numbers at step {bad[0]:.0f}: it computes wrongly, or "
            "the input is wrong"
        )
    for row in table:
        if "KINETIC" in row:
            total = row["POTENTIAL"] + row["KINETIC"]
            agree(f"NAMD's total energy at step {row['TS']:.0f}", row["TOTAL"], total, 2e-4)
    steps = [row["TS"] for row in table]
    if steps != sorted(set(steps)) or len({len(set(names)), len(names)}) > 1:
        raise ParseError("the steps of NAMD's energies are not in order: lines were mixed; rerun")
    count = whole(processes[2], "the processes of NAMD", 1)
    seconds = _benchmarks(benchmarks, processes[1])
    version = re.match(r"Info: NAMD (.*)", lines[0])
    named = _only(text, r"^Info: Configuration file is (.*)$")
    return NamdRun(
        count,
        sum(seconds) / len(seconds),
        [1 / time for time in seconds],
        int(table[0]["TS"]),
        table[0]["POTENTIAL"],
        whole(atoms[1], "the atoms of NAMD", 1),
        {"application": f"NAMD {version[1] if version else 'unknown'}"},
        did={"processes": count, **({"input": named[1].rpartition("/")[2]} if named else {})},
    )


def _only(text: str, pattern: str) -> re.Match | None:
    """The only match in NAMD's output, or None. Raises ParseError for a second match."""
    found = list(re.finditer(pattern, text, re.M | re.A))
    if len(found) > 1:
        raise ParseError(f"NAMD prints {found[1][0]!r} a second time: outputs were mixed; rerun")
    return found[0] if found else None


def _benchmarks(lines: list[str], cpus: str) -> list[float]:
    """Seconds per step of each benchmark line. Raises ParseError unless their ratio to the days/ns
    beside them is constant: the length of a step."""
    seconds, first = [], None
    for words in lines:
        found = re.match(r"(\d+) CPUs (\S+) s/step (\S+) (days/ns|ns/days?)( |$)", words)
        if not found or found[1] != cpus:
            raise ParseError(
                f"NAMD's benchmark line {words!r} is not a time on {cpus} processors: lines were "
                "damaged; rerun"
            )
        time = positive(found[2], "the benchmark time of NAMD")
        days = positive(found[3], f"the {found[4]} of NAMD")
        proportion = time / days if found[4] == "days/ns" else time * days
        rounding = proportion * (unit(found[2]) / time + unit(found[3]) / days)
        first = first or (proportion, rounding)
        agree("NAMD's s/step over days/ns", proportion, first[0], 0.5 * (rounding + first[1]))
        seconds.append(time)
    return seconds


@bounded
def parse_namd(text: str) -> list[NamdRun]:
    """Every launch in the output of NAMD, in order.

    Method: NAMD User's Guide, "Standard output". NAMD measures its benchmark times after it has
    balanced the load. Raises ParseError on truncated output, a missing benchmark time, and energies
    that are not numbers.
    """
    return [_parse(lines) for lines in launches_of(text, r"Info: NAMD (?:\d|Git-)", "NAMD")]
