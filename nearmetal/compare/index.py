"""The values of a session by variable and partition: one walk over its cases for all tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nearmetal.results import Value

#: Check, environment, variable and unit.
Key = tuple[str, str, str, str]


class Index:
    """Values by variable and partition."""

    def __init__(self, values: Iterable[Value]):
        self.keys: dict[Key, None] = {}  #: in the order of the values
        self.places: dict[str, dict[Key, Value]] = {}  #: partition -> its values
        for value in values:
            key = value.check, value.environ, value.variable, value.unit
            self.keys[key] = None
            self.places.setdefault(value.place, {})[key] = value

    def at(self, place: str) -> dict[Key, Value]:
        """The values of a partition."""
        return self.places.get(place, {})

    def row(self, key: Key, places: Sequence[str]) -> list[Value | None]:
        """A variable's value on each partition; None where it was not measured."""
        return [self.at(place).get(key) for place in places]
