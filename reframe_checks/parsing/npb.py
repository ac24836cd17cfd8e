"""The NAS Parallel Benchmarks: the official programs (NPB 3.x, MPI) and ``src/npb``, which print the same table."""

import re
from dataclasses import dataclass, field

from . import ParseError, fact, launches_of, parts, positive

#: Lines of the table, as `print_results` of NPB 3 writes them.
NUMBERS = {"Time in seconds": "seconds", "Total processes": "processes", "Mop/s total": "mops"}
TABLE = re.compile(
    r"(Class|Size|Iterations|Time in seconds|Total (?:processes|threads)|Active proc\w*|Mop/s total|Verification)\s*=\s*(.*)"
)
#: What a launch begins with.
TITLE = r"# nearmetal program: npb|\s*NAS Parallel Benchmarks ((\(\S+\) )?\d+\.\d+(\.\d+)? --|\(NPB[^)]*-MZ[^)]*\) - )"


@dataclass
class NpbRun:
    """One launch, whole and verified."""

    kernel: str  #: such as ``CG``
    npb_class: str  #: S, W, A, B, C, ...
    processes: int
    seconds: float  #: of the slowest process
    mops: float  #: Mop/s of all processes
    threads: int = 0  #: of all processes; 0 from programs without OpenMP
    facts: dict[str, str] = field(
        default_factory=dict
    )  #: ``# nearmetal <key>: <value>``; none from the official programs
    iterations: list[float] = field(
        default_factory=list
    )  #: seconds of each, on rank 0; none from the official programs

    @property
    def hosts(self) -> int:
        """On how many it ran; 0 where the program does not say."""
        return len({text.split()[0] for key, text in self.facts.items() if key.startswith("rank ")})

    @property
    def iteration_mops(self) -> list[float]:
        """Mop/s of each iteration, as if all of them had taken as long; what stands outside of them is shared out."""
        total = sum(self.iterations)
        return [self.mops * total / len(self.iterations) / seconds for seconds in self.iterations]


def _parse_npb(lines: list[str]) -> NpbRun:
    table, facts, iterations, kernel = {}, {}, [], ""
    for line in lines:
        key, value = fact(line)
        if key == "iterations":
            _, iterations = parts(line)
        elif key:
            facts[key] = value
        elif found := re.fullmatch(r"([\w-]+) Benchmark Completed\.?", line):
            kernel = found[1]
        elif kernel and (found := TABLE.match(line)):
            table["Active" if found[1].startswith("Active") else found[1]] = found[2].strip()
    if not kernel:
        raise ParseError(
            'an NPB kernel began but never said "Benchmark Completed": it was cut off (time limit, crash); '
            "see the job's stderr and rerun"
        )
    if missing := sorted({*NUMBERS, "Class", "Verification"} - set(table)):
        raise ParseError(
            f"the results of {kernel} lack {', '.join(missing)}: lines were lost; rerun"
        )
    if table["Verification"] != "SUCCESSFUL":
        raise ParseError(
            f"{kernel} class {table['Class']} on {table['Total processes']} processes: its verification says "
            f"{table['Verification']}. The machine, the compiler's flags or the MPI library computes wrongly"
        )
    if table.get("Active", total := table["Total processes"]) != total:
        raise ParseError(
            f"{kernel} used {table['Active']} of {total} processes: it cannot run on {total}; ask for as many as it "
            "can use"
        )
    values = {
        name: positive(table[key], f"{kernel}: {key}")
        for key, name in NUMBERS.items()
        if name != "seconds"
    }
    # The table rounds to hundredths of a second, which a small class does not take.
    text = facts.get("seconds", table["Time in seconds"])
    seconds = (
        positive(text, f"{kernel}: time in seconds") if "seconds" in facts or float(text) else 0.0
    )
    if facts and "complete" not in {line.removeprefix("# nearmetal ") for line in lines}:
        raise ParseError(
            f'the output of {kernel} stops without "# nearmetal complete": the job was cut off; rerun'
        )
    threads = (
        int(positive(table["Total threads"], f"{kernel}: total threads"))
        if "Total threads" in table
        else 0
    )
    return NpbRun(
        kernel,
        table["Class"],
        int(values["processes"]),
        seconds,
        values["mops"],
        threads,
        facts,
        iterations,
    )


def parse_npb(text: str) -> list[NpbRun]:
    """Every launch in the output of an MPI program of the NAS Parallel Benchmarks, official (NPB-MZ too) or ours, in order.

    Method: NPB 3.4, print_results: Mop/s by each kernel's own count of operations. Raises ParseError on truncated,
    non-numeric or zero results, and where a launch's own verification failed.
    """
    launches = launches_of(text, TITLE, "NPB kernel")
    return [_parse_npb(lines) for lines in launches]
