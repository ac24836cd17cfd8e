"""Output of the non-linear eigensolver, ``src/eigen.c``."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    ParseError,
    bounded,
    expect_ranks,
    fact,
    facts_of,
    launches_of,
    positive,
    real,
    whole,
)

#: Lines of the table, and our names for them.
NUMBERS = {
    "Processes": "processes",
    "Side": "side",
    "Contour points": "points",
    "Groups": "groups",
    "Eigenvalues found": "found",
    "Eigenvalues known": "known",
    "Time in seconds": "seconds",
}
KNOWN = {*NUMBERS, "Verification", "Largest error", "Largest residual"}
WHOLE = set(NUMBERS.values()) - {"seconds"}


@dataclass(frozen=True)
class EigenRun:
    """One complete and verified launch."""

    processes: int
    side: int  #: grid points in each of three directions
    points: int  #: points of the contour; half as many linear systems were solved
    groups: int  #: groups of processes; the linear systems are divided among them
    found: int  #: number of eigenvalues found, which is all of them
    known: int  #: number of eigenvalues known
    seconds: float  #: time of the slowest process
    threads: int  #: threads of the BLAS, on the process with the fewest
    facts: dict[str, str] = field(default_factory=dict)  #: ``# nearmetal <key>: <value>``
    did: dict = field(default_factory=dict)  #: parameters that the program reports

    @property
    def payload_bytes(self) -> float | None:
        """Least number of bytes that the processes exchanged; None if it is unknown."""
        return float(self.facts["payload_bytes"]) if "payload_bytes" in self.facts else None


FACTS = ("mpi_library", "compiler", "solver", "threads")


def _table(lines: list[str]) -> dict[str, str]:
    table: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.partition(" = ")
        if not equals or key.strip() not in KNOWN:
            continue
        if key.strip() in table:
            raise ParseError(f"eigen gives {key.strip()} twice: lines were mixed; rerun")
        table[key.strip()] = value.strip()
    missing = [key for key in (*NUMBERS, "Verification") if key not in table]
    if missing:
        raise ParseError(
            f"the results of eigen lack {', '.join(missing)}: it was cut off (time limit, memory, "
            "crash); see the job's stderr and rerun"
        )
    if (
        table["Verification"] != "SUCCESSFUL"
        or table["Eigenvalues found"] != table["Eigenvalues known"]
    ):
        raise ParseError(
            f"eigen on {table['Processes']} processes found {table['Eigenvalues found']} of "
            f"{table['Eigenvalues known']} eigenvalues, and its verification says "
            f"{table['Verification']}: the machine, SLEPc or a library below it computes wrongly"
        )
    return table


def _check_payload(run: EigenRun) -> None:
    """Raise ParseError unless the payload is whole blocks: the first process sends a block of
    complex numbers over the grid to each of the others."""
    if "payload_bytes" not in run.facts:
        return
    sent = real(run.facts["payload_bytes"], "the payload of eigen")
    block = 16 * run.side**3 * (run.processes - 1)
    if sent < 0 or (sent % block if block else sent):
        raise ParseError(
            f"the payload of eigen is {sent:.0f} bytes on {run.processes} processes and a side of "
            f"{run.side}: digits were damaged; rerun"
        )


def _parse_eigen(lines: list[str]) -> EigenRun:
    table = _table(lines)
    if END not in lines:
        raise ParseError(
            'the output of eigen stops without "# nearmetal complete": the job was cut off; rerun'
        )
    facts = facts_of(lines, tuple(key for key in FACTS if key != "threads"), "eigen")
    reported = [value for key, value in map(fact, lines) if key == "threads"] or ["missing"]
    threads = whole(reported[0], "eigen: threads", 1)
    if len(reported) > 1:
        raise ParseError("eigen reports its threads twice: lines were mixed; rerun")
    counts = {
        name: whole(table[key], f"eigen: {key}", 1)
        for key, name in NUMBERS.items()
        if name in WHOLE
    }
    seconds = positive(table["Time in seconds"], "eigen: Time in seconds")
    if counts["processes"] % counts["groups"]:
        raise ParseError(
            f"eigen divided {counts['processes']} processes into {counts['groups']} groups: digits "
            "were damaged; rerun"
        )
    expect_ranks(facts, counts["processes"], "eigen")
    did = {name: counts[name] for name in ("processes", "side", "points")}
    run = EigenRun(
        **counts, seconds=seconds, threads=threads, facts=facts, did={**did, "threads": threads}
    )
    _check_payload(run)
    return run


@bounded
def parse_eigen(text: str) -> list[EigenRun]:
    """Every launch of ``eigen`` in the output, in order.

    Raises ParseError if a launch was cut off, if an eigenvalue is missing or wrong, or if a figure
    is missing, zero or not a number.
    """
    return [
        _parse_eigen(lines)
        for lines in launches_of(text, r"# nearmetal program: eigen", "eigensolver")
    ]
