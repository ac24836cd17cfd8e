"""Output of ``src/links.c``."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from nearmetal.checks.parsing import damaged, numbers
from nearmetal.checks.parsing.output import Launch, Output, each_launch, hosts_of, reason_of
from nearmetal.model.round_robin import pairs

#: Why a pair has no values although nothing was printed of it.
SILENT = "neither node answered"
#: What the program says of a pair that was not done in time, or whose messages were changed.
REASONS = (
    "no answer",
    "latency not done in time",
    "bandwidth not done in time",
    "a message arrived changed",
)
#: Two ranks, the smaller one first.
Pair = tuple[int, int]


@dataclass(frozen=True)
class Link:
    """A link in one repeat."""

    #: Half round trip of 1 B.
    latency_us: float
    #: From the first rank of the pair to the second, and back.
    gbps: float
    gbps_back: float

    @property
    def mean_gbps(self) -> float:
        return (self.gbps + self.gbps_back) / 2

    @property
    def worse_gbps(self) -> float:
        return min(self.gbps, self.gbps_back)


@dataclass
class Links(Launch):
    #: Host of each rank.
    nodes: tuple[str, ...]
    #: Values of a pair, one for each repeat that was done.
    links: dict[Pair, list[Link]] = field(default_factory=dict)
    #: Why a repeat was not done, one for each such repeat.
    failed: dict[Pair, list[str]] = field(default_factory=dict)

    def of_links(self, name: str) -> list[float]:
        """An attribute of all measurements of links."""
        every = itertools.chain.from_iterable(self.links.values())
        return [getattr(link, name) for link in every]


@each_launch("links")
def parse_links(output: Output) -> Links:
    """Every launch in the output of ``src/links.c``, in order.

    A pair that failed is a result. Raises ParseError on truncated or damaged output.
    """
    facts, words, did = output.on_nodes("seconds repeats rounds alone bytes")
    launch = Links(facts, did, hosts_of(facts))
    ranks = len(launch.nodes)
    repeats = numbers.whole(words["repeats"], "the number of repeats", 1)
    rounds = numbers.whole(words["rounds"], "the number of rounds", 1)
    # Before any list of that length is made: digits of a count may be damaged.
    output.expect_lines_for(rounds * (ranks // 2) * repeats)
    results = _results(output, ranks, repeats)
    for pair in pairs(ranks, rounds):
        for repeat in range(repeats):
            result = results.pop((pair, repeat), SILENT)
            if isinstance(result, Link):
                launch.links.setdefault(pair, []).append(result)
            else:
                launch.failed.setdefault(pair, []).append(result)
    for pair, _ in results:
        raise damaged(f"the link of ranks {pair} was not asked for")
    return launch


def _results(output: Output, ranks: int, repeats: int) -> dict[tuple[Pair, int], Link | str]:
    """(Pair, repeat) -> its link, or the reason why there is none."""
    results: dict[tuple[Pair, int], Link | str] = {}
    for line in output.lines:
        if not line.startswith("link "):
            continue
        pair, repeat, result = _parse_line(line, ranks, repeats)
        # Both ranks of a pair may say that it failed, and the one that sent last does not know it.
        if isinstance(results.get((pair, repeat), ""), str):
            results[pair, repeat] = result
        elif isinstance(result, Link):
            raise damaged(f"the link {line!r} was printed twice")
    return results


def _parse_line(line: str, ranks: int, repeats: int) -> tuple[Pair, int, Link | str]:
    """(Pair, repeat, its link or the reason why there is none)."""
    words = line.split()
    if len(words) < 6:
        raise damaged(f"a link is {line!r}")
    pair = numbers.whole(words[1], "a rank"), numbers.whole(words[2], "a rank")
    repeat = numbers.whole(words[3], "a repeat")
    if not pair[0] < pair[1] < ranks or repeat >= repeats:
        raise damaged(f"a link is {line!r}, which was not measured")
    if words[4] == "failed":
        return pair, repeat, reason_of(words[5:], REASONS)
    if len(words) != 7:
        raise damaged(f"a link is {line!r}")
    latency = numbers.positive(words[4], "a latency")
    there, back = numbers.positives(words[5:], "a bandwidth")
    return pair, repeat, Link(latency, there, back)
