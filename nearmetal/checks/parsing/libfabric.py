"""Output of libfabric's ping-pongs, and of ``src/libfabric.sh``, which runs them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from nearmetal.checks.parsing import ParseError, cut_off, damaged, foreign, numbers
from nearmetal.checks.parsing.output import END, Launch, Output, each_launch, words_of

#: Columns of the table of each program.
HEADS = {
    "fi_pingpong": "bytes #sent #ack total time MB/sec usec/xfer Mxfers/sec",
    "fi_rdm_tagged_pingpong": "bytes iters total time MB/sec usec/xfer Mxfers/sec",
}
#: Size and round trips, which the programs print as `64k` and `1k`.
NEXT = re.compile(r"# nearmetal iterations: (\d{1,12}) (\d{1,12})", re.ASCII)


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
    method = words_of(facts["method"], "the method of libfabric.sh", "program provider iterations")
    columns = HEADS.get(method["program"])
    if columns is None:
        raise damaged(f"{method['program']!r} is no program of libfabric.sh")
    run = Libfabric(facts, dict(method))
    size, left = 0, False
    for line in output.lines[: output.lines.index(END)]:
        if match := NEXT.fullmatch(line):
            if left or int(match[1]) <= size:
                raise damaged(f"{line!r} follows {size} bytes")
            size, left = int(match[1]), True
            run.payload_bytes += 2 * size * int(match[2])
        elif re.match(r"\d", line):
            words = line.split()
            if not left or len(words) != len(columns.split()):
                raise foreign(line, method["program"])
            _add_row(run, size, dict(zip(columns.split(), words)))
            left = False
    if left or not size:
        raise cut_off(f"{method['program']} has no row of {size} bytes")
    run.did["sizes"] = ",".join(map(str, run.latency_us))
    return run


def _add_row(run: Libfabric, size: int, row: dict[str, str]) -> None:
    if row.get("#ack", "=")[0] != "=":
        raise ParseError(f"{size} bytes: libfabric lost answers ({' '.join(row.values())})")
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
