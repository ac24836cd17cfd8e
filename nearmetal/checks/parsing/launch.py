"""Output of ``src/launch.c``."""

from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    ParseError,
    bounded,
    expect_ranks,
    facts_of,
    launches_of,
    positive,
    whole,
    words_of,
)


@dataclass(frozen=True)
class Launch:
    """One complete launch."""

    processes: int
    seconds: float  #: from the launcher's call to the end of MPI_Init on the first process
    mpi_init_seconds: float  #: within MPI_Init, on the slowest process
    facts: dict[str, str] = field(default_factory=dict)
    did: dict = field(default_factory=dict)  #: parameters that the program reports


def _parse_launch(lines: list[str]) -> Launch:
    if END not in lines:
        raise ParseError(
            'the output stops before "# nearmetal complete": the job was cut off; rerun'
        )
    facts = facts_of(lines, ("mpi_library", "compiler", "launch"), "launch")
    given = facts.pop("launch")
    if "since_asked_s=" not in given:
        raise ParseError(
            "the output does not say when the launcher was called: start the program with "
            "--since $(date +%s.%N)"
        )
    reported = words_of(given, "the line of the launch", "processes mpi_init_s since_asked_s")
    processes = whole(reported["processes"], "the number of processes", 1)
    seconds = positive(reported["since_asked_s"], "the time since the launcher was called")
    within = positive(reported["mpi_init_s"], "the time within MPI_Init")
    expect_ranks(facts, processes, "launch")
    return Launch(processes, seconds, within, facts, {"ranks": processes})


@bounded
def parse_launch(text: str) -> list[Launch]:
    """Every launch in the output of ``src/launch.c``, in order. Raises ParseError on truncated or
    non-numeric results."""
    return [
        _parse_launch(lines)
        for lines in launches_of(text, r"# nearmetal program: launch", "launch")
    ]
