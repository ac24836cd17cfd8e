"""Output of ``osu_latency`` of the OSU Micro-Benchmarks, versions 5 to 7."""

from __future__ import annotations

from collections.abc import Sequence

from nearmetal.checks.parsing import OTHERS, ParseError, bounded, damaged, foreign, numbers
from nearmetal.checks.parsing.output import launches_of
from nearmetal.checks.parsing.pingpong import PingPong, Row, expect_sizes

HEAD = "# OSU MPI Latency Test"


@bounded
def parse_osu(text: str, ranges: Sequence[tuple[int, int, int]]) -> list[PingPong]:
    """Every repeat in the output: one launch of ``osu_latency`` for each range of sizes.

    Method: OSU Micro-Benchmarks, osu_latency: half of the round trip, mean over the iterations. The
    program prints neither its last line nor its options, so that `ranges` says what is complete.

    :arg ranges: least and largest message size in bytes, and the iterations of each size.
    :raises ParseError: truncated or damaged output.
    """
    counts: dict[int, int] = {}
    for least, most, iterations in ranges:
        counts |= dict.fromkeys(numbers.powers_of_two(least, most), iterations)
    repeats: list[PingPong] = []
    for lines in launches_of(text, HEAD, "osu_latency"):
        table = _table(lines)
        # A table that begins with 1 byte begins a repeat; further ranges continue it.
        if min(table) == 1:
            repeats.append(PingPong({}, {"max_bytes": max(counts)}))
        elif not repeats:
            raise damaged("the first table does not begin with 1 byte")
        rows = repeats[-1].rows
        if min(table) <= max(rows, default=0):
            raise damaged(f"{min(table)} bytes are measured twice")
        for size, latency in table.items():
            rows[size] = Row(counts.get(size, 0), latency, size / latency)
    for repeat in repeats:
        expect_sizes(repeat, 1, max(counts))
    return repeats


def _table(lines: list[str]) -> dict[int, float]:
    """Latencies in us by size. Raises ParseError."""
    table: dict[int, float] = {}
    others = ""
    # osu_latency prints no last line: what follows the table may be of others.
    for line in lines:
        if not line or line.startswith("#"):
            continue
        words = line.split()
        if not numbers.NUMBER.fullmatch(words[0]):
            others = others or line
            continue
        if others:  # within the table
            raise foreign(others, "osu_latency")
        if len(words) != 2:
            raise ParseError(f"{line!r} is not a row of osu_latency (bytes, us): {OTHERS}")
        size = numbers.whole(words[0], "a message size", 1)
        if size <= next(reversed(table), 0):
            raise damaged(f"{size} bytes after {max(table)}: two launches wrote into one table")
        table[size] = numbers.positive(words[1], f"the latency at {size} bytes")
        numbers.decimals(words[1], 2, f"the latency at {size} bytes")
    if not table:
        raise ParseError(
            "osu_latency began but its table has no row: it hung or crashed in the first exchange; "
            "see the job's stderr"
        )
    return table
