"""The circle method of round-robin tournaments: rounds of disjoint pairs, as in src/links.c."""

from __future__ import annotations


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
