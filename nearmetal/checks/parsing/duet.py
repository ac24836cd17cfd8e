"""Output of a duet's job (reframe_checks/duet): interleaved launches of A and B, each after a line
that names its pair and variant."""

import re
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, bounded

MARK = re.compile(r"# nearmetal duet: pair=(\d+) variant=([ab])")


@dataclass(frozen=True)
class Launch:
    pair: int  #: from 0
    variant: str  #: `a` or `b`
    text: str  #: output of the program

    @property
    def name(self) -> str:
        return f"{self.variant.upper()} of pair {self.pair}"


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
    return [(pair, variant) for pair in range(pairs) for variant in ("ba" if pair % 2 else "ab")]


@bounded
def parse_duet(text: str, pairs: int) -> list[Launch]:
    """The launches with their output, in the order of measurement. Raises ParseError if one is
    missing or out of order."""
    wanted = order(pairs)
    marks: list[re.Match] = []
    outputs: list[list[str]] = []
    for line in text.splitlines(keepends=True):
        if found := MARK.fullmatch(line.strip()):
            marks.append(found)
            outputs.append([])
        elif outputs:
            outputs[-1].append(line)
    launches = [
        Launch(int(mark[1]), mark[2], "".join(lines)) for mark, lines in zip(marks, outputs)
    ]
    for position, (launch, (pair, variant)) in enumerate(zip(launches, wanted), 1):
        if (launch.pair, launch.variant) != (pair, variant):
            raise ParseError(
                f"launch {position} is {launch.name} instead of {variant.upper()} of pair {pair}: "
                "the job did not keep the order of a duet"
            )
    if len(launches) != len(wanted):
        missing = Launch(*wanted[len(launches)], "").name if len(launches) < len(wanted) else "none"
        raise ParseError(
            f"{len(launches)} launches instead of {len(wanted)} for {pairs} pairs "
            f"(first missing launch: {missing}): see the job's stderr"
        )
    for launch in launches:
        if not launch.text.strip():
            raise ParseError(f"{launch.name} wrote nothing: see the job's stderr")
    return launches
