"""Output of ``src/links.c``."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from nearmetal.checks.parsing import damaged, numbers
from nearmetal.checks.parsing.output import Form, Launch, Output, each_launch, hosts_of
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

    def key_of(names: list[str]) -> tuple | None:
        first, second, repeat = numbers.wholes(names[1:], "a rank or repeat")
        if first < second < ranks and repeat < repeats:
            return (first, second), repeat
        return None

    # Both ranks of a pair may say that it failed, and the one that sent last does not know it.
    results = output.results(LINES, key_of, REASONS, fails_twice=True)
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


def _link(names: list[str], values: list[str]) -> Link:
    """Raises ParseError."""
    latency = numbers.positive(values[0], "a latency")
    there, back = numbers.positives(values[1:], "a bandwidth")
    return Link(latency, there, back)


LINES = {"link": Form(4, 3, _link)}
