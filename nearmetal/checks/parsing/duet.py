"""Output of a duet's job (reframe_checks/duet): interleaved launches of A and B, each after a line
that names its pair and variant."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import zip_longest

from nearmetal.checks.parsing import ParseError, bounded

MARK = re.compile(r"# nearmetal duet: pair=(\d+) variant=([ab])")


@dataclass(frozen=True)
class Launch:
    #: From 0.
    pair: int
    #: `a` or `b`
    variant: str
    #: Output of the program.
    text: str

    @property
    def name(self) -> str:
        return _name(self.pair, self.variant)


def _name(pair: int, variant: str) -> str:
    return f"{variant.upper()} of pair {pair}"


def order(pairs: int) -> list[tuple[int, str]]:
    """The order A B B A A B B A ... as (pair, variant).

    A and B of a pair are neighbours. A linear drift favours A in one pair and B in the next, so
    that it cancels. Raises ParseError unless the number of pairs is even and above zero.
    """
    if pairs < 2 or pairs % 2:
        raise ParseError(
            f"a duet of {pairs} pair(s): give an even number of pairs, so that a drift cancels "
            "(-S pairs=14)"
        )
    turns = []
    for pair in range(0, pairs, 2):
        turns += [(pair, "a"), (pair, "b"), (pair + 1, "b"), (pair + 1, "a")]
    return turns


@bounded
def parse_duet(text: str, pairs: int) -> list[Launch]:
    """The launches with their output, in the order of measurement. Raises ParseError if one is
    missing or out of order."""
    turns = order(pairs)
    launches = _launches(text)
    for position, (launch, turn) in enumerate(zip_longest(launches, turns), 1):
        if launch is None or turn is None:
            raise ParseError(
                f"{len(launches)} launches instead of {len(turns)} for {pairs} pairs (first "
                f"missing launch: {_name(*turn) if turn else 'none'}): see the job's stderr"
            )
        if (launch.pair, launch.variant) != turn:
            raise ParseError(
                f"launch {position} is {launch.name} instead of {_name(*turn)}: the job did not "
                "keep the order of a duet"
            )
    # A launch that failed has its mark, which the script prints before it.
    for launch in launches:
        if not launch.text.strip():
            raise ParseError(f"{launch.name} wrote nothing: see the job's stderr")
    return launches


def _launches(text: str) -> list[Launch]:
    """The launches as they stand in the output."""
    marks: list[re.Match] = []
    outputs: list[list[str]] = []
    for line in text.splitlines(keepends=True):
        if mark := MARK.fullmatch(line.strip()):
            marks.append(mark)
            outputs.append([])
        elif outputs:
            outputs[-1].append(line)
    return [Launch(int(mark[1]), mark[2], "".join(lines)) for mark, lines in zip(marks, outputs)]
