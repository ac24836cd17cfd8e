"""The job of a duet (reframe_checks/duet): launches of A and B by turns, each behind a line that
says whose it is."""

import re
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError

MARK = re.compile(r"# nearmetal duet: pair=(\d+) variant=([ab])")


@dataclass(frozen=True)
class Launch:
    pair: int  #: from 0
    variant: str  #: `a` or `b`
    text: str  #: what the program wrote

    @property
    def name(self) -> str:
        return f"{self.variant.upper()} of pair {self.pair}"


def order(pairs: int) -> list[tuple[int, str]]:
    """A B B A A B B A ... as (pair, variant): A and B of a pair are neighbours, and a linear drift,
    which favours A in one pair and B in the next, cancels. ParseError for an odd or no number of
    pairs, in which it would not."""
    if pairs < 2 or pairs % 2:
        raise ParseError(
            f"a duet of {pairs} pair(s): give an even number of them, so that a drift cancels (-S "
            "pairs=14)"
        )
    return [(pair, variant) for pair in range(pairs) for variant in ("ba" if pair % 2 else "ab")]


def parse_duet(text: str, pairs: int) -> list[Launch]:
    """The launches in the order of measurement, with the text of each; ParseError if one is
    missing, or not in its place."""
    launches, wanted = [], order(pairs)
    for line in text.splitlines(keepends=True):
        if found := MARK.fullmatch(line.strip()):
            launches.append(Launch(int(found[1]), found[2], ""))
        elif launches:
            launches[-1] = Launch(launches[-1].pair, launches[-1].variant, launches[-1].text + line)
    for position, (launch, (pair, variant)) in enumerate(zip(launches, wanted), 1):
        if (launch.pair, launch.variant) != (pair, variant):
            raise ParseError(
                f"launch {position} is {launch.name}, where {variant.upper()} of pair {pair} has "
                "its turn: the job did not keep the order of a duet"
            )
    if len(launches) != len(wanted):
        missing = Launch(*wanted[len(launches)], "").name if len(launches) < len(wanted) else "none"
        raise ParseError(
            f"{len(launches)} launches instead of {len(wanted)} for {pairs} pairs "
            f"(first that is missing: {missing}): see the job's stderr"
        )
    for launch in launches:
        if not launch.text.strip():
            raise ParseError(f"{launch.name} wrote nothing: see the job's stderr")
    return launches
