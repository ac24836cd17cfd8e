"""Output of ``src/launch.c``."""

from __future__ import annotations

from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, numbers
from nearmetal.checks.parsing.output import Launch, Output, each_launch, words_of


@dataclass
class Start(Launch):
    processes: int
    #: From the launcher's call to the end of MPI_Init on the first process.
    seconds: float
    #: Within MPI_Init, on the slowest process.
    mpi_init_seconds: float


@each_launch("launch")
def parse_launch(output: Output) -> Start:
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
    return Start(facts, {"ranks": processes}, processes, seconds, within)
