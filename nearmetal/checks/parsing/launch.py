"""Output of ``src/launch.c``."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearmetal.checks.parsing import ParseError, numbers
from nearmetal.checks.parsing.output import Output, each_launch, words_of


@dataclass(frozen=True)
class Launch:
    """One complete launch."""

    processes: int
    #: From the launcher's call to the end of MPI_Init on the first process.
    seconds: float
    #: Within MPI_Init, on the slowest process.
    mpi_init_seconds: float
    facts: dict[str, str] = field(default_factory=dict)
    #: Parameters that the program reports.
    did: dict = field(default_factory=dict)


@each_launch("launch")
def parse_launch(output: Output) -> Launch:
    """Every launch in the output of ``src/launch.c``, in order. Raises ParseError on truncated or
    non-numeric results."""
    facts = output.facts("mpi_library", "compiler", "launch")
    measured = facts.pop("launch")
    if "since_asked_s=" not in measured:
        raise ParseError(
            "the output does not say when the launcher was called: start the program with "
            "--since $(date +%s.%N)"
        )
    words = words_of(measured, "the line of the launch", "processes mpi_init_s since_asked_s")
    processes = numbers.whole(words["processes"], "the number of processes", 1)
    seconds = numbers.positive(words["since_asked_s"], "the time since the launcher was called")
    within = numbers.positive(words["mpi_init_s"], "the time within MPI_Init")
    output.expect_ranks(facts, processes)
    return Launch(processes, seconds, within, facts, {"ranks": processes})
