"""Output of IMB's PingPong and of ``src/pingpong.c``, which prints the same table."""

from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    END,
    OTHERS,
    WHOLE,
    ParseError,
    agree,
    bounded,
    decimals,
    expect_ranks,
    fact,
    facts_of,
    launches_of,
    numbers_of,
    own_lines,
    parts,
    positive,
    real,
    unit,
    whole,
)
from nearmetal.checks.parsing.imb import imb_call, imb_sizes


@dataclass(frozen=True)
class Row:
    repetitions: int
    latency_us: float  #: half round trip, mean over the repetitions
    mbytes_per_s: float  #: as printed; 1e6 byte/s


@dataclass
class PingPong:
    """One complete and checked launch of IMB's PingPong or of ``src/pingpong.c``."""

    rows: dict[int, Row] = field(default_factory=dict)  #: by message size in bytes
    facts: dict[str, str] = field(
        default_factory=dict
    )  #: ``# nearmetal <key>: <value>``; none from IMB
    batches: dict[int, list[float]] = field(
        default_factory=dict
    )  #: latencies (us) of the batches by message size; none from IMB
    sockets: dict[int, list[float]] = field(
        default_factory=dict
    )  #: the same over a plain socket; only from Java
    did: dict = field(default_factory=dict)  #: parameters that the program reports
    complete: bool = False  #: whether the program printed its last line

    def latency_us(self, size: int) -> float:
        """Half round trip of a message of ``size`` bytes, us. Raises ParseError for a size that was
        not measured."""
        if size not in self.rows:
            raise ParseError(
                f"no row for messages of {size} bytes; measured sizes: {sorted(self.rows)}"
            )
        return self.rows[size].latency_us

    def bandwidth_gbps(self, size: int) -> float:
        """``size`` bytes over the half round trip, Gb/s, computed from the printed time and not
        from the printed MB/s."""
        return size * 8 / self.latency_us(size) / 1e3

    @property
    def startup_latency_us(self) -> float:
        """Half round trip of the smallest message that carries data, us. IMB's row of 0 bytes does
        not count."""
        return self.latency_us(min(size for size in self.rows if size > 0))

    @property
    def peak_size(self) -> int:
        """The message size (bytes) of the highest bandwidth."""
        return self.peak_up_to(max(self.rows))

    def peak_up_to(self, longest: int) -> int:
        """The message size (bytes) of the highest bandwidth, of sizes up to `longest`."""
        return max((size for size in self.rows if 0 < size <= longest), key=self.bandwidth_gbps)

    @property
    def peak_bandwidth_gbps(self) -> float:
        """Highest bandwidth over all sizes, Gb/s."""
        return self.bandwidth_gbps(self.peak_size)

    def batch_gbps(self, size: int) -> list[float]:
        """The bandwidth of each batch at ``size`` bytes, Gb/s; [] from IMB."""
        return [size * 8 / latency / 1e3 for latency in self.batches.get(size, [])]


METHOD = "warmup iterations min_iterations volume max_time max_bytes"
#: Named only where there were some.
REHEARSALS = " rehearsals"
FACTS = ("mpi_library", "compiler", "method", "settled", "verified")
#: Message sizes that programs in Java also send over plain sockets.
PLAIN = (1, 1024, 65536, 4194304)
HEADER = ["#bytes", "#repetitions", "t[usec]", "Mbytes/sec"]


def _pingpong_row(line: str, ours: bool) -> tuple[int, Row]:
    words = line.split()
    if (
        len(words) != 4
        or not (WHOLE.fullmatch(words[0]) and WHOLE.fullmatch(words[1]))
        or not int(words[1])
    ):
        raise ParseError(
            f"{line!r} is not a row of a PingPong table (bytes, repetitions, us, MB/s): {OTHERS}, "
            "with a longer time limit if it says time-out"
        )
    size = int(words[0])
    latency = positive(words[2], f"the latency at {size} bytes")
    rate = real(words[3], f"the bandwidth at {size} bytes")
    decimals(words[3], 2, f"the bandwidth at {size} bytes")
    decimals(words[2], 4 if ours else 2, f"the latency at {size} bytes")
    # The rounding of the printed time gives an interval of the rate.
    half = unit(words[2]) / 2
    most = size / max(latency - half, half / 10)
    least = size / (latency + half)
    middle = (most + least) / 2
    agree(f"the bandwidth at {size} bytes", rate, middle, most - middle + unit(words[3]) / 2)
    return size, Row(int(words[1]), latency, rate)


def _read_lines(lines: list[str]) -> PingPong:
    launch, in_table = PingPong(), False
    if ours := lines[0].startswith("# nearmetal"):
        lines = own_lines(lines)
    for line in lines:
        key, _ = fact(line)
        if line.startswith("#bytes"):
            if launch.rows or in_table or line.split() != HEADER:
                raise ParseError(
                    f"{line!r} is not the only header of a PingPong of two ranks: run IMB-MPI1 "
                    "PingPong alone, with -n 2"
                )
            in_table = True
        elif line in (END, "# All processes entering MPI_Finalize"):
            launch.complete, in_table = True, False
        elif in_table and line and not line.startswith("#"):
            size, row = _pingpong_row(line, ours)
            if size <= next(reversed(launch.rows), -1):
                raise ParseError(
                    f"{size} bytes after {max(launch.rows)}: two launches wrote into one table"
                )
            launch.rows[size] = row
        elif key in ("batches", "sockets"):
            given, latencies = parts(line)
            series = getattr(launch, key)
            if whole(given, "a message size") in series:
                raise ParseError(f"{key} of {given} bytes are given twice: lines were mixed; rerun")
            series[int(given)] = latencies
    return launch


def expect_sizes(launch: PingPong, first: int, largest: int) -> None:
    """Raise ParseError unless the table has every power of two from `first` to `largest`."""
    sizes = [size for size in launch.rows if size > 0]
    wanted = [first]
    while wanted[-1] * 2 <= largest:
        wanted.append(wanted[-1] * 2)
    if sizes == wanted:
        return
    gaps = [size for size in sizes[1:] if size // 2 not in launch.rows]
    if gaps and set(sizes) <= set(wanted):
        raise ParseError(f"sizes are missing before {gaps[0]} bytes: lines were lost; rerun")
    if sizes[0] != first:
        raise ParseError(
            f"{len(sizes)} sizes in the table, from {sizes[0]} bytes instead of {first}: lines "
            "were lost; rerun"
        )
    raise ParseError(
        f"sizes are missing before {largest} bytes, or are not powers of two: lines were lost; "
        "rerun"
    )


def _check_ours(launch: PingPong, lines: list[str]) -> None:
    """Raise ParseError unless figures that our program prints twice agree: a row and its batches,
    the method and the table."""
    launch.facts = facts_of(lines, FACTS, "pingpong")
    expect_ranks(launch.facts, 2, "pingpong")
    names = METHOD + (REHEARSALS if REHEARSALS in launch.facts["method"] else "")
    method = numbers_of(launch.facts["method"], "the method of pingpong", names)
    launch.did = {**method, "processes": 2}
    expect_sizes(launch, 1, int(method["max_bytes"]))
    sizes = [size for size in launch.rows if size > 0]
    if launch.facts["verified"] != f"sizes={len(sizes)}" or set(launch.batches) != set(sizes):
        raise ParseError(
            f"{len(sizes)} sizes in the table, but verified {launch.facts['verified']} and batches "
            f"of {len(launch.batches)}: lines were lost; rerun"
        )
    least = min(method["min_iterations"], method["iterations"])
    for size, row in launch.rows.items():
        most = max(least, min(method["iterations"], method["volume"] // size))
        if not least <= row.repetitions <= most:
            raise ParseError(
                f"{row.repetitions} repetitions at {size} bytes, but the method allows "
                f"{least:.0f} to {most:.0f}: digits were damaged; rerun"
            )
        _check_batches(size, row, launch.batches[size])
    if launch.sockets or any("sockets" in key for key in launch.facts):
        wanted = [size for size in PLAIN if size <= method["max_bytes"]]
        if list(launch.sockets) != wanted:
            raise ParseError(
                f"plain sockets have figures of {list(launch.sockets)} bytes instead of {wanted}: "
                "lines were lost; rerun"
            )


def _check_batches(size: int, row: Row, batches: list[float]) -> None:
    """Raise ParseError unless the mean of a row is that of its batches, weighted by their round
    trips."""
    count = min(10, row.repetitions)
    if len(batches) != count:
        raise ParseError(
            f"{len(batches)} batches of {size} bytes instead of {count}: digits were damaged; rerun"
        )
    edges = [row.repetitions * number // count for number in range(count + 1)]
    weights = [end - begin for begin, end in zip(edges, edges[1:])]
    mean = sum(weight * batch for weight, batch in zip(weights, batches)) / row.repetitions
    agree(f"the latency at {size} bytes", row.latency_us, mean, 1e-4)


def _check_imb(launch: PingPong, lines: list[str]) -> None:
    """Raise ParseError unless the table agrees with IMB's head: its command line, and its shortest
    and longest message."""
    launch.did = imb_call(lines)
    low, high = imb_sizes(lines, launch.did, 0, 22)
    expect_sizes(launch, low, high)
    if 0 not in launch.rows:
        raise ParseError("the row of 0 bytes is missing: lines were lost; rerun")
    most = whole(str(launch.did.get("iter", 1000)), "IMB's option -iter")
    for size, row in launch.rows.items():
        if row.repetitions > most:
            raise ParseError(
                f"{row.repetitions} repetitions at {size} bytes, more than {most}: digits were "
                "damaged; rerun"
            )


def _parse_pingpong(lines: list[str]) -> PingPong:
    launch = _read_lines(lines)
    sizes = [size for size in launch.rows if size > 0]
    if not sizes:
        raise ParseError(
            "a PingPong began but its table has no row: it hung or crashed in the first exchange; "
            "see the job's stderr"
        )
    if not launch.complete:
        raise ParseError(
            f"the output stops after {sizes[-1]} bytes without its last line: the job was "
            "cut off (time limit, crash); see its stderr and rerun"
        )
    if "# #processes = 2" not in lines:
        raise ParseError('the table lacks "# #processes = 2": lines were lost; rerun')
    if lines[0].startswith("# nearmetal"):
        _check_ours(launch, lines)
    else:
        _check_imb(launch, lines)
    return launch


@bounded
def parse_imb(text: str) -> list[PingPong]:
    """Every launch in the output of IMB-MPI1 PingPong or of ``src/pingpong.c``, in order.

    Method: Intel MPI Benchmarks, PingPong: t[usec] is half the round trip; MB is 1e6 bytes
    (IMB_output.c). IMB prints t with two decimals, a step of 4 % at 0.25 us. Our program prints
    four. Raises ParseError on empty, truncated, non-numeric, zero, negative or NaN results.
    """
    launches = launches_of(
        text, r"#\s+Intel ?\(R\) MPI Benchmarks|# nearmetal program: pingpong", "PingPong"
    )
    return [_parse_pingpong(lines) for lines in launches]
