"""The non-linear eigensolver, ``src/eigen.c``."""

from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    ParseError,
    expect_ranks,
    fact,
    facts_of,
    launches_of,
    positive,
    real,
    whole,
)

#: Lines of the table, and what we call them.
NUMBERS = {
    "Processes": "processes",
    "Side": "side",
    "Contour points": "points",
    "Groups": "groups",
    "Eigenvalues found": "found",
    "Eigenvalues known": "known",
    "Time in seconds": "seconds",
}
WHOLE = set(NUMBERS.values()) - {"seconds"}


@dataclass(frozen=True)
class EigenRun:
    """One launch, whole and verified."""

    processes: int
    side: int  #: of the grid, in each of three directions
    points: int  #: of the contour; half as many linear systems were solved
    groups: int  #: of processes, which shared them out
    found: int  #: eigenvalues, all that there are
    known: int
    seconds: float  #: of the slowest process
    threads: int  #: that the BLAS computed on, of the process with the fewest
    facts: dict[str, str] = field(default_factory=dict)  #: ``# nearmetal <key>: <value>``
    did: dict = field(default_factory=dict)  #: what the program says it did

    @property
    def payload_bytes(self) -> float | None:
        """What the processes sent each other at least; None where it is not known."""
        return float(self.facts["payload_bytes"]) if "payload_bytes" in self.facts else None


FACTS = ("mpi_library", "compiler", "solver", "threads")


def _table(lines: list[str]) -> dict[str, str]:
    table: dict[str, str] = {}
    for line in lines:
        key, equals, value = line.partition(" = ")
        if not equals or line.startswith("#"):
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
    """The block of complex numbers over the grid goes from the first process to each other,
    whole."""
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
    told = [value for key, value in map(fact, lines) if key == "threads"] or ["missing"]
    threads = whole(told[0], "eigen: threads", 1)
    if len(told) > 1:
        raise ParseError("eigen says its threads twice: lines were mixed; rerun")
    counts = {
        name: whole(table[key], f"eigen: {key}", 1)
        for key, name in NUMBERS.items()
        if name in WHOLE
    }
    seconds = positive(table["Time in seconds"], "eigen: Time in seconds")
    if counts["processes"] % counts["groups"]:
        raise ParseError(
            f"eigen had {counts['groups']} groups of {counts['processes']} processes: digits were "
            "damaged; rerun"
        )
    expect_ranks(facts, counts["processes"], "eigen")
    did = {name: counts[name] for name in ("processes", "side", "points")}
    run = EigenRun(
        **counts, seconds=seconds, threads=threads, facts=facts, did={**did, "threads": threads}
    )
    _check_payload(run)
    return run


def parse_eigen(text: str) -> list[EigenRun]:
    """Every launch of ``eigen`` in the output, in order.

    Raises ParseError where a launch was cut off, a number is missing, zero or none, or an
    eigenvalue is missing or wrong.
    """
    return [
        _parse_eigen(lines)
        for lines in launches_of(text, r"# nearmetal program: eigen", "eigensolver")
    ]
