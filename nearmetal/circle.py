"""The circle method of round-robin tournaments: rounds of disjoint pairs, as in src/links.c."""

from __future__ import annotations

#: Seconds that a pair needs at least (src/links.c).
LEAST_SLOT = 0.01


def rounds_in(seconds: float, nodes: int, slots: int) -> int:
    """The most rounds for which the seconds suffice, of as many as there are.

    :arg slots: slots of a round: 1, or one for each of its pairs.
    """
    return min(int(seconds / LEAST_SLOT / slots), nodes + nodes % 2 - 1)


def pairs(ranks: int, rounds: int) -> list[tuple[int, int]]:
    """The pairs that the program measures: so many rounds of the circle method, evenly chosen."""
    players = ranks + ranks % 2
    turning = players - 1
    turns = [number * turning // rounds for number in range(rounds)]
    found = [
        ((turn + place) % turning, (turn - place) % turning if place else turning)
        for turn in turns
        for place in range(players // 2)
    ]
    return [(min(pair), max(pair)) for pair in found if max(pair) < ranks]
