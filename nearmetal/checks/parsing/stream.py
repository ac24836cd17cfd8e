"""Output of ``src/stream.c`` and ``src/numa.sh``."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    ParseError,
    agree,
    bounded,
    decimals,
    fact,
    facts_of,
    launches_of,
    numbers_of,
    parts,
    positive,
    real,
    unit,
    whole,
    words_of,
)


@dataclass(frozen=True)
class Binding:
    cpu: int  #: CPU on which the thread ran when it reported
    allowed: int  #: number of CPUs that it may use; 1 means pinned
    cpus: str  #: list of these CPUs, such as ``0-3,8``


@dataclass
class StreamTable:
    rates: dict[str, float] = field(default_factory=dict)  #: copy, scale, add, triad: best MB/s
    passes: dict[str, list[float]] = field(
        default_factory=dict
    )  #: seconds of each pass that counts, by function
    bindings: dict[int, Binding] = field(default_factory=dict)  #: by thread number
    times: dict[str, tuple] = field(
        default_factory=dict
    )  #: (mean, least, most seconds, unit of their last digit) by function
    validated: bool = False  #: whether the arrays held the right results

    def pass_rates(self, function: str) -> list[float]:
        """The rate of each pass in MB/s. STREAM reports the best one."""
        best = min(self.passes[function])
        return [self.rates[function] * best / seconds for seconds in self.passes[function]]


@dataclass
class StreamRun:
    """One complete and checked launch of ``src/stream.c``."""

    tables: dict[int, StreamTable] = field(default_factory=dict)  #: by number of threads
    facts: dict[str, str] = field(default_factory=dict)
    complete: bool = False
    did: dict = field(default_factory=dict)  #: parameters that the program reports


@dataclass
class SummedTable:
    """The tables of instances that ran at once."""

    tables: list[StreamTable]

    @property
    def rates(self) -> dict[str, float]:
        return {name: sum(table.rates[name] for table in self.tables) for name in WORDS}

    @property
    def bindings(self) -> dict[int, Binding]:
        """Of all threads, numbered through."""
        every = [place for table in self.tables for place in table.bindings.values()]
        return dict(enumerate(every))

    def pass_rates(self, function: str) -> list[float]:
        return [sum(rates) for rates in zip(*(one.pass_rates(function) for one in self.tables))]


@dataclass
class SummedRun:
    """Launches of instances that ran at once."""

    tables: dict[int, SummedTable]  #: by number of threads of all instances
    facts: dict[str, str]
    did: dict  #: parameters that each instance reports


def together(runs: list[StreamRun]) -> StreamRun | SummedRun:
    """One launch, whose rates are the sums over instances that ran at once.

    A single launch is returned as it is.

    Raises ParseError if the instances had different threads, passes or arrays.
    """
    first = runs[0]
    if len(runs) == 1:
        return first
    if any(run.did != first.did for run in runs):
        raise ParseError(
            f"instances at once measured {[run.did for run in runs]}, not the same: have their "
            "nodes the same number of processors?"
        )
    tables = {
        len(runs) * count: SummedTable([run.tables[count] for run in runs])
        for count in first.tables
    }
    return SummedRun(tables, first.facts, first.did)


#: Number of arrays that a pass of each function reads and writes.
WORDS = {"copy": 2, "scale": 2, "add": 3, "triad": 3}
RATES = re.compile(r"(Copy|Scale|Add|Triad):(.*)")


def _cpus(text: str) -> list[range]:
    """The CPUs of a list such as ``0-3,8``, which ascends."""
    cpus: list[range] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        begin = whole(first, "a CPU")
        end = whole(last, "a CPU") if dash else begin
        if end < begin or (cpus and begin < cpus[-1].stop):
            raise ParseError(f"the list of CPUs {text!r} is damaged: rerun")
        cpus.append(range(begin, end + 1))
    return cpus


def _binding(table: StreamTable, value: str) -> None:
    found = re.fullmatch(r"thread=(\d+) cpu=(-?\d+) allowed=(-?\d+) (\S+)", value, re.ASCII)
    if not found:
        raise ParseError(f"{value!r} is not the binding of a thread: rerun")
    place = Binding(int(found[2]), int(found[3]), found[4])
    if int(found[1]) in table.bindings:
        raise ParseError(f"thread {found[1]} has two bindings: lines were mixed; rerun")
    if place.allowed >= 0:
        cpus = _cpus(place.cpus)
        known = place.cpu < 0 or any(place.cpu in part for part in cpus)
        if sum(map(len, cpus)) != place.allowed or not known:
            raise ParseError(f"{value!r} contradicts itself: digits were damaged; rerun")
    table.bindings[int(found[1])] = place


def _rate(table: StreamTable, function: str, words: list[str], elements: int) -> None:
    """Add a row of the table: best rate, and mean, least and most seconds of a pass."""
    if len(words) != 4:
        words = [*words, *[""] * 4][:4]
    rate, mean, least, most = (positive(word, f"the rate of {function}") for word in words)
    decimals(words[0], 1, f"the rate of {function}")
    for word in words[1:]:
        decimals(word, 6, f"a time of {function}")
    if function in table.rates:
        raise ParseError(f"{function} has two rates in one table: lines were mixed; rerun")
    table.rates[function] = rate
    table.times[function] = mean, least, most, unit(words[1])
    moved = 1e-6 * WORDS[function] * 8 * elements
    half = unit(words[2]) / 2
    middle = moved / least
    agree(f"the rate of {function}", rate, middle, middle * half / (least - half) + unit(words[0]))


def _check_table(table: StreamTable, threads: int, ntimes: int, elements: int) -> None:
    whole_table = len(table.rates) == 4 and set(table.passes) == set(table.rates)
    bound = len(table.bindings) == threads and max(table.bindings) == threads - 1
    if not whole_table or not bound or not table.validated:
        raise ParseError(
            f"the table of {threads} threads lacks a function, its passes, a binding or the "
            "validation: rerun"
        )
    for function, passes in table.passes.items():
        if len(passes) != ntimes - 1:
            raise ParseError(
                f"{function} has {len(passes)} passes instead of {ntimes - 1}: lines were "
                "damaged; rerun"
            )
        mean, least, most, step = table.times[function]
        for what, printed, computed in (
            ("the mean time of", mean, sum(passes) / len(passes)),
            ("the least time of", least, min(passes)),
            ("the longest time of", most, max(passes)),
        ):
            agree(f"{what} {function}", printed, computed, step / 2 + 1e-6 * computed * 5)
        rate = 1e-6 * WORDS[function] * 8 * elements / min(passes)
        agree(f"the rate of {function}", table.rates[function], rate, 0.05 + 1e-5 * rate)


def _parse_stream(lines: list[str]) -> StreamRun:
    run, table = StreamRun(), StreamTable()
    run.facts = facts_of(lines, ("compiler", "method", "arrays"), "STREAM")
    method = numbers_of(run.facts["method"], "the method of STREAM", "ntimes allowed_cpus")
    arrays = words_of(
        run.facts["arrays"], "the arrays of STREAM", "elements bytes_each llc_bytes four_times_llc"
    )
    elements = whole(arrays["elements"], "the elements of an array", 1)
    agree("the bytes of an array", 8 * elements, real(arrays["bytes_each"], "its bytes"), 0)
    for line in lines:
        key, value = fact(line)
        found = RATES.match(line)
        if key == "threads":
            threads = whole(value, "the number of threads", 1)
            if threads in run.tables:
                raise ParseError(
                    f"two tables for {threads} threads in one launch: name each count once in "
                    "--threads"
                )
            table = run.tables[threads] = StreamTable()
        elif (found or key in ("binding", "passes")) and not run.tables:
            raise ParseError(f'{line!r} before any "# nearmetal threads": lines were lost; rerun')
        elif key == "binding":
            _binding(table, value)
        elif key == "passes":
            function, seconds = parts(line)
            if function.lower() in table.passes:
                raise ParseError(f"{function} has passes twice: lines were mixed; rerun")
            table.passes[function.lower()] = seconds
        elif found:
            _rate(table, found[1].lower(), found[2].split(), elements)
        elif "Failed Validation" in line:
            raise ParseError(
                f"STREAM's arrays hold wrong results ({line}): check the memory and the "
                "compiler's flags"
            )
        elif line.startswith("Solution Validates") and table:
            table.validated = True
        run.complete = run.complete or line == END
    if not run.complete:
        raise ParseError(
            f"STREAM's output stops in the table of {max(run.tables, default='no')} threads, "
            'without "# nearmetal complete": the job was cut off; see its stderr and rerun'
        )
    for threads, table in run.tables.items():
        _check_table(table, threads, int(method["ntimes"]), elements)
    if not run.tables:
        raise ParseError("STREAM measured no thread count: give --threads")
    run.did = {
        "ntimes": method["ntimes"],
        "elements": elements,
        "threads": ",".join(map(str, run.tables)),
    }
    return run


@bounded
def parse_stream(text: str) -> list[StreamRun]:
    """Every launch in the output of ``src/stream.c``, in order, with the best rates of each thread
    count in MB/s (1e6 byte/s).

    Method: STREAM (McCalpin). Raises ParseError on truncated, non-numeric or unvalidated results.
    """
    return [
        _parse_stream(lines)
        for lines in launches_of(text, r"# nearmetal program: stream", "STREAM")
    ]


#: Last line of numa.sh's output.
NUMA_END = "# nearmetal numa: complete"


@dataclass
class NumaRun:
    """One complete and checked launch of ``src/numa.sh``."""

    nodes: int  #: NUMA nodes with processors and memory
    tables: dict[
        str, list[StreamTable]
    ]  #: by kind: local (one per node), alone, and remote if there is another node
    did: dict = field(default_factory=dict)  #: parameters that the program reports

    def rate(self, kind: str, function: str) -> float:
        """Best MB/s of all instances of a kind together."""
        return sum(table.rates[function] for table in self.tables[kind])


@bounded
def parse_numa(text: str) -> list[NumaRun]:
    """Every launch in the output of ``src/numa.sh``, in order.

    Method: STREAM (McCalpin), each instance bound to a NUMA node. Raises ParseError for output that
    `parse_stream` refuses, and if an instance is missing.
    """
    launches = launches_of(text, r"# nearmetal numa: nodes=", "output of numa.sh")
    return [_parse_numa(lines) for lines in launches]


INSTANCE = re.compile(
    r"# nearmetal instance: kind=(\w+) cpus=(\d+) memory=(\d+) nodes=(\d+)", re.ASCII
)


def _parse_numa(lines: list[str]) -> NumaRun:
    found = re.fullmatch(r"# nearmetal numa: nodes=(\d{1,6})", lines[0], re.ASCII)
    nodes = int(found[1]) if found else 0
    end = lines.index(NUMA_END) if NUMA_END in lines else len(lines)
    heads = [number for number, line in enumerate(lines) if "# nearmetal instance" in line]
    tables: dict[str, list[StreamTable]] = {}
    places: dict[str, list[tuple[str, str]]] = {}
    did = {}
    for begin, stop in zip(heads, [*heads[1:], end]):
        head = INSTANCE.fullmatch(lines[begin])
        if not head or head[4] != str(nodes):
            raise ParseError(
                f"{lines[begin]!r} is not an instance on one of {nodes} NUMA nodes: rerun"
            )
        runs = parse_stream("\n".join(lines[begin + 1 : stop]))
        if len(runs) != 1 or len(runs[0].tables) != 1:
            raise ParseError(
                f"an instance of numa.sh has {len(runs)} launches or tables: lines were mixed; "
                "rerun"
            )
        [run] = runs
        tables.setdefault(head[1], []).extend(run.tables.values())
        places.setdefault(head[1], []).append((head[2], head[3]))
        did = {"ntimes": run.did["ntimes"]}
    wanted = {"local": nodes, "alone": 1, **({"remote": 1} if nodes > 1 else {})}
    given = {kind: len(instances) for kind, instances in tables.items()}
    if end == len(lines) or given != wanted:
        raise ParseError(
            f"{nodes} NUMA nodes should give instances {wanted}, but there are {given}: see the "
            "job's stderr"
        )
    _expect_places(places)
    return NumaRun(nodes, tables, did)


def _expect_places(places: dict[str, list[tuple[str, str]]]) -> None:
    """Raise ParseError unless each node has one local instance, `alone` uses its node's own memory,
    and `remote` uses another node's."""
    local = [cpus for cpus, memory in places["local"] if cpus == memory]
    [(alone, own)] = places["alone"]
    away = places.get("remote", [])
    right = len(set(local)) == len(places["local"]) and alone == own and alone in local
    if not right or any(
        cpus != alone or memory == cpus or memory not in local for cpus, memory in away
    ):
        raise ParseError(
            f"the instances of numa.sh ran on the wrong CPUs or memory {places}: rerun"
        )
