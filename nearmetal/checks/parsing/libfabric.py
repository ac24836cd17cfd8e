"""Output of libfabric's ping-pongs, and of ``src/libfabric.sh``, which runs them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import OTHERS, ParseError, damaged, foreign, numbers
from nearmetal.checks.parsing.output import Launch, Output, each_launch, words_of

METHOD = "program provider iterations sizes"
#: Columns of the table of each program.
HEADS = {
    "fi_pingpong": "bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec".split(),
    "fi_rdm_tagged_pingpong": "bytes iters total time MB/sec usec/xfer Mxfers/sec".split(),
}
#: Bytes of a size that libfabric.sh sends one way at most, and round trips that it makes at least.
VOLUME, FEWEST = 40 << 20, 10
BYTES = re.compile(r"\d+(\.\d)?[kmg]?", re.ASCII)


@dataclass
class Libfabric(Launch):
    #: Half round trip by message size.
    latency_us: dict[int, float] = field(default_factory=dict)
    #: One way, from the half round trip.
    bandwidth_gbps: dict[int, float] = field(default_factory=dict)
    payload_bytes: int = 0


@each_launch("libfabric", what="launch of libfabric.sh")
def parse_libfabric(output: Output) -> Libfabric:
    """Every launch in the output of ``src/libfabric.sh``, in order.

    Method: `usec/xfer` is half of the round trip, and `MB/sec` 1e6 bytes over it (libfabric,
    util/pingpong.c and fabtests/common/shared.c, show_perf). Raises ParseError.
    """
    facts = output.facts("method")
    method = words_of(facts["method"], "the method of libfabric.sh", METHOD)
    sizes = numbers.wholes(method["sizes"].split(","), "a message size of libfabric.sh", 1)
    iterations = numbers.whole(method["iterations"], "the iterations of libfabric.sh", 1)
    head = HEADS.get(method["program"])
    if head is None:
        raise damaged(f"{method['program']!r} is no program of libfabric.sh")
    run = Libfabric(facts, dict(method))
    left = list(sizes)
    for line in output.lines:
        words = line.split()
        if not words or not BYTES.fullmatch(words[0]):
            continue
        if len(words) != len(head):
            raise foreign(line, method["program"])
        _add_row(run, dict(zip(head, words)), left, iterations)
    if left or len(run.latency_us) != len(sizes):
        raise damaged(f"{method['program']} measured {list(run.latency_us)} bytes, not {sizes}")
    for size in sizes:
        run.payload_bytes += 2 * size * _count(size, iterations)
    return run


def _count(size: int, iterations: int) -> int:
    """Round trips of a size."""
    return max(FEWEST, min(iterations, VOLUME // size))


def _add_row(run: Libfabric, row: dict[str, str], left: list[int], iterations: int) -> None:
    """Add a row, which is of the first of the sizes that are left."""
    line = " ".join(row.values())
    if not left or row["bytes"] != _abbreviated(left[0]):
        raise ParseError(f"{line!r} is not the row of {left[:1]} bytes: {OTHERS}")
    size = left.pop(0)
    count = str(_count(size, iterations))
    if len(count) > 3:
        count = f"{count[:-3]}k"
    if count not in (row.get("#sent"), row.get("iters")):
        raise damaged(f"{line!r} has another number of round trips than {count}")
    if row.get("#ack", f"={count}") != f"={count}":
        raise ParseError(f"{size} bytes: libfabric lost answers ({line!r})")
    where = f"{size} bytes by libfabric"
    latency = numbers.positive(row["usec/xfer"], f"the time of {where}")
    rate = numbers.real(row["MB/sec"], f"the rate of {where}")
    for name in ("usec/xfer", "MB/sec"):
        numbers.decimals(row[name], 2, f"{name} of {where}")
    # Both are rounded to hundredths.
    within = 0.005 + 0.005 * size / latency**2
    numbers.agree(f"the rate of {where}", rate, size / latency, within)
    run.latency_us[size] = latency
    run.bandwidth_gbps[size] = 8e-3 * size / latency
    if rate > latency:  # it has more digits
        run.bandwidth_gbps[size] = 8e-3 * rate


def _abbreviated(size: int) -> str:
    """As the programs print a number of bytes: `64k`, `1.5k`."""
    letters, unit = " kmg", 1
    while size >= unit << 10 and len(letters) > 1:
        letters, unit = letters[1:], unit << 10
    text = str(size // unit)
    if tenths := size % unit * 10 // unit:
        text += f".{tenths}"
    return (text + letters[0]).strip()
