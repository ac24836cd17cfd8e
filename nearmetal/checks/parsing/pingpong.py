"""Output of IMB's PingPong and of ``src/pingpong.c``, which prints the same table."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearmetal.checks.parsing import OTHERS, ParseError, cut_off, damaged, numbers
from nearmetal.checks.parsing.imb import imb_call, imb_sizes
from nearmetal.checks.parsing.output import (
    END,
    IMB_END,
    IMB_START,
    Launch,
    Output,
    each_launch,
    fact,
    parts,
)

METHOD = "warmup iterations min_iterations volume max_time max_bytes"
#: Named only where there were some.
REHEARSALS = " rehearsals"
FACTS = ("mpi_library", "compiler", "method", "settled", "verified")
#: Message sizes that programs in Java also send over plain sockets.
PLAIN = (1, 1024, 65536, 4194304)
HEADER = ["#bytes", "#repetitions", "t[usec]", "Mbytes/sec"]


@dataclass(frozen=True)
class Row:
    repetitions: int
    #: Half round trip, mean over the repetitions.
    latency_us: float
    #: As printed; 1e6 byte/s.
    mbytes_per_s: float


@dataclass
class PingPong(Launch):
    #: By message size in bytes.
    rows: dict[int, Row] = field(default_factory=dict)
    #: Latencies (us) of the batches by message size; none from IMB.
    batches: dict[int, list[float]] = field(default_factory=dict)
    #: The same over a plain socket; only from Java.
    sockets: dict[int, list[float]] = field(default_factory=dict)

    @property
    def sizes(self) -> list[int]:
        """Sizes of messages that carry data. IMB's row of 0 bytes does not count."""
        return [size for size in self.rows if size > 0]

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
        """Half round trip of the smallest message that carries data, us."""
        return self.latency_us(min(self.sizes))

    @property
    def peak_bandwidth_gbps(self) -> float:
        """Highest bandwidth over all sizes, Gb/s."""
        return self.bandwidth_gbps(self.peak_up_to(max(self.rows)))

    def peak_up_to(self, longest: int) -> int:
        """The message size (bytes) of the highest bandwidth, of sizes up to `longest`."""
        sizes = [size for size in self.sizes if size <= longest]
        return max(sizes, key=self.bandwidth_gbps)

    def batch_gbps(self, size: int) -> list[float]:
        """The bandwidth of each batch at ``size`` bytes, Gb/s; [] from IMB."""
        return [size * 8 / latency / 1e3 for latency in self.batches.get(size, [])]


@each_launch("pingpong", f"{IMB_START}|# nearmetal program: pingpong", "PingPong")
def parse_imb(output: Output) -> PingPong:
    """Every launch in the output of IMB-MPI1 PingPong or of ``src/pingpong.c``, in order.

    Method: Intel MPI Benchmarks, PingPong: t[usec] is half the round trip; MB is 1e6 bytes
    (IMB_output.c). IMB prints t with two decimals, a step of 4 % at 0.25 us. Our program prints
    four. Raises ParseError on empty, truncated, non-numeric, zero, negative or NaN results.
    """
    run = _read_lines(output)
    if "# #processes = 2" not in output.lines:
        raise damaged('the table lacks "# #processes = 2"')
    if output.ours:
        _check_ours(run, output)
    else:
        _check_imb(run, output.lines)
    return run


def _read_lines(output: Output) -> PingPong:
    run = PingPong({}, {})
    in_table = complete = False
    for line in output.own_lines():
        key, _ = fact(line)
        if line.startswith("#bytes"):
            if run.rows or in_table or line.split() != HEADER:
                raise ParseError(
                    f"{line!r} is not the only header of a PingPong of two ranks: run IMB-MPI1 "
                    "PingPong alone, with -n 2"
                )
            in_table = True
        elif line in (END, IMB_END):
            complete, in_table = True, False
        elif in_table and line and not line.startswith("#"):
            _add_row(run, line, 4 if output.ours else 2)
        elif key == "batches":
            _add_series(run.batches, line)
        elif key == "sockets":
            _add_series(run.sockets, line)
    if not run.sizes:
        raise ParseError(
            "a PingPong began but its table has no row: it hung or crashed in the first exchange; "
            "see the job's stderr"
        )
    if not complete:
        raise cut_off(f"the output stops after {run.sizes[-1]} bytes without its last line")
    return run


def _add_row(run: PingPong, line: str, digits: int) -> None:
    """Add a row, whose time has so many decimals."""
    words = line.split()
    counts = len(words) == 4 and all(map(numbers.WHOLE.fullmatch, words[:2]))
    if not counts or not int(words[1]):
        raise ParseError(
            f"{line!r} is not a row of a PingPong table (bytes, repetitions, us, MB/s): {OTHERS}, "
            "with a longer time limit if it says time-out"
        )
    size = int(words[0])
    if size <= next(reversed(run.rows), -1):
        raise damaged(f"{size} bytes after {max(run.rows)}: two launches wrote into one table")
    latency = numbers.positive(words[2], f"the latency at {size} bytes")
    rate = numbers.real(words[3], f"the bandwidth at {size} bytes")
    numbers.decimals(words[3], 2, f"the bandwidth at {size} bytes")
    numbers.decimals(words[2], digits, f"the latency at {size} bytes")
    # The rounding of the printed time gives an interval of the rate.
    half = numbers.unit(words[2]) / 2
    most = size / max(latency - half, half / 10)
    least = size / (latency + half)
    middle = (most + least) / 2
    numbers.agree(
        f"the bandwidth at {size} bytes", rate, middle, most - middle + numbers.unit(words[3]) / 2
    )
    run.rows[size] = Row(int(words[1]), latency, rate)


def _add_series(series: dict[int, list[float]], line: str) -> None:
    name, latencies = parts(line)
    size = numbers.whole(name, "a message size")
    if size in series:
        raise damaged(f"{line[:80]!r}: {size} bytes are given twice")
    series[size] = latencies


def expect_sizes(run: PingPong, first: int, largest: int) -> None:
    """Raise ParseError unless the table has every power of two from `first` to `largest`."""
    sizes, wanted = run.sizes, numbers.powers_of_two(first, largest)
    if sizes == wanted:
        return
    if sizes[0] != first:
        raise damaged(f"{len(sizes)} sizes in the table, from {sizes[0]} bytes instead of {first}")
    gaps = [size for size in sizes[1:] if size // 2 not in run.rows]
    if gaps and set(sizes) <= set(wanted):
        raise damaged(f"sizes are missing before {gaps[0]} bytes")
    raise damaged(f"sizes are missing before {largest} bytes, or are not powers of two")


def _check_ours(run: PingPong, output: Output) -> None:
    """Raise ParseError unless figures that our program prints twice agree: a row and its batches,
    the method and the table."""
    run.facts = output.facts(*FACTS)
    output.expect_ranks(run.facts, 2)
    # Only programs in Java rehearse.
    names = METHOD + REHEARSALS * (REHEARSALS in run.facts["method"])
    method = output.method(run.facts, names)
    run.did = {**method, "processes": 2}
    expect_sizes(run, 1, int(method["max_bytes"]))
    verified = run.facts["verified"]
    if verified != f"sizes={len(run.sizes)}" or set(run.batches) != set(run.sizes):
        raise damaged(
            f"{len(run.sizes)} sizes in the table, but verified {verified} and batches of "
            f"{len(run.batches)}"
        )
    least = min(method["min_iterations"], method["iterations"])
    for size, row in run.rows.items():
        # The program sends long messages less often, as the volume allows.
        most = max(least, min(method["iterations"], method["volume"] // size))
        if not least <= row.repetitions <= most:
            raise damaged(
                f"{row.repetitions} repetitions at {size} bytes, but the method allows "
                f"{least:.0f} to {most:.0f}"
            )
        _check_batches(size, row, run.batches[size])
    if run.sockets or any("sockets" in key for key in run.facts):
        wanted = [size for size in PLAIN if size <= method["max_bytes"]]
        if list(run.sockets) != wanted:
            raise damaged(
                f"plain sockets have figures of {list(run.sockets)} bytes instead of {wanted}"
            )


def _check_batches(size: int, row: Row, batches: list[float]) -> None:
    """Raise ParseError unless the mean of a row is that of its batches, weighted by their round
    trips."""
    count = min(10, row.repetitions)
    if len(batches) != count:
        raise damaged(f"{len(batches)} batches of {size} bytes instead of {count}")
    total = 0.0
    for number, batch in enumerate(batches):
        # Batches are as equal as whole numbers allow (src/pingpong.c).
        begin = row.repetitions * number // count
        end = row.repetitions * (number + 1) // count
        total += (end - begin) * batch
    numbers.agree(f"the latency at {size} bytes", row.latency_us, total / row.repetitions, 1e-4)


def _check_imb(run: PingPong, lines: list[str]) -> None:
    """Raise ParseError unless the table agrees with IMB's head: its command line, and its shortest
    and longest message."""
    run.did = imb_call(lines)
    expect_sizes(run, *imb_sizes(lines, run.did, 0, 22))
    if 0 not in run.rows:
        raise damaged("the row of 0 bytes is missing")
    most = numbers.whole(str(run.did.get("iter", 1000)), "IMB's option -iter")
    for size, row in run.rows.items():
        if row.repetitions > most:
            raise damaged(f"{row.repetitions} repetitions at {size} bytes, more than {most}")
