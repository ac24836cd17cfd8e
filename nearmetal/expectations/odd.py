"""Which of two values that contradict each other is the odd one. Pure functions of deviations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nearmetal.expectations.judge import Deviation, Measured

#: A value: its case's identity, and its variable.
Key = tuple[int, str]
#: What contradicts each value: other values, and names of expectations that it deviates from by
#: itself.
Contradictions = dict[Key, set[object]]


def with_odd_values(deviations: Iterable[Deviation]) -> list[Deviation]:
    """The deviations; those over several values say which is odd, and are about that one.

    A median of several values tells: the judged value is odd. Of two values, the odd one is
    contradicted by thirds, too, or by itself: by more than twice as many as the other one. Without
    these, one of the two is odd.
    """
    deviations = list(deviations)
    known: Contradictions = {}
    for deviation in deviations:
        keys = _keys(_values(deviation))
        for key in keys:
            rivals = set(keys) - {key}
            known.setdefault(key, set()).update(rivals or {deviation.expectation.name})
    odd: dict[tuple, Deviation] = {}
    for deviation in deviations:
        placed = _placed(deviation, known)
        own = placed.case is deviation.case and placed.variable == deviation.variable
        # Several cases may blame a value by one expectation; the value's own sentence goes first.
        subject = placed.expectation.name, id(placed.case), placed.variable
        if own or subject not in odd:
            odd[subject] = placed
    return list(odd.values())


def _values(deviation: Deviation) -> list[tuple[Measured, str]]:
    """The values that a deviation compares, the judged one first; not those of a median."""
    names = dict.fromkeys([deviation.variable, *deviation.own()])
    values = [(deviation.case, name) for name in names]
    for name, cases in deviation.beside:
        if len(cases) == 1:
            values.append((cases[0], name))
    return values


def _keys(values: Iterable[tuple[Measured, str]]) -> list[Key]:
    return [(id(case), name) for case, name in values]


def _placed(deviation: Deviation, known: Contradictions) -> Deviation:
    """The deviation of the odd value, with a clause that names it."""
    several = _values(deviation)
    most = max((len(cases) for _, cases in deviation.beside), default=1)
    if not deviation.variable or len(several) == most == 1:
        return deviation
    if most > 1:
        clause = f"the odd one is this value, which is far from the median of {most}"
        return _saying(deviation, clause)
    keys = _keys(several)
    thirds = [len(_thirds(key, keys, known[key])) for key in keys]
    if not any(thirds) and len({name for _, name in several}) == 1:
        # Nothing contradicts these values alone; what does the rest of their cases?
        thirds = [len(_thirds(key, keys, _of_case(key[0], known))) for key in keys]
    *_, second, number = sorted(thirds)
    if number <= 2 * second:
        return _saying(deviation, "one of the values is odd")
    case, name = several[thirds.index(number)]
    where = f"{name} of {case.check} with {case.environ}"
    blaming = _saying(deviation, f"the odd one is {where}, by {number} more")
    return replace(blaming, case=case, variable=name)


def _thirds(key: Key, compared: list[Key], by: set[object]) -> set[object]:
    """The cases and expectations that contradict a value, but for the compared ones."""
    thirds: set[object] = set()
    for each in by - set(compared):
        if isinstance(each, tuple):
            each = each[0]
        thirds.add(each)
    for identity, _ in compared:
        if identity != key[0]:
            thirds.discard(identity)
    return thirds


def _of_case(identity: int, known: Contradictions) -> set[object]:
    """What contradicts any value of a case."""
    every: set[object] = set()
    for key, by in known.items():
        if key[0] == identity:
            every |= by
    return every


def _saying(deviation: Deviation, clause: str) -> Deviation:
    return replace(deviation, sentence=f"{deviation.sentence}; {clause}")
