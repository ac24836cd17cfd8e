"""Output of ``src/links.c``."""

from __future__ import annotations

from dataclasses import dataclass, field

from nearmetal.checks.parsing import (
    ParseError,
    backed,
    bounded,
    hosts_of,
    launches_of,
    positive,
    reported,
    whole,
)
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


@dataclass(frozen=True)
class Link:
    """A link in one repeat."""

    latency_us: float  #: half round trip of 1 B
    gbps: float  #: from the first rank of the pair to the second
    gbps_back: float


@dataclass
class Launch:
    """One complete launch."""

    nodes: tuple[str, ...]  #: host of each rank
    #: Ranks of a pair, the smaller one first -> its values, one for each repeat that was done.
    links: dict[tuple[int, int], list[Link]] = field(default_factory=dict)
    #: Ranks of a pair -> why a repeat was not done, one for each such repeat.
    failed: dict[tuple[int, int], list[str]] = field(default_factory=dict)
    facts: dict[str, str] = field(default_factory=dict)
    did: dict = field(default_factory=dict)  #: parameters that the program reports


def _parse_line(words: list[str], ranks: int, repeats: int) -> tuple[tuple[int, int], int, object]:
    """(pair, repeat, Link or the reason why there is none)."""
    if len(words) < 6:
        raise ParseError(f"a link is {' '.join(words)!r}: words were lost; rerun")
    first, second, repeat = (
        whole(word, what) for word, what in zip(words[1:4], ("a rank", "a rank", "a repeat"))
    )
    if not first < second < ranks or repeat >= repeats:
        raise ParseError(f"a link is {' '.join(words)!r}, which was not measured: rerun")
    if words[4] == "failed":
        reason = " ".join(words[5:])
        if reason not in REASONS:
            raise ParseError(f"a link failed for {reason!r}: words were lost; rerun")
        return (first, second), repeat, reason
    if len(words) != 7:
        raise ParseError(f"a link is {' '.join(words)!r}: lines were mixed; rerun")
    figures = zip(words[4:], ("a latency", "a bandwidth", "a bandwidth"))
    return (first, second), repeat, Link(*(positive(word, what) for word, what in figures))


def _parse_launch(lines: list[str]) -> Launch:
    names = "seconds repeats rounds alone bytes"
    facts, given, did, ranks = reported(lines, "links", names)
    nodes = hosts_of(facts, ranks)
    launch = Launch(nodes, facts=facts, did=did)
    repeats = whole(given["repeats"], "the number of repeats", 1)
    rounds = whole(given["rounds"], "the number of rounds", 1)
    backed(rounds * (ranks // 2) * repeats, lines, "links")
    told: dict[tuple[tuple[int, int], int], object] = {}
    for line in lines:
        if not line.startswith("link "):
            continue
        pair, repeat, found = _parse_line(line.split(), ranks, repeats)
        # Both ranks of a pair may say that it failed, and the one that sent last does not know it.
        if isinstance(told.get((pair, repeat), ""), str):
            told[pair, repeat] = found
        elif not isinstance(found, str):
            raise ParseError(f"the link {line!r} was printed twice: lines were mixed; rerun")
    for pair in pairs(ranks, rounds):
        for repeat in range(repeats):
            found = told.pop((pair, repeat), SILENT)
            if isinstance(found, Link):
                launch.links.setdefault(pair, []).append(found)
            else:
                launch.failed.setdefault(pair, []).append(str(found))
    if told:
        (pair, _), *_ = told
        raise ParseError(f"the link of ranks {pair} was not asked for: lines were mixed; rerun")
    return launch


@bounded
def parse_links(text: str) -> list[Launch]:
    """Every launch in the output of ``src/links.c``, in order.

    A pair that failed is a result. Raises ParseError on truncated or damaged output.
    """
    return [
        _parse_launch(lines) for lines in launches_of(text, r"# nearmetal program: links", "links")
    ]
