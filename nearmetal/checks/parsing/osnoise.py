"""Output of ``src/osnoise.c``."""

from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    ParseError,
    agree,
    bounded,
    fact,
    facts_of,
    launches_of,
    numbers_of,
    own_lines,
    real,
    whole,
    words_of,
)

#: Number of equal parts of the measuring time that are reported.
PARTS = 10


@dataclass(frozen=True)
class Core:
    quanta: int
    shortest_ns: int  #: time of an uninterrupted quantum
    detours: int
    longest_us: float  #: longest detour
    lost_percent: float  #: percent of the time spent in detours


@dataclass
class NoiseRun:
    """One complete launch."""

    cores: dict[int, Core] = field(default_factory=dict)  #: by CPU number
    facts: dict[str, str] = field(default_factory=dict)
    histogram: dict[int, int] = field(
        default_factory=dict
    )  #: lower bound of a bin in ns -> number of detours up to twice as long
    parts: list[float] = field(
        default_factory=list
    )  #: percent lost in each tenth of the time, mean over the cores
    complete: bool = False
    did: dict = field(default_factory=dict)  #: parameters that the program reports

    @property
    def share_lost(self) -> float:
        """Percent of the time lost, mean over the cores."""
        return sum(core.lost_percent for core in self.cores.values()) / len(self.cores)

    @property
    def worst_share_lost(self) -> float:
        """Percent of the time lost on the worst core, which the others wait for."""
        return max(core.lost_percent for core in self.cores.values())

    @property
    def detours_per_second(self) -> float:
        """Detours per second of a core, mean over the cores."""
        return sum(core.detours for core in self.cores.values()) / len(self.cores) / self.seconds

    @property
    def longest_us(self) -> float:
        return max(core.longest_us for core in self.cores.values())

    @property
    def seconds(self) -> float:
        return self.did["seconds"]


COLUMNS = ["#cpu", "quanta", "shortest[ns]", "detours", "longest[ns]", "lost[%]"]


def _core(words: list[str], run: NoiseRun) -> None:
    cpu = whole(words[0], "a CPU")
    where = f"of CPU {cpu}"
    quanta = whole(words[1], f"{where} the number of quanta", 1)
    shortest = whole(words[2], f"{where} the shortest quantum", 1)
    detours = whole(words[3], f"{where} the number of detours")
    longest = whole(words[4], f"{where} the longest detour")
    lost = real(words[5], f"{where} the time lost")
    if cpu in run.cores:
        raise ParseError(f"CPU {cpu} is in the table twice: lines were mixed; rerun")
    time = run.seconds * 1e9
    # Quanta and lost time together. Each part of the run may end a detour later than requested.
    elapsed = quanta * shortest / max(1 - lost / 100, 1e-8)
    taken = lost / 100 * elapsed
    # A detour is longer than the shortest quantum, and quanta take up to twice the shortest.
    fits = detours <= quanta and 0 <= lost <= 100 and (detours > 0) == (longest > 0)
    fits = fits and longest <= 2 * taken + 1e6 and taken <= 1.5 * detours * longest + 1e6
    fits = fits and 0.3 * time <= elapsed <= 1.2 * time + PARTS * longest
    if not fits:
        raise ParseError(
            f"the figures {where} do not agree ({' '.join(words)}) in {run.seconds:g} s: digits "
            "were damaged; rerun"
        )
    run.cores[cpu] = Core(quanta, shortest, detours, longest / 1e3, lost)


def _check(run: NoiseRun) -> None:
    """Raise ParseError unless the histogram and the parts agree with the table."""
    detours = sum(core.detours for core in run.cores.values())
    agree("the number of detours", detours, sum(run.histogram.values()), 0)
    top = max(run.histogram)
    if not top <= run.longest_us * 1e3 < 2 * top:
        raise ParseError(
            f"the longest detour is {run.longest_us} us, but the histogram ends at {top} ns: "
            "digits were damaged; rerun"
        )
    if len(run.parts) != PARTS:
        raise ParseError(
            f"{len(run.parts)} parts of the time instead of {PARTS}: lines were damaged; rerun"
        )
    # A part ends with a quantum. So it is longer than a tenth by one detour at most.
    mean = sum(run.parts) / PARTS
    longer = 0.02 + run.longest_us / (run.seconds * 1e6 / PARTS)
    agree("the share of time lost", run.share_lost, mean, longer * mean + 1e-6)


def _read_table(run: NoiseRun, lines: list[str]) -> None:
    in_table = False
    for line in lines:
        key, value = fact(line)
        if key == "detours":
            words = words_of(value, "a bin of detours", "from_ns count")
            low = whole(words["from_ns"], "the least ns of a bin", 1)
            if low in run.histogram or low & (low - 1):
                raise ParseError(f"the bin of {low} ns appears twice, or is not a bin: rerun")
            run.histogram[low] = whole(words["count"], "the detours of a bin", 1)
        elif key == "parts":  # a quiet tenth may have lost nothing
            given = words_of(value, "the parts of the time", "variable percent")["percent"]
            run.parts += [real(number, "a part of the time lost") for number in given.split(",")]
        elif line.startswith("#cpu"):
            if line.split() != COLUMNS:
                raise ParseError(f"{line!r} is not the head of the table of CPUs: rerun")
            in_table = True
        elif in_table and line and not line.startswith("#"):
            row = line.split()
            if len(row) != len(COLUMNS):
                raise ParseError(f"{line!r} is not a row of the table of CPUs: rerun")
            _core(row, run)
        run.complete = run.complete or line == END


def _parse_noise(lines: list[str]) -> NoiseRun:
    run = NoiseRun()
    if END not in lines:
        raise ParseError(
            'the output of osnoise stops without "# nearmetal complete": the job was cut off; rerun'
        )
    run.facts = facts_of(lines, ("compiler", "method"), "osnoise")
    run.did = numbers_of(run.facts["method"], "the method of osnoise", "seconds steps cpus")
    _read_table(run, own_lines(lines))
    if len(run.cores) != run.did["cpus"]:
        raise ParseError(
            f"{len(run.cores)} of {run.did['cpus']:.0f} CPUs are in the table: lines were lost; "
            "rerun"
        )
    if not any(core.detours for core in run.cores.values()):
        raise ParseError(
            f"nothing interrupted any CPU within {run.seconds:g} s: measure longer (-S "
            "osnoise.seconds)"
        )
    if not run.parts or not run.histogram:
        raise ParseError(
            "the histogram or the parts of the time are missing: lines were lost; rerun"
        )
    _check(run)
    return run


@bounded
def parse_noise(text: str) -> list[NoiseRun]:
    """Every launch in the output of ``src/osnoise.c``, in order, with the detours of each CPU from
    a fixed quantum of work.

    Method: fixed work quanta; detours as in Beckman et al. (IEEE Cluster 2006). Raises ParseError
    on truncated or non-numeric results, and if no CPU had a detour.
    """
    return [
        _parse_noise(lines)
        for lines in launches_of(text, r"# nearmetal program: osnoise", "osnoise")
    ]
