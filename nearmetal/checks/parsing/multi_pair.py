"""Output of ``src/multi_pair.c``."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from nearmetal.checks.parsing import ParseError, damaged, numbers
from nearmetal.checks.parsing.output import Launch, Output, each_launch, hosts_of

METHOD = "max_time max_bytes pairs"
#: Columns of a row, and bytes of the shortest message.
COLUMNS, SHORTEST = 7, 8
SIZES = [SHORTEST * 8**power for power in range(8)]
#: Messages under way in a pair, and their bytes at most (src/multi_pair.c).
WINDOW, VOLUME = 64, 8 << 20
ONE_WAY, BOTH = 1, 2
#: Number of pairs, and directions.
Key = tuple[int, int]


@dataclass
class MultiPair(Launch):
    #: Host of each rank.
    hosts: tuple[str, ...]
    #: Aggregate rate of all pairs by message size in bytes.
    gbps: dict[Key, dict[int, float]] = field(default_factory=dict)
    #: Bytes that all ranks sent, the untimed ones among them.
    payload_bytes: int = 0
    #: Bytes that the NICs sent in percent of it, and the busiest one's part; 0: not known.
    nic_percent: float = 0
    busiest_percent: float = 0

    def mmsg_per_s(self, pairs: int) -> float:
        """Messages of the shortest size in one direction, 1e6 a second."""
        return self.gbps[pairs, ONE_WAY][SHORTEST] * 1e3 / (8 * SHORTEST)


def doubling(most: int) -> list[int]:
    """1, 2, 4, ... up to `most`, and `most` itself."""
    return sorted({*numbers.powers_of_two(1, most), most})


@each_launch("multi_pair")
def parse_multi_pair(output: Output) -> MultiPair:
    """Every launch in the output of ``src/multi_pair.c``, in order.

    Raises ParseError on truncated, missing, non-numeric or zero results, and if a rate is not that
    of its messages and its time.
    """
    facts = output.facts("mpi_library", "compiler", "method", "payload_bytes", "verified")
    did = output.method(facts, METHOD)
    pairs = int(did["pairs"])
    output.expect_ranks(facts, 2 * pairs)
    run = MultiPair(facts, {**did, "processes": 2 * pairs}, hosts_of(facts))
    timed, rows = 0, 0
    for words in map(str.split, output.own_lines()):
        if words and not words[0].startswith("#"):
            timed += _add_row(run, words)
            rows += 1
    wanted = []
    for count, ways in itertools.product(doubling(pairs), (ONE_WAY, BOTH)):
        sizes = [size for size in SIZES if size <= did["max_bytes"]]
        wanted += [(count, ways, size) for size in sizes]
    measured = [(*key, size) for key, sizes in run.gbps.items() for size in sizes]
    if measured != wanted or facts["verified"] != f"rows={len(wanted)}" or rows != len(wanted):
        raise damaged(f"{rows} rows of multi_pair instead of {len(wanted)}")
    run.payload_bytes = numbers.whole(facts["payload_bytes"], "the payload of multi_pair")
    if run.payload_bytes < timed:
        raise damaged(f"multi_pair timed {timed} bytes, but sent {run.payload_bytes}")
    return run


def _add_row(run: MultiPair, words: list[str]) -> int:
    """Add a row, and return the bytes of its messages."""
    if len(words) != COLUMNS:
        raise ParseError(f"{' '.join(words)!r} is not a row of the table of multi_pair")
    size, pairs, directions, window, windows = numbers.wholes(words[:5], "a row of multi_pair", 1)
    where = f"{pairs} pairs at {size} bytes"
    seconds = numbers.positive(words[5], f"the time of {where}")
    gbps = numbers.positive(words[6], f"the rate of {where}")
    numbers.decimals(words[5], 9, f"the time of {where}")
    numbers.decimals(words[6], 6, f"the rate of {where}")
    if window != min(WINDOW, VOLUME // size):
        raise damaged(f"{where} have a window of {window} messages")
    sent = size * pairs * directions * window * windows
    of_bytes = sent * 8 / seconds / 1e9
    rounding = of_bytes * 0.5e-9 / seconds + 0.5e-6
    numbers.agree(f"the rate of {where}", gbps, of_bytes, rounding)
    run.gbps.setdefault((pairs, directions), {})[size] = of_bytes
    return sent
