"""Output of IMB-MPI1's Alltoall, Allreduce, Bcast and Barrier, and of ``src/collectives.c``, which
prints the same tables."""

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    OTHERS,
    WHOLE,
    ParseError,
    bounded,
    expect_ranks,
    facts_of,
    launches_of,
    numbers_of,
    own_lines,
    positive,
    unit,
    whole,
)
from nearmetal.checks.parsing.imb import imb_call, imb_sizes

OPERATIONS = ("Alltoall", "Allreduce", "Bcast", "Barrier")
COLUMNS = ["#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]"]
METHOD = "iterations min_iterations max_time max_bytes"


@dataclass
class CollectivesRun:
    """One complete launch."""

    processes: int = 0
    slowest_us: dict[str, dict[int, float]] = field(
        default_factory=dict
    )  #: t_max by operation and bytes (Barrier: 0)
    facts: dict[str, str] = field(
        default_factory=dict
    )  #: ``# nearmetal <key>: <value>``; none from IMB
    complete: bool = False
    payload_bytes: float = 0  #: least number of bytes that processes must exchange
    did: dict = field(default_factory=dict)  #: parameters that the program reports


def _least_bytes(operation: str, processes: int, size: int) -> int:
    """Least number of bytes that processes exchange in one call."""
    return {
        "Alltoall": processes * (processes - 1),
        "Allreduce": 2 * (processes - 1),
        "Bcast": processes - 1,
    }.get(operation, 0) * size


@dataclass
class _Row:
    size: int
    repetitions: int
    slowest: float


def _row(line: str, operation: str, processes: int) -> _Row:
    words = ["0", *line.split()] if operation == "Barrier" else line.split()
    if len(words) != 5 or not (WHOLE.fullmatch(words[0]) and WHOLE.fullmatch(words[1])):
        raise ParseError(f"{line!r} is not a row of the table of {operation}: {OTHERS}")
    size, repetitions = int(words[0]), whole(words[1], "the repetitions", 1)
    where = f"{operation} of {size} bytes"
    least, most, mean = (positive(word, where) for word in words[2:])
    if len({unit(word) for word in words[2:]}) > 1:
        raise ParseError(
            f"{where}: figures in {line!r} differ in decimals: digits were lost; rerun"
        )
    # At least one process takes the longest time, and at least one the shortest.
    rounding = 1.01 * (unit(words[2]) + unit(words[3]) + unit(words[4])) / 2
    low = (most + (processes - 1) * least) / processes - rounding
    high = (least + (processes - 1) * most) / processes + rounding
    if least > most or not low <= mean <= high:
        raise ParseError(
            f"{where} takes {least:.9g} to {most:.9g} us. {processes} processes cannot have the "
            f"mean {mean:.9g}: digits were damaged; rerun"
        )
    return _Row(size, repetitions, most)


def _tables(lines: list[str]) -> tuple[dict[str, list[str]], bool]:
    """The lines of each operation's table with its head, and whether the program ended."""
    tables: dict[str, list[str]] = {}
    operation, complete = "", False
    for line in lines:
        found = re.fullmatch(r"# Benchmarking (\w+)", line)
        if found:
            operation = found[1]
            if operation in tables:
                raise ParseError(
                    f"{operation} appears twice in one launch: run it on one number of processes "
                    "(IMB: -npmin N)"
                )
            tables[operation] = []
        elif line in (END, "# All processes entering MPI_Finalize"):
            complete = True
        elif not complete and operation and line:
            tables[operation].append(line)
    if not complete:
        raise ParseError(
            f"the output stops in {operation or 'its head'}, without its last line: the "
            "job was cut off (time limit, crash); see its stderr and rerun"
        )
    return tables, complete


def _rows(operation: str, lines: list[str]) -> tuple[int, list[_Row]]:
    """Number of processes and rows of one table."""
    heads = [line.partition("= ")[2] for line in lines if line.startswith("# #processes =")]
    if len(heads) != 1:
        raise ParseError(
            f"the table of {operation} gives its number of processes {len(heads)} times: rerun"
        )
    processes = whole(heads[0].strip(), f"the processes of {operation}", 2)
    columns = COLUMNS if operation == "Barrier" else ["#bytes", *COLUMNS]
    begins = [number for number, line in enumerate(lines) if line.split() == columns]
    if len(begins) != 1:
        raise ParseError(f"the table of {operation} has no head {' '.join(columns)}: rerun")
    rows = [
        _row(line, operation, processes)
        for line in lines[begins[0] + 1 :]
        if not line.startswith("#")
    ]
    return processes, [row for row in rows if row.size > 0 or operation == "Barrier"]


def _expect_sizes(tables: dict[str, list[_Row]], first: int, largest: int) -> None:
    wanted = [first]
    while wanted[-1] * 2 <= largest:
        wanted.append(wanted[-1] * 2)
    for operation, rows in tables.items():
        sizes = [row.size for row in rows]
        if sizes != ([0] if operation == "Barrier" else wanted):
            raise ParseError(
                f"sizes are missing or damaged in the table of {operation}, which has "
                f"{','.join(map(str, sizes)) or 'none'}; rerun"
            )


def _parse_collectives(lines: list[str]) -> CollectivesRun:
    if ours := lines[0].startswith("# nearmetal"):
        lines = own_lines(lines)
    tables, complete = _tables(lines)
    read = {operation: _rows(operation, table) for operation, table in tables.items()}
    rows = {operation: table for operation, (_, table) in read.items()}
    missing = [name for name in OPERATIONS if not rows.get(name)]
    if missing:
        raise ParseError(f"there is no result of {', '.join(missing)}: lines were lost; rerun")
    numbers = {processes for processes, _ in read.values()}
    if len(numbers) > 1 or tuple(rows) != OPERATIONS:
        raise ParseError(
            f"the tables {', '.join(rows)} on {sorted(numbers)} processes are not from one "
            "launch: rerun"
        )
    run = CollectivesRun(numbers.pop(), complete=complete)
    if ours:
        _check_ours(run, lines, rows)
    else:
        run.did = imb_call(lines)
        _expect_sizes(rows, *imb_sizes(lines, run.did, 0, 22))
    for operation, table in rows.items():
        run.slowest_us[operation] = {row.size: row.slowest for row in table}
        run.payload_bytes += sum(
            row.repetitions * _least_bytes(operation, run.processes, row.size) for row in table
        )
    return run


def _check_ours(run: CollectivesRun, lines: list[str], rows: dict[str, list[_Row]]) -> None:
    run.facts = facts_of(lines, ("mpi_library", "compiler", "method"), "collectives")
    expect_ranks(run.facts, run.processes, "collectives")
    run.did = numbers_of(run.facts["method"], "the method of collectives", METHOD)
    _expect_sizes(rows, 8, int(run.did["max_bytes"]))
    least, most = min(run.did["min_iterations"], run.did["iterations"]), run.did["iterations"]
    for operation, table in rows.items():
        for row in table:
            if not least <= row.repetitions <= most:
                raise ParseError(
                    f"{operation} of {row.size} bytes has {row.repetitions} repetitions, but the "
                    f"method allows {least:.0f} to {most:.0f}: digits were damaged; rerun"
                )


@bounded
def parse_collectives(text: str) -> list[CollectivesRun]:
    """Every launch in the output of IMB-MPI1 or of ``src/collectives.c``, in order.

    Method: Intel MPI Benchmarks: t_max is the mean time of a call, in us, on the slowest process.
    Raises ParseError on truncated, non-numeric or zero results.
    """
    launches = launches_of(
        text,
        r"#\s+Intel ?\(R\) MPI Benchmarks|# nearmetal program: collectives",
        "table of collectives",
    )
    return [_parse_collectives(lines) for lines in launches]
