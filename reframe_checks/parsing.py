"""From the output of a benchmark program to numbers, or to a ParseError that says what is wrong.

Pure functions of text.  Units are in the names: ``_us`` microseconds, ``_gbps`` 1e9 bit/s (networks),
``mbytes_per_s`` and STREAM's rates 1e6 byte/s.  Message sizes are bytes.
"""
from __future__ import annotations

import math
import re
from dataclasses import dataclass, field


class ParseError(ValueError):
    """The output can't be used; the message says what is missing or wrong and what to do."""


@dataclass(frozen=True)
class Row:
    repetitions: int
    latency_us: float  #: half round trip, mean over the repetitions
    mbytes_per_s: float  #: as printed; 1e6 byte/s


@dataclass(frozen=True)
class Spread:
    """Of the half round trip (us) over the batches of one launch."""
    batches: int
    min: float
    median: float
    max: float
    stdev: float


@dataclass
class PingPong:
    """One launch of IMB's PingPong or of ``src/pingpong.c``, whole and checked."""
    rows: dict[int, Row] = field(default_factory=dict)  #: by message size in bytes
    facts: dict[str, str] = field(default_factory=dict)  #: ``# nearmetal <key>: <value>``; none from IMB
    spread: dict[int, Spread] = field(default_factory=dict)  #: by message size; none from IMB
    complete: bool = False  #: the program said that it came to its end

    def latency_us(self, size: int) -> float:
        """Half round trip of a message of ``size`` bytes, us; ParseError when it wasn't measured."""
        if size not in self.rows:
            raise ParseError(f'no row for messages of {size} bytes: measured were {sorted(self.rows)}')
        return self.rows[size].latency_us

    def bandwidth_gbps(self, size: int) -> float:
        """``size`` bytes over the half round trip, Gb/s; from t and not from the printed MB/s."""
        return size * 8 / self.latency_us(size) / 1e3

    @property
    def startup_latency_us(self) -> float:
        """Half round trip of the smallest message that carries data, us (IMB's 0 B row carries none)."""
        return self.latency_us(min(size for size in self.rows if size > 0))

    @property
    def peak_bandwidth_gbps(self) -> float:
        """Highest bandwidth over all sizes, Gb/s."""
        return max(self.bandwidth_gbps(size) for size in self.rows if size > 0)


@dataclass(frozen=True)
class Binding:
    cpu: int  #: where the thread ran when asked
    allowed: int  #: number of CPUs it may use; 1 means pinned
    cpus: str  #: their list, e.g. ``0-3,8``


@dataclass
class StreamTable:
    rates: dict[str, float] = field(default_factory=dict)  #: copy, scale, add, triad: best MB/s
    bindings: dict[int, Binding] = field(default_factory=dict)  #: by thread number
    validated: bool = False  #: the arrays held the right results


@dataclass
class StreamRun:
    """One launch of ``src/stream.c``, whole and checked."""
    tables: dict[int, StreamTable] = field(default_factory=dict)  #: by number of threads
    facts: dict[str, str] = field(default_factory=dict)
    complete: bool = False


@dataclass
class Qperf:
    latency_us: dict[int, float] = field(default_factory=dict)  #: by message size: half round trip
    bandwidth_gbps: dict[int, float] = field(default_factory=dict)  #: by message size: one way, at the receiver


def _positive(text: str, what: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ParseError(f'{what} is {text!r}, not a number: rerun, and look at the job\'s stderr') from None
    if not (math.isfinite(value) and value > 0):
        raise ParseError(f'{what} is {text}, which no measurement gives: raise the iterations and rerun')
    return value


def _launches(text: str, start: str, program: str) -> list[list[str]]:
    """The lines of each launch; what stands before the first (a launcher's or module's words) is dropped."""
    launches: list[list[str]] = []
    for line in text.splitlines():
        if re.match(start, line):
            launches.append([])
        if launches:
            launches[-1].append(line.strip())
    if not launches:
        hint = 'it is empty' if not text.strip() else f'it begins {text.strip().splitlines()[0][:80]!r}'
        raise ParseError(f'no {program} in this output ({hint}): see the job\'s stderr and whether the launcher ran')
    return launches


def _fact(line: str) -> tuple[str, str]:
    """``# nearmetal key: value`` as (key, value); ('', '') for any other line."""
    found = re.fullmatch(r'# nearmetal ([^:]+): ?(.*)', line)
    return (found[1], found[2]) if found else ('', '')


def _pingpong_row(line: str) -> tuple[int, Row]:
    words = line.split()
    if len(words) != 4 or not (words[0].isdigit() and words[1].isdigit() and int(words[1])):
        raise ParseError(f'{line!r} is no row of a PingPong table (bytes, repetitions, us, MB/s): the program '
                         'failed at this size or other output got in between; rerun, with a longer time limit if '
                         'it says time-out')
    size = int(words[0])
    latency = _positive(words[2], f'the latency at {size} bytes')
    # A slow link's few bytes round to 0.00 MB/s in IMB's two decimals; that is no fault of the measurement.
    rounds_to_nothing = size / latency < 0.005
    rate = 0.0 if rounds_to_nothing else _positive(words[3], f'the bandwidth at {size} bytes')
    return size, Row(int(words[1]), latency, rate)


def _parse_pingpong(lines: list[str]) -> PingPong:
    launch, in_table, largest = PingPong(), False, 0
    for line in lines:
        key, value = _fact(line)
        if line.startswith('#bytes'):
            if launch.rows or line.split() != ['#bytes', '#repetitions', 't[usec]', 'Mbytes/sec']:
                raise ParseError(f'{line!r} is not the one header of a PingPong of two ranks: run IMB-MPI1 '
                                 'PingPong alone, with -n 2')
            in_table = True
        elif in_table and line and not line.startswith('#'):
            size, row = _pingpong_row(line)
            if size <= max(launch.rows, default=-1):
                raise ParseError(f'{size} bytes after {max(launch.rows)}: two launches wrote into one table')
            launch.rows[size] = row
        elif key == 'spread':
            values = dict(pair.split('=', 1) for pair in value.split() if '=' in pair)
            try:
                size, batches = int(values.pop('bytes')), int(values.pop('batches'))
                launch.spread[size] = Spread(batches, **{name: float(number) for name, number in values.items()})
            except (KeyError, TypeError, ValueError) as error:
                raise ParseError(f'{line!r} is no spread of a ping-pong ({error}): rerun it') from None
        elif key:
            launch.facts[key] = value
        largest_named = re.match(r'# Maximum message length in bytes:\s+(\d+)|# nearmetal method:.* max_bytes=(\d+)',
                                 line)
        if largest_named:
            largest = int(largest_named[1] or largest_named[2])
        if line in ('# nearmetal complete', '# All processes entering MPI_Finalize'):
            launch.complete, in_table = True, False
    sizes = [size for size in launch.rows if size > 0]
    if not sizes:
        raise ParseError('a PingPong began but its table has no row: it hung or died in the first exchange; '
                         'see the job\'s stderr')
    if not launch.complete:
        raise ParseError(f'the output stops after {sizes[-1]} bytes without the line that ends it: the job was cut '
                         'off (time limit, crash); see its stderr and rerun')
    gaps = [size for size in sizes[1:] if size // 2 not in launch.rows]
    if largest and (gaps or sizes[-1] * 2 <= largest):
        raise ParseError(f'sizes are missing before {gaps[0] if gaps else largest} bytes: lines were lost; rerun')
    if launch.facts and (launch.facts.get('verified') != f'sizes={len(sizes)}' or set(launch.spread) != set(sizes)):
        raise ParseError(f'{len(sizes)} sizes in the table, but verified {launch.facts.get("verified")} and spread '
                         f'of {len(launch.spread)}: lines were lost; rerun')
    return launch


def parse_imb(text: str) -> list[PingPong]:
    """Every launch in the output of IMB-MPI1 PingPong or of ``src/pingpong.c``, in order.

    Method: Intel MPI Benchmarks, PingPong: t[usec] is half the round trip; MB is 1e6 bytes (IMB_output.c).
    IMB prints t with two decimals only, a step of 4 % at 0.25 us; ours has four.
    Raises ParseError on empty, truncated, non-numeric, zero, negative or NaN results.
    """
    launches = _launches(text, r'#\s+Intel\(R\) MPI Benchmarks|# nearmetal program: pingpong', 'PingPong')
    return [_parse_pingpong(lines) for lines in launches]


def _parse_stream(lines: list[str]) -> StreamRun:
    run, table = StreamRun(), None
    for line in lines:
        key, value = _fact(line)
        if key == 'threads':
            threads = int(_positive(value, 'the number of threads'))
            if threads in run.tables:
                raise ParseError(f'two tables for {threads} threads in one launch: give --threads each count once')
            table = run.tables[threads] = StreamTable()
        elif key == 'binding' and table:
            found = re.fullmatch(r'thread=(\d+) cpu=(-?\d+) allowed=(-?\d+) (\S+)', value)
            if not found:
                raise ParseError(f'{line!r} is no binding of a thread: rerun')
            table.bindings[int(found[1])] = Binding(int(found[2]), int(found[3]), found[4])
        elif key:
            run.facts[key] = value
        elif found := re.match(r'(Copy|Scale|Add|Triad):\s*(\S*)', line):
            if table is None:
                raise ParseError(f'{line!r} before any "# nearmetal threads": lines were lost; rerun')
            table.rates[found[1].lower()] = _positive(found[2], f'the rate of {found[1]}')
        elif 'Failed Validation' in line:
            raise ParseError(f'STREAM\'s arrays hold wrong results ({line}): suspect the memory or the flags')
        elif line.startswith('Solution Validates') and table:
            table.validated = True
        run.complete = run.complete or line == '# nearmetal complete'
    if not run.complete:
        raise ParseError(f'STREAM\'s output stops in the table of {max(run.tables, default="no")} threads, without '
                         '"# nearmetal complete": the job was cut off; see its stderr and rerun')
    for threads, table in run.tables.items():
        if len(table.rates) != 4 or len(table.bindings) != threads or not table.validated:
            raise ParseError(f'the table of {threads} threads lacks a function, a binding or the validation: rerun')
    if not run.tables:
        raise ParseError('STREAM measured no thread count: give --threads')
    return run


def parse_stream(text: str) -> list[StreamRun]:
    """Every launch in the output of ``src/stream.c``, in order: per thread count best rates in MB/s (1e6 byte/s).

    Method: STREAM (McCalpin). Raises ParseError on truncated, non-numeric or unvalidated results.
    """
    return [_parse_stream(lines) for lines in _launches(text, r'# nearmetal program: stream', 'STREAM')]


def parse_qperf(text: str) -> Qperf:
    """``qperf -t 1 -uu -ub -e 6 -vu -oo msg_size:1:4M:*2 HOST tcp_lat tcp_bw``: one pair of a _lat and a _bw test.

    tcp_lat is half the round trip: qperf.c, calc_results(), divides the client's time by the messages that both
    sides received, two per round trip.  tcp_bw is what the receiver got, one way.  qperf (0.4.11) cuts -t to whole
    seconds, and below 1 s it never ends.  Raises ParseError, also on a run that was cut off.
    """
    result = Qperf()
    for test, body in re.findall(r'^(\w+):\n((?:[ \t]+.*\n?)*)', text, re.MULTILINE):
        values = {name: (number, unit) for name, number, unit in
                  re.findall(r'^\s+(\w+)\s+=\s+(\S+)[ \t]*(.*?)\s*$', body, re.MULTILINE)}
        name = 'latency' if test.endswith('_lat') else 'bw'
        number, unit = values.get(name, ('', ''))
        size, size_unit = values.get('msg_size', ('', ''))
        scale = {'ns': 1e-3, 'bits/sec': 1e-9, 'bytes/sec': 8e-9}.get(unit)
        if not number or scale is None or size_unit != 'bytes' or not size.isdigit() or int(size) == 0:
            raise ParseError(f'{test} lacks {name} in ns or bits/sec or msg_size in bytes (it has {values}): '
                             'run qperf with -uu -ub -vu')
        measured = result.latency_us if name == 'latency' else result.bandwidth_gbps
        if int(size) in measured:
            raise ParseError(f'{test} gives {size} bytes twice: parse one run of qperf at a time')
        measured[int(size)] = _positive(number, f'{test} at {size} bytes') * scale
    if not result.latency_us and not result.bandwidth_gbps:
        raise ParseError('no result of qperf in this output: is its server running and its port (-lp) reachable?')
    if unpaired := set(result.latency_us) ^ set(result.bandwidth_gbps):  # qperf marks its end by nothing else
        raise ParseError(f'sizes {sorted(unpaired)} have only one of latency and bandwidth: the run was cut off, or '
                         'one of the two tests was not asked for; run both in one call')
    return result


def parse_tcp(text: str) -> list[Qperf]:
    """Every launch in the output of ``src/tcp.sh``, which marks its begin and end around qperf's words; ParseError."""
    launches = re.split(r'^# nearmetal program: tcp.*\n', text, flags=re.MULTILINE)[1:]
    if not launches:
        raise ParseError('no launch of tcp.sh in this output: see the job\'s stderr and whether the launcher ran')
    for launch in launches:
        if '# nearmetal complete' not in launch:
            raise ParseError('the output of a launch of tcp.sh stops without "# nearmetal complete": '
                             'see the job\'s stderr and rerun')
    return [parse_qperf(launch) for launch in launches]
