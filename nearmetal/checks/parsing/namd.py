"""Standard output of NAMD 2 and 3."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, damaged, numbers
from nearmetal.checks.parsing.output import Launch, Output, each_launch

FIGURES = {
    "processors": r"^Info: Running on (?P<cpus>\d+) processors, (?P<processes>\d+) nodes",
    "ATOMS": r"^Info: (?P<atoms>\d+) ATOMS$",
    "ETITLE:": r"^ETITLE: +(?P<names>.*)",
    "WallClock:": r"^WallClock:",
}


@dataclass
class NamdRun(Launch):
    processes: int
    #: Mean of NAMD's benchmark times.
    seconds_a_step: float
    #: Steps/s of each benchmark time.
    parts: list[float]
    #: First step with an energy, and potential energy at that step, kcal/mol.
    step: int
    potential: float
    atoms: int
    #: NAMD does not report it.
    payload_bytes: None = None

    @property
    def rate(self) -> float:
        """Steps/s."""
        return 1 / self.seconds_a_step


@each_launch("NAMD", r"Info: NAMD (?:\d|Git-)")
def parse_namd(output: Output) -> NamdRun:
    """Every launch in the output of NAMD, in order.

    Method: NAMD User's Guide, "Standard output". NAMD measures its benchmark times after it has
    balanced the load. Raises ParseError on truncated output, a missing benchmark time, and energies
    that are not numbers.
    """
    output.refuse(r"^(?:FATAL ERROR|ERROR):.*")
    figures = output.figures(FIGURES)
    energies = _energies(output, figures["names"].split())
    seconds = _benchmarks(output.text, figures["cpus"])
    did: dict = {"processes": figures.whole("processes")}
    if configuration := output.only(r"^Info: Configuration file is (.*)$"):
        did["input"] = configuration[1].rpartition("/")[2]
    return NamdRun(
        output.application(r"Info: NAMD (.*)"),
        did,
        did["processes"],
        sum(seconds) / len(seconds),
        [1 / time for time in seconds],
        int(energies[0]["TS"]),
        energies[0]["POTENTIAL"],
        figures.whole("atoms"),
    )


def _energies(output: Output, names: list[str]) -> list[dict[str, float]]:
    """The energies of each step by name. Raises ParseError if they contradict each other."""
    if missing := {"TS", "POTENTIAL", "TOTAL"} - set(names):
        raise damaged(f"the energies of NAMD lack {', '.join(sorted(missing))}")
    table, steps = [], []
    for line in output.lines:
        if line.startswith("ENERGY:"):
            table.append(_energies_of(line.split()[1:], names))
            steps.append(table[-1]["TS"])
    if not table:
        raise output.incomplete('a line ENERGY: before "WallClock:"')
    if steps != sorted(set(steps)) or len(set(names)) != len(names):
        raise damaged("the steps of NAMD's energies are not in order")
    return table


def _energies_of(words: list[str], names: list[str]) -> dict[str, float]:
    if len(words) != len(names):
        raise damaged("a line ENERGY: of NAMD has not as many figures as its title")
    row = {}
    for name, word in zip(names, words):
        row[name] = numbers.real(word, f"NAMD's {name}", finite=False)
    if not all(map(math.isfinite, row.values())):
        raise ParseError(
            f"the energies of NAMD are not numbers at step {row['TS']:.0f}: it computes wrongly, "
            "or the input is wrong"
        )
    if "KINETIC" in row:
        total = row["POTENTIAL"] + row["KINETIC"]
        numbers.agree(f"NAMD's total energy at step {row['TS']:.0f}", row["TOTAL"], total, 2e-4)
    return row


def _benchmarks(text: str, cpus: str) -> list[float]:
    """Seconds per step of each benchmark line. Raises ParseError unless their ratio to the days/ns
    beside them is constant: the length of a step."""
    seconds, first = [], None
    for words in re.findall(r"^Info: Benchmark time: (.*)$", text, re.M):
        match = re.match(r"(\d+) CPUs (\S+) s/step (\S+) (days/ns|ns/days?)( |$)", words)
        if not match or match[1] != cpus:
            raise damaged(f"NAMD's benchmark line {words!r} is not a time on {cpus} processors")
        time = numbers.positive(match[2], "the benchmark time of NAMD")
        days = numbers.positive(match[3], f"the {match[4]} of NAMD")
        # NAMD 2 prints days/ns and NAMD 3 ns/day. Either way the length of a step follows.
        proportion = time / days if match[4] == "days/ns" else time * days
        rounding = proportion * (numbers.unit(match[2]) / time + numbers.unit(match[3]) / days)
        # The first line stands for the others: its rounding counts as well.
        first = first or (proportion, rounding)
        numbers.agree(
            "NAMD's s/step over days/ns", proportion, first[0], 0.5 * (rounding + first[1])
        )
        seconds.append(time)
    if not seconds:
        raise ParseError(
            "NAMD prints no benchmark time, which it does after some hundred steps: raise "
            "numsteps in the input"
        )
    return seconds
