"""Output of the NAS Parallel Benchmarks: the official programs (NPB 3.x, MPI), and ``src/npb``,
which prints the same table."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import ParseError, bounded, cut_off, damaged, numbers
from nearmetal.checks.parsing.output import (
    Figures,
    Launch,
    Output,
    each_launch,
    fact,
    hosts_of,
    parts,
)

#: Lines of the table, as `print_results` of NPB 3 writes them.
TABLE = re.compile(
    r"(Class|Size|Iterations|Time in seconds|Total (?:processes|threads)|Active proc\w*"
    r"|Mop/s total|Mop/s/process|Mop/s/thread|Verification)\s*=\s*(.*)"
)
#: Lines that every table has.
NEEDED = (
    *("Class", "Size", "Iterations", "Time in seconds", "Total processes", "Mop/s total"),
    "Verification",
)
#: Seconds for which a busy host may hold up one rank while the others run.
HELD_UP = 0.05
#: First line of a launch, and the title of a kernel.
START = (
    r"# nearmetal program: npb"
    r"|\s*NAS Parallel Benchmarks ((\(\S+\) )?\d+\.\d+(\.\d+)? --|\(NPB[^)]*-MZ[^)]*\) - )"
)
TITLE = re.compile(r"(?<![\w-])([\w-]+)(?: MPI\+OpenMP)? Benchmark$")
#: Number of processes, which is printed before the run.
HEAD = re.compile(r"(?:Total number|Number) of (?:active )?processes: +(\d+)")


@dataclass
class NpbRun(Launch):
    #: Such as ``CG``.
    kernel: str
    #: S, W, A, B, C, ...
    npb_class: str
    processes: int
    #: Time of the slowest process.
    seconds: float
    #: Mop/s of all processes.
    mops: float
    #: Threads of all processes; 0 from programs without OpenMP.
    threads: int = 0
    #: Seconds of each iteration on rank 0; none from the official programs.
    iterations: list[float] = field(default_factory=list)
    #: Size of the problem, and number of iterations.
    size: tuple[str, str] = ("", "")
    #: Rounding of `seconds`.
    rounding: float = 0.0

    @property
    def rate(self) -> float:
        return self.mops

    @property
    def payload_bytes(self) -> float | None:
        """Bytes that the processes sent; None from the official programs."""
        if "payload_bytes" not in self.facts:
            return None
        return float(self.facts["payload_bytes"])

    @property
    def hosts(self) -> int:
        """Number of hosts; 0 if the program does not report them."""
        return len(set(hosts_of(self.facts)))

    @property
    def iteration_mops(self) -> list[float]:
        """Mop/s of each iteration: `mops` times the mean time of an iteration over its own time.
        Time outside of the iterations is thereby divided among them."""
        total = sum(self.iterations)
        return [self.mops * total / len(self.iterations) / seconds for seconds in self.iterations]


@bounded
def parse_npb(text: str) -> list[NpbRun]:
    """Every launch in the output of an MPI program of the NAS Parallel Benchmarks, in order. The
    program is official (NPB or NPB-MZ) or ours.

    Method: NPB 3.4, print_results: Mop/s by each kernel's own count of operations. Raises
    ParseError on truncated, non-numeric or zero results, and if a launch's verification failed.
    """
    runs = _parse_launches(text)
    _expect_same_work(runs)
    return runs


@each_launch("npb", START, "NPB kernel")
def _parse_launches(output: Output) -> NpbRun:
    table = _table(output.lines)
    kernel = output.program = table.program
    _check_table(kernel, table)
    _check_head(kernel, table, output.lines)
    processes = table.whole("Total processes")
    run = NpbRun(
        {},
        {"kernel": kernel, "class": table["Class"], "processes": processes},
        kernel,
        table["Class"],
        processes,
        table.real("Time in seconds"),
        table.positive("Mop/s total"),
        table.whole("Total threads") if "Total threads" in table else 0,
        size=(table["Size"], table["Iterations"]),
        rounding=numbers.unit(table["Time in seconds"]) / 2,
    )
    _check_mops(run, table)
    if output.ours:
        _add_ours(run, output)
    return run


def _table(lines: list[str]) -> Figures:
    """The table of a launch. Its program is the kernel."""
    rows = []
    kernel = ""
    for line in lines:
        ended = re.fullmatch(r"([\w-]+) Benchmark Completed\.?", line)
        row = TABLE.match(line)
        # A launch runs one kernel.
        if ended and kernel:
            raise damaged(f"{kernel} and {ended[1]} are in one launch")
        if ended:
            kernel = ended[1]
        elif kernel and row:
            rows.append((re.sub("^Active.*", "Active", row[1]), row[2]))
    if not kernel:
        raise cut_off('an NPB kernel began but never printed "Benchmark Completed"')
    return Figures(kernel, rows)


def _check_table(kernel: str, table: Figures) -> None:
    if missing := sorted(set(NEEDED) - set(table)):
        raise damaged(f"the results of {kernel} lack {', '.join(missing)}")
    total = table["Total processes"]
    if table["Verification"] != "SUCCESSFUL":
        raise ParseError(
            f"{kernel} class {table['Class']} on {total} processes: its verification is "
            f"{table['Verification']}. The machine computes wrongly, or the compiler's flags or "
            "the MPI library are wrong"
        )
    if table.get("Active", total) != total:
        raise ParseError(
            f"{kernel} used {table['Active']} of {total} processes: it cannot run on {total}; "
            "request a number that it can use"
        )


def _check_head(kernel: str, table: Figures, lines: list[str]) -> None:
    """Raise ParseError unless the table agrees with the title and the number of processes that were
    printed before the run."""
    titles = [line for line in lines if "NAS Parallel Benchmarks " in line]
    title = TITLE.search(titles[0]) if titles else None
    name = title[1] if title else "no kernel"
    if name != kernel:
        raise damaged(f"{kernel} completed, but the launch began with the title of {name}")
    total = table["Total processes"]
    for line in lines:
        head = HEAD.match(line)
        if head and head[1] != total:
            raise damaged(f"{kernel} began on {head[1]} processes, but ended on {total}")


def _check_mops(run: NpbRun, table: Figures) -> None:
    """Raise ParseError unless Mop/s of a process or thread times their number is the total."""
    total = f"{run.kernel}: Mop/s total"
    numbers.decimals(table["Mop/s total"], 2, total)
    numbers.decimals(table["Time in seconds"], 2, f"{run.kernel}: time in seconds")
    # Multi-zone programs print the rate of a thread, most others that of a process.
    counts = {"Mop/s/process": run.processes, "Mop/s/thread": max(run.threads, 1)}
    if counts.keys().isdisjoint(table):
        raise damaged(f"{run.kernel} does not give Mop/s/process")
    for name, count in counts.items():
        if name in table:
            rate = table.real(name)
            within = numbers.unit(table[name]) / 2 + numbers.unit(table["Mop/s total"]) / 2
            numbers.agree(total, run.mops, rate * count, within * count)


def _add_ours(run: NpbRun, output: Output) -> None:
    """Add what only our programs report. Raises ParseError unless it agrees with the table."""
    run.facts = output.facts("mpi_library", "compiler", "seconds", "payload_bytes")
    output.expect_ranks(run.facts, run.processes)
    if numbers.real(run.facts["payload_bytes"], f"{run.kernel}: payload_bytes") < 0:
        raise damaged(f"{run.kernel}: payload_bytes is {run.facts['payload_bytes']}")
    # The table rounds to hundredths of a second, which is too coarse for small classes.
    seconds = numbers.positive(run.facts["seconds"], f"{run.kernel}: time in seconds")
    numbers.agree(f"{run.kernel}: time in seconds", seconds, run.seconds, run.rounding)
    run.seconds, run.rounding = seconds, 1e-9
    series = [line for line in output.lines if fact(line)[0] == "iterations"]
    if len(series) != 1:
        raise damaged(f"{run.kernel} gives its iterations {len(series)} times")
    _, run.iterations = parts(series[0])
    _check_iterations(run)


def _check_iterations(run: NpbRun) -> None:
    """Raise ParseError unless there are as many iterations as the table says, and their sum fits
    the time.

    The iterations are those of rank 0, and the time is that of the slowest rank. Ranks of EP never
    wait for each other, so rank 0 may end long before a rank whose core is busy. EP also counts its
    iterations otherwise. Ranks of a small class may differ by the time that a busy host holds one
    of them up.
    """
    count = numbers.whole(run.size[1], f"{run.kernel}: iterations")
    least = 0.0
    if run.kernel != "EP":
        least = 0.5 * run.seconds - HELD_UP
        if len(run.iterations) != count:
            raise damaged(f"{run.kernel} gives {len(run.iterations)} iterations instead of {count}")
    total = sum(run.iterations)
    if not least <= total <= 1.01 * run.seconds + 1e-4:
        raise damaged(f"the iterations of {run.kernel} took {total:.9g} s of {run.seconds:.9g} s")


def _expect_same_work(runs: list[NpbRun]) -> None:
    """Raise ParseError unless launches of one kernel and class had the same size and number of
    operations."""
    first: dict[tuple[str, str], NpbRun] = {}
    for run in runs:
        other = first.setdefault((run.kernel, run.npb_class), run)
        where = f"{run.kernel} class {run.npb_class}"
        if run.size != other.size:
            raise damaged(f"{where} ran with size and iterations {other.size} and {run.size}")
        # Mop/s have two decimals, so that they are off by 0.005 at most.
        rounding = sum(0.006 * each.seconds + each.mops * each.rounding for each in (run, other))
        work, same = run.mops * run.seconds, other.mops * other.seconds
        numbers.agree(f"the operations of {where}", work, same, rounding)
