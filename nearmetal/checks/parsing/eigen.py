"""Output of the non-linear eigensolver, ``src/eigen.c``."""

from __future__ import annotations

from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, cut_off, damaged, numbers
from nearmetal.checks.parsing.output import Figures, Launch, Output, each_launch, fact

#: Lines of the table that count something, and our names for them.
COUNTS = {
    "Processes": "processes",
    "Side": "side",
    "Contour points": "points",
    "Groups": "groups",
    "Eigenvalues found": "found",
    "Eigenvalues known": "known",
}
NEEDED = (*COUNTS, "Time in seconds", "Verification")
KNOWN = {*NEEDED, "Largest error", "Largest residual"}


@dataclass
class EigenRun(Launch):
    processes: int
    #: Grid points in each of three directions.
    side: int
    #: Points of the contour; half as many linear systems were solved.
    points: int
    #: Groups of processes; the linear systems are divided among them.
    groups: int
    #: Number of eigenvalues found, which is all of them, and number of those known.
    found: int
    known: int
    #: Time of the slowest process.
    seconds: float
    #: Threads of the BLAS, on the process with the fewest.
    threads: int

    @property
    def payload_bytes(self) -> float | None:
        """Least number of bytes that the processes exchanged; None if it is unknown."""
        if "payload_bytes" not in self.facts:
            return None
        return float(self.facts["payload_bytes"])


@each_launch("eigen", what="eigensolver")
def parse_eigen(output: Output) -> EigenRun:
    """Every launch of ``eigen`` in the output, in order.

    Raises ParseError if a launch was cut off, if an eigenvalue is missing or wrong, or if a figure
    is missing, zero or not a number.
    """
    table = _table(output.lines)
    facts = output.facts("mpi_library", "compiler", "solver")
    counts = {}
    for key, name in COUNTS.items():
        counts[name] = table.whole(key)
    # Groups are of one size.
    if counts["processes"] % counts["groups"]:
        raise damaged(
            f"eigen divided {counts['processes']} processes into {counts['groups']} groups"
        )
    output.expect_ranks(facts, counts["processes"])
    threads = _threads(output.lines)
    did = {name: counts[name] for name in ("processes", "side", "points")}
    seconds = table.positive("Time in seconds")
    run = EigenRun(facts, {**did, "threads": threads}, **counts, seconds=seconds, threads=threads)
    _check_payload(run)
    return run


def _table(lines: list[str]) -> Figures:
    pairs = []
    for line in lines:
        name, equals, value = line.partition(" = ")
        if equals and name.strip() in KNOWN:
            pairs.append((name.strip(), value))
    table = Figures("eigen", pairs)
    missing = [key for key in NEEDED if key not in table]
    if missing:
        raise cut_off(f"the results of eigen lack {', '.join(missing)}")
    verified = table["Verification"] == "SUCCESSFUL"
    if not verified or table["Eigenvalues found"] != table["Eigenvalues known"]:
        raise ParseError(
            f"eigen on {table['Processes']} processes found {table['Eigenvalues found']} of "
            f"{table['Eigenvalues known']} eigenvalues, and its verification says "
            f"{table['Verification']}: the machine, SLEPc or a library below it computes wrongly"
        )
    return table


def _threads(lines: list[str]) -> int:
    """The only fact `threads`, which other programs may repeat (SERIES)."""
    counts = [value for key, value in map(fact, lines) if key == "threads"] or ["missing"]
    if len(counts) > 1:
        raise damaged("eigen reports its threads twice")
    return numbers.whole(counts[0], "eigen: threads", 1)


def _check_payload(run: EigenRun) -> None:
    """Raise ParseError unless the payload is whole blocks: the first process sends a block of
    complex numbers over the grid to each of the others."""
    if "payload_bytes" not in run.facts:
        return
    sent = numbers.real(run.facts["payload_bytes"], "the payload of eigen")
    block = 16 * run.side**3 * (run.processes - 1)
    rest = sent % block if block else sent
    if sent < 0 or rest:
        raise damaged(
            f"the payload of eigen is {sent:.0f} bytes on {run.processes} processes and a side of "
            f"{run.side}"
        )
