"""Output of the NAS Parallel Benchmarks: the official programs (NPB 3.x, MPI), and ``src/npb``,
which prints the same table."""

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    ParseError,
    agree,
    bounded,
    decimals,
    expect_ranks,
    fact,
    facts_of,
    launches_of,
    parts,
    positive,
    real,
    unit,
    whole,
)

#: Lines of the table, as `print_results` of NPB 3 writes them.
NUMBERS = {"Time in seconds": "seconds", "Total processes": "processes", "Mop/s total": "mops"}
TABLE = re.compile(
    r"(Class|Size|Iterations|Time in seconds|Total (?:processes|threads)|Active proc\w*"
    r"|Mop/s total|Mop/s/process|Mop/s/thread|Verification)\s*=\s*(.*)"
)
#: Seconds for which a busy host may hold up one rank while the others run.
HELD_UP = 0.05
#: First line of a launch.
TITLE = (
    r"# nearmetal program: npb"
    r"|\s*NAS Parallel Benchmarks ((\(\S+\) )?\d+\.\d+(\.\d+)? --|\(NPB[^)]*-MZ[^)]*\) - )"
)


TITLED = re.compile(r"NAS Parallel Benchmarks ")


@dataclass
class NpbRun:
    """One complete and verified launch."""

    kernel: str  #: such as ``CG``
    npb_class: str  #: S, W, A, B, C, ...
    processes: int
    seconds: float  #: time of the slowest process
    mops: float  #: Mop/s of all processes
    threads: int = 0  #: threads of all processes; 0 from programs without OpenMP
    facts: dict[str, str] = field(
        default_factory=dict
    )  #: ``# nearmetal <key>: <value>``; none from the official programs
    iterations: list[float] = field(
        default_factory=list
    )  #: seconds of each iteration on rank 0; none from the official programs
    did: dict = field(default_factory=dict)  #: parameters that the program reports
    size: tuple[str, str] = ("", "")  #: size of the problem, and number of iterations
    rounding: float = 0.0  #: rounding of `seconds`

    @property
    def hosts(self) -> int:
        """Number of hosts; 0 if the program does not report them."""
        return len({text.split()[0] for key, text in self.facts.items() if key.startswith("rank ")})

    @property
    def iteration_mops(self) -> list[float]:
        """Mop/s of each iteration: `mops` times the mean time of an iteration over its own time.
        Time outside of the iterations is thereby divided among them."""
        total = sum(self.iterations)
        return [self.mops * total / len(self.iterations) / seconds for seconds in self.iterations]


#: Facts that our programs report.
FACTS = ("mpi_library", "compiler", "seconds", "payload_bytes")
HEAD = re.compile(r"(?:Total number|Number) of (?:active )?processes: +(\d+)")


def _read(lines: list[str]) -> tuple[str, dict[str, str], list[list[float]]]:
    """(kernel, table, iterations) of one launch."""
    table: dict[str, str] = {}
    kernel, iterations = "", []
    for line in lines:
        key, _ = fact(line)
        ended = re.fullmatch(r"([\w-]+) Benchmark Completed\.?", line)
        row = TABLE.match(line)
        if key == "iterations":
            iterations.append(parts(line)[1])
        elif ended and kernel:
            raise ParseError(
                f"{kernel} and {ended[1]} are in one launch: lines were mixed or lost; rerun"
            )
        elif ended:
            kernel = ended[1]
        elif kernel and row:
            name = "Active" if row[1].startswith("Active") else row[1]
            if name in table:
                raise ParseError(f"{kernel} gives {name} twice: lines were mixed; rerun")
            table[name] = row[2].strip()
    if not kernel:
        raise ParseError(
            'an NPB kernel began but never printed "Benchmark Completed": it was cut off (time '
            "limit, crash); see the job's stderr and rerun"
        )
    return kernel, table, iterations


def _check_table(kernel: str, table: dict[str, str]) -> None:
    missing = sorted({*NUMBERS, "Class", "Verification", "Size", "Iterations"} - set(table))
    if missing:
        raise ParseError(
            f"the results of {kernel} lack {', '.join(missing)}: lines were lost; rerun"
        )
    if table["Verification"] != "SUCCESSFUL":
        raise ParseError(
            f"{kernel} class {table['Class']} on {table['Total processes']} processes: its "
            f"verification is {table['Verification']}. The machine computes wrongly, or the "
            "compiler's flags or the MPI library are wrong"
        )
    total = table["Total processes"]
    if table.get("Active", total) != total:
        raise ParseError(
            f"{kernel} used {table['Active']} of {total} processes: it cannot run on {total}; "
            "request a number that it can use"
        )


def _check_head(kernel: str, table: dict[str, str], lines: list[str]) -> None:
    """Raise ParseError unless the table agrees with the title and the number of processes that were
    printed before the run."""
    title = re.search(
        r"(?<![\w-])([\w-]+)(?: MPI\+OpenMP)? Benchmark$", next(filter(TITLED.search, lines), "")
    )
    if not title or title[1] != kernel:
        raise ParseError(
            f"{kernel} completed, but the launch began with the title of "
            f"{title[1] if title else 'no kernel'}: lines were lost; rerun"
        )
    heads = [found[1] for line in lines if (found := HEAD.match(line))]
    if heads and heads != [table["Total processes"]]:
        raise ParseError(
            f"{kernel} began on {', '.join(heads)} processes, but ended on "
            f"{table['Total processes']}: rerun"
        )


def _check_mops(
    kernel: str, table: dict[str, str], processes: int, threads: int, mops: float
) -> None:
    """Raise ParseError unless Mop/s of a process or thread times their number is the total."""
    decimals(table["Mop/s total"], 2, f"{kernel}: Mop/s total")
    decimals(table["Time in seconds"], 2, f"{kernel}: time in seconds")
    for name, count in (("Mop/s/process", processes), ("Mop/s/thread", threads)):
        if name in table:
            one = real(table[name], f"{kernel}: {name}")
            within = unit(table[name]) / 2 + unit(table["Mop/s total"]) / 2
            agree(f"{kernel}: Mop/s total", mops, one * max(count, 1), within * max(count, 1))
    if "Mop/s/process" not in table and "Mop/s/thread" not in table:
        raise ParseError(f"{kernel} does not give Mop/s/process: lines were lost; rerun")


def _seconds(kernel: str, table: dict[str, str], facts: dict[str, str]) -> float:
    """The time, from the facts where they have it: the table rounds to hundredths of a second,
    which is too coarse for small classes."""
    rounded = real(table["Time in seconds"], f"{kernel}: time in seconds")
    if rounded < 0:
        raise ParseError(f"{kernel}: its time in seconds is {rounded}: rerun")
    if "seconds" not in facts:
        return rounded
    seconds = positive(facts["seconds"], f"{kernel}: time in seconds")
    agree(f"{kernel}: time in seconds", seconds, rounded, unit(table["Time in seconds"]) / 2)
    return seconds


def _check_iterations(kernel: str, table: dict, seconds: float, iterations: list[float]) -> None:
    """Raise ParseError unless there are as many iterations as the table says, and their sum fits
    the time.

    The iterations are those of rank 0, and the time is that of the slowest rank. Ranks of EP never
    wait for each other, so rank 0 may end long before a rank whose core is busy. EP also counts its
    iterations otherwise. Ranks of a small class may differ by the time that a busy host holds one
    of them up.
    """
    count = whole(table["Iterations"], f"{kernel}: iterations")
    if kernel != "EP" and len(iterations) != count:
        raise ParseError(
            f"{kernel} gives {len(iterations)} iterations instead of {count}: lines were damaged; "
            "rerun"
        )
    total = sum(iterations)
    least = 0 if kernel == "EP" else 0.5 * seconds - HELD_UP
    if not least <= total <= 1.01 * seconds + 1e-4:
        raise ParseError(
            f"the iterations of {kernel} took {total:.9g} s of {seconds:.9g} s: digits were "
            "damaged; rerun"
        )


def _parse_npb(lines: list[str]) -> NpbRun:
    kernel, table, iterations = _read(lines)
    _check_table(kernel, table)
    _check_head(kernel, table, lines)
    ours = lines[0].startswith("# nearmetal")
    if ours and END not in lines:
        raise ParseError(
            f'the output of {kernel} stops without "# nearmetal complete": the job was cut off; '
            "rerun"
        )
    facts = facts_of(lines, FACTS if ours else (), kernel)
    processes = whole(table["Total processes"], f"{kernel}: Total processes", 1)
    mops = positive(table["Mop/s total"], f"{kernel}: Mop/s total")
    threads = whole(table.get("Total threads", "0"), f"{kernel}: total threads")
    _check_mops(kernel, table, processes, threads, mops)
    seconds = _seconds(kernel, table, facts)
    if ours:
        expect_ranks(facts, processes, kernel)
        positive_or_zero = real(facts["payload_bytes"], f"{kernel}: payload_bytes")
        if len(iterations) != 1 or positive_or_zero < 0:
            raise ParseError(f"{kernel} gives its iterations {len(iterations)} times: rerun")
        _check_iterations(kernel, table, seconds, iterations[0])
    return NpbRun(
        kernel,
        table["Class"],
        processes,
        seconds,
        mops,
        threads,
        facts,
        iterations[0] if iterations else [],
        {"kernel": kernel, "class": table["Class"], "processes": processes},
        (table["Size"], table["Iterations"]),
        unit(table["Time in seconds"]) / 2 if not ours else 1e-9,
    )


def _expect_same_work(runs: list[NpbRun]) -> None:
    """Raise ParseError unless launches of one kernel and class had the same size and number of
    operations."""
    first: dict[tuple[str, str], NpbRun] = {}
    for run in runs:
        other = first.setdefault((run.kernel, run.npb_class), run)
        where = f"{run.kernel} class {run.npb_class}"
        if run.size != other.size:
            raise ParseError(
                f"{where} ran with size and iterations {other.size} and {run.size}: digits were "
                "damaged; rerun"
            )
        work, same = run.mops * run.seconds, other.mops * other.seconds
        rounding = sum(0.006 * each.seconds + each.mops * each.rounding for each in (run, other))
        agree(f"the operations of {where}", work, same, rounding)


@bounded
def parse_npb(text: str) -> list[NpbRun]:
    """Every launch in the output of an MPI program of the NAS Parallel Benchmarks, in order. The
    program is official (NPB or NPB-MZ) or ours.

    Method: NPB 3.4, print_results: Mop/s by each kernel's own count of operations. Raises
    ParseError on truncated, non-numeric or zero results, and if a launch's verification failed.
    """
    launches = launches_of(text, TITLE, "NPB kernel")
    runs = [_parse_npb(lines) for lines in launches]
    _expect_same_work(runs)
    return runs
