"""The non-linear eigensolver, ``src/eigen.c``."""

from dataclasses import dataclass, field

from . import ParseError, fact, launches_of, positive

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

    @property
    def payload_bytes(self) -> float | None:
        """What the processes sent each other at least; None where it is not known."""
        return float(self.facts["payload_bytes"]) if "payload_bytes" in self.facts else None


def _parse_eigen(lines: list[str]) -> EigenRun:
    facts = dict(fact(line) for line in lines if fact(line)[0])
    table = {
        key.strip(): value.strip()
        for key, equals, value in (line.partition(" = ") for line in lines)
        if equals
    }
    if missing := [key for key in (*NUMBERS, "Verification") if key not in table]:
        raise ParseError(
            f"the results of eigen lack {', '.join(missing)}: it was cut off (time limit, memory, crash); see "
            "the job's stderr and rerun"
        )
    if (
        table["Verification"] != "SUCCESSFUL"
        or table["Eigenvalues found"] != table["Eigenvalues known"]
    ):
        raise ParseError(
            f"eigen on {table['Processes']} processes found {table['Eigenvalues found']} of "
            f"{table['Eigenvalues known']} eigenvalues, and its verification says {table['Verification']}: the "
            "machine, SLEPc or a library below it computes wrongly"
        )
    if "# nearmetal complete" not in lines:
        raise ParseError(
            'the output of eigen stops without "# nearmetal complete": the job was cut off; rerun'
        )
    values = {name: positive(table[key], f"eigen: {key}") for key, name in NUMBERS.items()}
    threads = int(positive(facts.get("threads", "missing"), "eigen: threads"))
    whole = {name: int(value) if name in WHOLE else value for name, value in values.items()}
    return EigenRun(**whole, threads=threads, facts=facts)


def parse_eigen(text: str) -> list[EigenRun]:
    """Every launch of ``eigen`` in the output, in order.

    Raises ParseError where a launch was cut off, a number is missing, zero or none, or an eigenvalue is missing or wrong.
    """
    return [
        _parse_eigen(lines)
        for lines in launches_of(text, r"# nearmetal program: eigen", "eigensolver")
    ]
