"""IMB's PingPong and ``src/pingpong.c``, which prints the same table."""

import re
from dataclasses import dataclass, field

from . import ParseError, fact, launches_of, parts, positive


@dataclass(frozen=True)
class Row:
    repetitions: int
    latency_us: float  #: half round trip, mean over the repetitions
    mbytes_per_s: float  #: as printed; 1e6 byte/s


@dataclass
class PingPong:
    """One launch of IMB's PingPong or of ``src/pingpong.c``, whole and checked."""

    rows: dict[int, Row] = field(default_factory=dict)  #: by message size in bytes
    facts: dict[str, str] = field(
        default_factory=dict
    )  #: ``# nearmetal <key>: <value>``; none from IMB
    batches: dict[int, list[float]] = field(
        default_factory=dict
    )  #: their latencies (us) by message size; none from IMB
    sockets: dict[int, list[float]] = field(
        default_factory=dict
    )  #: the same over a plain socket; only from Java
    complete: bool = False  #: the program said that it came to its end

    def latency_us(self, size: int) -> float:
        """Half round trip of a message of ``size`` bytes, us; ParseError when it wasn't measured."""
        if size not in self.rows:
            raise ParseError(
                f"no row for messages of {size} bytes: measured were {sorted(self.rows)}"
            )
        return self.rows[size].latency_us

    def bandwidth_gbps(self, size: int) -> float:
        """``size`` bytes over the half round trip, Gb/s; from t and not from the printed MB/s."""
        return size * 8 / self.latency_us(size) / 1e3

    @property
    def startup_latency_us(self) -> float:
        """Half round trip of the smallest message that carries data, us (IMB's 0 B row carries none)."""
        return self.latency_us(min(size for size in self.rows if size > 0))

    @property
    def peak_size(self) -> int:
        """The message size (bytes) of the highest bandwidth."""
        return max((size for size in self.rows if size > 0), key=self.bandwidth_gbps)

    @property
    def peak_bandwidth_gbps(self) -> float:
        """Highest bandwidth over all sizes, Gb/s."""
        return self.bandwidth_gbps(self.peak_size)

    def batch_gbps(self, size: int) -> list[float]:
        """The bandwidth of each batch at ``size`` bytes, Gb/s; [] from IMB."""
        return [size * 8 / latency / 1e3 for latency in self.batches.get(size, [])]


def _pingpong_row(line: str) -> tuple[int, Row]:
    words = line.split()
    if len(words) != 4 or not (words[0].isdigit() and words[1].isdigit() and int(words[1])):
        raise ParseError(
            f"{line!r} is no row of a PingPong table (bytes, repetitions, us, MB/s): the program "
            "failed at this size or other output got in between; rerun, with a longer time limit if "
            "it says time-out"
        )
    size = int(words[0])
    latency = positive(words[2], f"the latency at {size} bytes")
    # A slow link's few bytes round to 0.00 MB/s in IMB's two decimals; that is no fault of the measurement.
    rounds_to_nothing = size / latency < 0.005
    rate = 0.0 if rounds_to_nothing else positive(words[3], f"the bandwidth at {size} bytes")
    return size, Row(int(words[1]), latency, rate)


def _parse_pingpong(lines: list[str]) -> PingPong:
    launch, in_table, largest = PingPong(), False, 0
    for line in lines:
        key, value = fact(line)
        if line.startswith("#bytes"):
            if launch.rows or line.split() != ["#bytes", "#repetitions", "t[usec]", "Mbytes/sec"]:
                raise ParseError(
                    f"{line!r} is not the one header of a PingPong of two ranks: run IMB-MPI1 "
                    "PingPong alone, with -n 2"
                )
            in_table = True
        elif in_table and line and not line.startswith("#"):
            size, row = _pingpong_row(line)
            if size <= max(launch.rows, default=-1):
                raise ParseError(
                    f"{size} bytes after {max(launch.rows)}: two launches wrote into one table"
                )
            launch.rows[size] = row
        elif key in ("batches", "sockets"):
            size, latencies = parts(line)
            getattr(launch, key)[int(positive(size, "a message size"))] = latencies
        elif key:
            launch.facts[key] = value
        largest_named = re.match(
            r"# Maximum message length in bytes:\s+(\d+)|# nearmetal method:.* max_bytes=(\d+)",
            line,
        )
        if largest_named:
            largest = int(largest_named[1] or largest_named[2])
        if line in ("# nearmetal complete", "# All processes entering MPI_Finalize"):
            launch.complete, in_table = True, False
    sizes = [size for size in launch.rows if size > 0]
    if not sizes:
        raise ParseError(
            "a PingPong began but its table has no row: it hung or died in the first exchange; "
            "see the job's stderr"
        )
    if not launch.complete:
        raise ParseError(
            f"the output stops after {sizes[-1]} bytes without the line that ends it: the job was cut "
            "off (time limit, crash); see its stderr and rerun"
        )
    gaps = [size for size in sizes[1:] if size // 2 not in launch.rows]
    if largest and (gaps or sizes[-1] * 2 <= largest):
        raise ParseError(
            f"sizes are missing before {gaps[0] if gaps else largest} bytes: lines were lost; rerun"
        )
    if launch.facts and (
        launch.facts.get("verified") != f"sizes={len(sizes)}" or set(launch.batches) != set(sizes)
    ):
        raise ParseError(
            f"{len(sizes)} sizes in the table, but verified {launch.facts.get('verified')} and batches "
            f"of {len(launch.batches)}: lines were lost; rerun"
        )
    return launch


def parse_imb(text: str) -> list[PingPong]:
    """Every launch in the output of IMB-MPI1 PingPong or of ``src/pingpong.c``, in order.

    Method: Intel MPI Benchmarks, PingPong: t[usec] is half the round trip; MB is 1e6 bytes (IMB_output.c).
    IMB prints t with two decimals only, a step of 4 % at 0.25 us; ours has four.
    Raises ParseError on empty, truncated, non-numeric, zero, negative or NaN results.
    """
    launches = launches_of(
        text, r"#\s+Intel\(R\) MPI Benchmarks|# nearmetal program: pingpong", "PingPong"
    )
    return [_parse_pingpong(lines) for lines in launches]
