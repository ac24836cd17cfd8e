"""Output of ``src/stream.c`` and ``src/numa.sh``."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field

from nearmetal.checks.parsing import ParseError, damaged, numbers
from nearmetal.checks.parsing.output import (
    Launch,
    Output,
    each_launch,
    expect_equal,
    fact,
    parts,
    words_of,
)

#: Number of arrays that a pass of each function reads and writes.
ARRAYS = {"copy": 2, "scale": 2, "add": 3, "triad": 3}
RATES = re.compile(r"(Copy|Scale|Add|Triad):(.*)")
BINDING = re.compile(r"thread=(\d+) cpu=(-?\d+) allowed=(-?\d+) (\S+)", re.ASCII)


@dataclass(frozen=True)
class Binding:
    #: CPU on which the thread ran when it reported; -1: the kernel did not say.
    cpu: int
    #: Number of CPUs that it may use; 1 means pinned, -1: the kernel did not say.
    allowed: int
    #: List of these CPUs, such as ``0-3,8``.
    cpus: str


@dataclass
class StreamTable:
    #: copy, scale, add, triad: best MB/s
    rates: dict[str, float] = field(default_factory=dict)
    #: Seconds of each pass that counts, by function.
    passes: dict[str, list[float]] = field(default_factory=dict)
    #: By thread number.
    bindings: dict[int, Binding] = field(default_factory=dict)
    #: (mean, least, most seconds, unit of their last digit) by function
    times: dict[str, tuple] = field(default_factory=dict)
    #: Whether the arrays held the right results.
    validated: bool = False

    def pass_rates(self, function: str) -> list[float]:
        """The rate of each pass in MB/s. STREAM reports the best one."""
        best = min(self.passes[function])
        return [self.rates[function] * best / seconds for seconds in self.passes[function]]


@dataclass
class StreamRun(Launch):
    #: By number of threads.
    tables: dict[int, StreamTable]


@dataclass
class SummedTable:
    """The tables of instances that ran at once."""

    tables: list[StreamTable]

    @property
    def rates(self) -> dict[str, float]:
        summed = dict.fromkeys(ARRAYS, 0.0)
        for table in self.tables:
            for name, rate in table.rates.items():
                summed[name] += rate
        return summed

    @property
    def bindings(self) -> dict[int, Binding]:
        """Of all threads, numbered through."""
        every: list[Binding] = []
        for table in self.tables:
            every += table.bindings.values()
        return dict(enumerate(every))

    def pass_rates(self, function: str) -> list[float]:
        passes = zip(*(table.pass_rates(function) for table in self.tables))
        return list(map(sum, passes))


@dataclass
class SummedRun(Launch):
    """Launches of instances that ran at once. Each did the same."""

    #: By number of threads of all instances.
    tables: dict[int, SummedTable]


def together(runs: list[StreamRun]) -> StreamRun | SummedRun:
    """One launch, whose rates are the sums over instances that ran at once.

    A single launch is returned as it is.

    Raises ParseError if the instances had different threads, passes or arrays.
    """
    first = runs[0]
    if len(runs) == 1:
        return first
    expect_equal(runs, "number of processors")
    tables = {}
    for count in first.tables:
        tables[len(runs) * count] = SummedTable([run.tables[count] for run in runs])
    return SummedRun(first.facts, first.did, tables)


@each_launch("STREAM", "# nearmetal program: stream")
def parse_stream(output: Output) -> StreamRun:
    """Every launch in the output of ``src/stream.c``, in order, with the best rates of each thread
    count in MB/s (1e6 byte/s).

    Method: STREAM (McCalpin). Raises ParseError on truncated, non-numeric or unvalidated results.
    """
    facts = output.facts("compiler", "method", "arrays")
    method = output.method(facts, "ntimes allowed_cpus")
    names = "elements bytes_each llc_bytes four_times_llc"
    arrays = words_of(facts["arrays"], "the arrays of STREAM", names)
    elements = numbers.whole(arrays["elements"], "the elements of an array", 1)
    # Elements are double precision numbers.
    numbers.agree(
        "the bytes of an array", 8 * elements, numbers.real(arrays["bytes_each"], "its bytes"), 0
    )
    tables = _tables(output.lines, elements)
    if not tables:
        raise ParseError("STREAM measured no thread count: give --threads")
    for threads, table in tables.items():
        _check_table(table, threads, int(method["ntimes"]), elements)
    did = {
        "ntimes": method["ntimes"],
        "elements": elements,
        "threads": ",".join(map(str, tables)),
    }
    return StreamRun(facts, did, tables)


def _tables(lines: list[str], elements: int) -> dict[int, StreamTable]:
    """The tables by number of threads."""
    tables: dict[int, StreamTable] = {}
    table: StreamTable | None = None
    for line in lines:
        key, value = fact(line)
        rate = RATES.match(line)
        if key == "threads":
            threads = numbers.whole(value, "the number of threads", 1)
            if threads in tables:
                raise ParseError(
                    f"two tables for {threads} threads in one launch: name each count once in "
                    "--threads"
                )
            table = tables[threads] = StreamTable()
        elif "Failed Validation" in line:
            raise ParseError(
                f"STREAM's arrays hold wrong results ({line}): check the memory and the "
                "compiler's flags"
            )
        elif table is None:
            if rate or key in ("binding", "passes"):
                raise damaged(f'{line!r} before any "# nearmetal threads"')
        elif key == "binding":
            _add_binding(table, value)
        elif key == "passes":
            function, seconds = parts(line)
            if function.lower() in table.passes:
                raise damaged(f"{function} has passes twice")
            table.passes[function.lower()] = seconds
        elif rate:
            _add_rate(table, rate[1].lower(), rate[2].split(), elements)
        elif line.startswith("Solution Validates"):
            table.validated = True
    return tables


def _add_binding(table: StreamTable, value: str) -> None:
    match = BINDING.fullmatch(value)
    if not match:
        raise damaged(f"{value!r} is not the binding of a thread")
    thread, binding = int(match[1]), Binding(int(match[2]), int(match[3]), match[4])
    if thread in table.bindings:
        raise damaged(f"thread {thread} has two bindings")
    # -1: the kernel did not say, and then the list is no list.
    if binding.allowed >= 0:
        cpus = _cpus(binding.cpus)
        known = binding.cpu < 0 or any(binding.cpu in part for part in cpus)
        if sum(map(len, cpus)) != binding.allowed or not known:
            raise damaged(f"{value!r} contradicts itself")
    table.bindings[thread] = binding


def _cpus(text: str) -> list[range]:
    """The CPUs of a list such as ``0-3,8``, which ascends."""
    cpus: list[range] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        begin = numbers.whole(first, "a CPU")
        end = numbers.whole(last, "a CPU") if dash else begin
        if end < begin or (cpus and begin < cpus[-1].stop):
            raise damaged(f"{text!r} is no list of CPUs")
        cpus.append(range(begin, end + 1))
    return cpus


def _add_rate(table: StreamTable, function: str, words: list[str], elements: int) -> None:
    """Add a row of the table: best rate, and mean, least and most seconds of a pass."""
    if len(words) != 4:
        words = [*words, *[""] * 4][:4]
    rate, mean, least, most = numbers.positives(words, f"the rate of {function}")
    numbers.decimals(words[0], 1, f"the rate of {function}")
    for word in words[1:]:
        numbers.decimals(word, 6, f"a time of {function}")
    if function in table.rates:
        raise damaged(f"{function} has two rates in one table")
    table.rates[function] = rate
    table.times[function] = mean, least, most, numbers.unit(words[1])
    # The rate follows from the least time, whose rounding is that of its last digit.
    half = numbers.unit(words[2]) / 2
    middle = _megabytes(function, elements) / least
    numbers.agree(
        f"the rate of {function}",
        rate,
        middle,
        middle * half / (least - half) + numbers.unit(words[0]),
    )


def _megabytes(function: str, elements: int) -> float:
    """1e6 bytes that a pass reads and writes."""
    return 1e-6 * ARRAYS[function] * 8 * elements


def _check_table(table: StreamTable, threads: int, ntimes: int, elements: int) -> None:
    complete = len(table.rates) == 4 and set(table.passes) == set(table.rates)
    # The count comes first: it may be damaged, and a list of all threads would fill the memory.
    bound = len(table.bindings) == threads and max(table.bindings) == threads - 1
    if not complete or not bound or not table.validated:
        raise damaged(
            f"the table of {threads} threads lacks a function, its passes, a binding or the "
            "validation"
        )
    for function, passes in table.passes.items():
        # The first pass does not count.
        if len(passes) != ntimes - 1:
            raise damaged(f"{function} has {len(passes)} passes instead of {ntimes - 1}")
        mean, least, most, step = table.times[function]
        for what, printed, computed in (
            ("the mean time of", mean, sum(passes) / len(passes)),
            ("the least time of", least, min(passes)),
            ("the longest time of", most, max(passes)),
        ):
            numbers.agree(f"{what} {function}", printed, computed, step / 2 + 1e-6 * computed * 5)
        rate = _megabytes(function, elements) / min(passes)
        numbers.agree(f"the rate of {function}", table.rates[function], rate, 0.05 + 1e-5 * rate)


#: First and last line of numa.sh's output.
NUMA_START = r"# nearmetal numa: nodes=(\d{1,6})"
NUMA_END = "# nearmetal numa: complete"
INSTANCE = re.compile(
    r"# nearmetal instance: kind=(\w+) cpus=(\d+) memory=(\d+) nodes=(\d+)", re.ASCII
)


@dataclass
class NumaRun(Launch):
    #: NUMA nodes with processors and memory.
    nodes: int
    #: By kind: local (one per node), alone, and remote if there is another node.
    tables: dict[str, list[StreamTable]]

    def rate(self, kind: str, function: str) -> float:
        """Best MB/s of all instances of a kind together."""
        return sum(table.rates[function] for table in self.tables[kind])


@each_launch("numa.sh", NUMA_START, "output of numa.sh")
def parse_numa(output: Output) -> NumaRun:
    """Every launch in the output of ``src/numa.sh``, in order.

    Method: STREAM (McCalpin), each instance bound to a NUMA node. Raises ParseError for output that
    `parse_stream` refuses, and if an instance is missing.
    """
    lines = output.lines
    title = re.fullmatch(NUMA_START, lines[0], re.ASCII)
    nodes = int(title[1]) if title else 0
    end = lines.index(NUMA_END) if NUMA_END in lines else len(lines)
    heads = [number for number, line in enumerate(lines) if "# nearmetal instance" in line]
    run = NumaRun({}, {}, nodes, {})
    places: dict[str, list[tuple[str, str]]] = {}
    for begin, stop in zip(heads, [*heads[1:], end]):
        head = INSTANCE.fullmatch(lines[begin])
        if not head or head[4] != str(nodes):
            raise damaged(f"{lines[begin]!r} is not an instance on one of {nodes} NUMA nodes")
        streams = parse_stream("\n".join(lines[begin + 1 : stop]))
        if len(streams) != 1 or len(streams[0].tables) != 1:
            raise damaged(f"an instance of numa.sh has {len(streams)} launches or tables")
        kind = head[1]
        run.tables.setdefault(kind, []).extend(streams[0].tables.values())
        places.setdefault(kind, []).append((head[2], head[3]))
        run.did = {"ntimes": streams[0].did["ntimes"]}
    wanted = Counter(local=nodes, alone=1, remote=min(1, nodes - 1))
    counts = Counter({kind: len(instances) for kind, instances in run.tables.items()})
    if end == len(lines) or +wanted != counts:
        raise ParseError(
            f"{nodes} NUMA nodes should give instances {dict(+wanted)}, but there are "
            f"{dict(counts)}: see the job's stderr"
        )
    _expect_places(places)
    return run


def _expect_places(places: dict[str, list[tuple[str, str]]]) -> None:
    """Raise ParseError unless each node has one local instance, `alone` uses its node's own memory,
    and `remote` uses another node's."""
    local = [cpus for cpus, memory in places["local"] if cpus == memory]
    [(alone, own)] = places["alone"]
    right = len(set(local)) == len(places["local"]) and alone == own and alone in local
    for cpus, memory in places.get("remote", []):
        right = right and cpus == alone and memory != cpus and memory in local
    if not right:
        raise damaged(f"the instances of numa.sh ran on the wrong CPUs or memory {places}")
