"""Which of two values that contradict each other is the odd one. Pure functions of deviations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from nearmetal.expectations.judge import Deviation, Measured

#: A value: its case's identity, and its variable.
Key = tuple[int, str]


@dataclass
class Contradicted:
    """A value, and the values that contradict it."""

    case: Measured
    variable: str
    #: Keys of values, and names of expectations that it deviates from by itself.
    by: set[object] = field(default_factory=set)

    @property
    def key(self) -> Key:
        return id(self.case), self.variable


def with_odd_values(deviations: Iterable[Deviation]) -> list[Deviation]:
    """The deviations; those over several values say which is odd, and are about that one.

    A median of several values tells: the judged value is odd. Of two values, the odd one is
    contradicted by thirds, too, or by itself: by more than twice as many as the other one. Without
    thirds, one of the two is odd.
    """
    deviations = list(deviations)
    values: dict[Key, Contradicted] = {}
    for deviation in deviations:
        several = _values(deviation, values)
        for value in several:
            value.by |= {other.key for other in several} - {value.key}
        if len(several) == 1:
            several[0].by.add(deviation.expectation.name)
    odd: dict[tuple, Deviation] = {}
    for deviation in deviations:
        placed = _placed(deviation, values)
        own = placed.case is deviation.case and placed.variable == deviation.variable
        # Several cases may blame a value by one expectation; the value's own sentence goes first.
        key = placed.expectation.name, id(placed.case), placed.variable
        if own or key not in odd:
            odd[key] = placed
    return list(odd.values())


def _values(deviation: Deviation, known: dict[Key, Contradicted]) -> list[Contradicted]:
    """The values that a deviation compares, the judged one first; not those of a median."""
    pairs = [(deviation.case, deviation.variable)]
    for variable, cases in deviation.beside:
        if len(cases) == 1:
            pairs.append((cases[0], variable))
    return [known.setdefault((id(case), name), Contradicted(case, name)) for case, name in pairs]


def _placed(deviation: Deviation, known: dict[Key, Contradicted]) -> Deviation:
    """The deviation with a clause on the odd value, of which it then is."""
    if not deviation.beside or not deviation.variable:
        return deviation
    several = _values(deviation, known)
    most = max(len(cases) for _, cases in deviation.beside)
    if most > 1:
        return _saying(
            deviation, f"the odd one is this value, which is far from the median of {most}"
        )
    keys = {value.key for value in several}
    thirds = [len(value.by - keys) for value in several]
    if not any(thirds):
        # Nothing contradicts these values alone; what does the rest of their cases?
        cases = {id(value.case) for value in several}
        thirds = [len(_contradicting(value.case, known) - cases) for value in several]
    *_, second, number = sorted(thirds)
    if number <= 2 * second:
        return _saying(deviation, "one of the values is odd")
    odd = several[thirds.index(number)]
    where = f"{odd.variable} of {odd.case.check} with {odd.case.environ}"
    said = _saying(deviation, f"the odd one is {where}, by {number} more")
    return replace(said, case=odd.case, variable=odd.variable)


def _contradicting(case: Measured, known: dict[Key, Contradicted]) -> set[object]:
    """The cases, and expectations, that contradict any value of a case."""
    by = {each for value in known.values() if value.case is case for each in value.by}
    return {each[0] if isinstance(each, tuple) else each for each in by}


def _saying(deviation: Deviation, clause: str) -> Deviation:
    return replace(deviation, sentence=f"{deviation.sentence}; {clause}")
