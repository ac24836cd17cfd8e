"""Output of ``src/osnoise.c``."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearmetal.checks.parsing import ParseError, damaged, numbers
from nearmetal.checks.parsing.output import Launch, Output, each_launch, fact, words_of

#: Number of equal parts of the measuring time that are reported.
PARTS = 10
COLUMNS = ["#cpu", "quanta", "shortest[ns]", "detours", "longest[ns]", "lost[%]"]


@dataclass(frozen=True)
class Core:
    quanta: int
    #: Time of an uninterrupted quantum.
    shortest_ns: int
    detours: int
    #: Longest detour.
    longest_us: float
    #: Percent of the time spent in detours.
    lost_percent: float


@dataclass
class NoiseRun(Launch):
    #: By CPU number.
    cores: dict[int, Core] = field(default_factory=dict)
    #: Lower bound of a bin in ns -> number of detours up to twice as long.
    histogram: dict[int, int] = field(default_factory=dict)
    #: Percent lost in each tenth of the time, mean over the cores.
    parts: list[float] = field(default_factory=list)

    @property
    def share_lost(self) -> float:
        """Percent of the time lost, mean over the cores."""
        return sum(core.lost_percent for core in self.cores.values()) / len(self.cores)

    @property
    def worst_share_lost(self) -> float:
        """Percent of the time lost on the worst core, which the others wait for."""
        return max(core.lost_percent for core in self.cores.values())

    @property
    def detours(self) -> int:
        return sum(core.detours for core in self.cores.values())

    @property
    def detours_per_second(self) -> float:
        """Detours per second of a core, mean over the cores."""
        return self.detours / len(self.cores) / self.seconds

    @property
    def longest_us(self) -> float:
        return max(core.longest_us for core in self.cores.values())

    @property
    def seconds(self) -> float:
        return self.did["seconds"]


@each_launch("osnoise")
def parse_noise(output: Output) -> NoiseRun:
    """Every launch in the output of ``src/osnoise.c``, in order, with the detours of each CPU from
    a fixed quantum of work.

    Method: fixed work quanta; detours as in Beckman et al. (IEEE Cluster 2006). Raises ParseError
    on truncated or non-numeric results, and if no CPU had a detour.
    """
    facts = output.facts("compiler", "method")
    run = NoiseRun(facts, output.method(facts, "seconds steps cpus"))
    _read_lines(run, output.own_lines())
    if len(run.cores) != run.did["cpus"]:
        raise damaged(f"{len(run.cores)} of {run.did['cpus']:.0f} CPUs are in the table")
    # Without detours there is no longest one, and nothing that confirms the table.
    if not run.detours:
        raise ParseError(
            f"nothing interrupted any CPU within {run.seconds:g} s: measure longer (-S "
            "osnoise.seconds)"
        )
    if not run.histogram or len(run.parts) != PARTS:
        raise damaged(f"no histogram, or {len(run.parts)} parts of the time instead of {PARTS}")
    _check(run)
    return run


def _read_lines(run: NoiseRun, lines: list[str]) -> None:
    in_table = False
    for line in lines:
        key, value = fact(line)
        if key == "detours":
            _add_bin(run, value)
        elif key == "parts":  # a quiet tenth may have lost nothing
            words = words_of(value, "the parts of the time", "variable percent")["percent"]
            run.parts += [
                numbers.real(number, "a part of the time lost") for number in words.split(",")
            ]
        elif line.startswith("#cpu"):
            if line.split() != COLUMNS:
                raise damaged(f"{line!r} is not the head of the table of CPUs")
            in_table = True
        elif in_table and line and not line.startswith("#"):
            _add_core(run, line)


def _add_bin(run: NoiseRun, value: str) -> None:
    words = words_of(value, "a bin of detours", "from_ns count")
    low = numbers.whole(words["from_ns"], "the least ns of a bin", 1)
    # Bounds of bins are powers of two.
    if low in run.histogram or low & (low - 1):
        raise damaged(f"the bin of {low} ns appears twice, or is not a bin")
    run.histogram[low] = numbers.whole(words["count"], "the detours of a bin", 1)


def _add_core(run: NoiseRun, line: str) -> None:
    words = line.split()
    if len(words) != len(COLUMNS):
        raise damaged(f"{line!r} is not a row of the table of CPUs")
    cpu = numbers.whole(words[0], "a CPU")
    where = f"of CPU {cpu}"
    quanta = numbers.whole(words[1], f"{where} the number of quanta", 1)
    shortest = numbers.whole(words[2], f"{where} the shortest quantum", 1)
    detours = numbers.whole(words[3], f"{where} the number of detours")
    longest = numbers.whole(words[4], f"{where} the longest detour")
    lost = numbers.real(words[5], f"{where} the time lost")
    if cpu in run.cores:
        raise damaged(f"CPU {cpu} is in the table twice")
    time = run.seconds * 1e9
    # Quanta and lost time together. Each part of the run may end a detour later than requested.
    elapsed = quanta * shortest / max(1 - lost / 100, 1e-8)
    taken = lost / 100 * elapsed
    # A detour is longer than the shortest quantum, and quanta take up to twice the shortest.
    fits = detours <= quanta and 0 <= lost <= 100 and (detours > 0) == (longest > 0)
    fits = fits and longest <= 2 * taken + 1e6 and taken <= 1.5 * detours * longest + 1e6
    fits = fits and 0.3 * time <= elapsed <= 1.2 * time + PARTS * longest
    if not fits:
        raise damaged(f"the figures {where} do not agree ({line}) in {run.seconds:g} s")
    run.cores[cpu] = Core(quanta, shortest, detours, longest / 1e3, lost)


def _check(run: NoiseRun) -> None:
    """Raise ParseError unless the histogram and the parts agree with the table."""
    numbers.agree("the number of detours", run.detours, sum(run.histogram.values()), 0)
    top = max(run.histogram)
    if not top <= run.longest_us * 1e3 < 2 * top:
        raise damaged(
            f"the longest detour is {run.longest_us} us, but the histogram ends at {top} ns"
        )
    # A part ends with a quantum. So it is longer than a tenth by one detour at most.
    mean = sum(run.parts) / PARTS
    longer = 0.02 + run.longest_us / (run.seconds * 1e6 / PARTS)
    numbers.agree("the share of time lost", run.share_lost, mean, longer * mean + 1e-6)
