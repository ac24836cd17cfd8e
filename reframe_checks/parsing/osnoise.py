"""``src/osnoise.c``."""

from dataclasses import dataclass, field

from . import ParseError, fact, launches_of, positive


@dataclass(frozen=True)
class Core:
    quanta: int
    shortest_ns: int  #: what a quantum takes when nothing interrupts it
    detours: int
    longest_us: float
    lost_percent: float  #: of the time, in detours


@dataclass
class NoiseRun:
    """One launch, whole."""

    cores: dict[int, Core] = field(default_factory=dict)  #: by CPU number
    facts: dict[str, str] = field(default_factory=dict)
    histogram: dict[int, int] = field(
        default_factory=dict
    )  #: detours of at least so many ns, up to twice that
    parts: list[float] = field(
        default_factory=list
    )  #: percent lost in each tenth of the time, mean over the cores
    complete: bool = False

    @property
    def share_lost(self) -> float:
        """Percent of the time, mean over the cores."""
        return sum(core.lost_percent for core in self.cores.values()) / len(self.cores)

    @property
    def worst_share_lost(self) -> float:
        """Percent of the time on the core that loses most: it is the one that the others wait for."""
        return max(core.lost_percent for core in self.cores.values())

    @property
    def detours_per_second(self) -> float:
        """Of one core, on average."""
        return sum(core.detours for core in self.cores.values()) / len(self.cores) / self.seconds

    @property
    def longest_us(self) -> float:
        return max(core.longest_us for core in self.cores.values())

    @property
    def seconds(self) -> float:
        return positive(
            self.facts.get("method", "").partition("seconds=")[2].split(" ")[0],
            "the seconds of a measurement",
        )


def _parse_noise(lines: list[str]) -> NoiseRun:
    run, in_table = NoiseRun(), False
    for line in lines:
        key, value = fact(line)
        words = line.split()
        if key == "detours":
            low, count = (int(word.partition("=")[2]) for word in value.split())
            run.histogram[low] = count
        elif key == "parts":  # a quiet tenth may have lost nothing
            run.parts = [float(number) for number in value.rpartition("=")[2].split(",")]
        elif key:
            run.facts[key] = value
        elif line.startswith("#cpu"):
            in_table = True
        elif in_table and len(words) == 6 and words[0].isdecimal():
            quanta, shortest = (
                int(positive(word, f"of CPU {words[0]} {what}"))
                for word, what in (
                    (words[1], "the number of quanta"),
                    (words[2], "the shortest quantum"),
                )
            )
            run.cores[int(words[0])] = Core(
                quanta, shortest, int(words[3]), int(words[4]) / 1e3, float(words[5])
            )
        run.complete = run.complete or line == "# nearmetal complete"
    if not run.complete or not run.parts:
        raise ParseError(
            f'the output stops after {len(run.cores)} CPUs, without "# nearmetal complete": the job was cut off; rerun'
        )
    told = run.facts.get("method", "").rpartition("cpus=")[2]
    if str(len(run.cores)) != told:
        raise ParseError(
            f"{len(run.cores)} of {told or '?'} CPUs are in the table: lines were lost; rerun"
        )
    if not any(core.detours for core in run.cores.values()):
        raise ParseError(
            f"nothing interrupted any CPU within {run.seconds:g} s: measure longer (-S osnoise.seconds)"
        )
    return run


def parse_noise(text: str) -> list[NoiseRun]:
    """Every launch in the output of ``src/osnoise.c``, in order: by CPU the detours from a fixed quantum of work.

    Method: fixed work quanta; detours as Beckman et al. (IEEE Cluster 2006). Raises ParseError on truncated or non-numeric
    results, and where nothing was noticed at all.
    """
    return [
        _parse_noise(lines)
        for lines in launches_of(text, r"# nearmetal program: osnoise", "osnoise")
    ]
