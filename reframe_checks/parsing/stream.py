"""``src/stream.c``."""

import re
from dataclasses import dataclass, field

from . import ParseError, fact, launches_of, parts, positive


@dataclass(frozen=True)
class Binding:
    cpu: int  #: where the thread ran when asked
    allowed: int  #: number of CPUs it may use; 1 means pinned
    cpus: str  #: their list, e.g. ``0-3,8``


@dataclass
class StreamTable:
    rates: dict[str, float] = field(default_factory=dict)  #: copy, scale, add, triad: best MB/s
    passes: dict[str, list[float]] = field(
        default_factory=dict
    )  #: the same: seconds of each pass that counts
    bindings: dict[int, Binding] = field(default_factory=dict)  #: by thread number
    validated: bool = False  #: the arrays held the right results

    def pass_rates(self, function: str) -> list[float]:
        """The rate of each pass in MB/s, of which STREAM counts the best."""
        best = min(self.passes[function])
        return [self.rates[function] * best / seconds for seconds in self.passes[function]]


@dataclass
class StreamRun:
    """One launch of ``src/stream.c``, whole and checked."""

    tables: dict[int, StreamTable] = field(default_factory=dict)  #: by number of threads
    facts: dict[str, str] = field(default_factory=dict)
    complete: bool = False


def _parse_stream(lines: list[str]) -> StreamRun:
    run, table = StreamRun(), None
    for line in lines:
        key, value = fact(line)
        if key == "threads":
            threads = int(positive(value, "the number of threads"))
            if threads in run.tables:
                raise ParseError(
                    f"two tables for {threads} threads in one launch: give --threads each count once"
                )
            table = run.tables[threads] = StreamTable()
        elif key == "binding" and table:
            found = re.fullmatch(r"thread=(\d+) cpu=(-?\d+) allowed=(-?\d+) (\S+)", value)
            if not found:
                raise ParseError(f"{line!r} is no binding of a thread: rerun")
            table.bindings[int(found[1])] = Binding(int(found[2]), int(found[3]), found[4])
        elif key == "passes" and table:
            function, seconds = parts(line)
            table.passes[function.lower()] = seconds
        elif key:
            run.facts[key] = value
        elif found := re.match(r"(Copy|Scale|Add|Triad):\s*(\S*)", line):
            if table is None:
                raise ParseError(
                    f'{line!r} before any "# nearmetal threads": lines were lost; rerun'
                )
            table.rates[found[1].lower()] = positive(found[2], f"the rate of {found[1]}")
        elif "Failed Validation" in line:
            raise ParseError(
                f"STREAM's arrays hold wrong results ({line}): suspect the memory or the flags"
            )
        elif line.startswith("Solution Validates") and table:
            table.validated = True
        run.complete = run.complete or line == "# nearmetal complete"
    if not run.complete:
        raise ParseError(
            f"STREAM's output stops in the table of {max(run.tables, default='no')} threads, without "
            '"# nearmetal complete": the job was cut off; see its stderr and rerun'
        )
    for threads, table in run.tables.items():
        whole = len(table.rates) == 4 and set(table.passes) == set(table.rates)
        if not whole or len(table.bindings) != threads or not table.validated:
            raise ParseError(
                f"the table of {threads} threads lacks a function, its passes, a binding or the validation: rerun"
            )
    if not run.tables:
        raise ParseError("STREAM measured no thread count: give --threads")
    return run


def parse_stream(text: str) -> list[StreamRun]:
    """Every launch in the output of ``src/stream.c``, in order: per thread count best rates in MB/s (1e6 byte/s).

    Method: STREAM (McCalpin). Raises ParseError on truncated, non-numeric or unvalidated results.
    """
    return [
        _parse_stream(lines)
        for lines in launches_of(text, r"# nearmetal program: stream", "STREAM")
    ]


@dataclass
class NumaRun:
    """One launch of ``src/numa.sh``, whole and checked."""

    nodes: int  #: NUMA nodes with processors and memory
    tables: dict[
        str, list[StreamTable]
    ]  #: by kind: local (one a node), alone, and remote where there is another node

    def rate(self, kind: str, function: str) -> float:
        """Best MB/s of all instances of a kind together."""
        return sum(table.rates[function] for table in self.tables[kind])


def parse_numa(text: str) -> list[NumaRun]:
    """Every launch in the output of ``src/numa.sh``, in order.

    Method: STREAM (McCalpin), an instance bound to a NUMA node. Raises ParseError on anything that `parse_stream` refuses, and
    where an instance is missing.
    """
    runs = []
    for found in re.finditer(
        r"^# nearmetal numa: nodes=(\d+)$(.*?)(^# nearmetal numa: (complete)$|\Z)",
        text,
        re.S | re.M,
    ):
        nodes, tables = int(found[1]), {}
        for part in re.split(r"^# nearmetal instance: ", found[2], flags=re.M)[1:]:
            kind = part.split()[0].removeprefix("kind=")
            [run] = parse_stream(part)
            tables.setdefault(kind, []).extend(run.tables.values())
        wanted = {"local": nodes, "alone": 1, **({"remote": 1} if nodes > 1 else {})}
        if not found[4] or {kind: len(instances) for kind, instances in tables.items()} != wanted:
            raise ParseError(
                f"{nodes} NUMA nodes should give instances {wanted}, but there are "
                f"{ {kind: len(instances) for kind, instances in tables.items()} }: see the job's stderr"
            )
        runs.append(NumaRun(nodes, tables))
    if not runs:
        raise ParseError("no output of numa.sh: see the job's stderr and whether the launcher ran")
    return runs
