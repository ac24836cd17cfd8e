"""IMB-MPI1's Alltoall, Allreduce, Bcast and Barrier, and ``src/collectives.c``, which prints the same tables."""

import re
from dataclasses import dataclass, field

from . import ParseError, fact, launches_of, positive

OPERATIONS = ("Alltoall", "Allreduce", "Bcast", "Barrier")
HEADER = ["#repetitions", "t_min[usec]", "t_max[usec]", "t_avg[usec]"]


@dataclass
class CollectivesRun:
    """One launch, whole."""

    processes: int = 0
    slowest_us: dict[str, dict[int, float]] = field(
        default_factory=dict
    )  #: by operation and bytes (Barrier: 0); t_max
    facts: dict[str, str] = field(
        default_factory=dict
    )  #: ``# nearmetal <key>: <value>``; none from IMB
    complete: bool = False
    payload_bytes: float = 0  #: the least that had to move between processes


def _least_bytes(operation: str, processes: int, size: int) -> int:
    """What one call moves at least, from process to process."""
    return {
        "Alltoall": processes * (processes - 1),
        "Allreduce": 2 * (processes - 1),
        "Bcast": processes - 1,
    }.get(operation, 0) * size


def _parse_collectives(lines: list[str]) -> CollectivesRun:
    run, operation, in_table = CollectivesRun(), "", False
    for line in lines:
        key, value = fact(line)
        words = line.split()
        if found := re.fullmatch(r"# Benchmarking (\w+)", line):
            operation, in_table = found[1], False
            if operation in run.slowest_us:
                raise ParseError(
                    f"{operation} appears twice in one launch: run it on one number of processes (IMB: -npmin N)"
                )
            run.slowest_us[operation] = {}
        elif found := re.fullmatch(r"# #processes = (\d+)", line):
            run.processes = int(found[1])
        elif words[-4:] == HEADER:
            in_table = True
        elif in_table and words and not line.startswith("#"):
            words = ["0", *words] if operation == "Barrier" else words
            if len(words) != 5 or not (words[0].isdecimal() and words[1].isdecimal()):
                raise ParseError(
                    f"{line!r} is no row of the table of {operation}: it failed at this size; see the job's stderr"
                )
            size, repetitions, _, slowest, _ = words
            if int(size) == 0 and operation != "Barrier":
                continue  # IMB's row of nothing
            run.slowest_us[operation][int(size)] = positive(slowest, f"{operation} of {size} bytes")
            run.payload_bytes += int(repetitions) * _least_bytes(
                operation, run.processes, int(size)
            )
        elif key:
            run.facts[key] = value
        run.complete = run.complete or line in (
            "# nearmetal complete",
            "# All processes entering MPI_Finalize",
        )
    if not run.complete:
        raise ParseError(
            f"the output stops in {operation or 'its head'}, without the line that ends it: the job was cut off "
            "(time limit, crash); see its stderr and rerun"
        )
    missing = [name for name in OPERATIONS if not run.slowest_us.get(name)]
    if missing:
        raise ParseError(f"there is no result of {', '.join(missing)}: lines were lost; rerun")
    sizes = [sorted(run.slowest_us[name]) for name in OPERATIONS[:3]]
    if (
        sizes[0] != sizes[1]
        or sizes[1] != sizes[2]
        or any(2 * a != b for a, b in zip(sizes[0], sizes[0][1:]))
    ):
        raise ParseError(
            f"sizes are missing: {' / '.join(','.join(map(str, s)) for s in sizes)}; rerun"
        )
    return run


def parse_collectives(text: str) -> list[CollectivesRun]:
    """Every launch in the output of IMB-MPI1 or of ``src/collectives.c``, in order.

    Method: Intel MPI Benchmarks: t_max is the mean time of a call on the process where it is longest, in us. Raises
    ParseError on truncated, non-numeric or zero results.
    """
    launches = launches_of(
        text,
        r"#\s+Intel\(R\) MPI Benchmarks|# nearmetal program: collectives",
        "table of collectives",
    )
    return [_parse_collectives(lines) for lines in launches]
