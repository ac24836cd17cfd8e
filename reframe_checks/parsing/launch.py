"""``src/launch.c``."""

from dataclasses import dataclass, field

from . import ParseError, fact, launches_of, positive


@dataclass(frozen=True)
class Launch:
    """One launch, whole."""

    processes: int
    seconds: float  #: from the launcher's call until MPI_Init has returned on the first process
    mpi_init_seconds: float  #: within MPI_Init, on the process where it is longest
    facts: dict[str, str] = field(default_factory=dict)


def _parse_launch(lines: list[str]) -> Launch:
    facts = dict(pair for pair in map(fact, lines) if pair[0])
    told = dict(word.partition("=")[::2] for word in facts.pop("launch", "").split())
    if "# nearmetal complete" not in lines or not told:
        raise ParseError(
            'the output stops before "# nearmetal complete": the job was cut off; rerun'
        )
    if "since_asked_s" not in told:
        raise ParseError(
            "the output does not tell when the launcher was called: start the program with --since $(date +%s.%N)"
        )
    return Launch(
        int(positive(told.get("processes", ""), "the number of processes")),
        positive(told["since_asked_s"], "the time since the launcher was called"),
        positive(told.get("mpi_init_s", ""), "the time within MPI_Init"),
        facts,
    )


def parse_launch(text: str) -> list[Launch]:
    """Every launch in the output of ``src/launch.c``, in order. Raises ParseError on truncated or non-numeric results."""
    return [
        _parse_launch(lines)
        for lines in launches_of(text, r"# nearmetal program: launch", "launch")
    ]
