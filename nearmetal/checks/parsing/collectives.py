"""Output of IMB-MPI1's Alltoall, Allreduce, Bcast and Barrier, and of ``src/collectives.c``, which
prints the same tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import OTHERS, ParseError, cut_off, damaged, numbers
from nearmetal.checks.parsing.imb import imb_call, imb_sizes
from nearmetal.checks.parsing.output import END, IMB_END, IMB_START, Launch, Output, each_launch

OPERATIONS = ("Alltoall", "Allreduce", "Bcast", "Barrier")
COLUMNS = ["#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]"]
METHOD = "iterations min_iterations max_time max_bytes"
#: Most bytes of the messages of a process to all in Alltoall, as our programs have it.
MOST_TO_ALL = 1 << 29


@dataclass
class CollectivesRun(Launch):
    processes: int
    #: t_max by operation and bytes (Barrier: 0)
    slowest_us: dict[str, dict[int, float]] = field(default_factory=dict)
    #: Least number of bytes that processes must exchange.
    payload_bytes: float = 0


@dataclass
class _Row:
    size: int
    repetitions: int
    slowest: float


@each_launch("collectives", f"{IMB_START}|# nearmetal program: collectives", "table of collectives")
def parse_collectives(output: Output) -> CollectivesRun:
    """Every launch in the output of IMB-MPI1 or of ``src/collectives.c``, in order.

    Method: Intel MPI Benchmarks: t_max is the mean time of a call, in us, on the slowest process.
    Raises ParseError on truncated, non-numeric or zero results.
    """
    counts = set()
    rows = {}
    for operation, lines in _tables(output).items():
        processes, rows[operation] = _rows(operation, lines)
        counts.add(processes)
    missing = [name for name in OPERATIONS if not rows.get(name)]
    if missing:
        raise damaged(f"there is no result of {', '.join(missing)}")
    if len(counts) > 1 or tuple(rows) != OPERATIONS:
        raise damaged(
            f"the tables {', '.join(rows)} on {sorted(counts)} processes are not from one launch"
        )
    run = CollectivesRun({}, {}, counts.pop())
    if output.ours:
        _check_ours(run, output, rows)
    else:
        run.did = imb_call(output.lines)
        _expect_sizes(rows, *imb_sizes(output.lines, run.did, 0, 22))
    for operation, table in rows.items():
        run.slowest_us[operation] = {row.size: row.slowest for row in table}
        for row in table:
            least = _least_bytes(operation, run.processes, row.size)
            run.payload_bytes += row.repetitions * least
    return run


def _least_bytes(operation: str, processes: int, size: int) -> int:
    """Least number of bytes that processes exchange in one call."""
    messages = {
        "Alltoall": processes * (processes - 1),
        "Allreduce": 2 * (processes - 1),
        "Bcast": processes - 1,
        "Barrier": 0,
    }
    return messages[operation] * size


def _tables(output: Output) -> dict[str, list[str]]:
    """The lines of each operation's table with its head."""
    tables: dict[str, list[str]] = {}
    operation, complete = "", False
    for line in output.own_lines():
        title = re.fullmatch(r"# Benchmarking (\w+)", line)
        if title:
            operation = title[1]
            if operation in tables:
                raise ParseError(
                    f"{operation} appears twice in one launch: run it on one number of processes "
                    "(IMB: -npmin N)"
                )
            tables[operation] = []
        elif line in (END, IMB_END):
            complete = True
        # A site or a launcher may print more behind the last line.
        elif not complete and operation and line:
            tables[operation].append(line)
    if not complete:
        where = operation or "its head"
        raise cut_off(f"the output stops in {where}, without its last line")
    return tables


def _rows(operation: str, lines: list[str]) -> tuple[int, list[_Row]]:
    """Number of processes and rows of one table."""
    heads = [line.partition("= ")[2] for line in lines if line.startswith("# #processes =")]
    if len(heads) != 1:
        raise damaged(f"the table of {operation} gives its number of processes {len(heads)} times")
    processes = numbers.whole(heads[0].strip(), f"the processes of {operation}", 2)
    columns = COLUMNS if operation == "Barrier" else ["#bytes", *COLUMNS]
    begins = [number for number, line in enumerate(lines) if line.split() == columns]
    if len(begins) != 1:
        raise damaged(f"the table of {operation} has no head {' '.join(columns)}")
    rows = []
    for line in lines[begins[0] + 1 :]:
        if line.startswith("#"):
            continue
        row = _row(line, operation, processes)
        # IMB also measures 0 bytes, which carry no data.
        if row.size > 0 or operation == "Barrier":
            rows.append(row)
    return processes, rows


def _row(line: str, operation: str, processes: int) -> _Row:
    words = line.split()
    if operation == "Barrier":
        words = ["0", *words]
    if len(words) != 5 or not all(map(numbers.WHOLE.fullmatch, words[:2])):
        raise ParseError(f"{line!r} is not a row of the table of {operation}: {OTHERS}")
    size, repetitions = int(words[0]), numbers.whole(words[1], "the repetitions", 1)
    where = f"{operation} of {size} bytes"
    least, most, mean = numbers.positives(words[2:], where)
    # The program prints all three with one format.
    if len(set(map(numbers.unit, words[2:]))) > 1:
        raise damaged(f"{where}: figures in {line!r} differ in decimals")
    # At least one process takes the longest time, and at least one the shortest.
    rounding = 1.01 * 3 * numbers.unit(words[2]) / 2
    low = (most + (processes - 1) * least) / processes - rounding
    high = (least + (processes - 1) * most) / processes + rounding
    if least > most or not low <= mean <= high:
        raise damaged(
            f"{where} takes {least:.9g} to {most:.9g} us. {processes} processes cannot have the "
            f"mean {mean:.9g}"
        )
    return _Row(size, repetitions, most)


def _expect_sizes(tables: dict[str, list[_Row]], first: int, largest: int) -> None:
    wanted = numbers.powers_of_two(first, largest)
    for operation, rows in tables.items():
        sizes = [row.size for row in rows]
        if sizes != ([0] if operation == "Barrier" else wanted):
            raise damaged(
                f"sizes are missing or damaged in the table of {operation}, which has "
                f"{','.join(map(str, sizes)) or 'none'}"
            )


def _check_ours(run: CollectivesRun, output: Output, rows: dict[str, list[_Row]]) -> None:
    """Raise ParseError unless the tables agree with the facts of our program."""
    run.facts = output.facts("mpi_library", "compiler", "method")
    output.expect_ranks(run.facts, run.processes)
    run.did = output.method(run.facts, METHOD)
    longest = int(run.did["max_bytes"])
    to_all = {"Alltoall": rows["Alltoall"]}
    _expect_sizes(to_all, 8, min(longest, MOST_TO_ALL // run.processes))
    _expect_sizes({name: rows[name] for name in rows.keys() - to_all.keys()}, 8, longest)
    most = run.did["iterations"]
    least = min(run.did["min_iterations"], most)
    for operation, table in rows.items():
        for row in table:
            if not least <= row.repetitions <= most:
                raise damaged(
                    f"{operation} of {row.size} bytes has {row.repetitions} repetitions, but the "
                    f"method allows {least:.0f} to {most:.0f}"
                )
