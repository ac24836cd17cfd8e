"""Pairs of nodes by the circle method of round-robin tournaments, and the form of their values.

Rounds of disjoint pairs, as in src/links.c.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

#: Seconds that a pair needs at least (src/links.c).
LEAST_SLOT = 0.01
#: Least number of measured pairs between two switches, where there are as many.
COVERED = 4
#: Codes of stored values: in a logarithm of one, and the largest (`fleet_values.packed`).
STEPS, MOST_CODE = 2048, 65534


def rounds_in(seconds: float, nodes: int, slots: int) -> int:
    """The most rounds for which the seconds suffice, of as many as there are.

    :arg slots: slots of a round: 1, or one for each of its pairs.
    """
    return min(int(seconds / LEAST_SLOT / slots), nodes + nodes % 2 - 1)


def rounds_of(partners: int, switches: Sequence[str], most: int) -> tuple[int, bool]:
    """Number of rounds, at most `most`, and whether it covers all pairs of switches.

    Each node has as many pairs as there are rounds: `partners`, or more where a pair of switches
    would not be measured by COVERED pairs of nodes.

    :arg switches: name of each node's switch; (): not known.
    """
    rounds = min(partners, most)
    while not (covers := _covers(switches, rounds)) and rounds < most:
        rounds = min(most, 2 * rounds)
    return rounds, covers


def _covers(switches: Sequence[str], rounds: int) -> bool:
    """Whether COVERED pairs of nodes, or all there are, measure each pair of switches."""
    sizes = Counter(switches)
    if len(sizes) < 2:
        return True
    measured: Counter = Counter()
    for first, second in pairs(len(switches), rounds):
        measured[frozenset((switches[first], switches[second]))] += 1
    for here, there in combinations(sizes, 2):
        if measured[frozenset((here, there))] < min(COVERED, sizes[here] * sizes[there]):
            return False
    return True


def pairs(ranks: int, rounds: int) -> list[tuple[int, int]]:
    """The pairs that the program measures: so many rounds of the circle method, evenly chosen."""
    players = ranks + ranks % 2
    turning = players - 1
    measured = []
    for number in range(rounds):
        turn = number * turning // rounds
        for place in range(players // 2):
            first, second = (turn + place) % turning, (turn - place) % turning
            # The last player keeps its place, and the others turn around it.
            if place == 0:
                second = turning
            # With an odd number of ranks, the last player is none of them.
            if max(first, second) < ranks:
                measured.append((min(first, second), max(first, second)))
    return measured
