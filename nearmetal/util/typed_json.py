"""Typed reading of decoded JSON: the value of a key, or an error that names its place."""

from __future__ import annotations

import math
import reprlib
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

#: What ReFrame stores for an attribute that a test did not get as far as to set, beside null.
UNDEFINED = "<undefined>"
#: Types of a number; a truth value is none, though Python counts it as one.
NUMBERS = {int, float}


#: Shows the beginning of a value: all of a deep or large one may take more than there is.
BRIEF = reprlib.Repr()
BRIEF.maxlevel, BRIEF.maxdict, BRIEF.maxlist, BRIEF.maxtuple = 4, 20, 20, 20
BRIEF.maxstring = BRIEF.maxlong = BRIEF.maxother = 60


class ShapeError(ValueError):
    """A value has another type than the format declares; the message names its place."""


class OddValueError(ShapeError):
    """A single value is no finite number, in a list or object of the right type."""


def wrong(place: str, wanted: str, value) -> ShapeError:
    """The error for a place that holds something else than wanted."""
    return ShapeError(_sentence(place, wanted, value))


def _sentence(place: str, wanted: str, value) -> str:
    text = BRIEF.repr(value)
    if len(text) > 60:
        text = f"{text[:57]}..."
    return f"{place} is {text}, not {wanted}"


def is_odd(value) -> bool:
    """Whether a value is what a check may give by mistake: a text, a truth value, null, or what is
    not finite."""
    if type(value) in NUMBERS:
        return not math.isfinite(value)
    return value is None or type(value) in (str, bool)


def odd(place: str, value) -> OddValueError:
    """The error for a value that is no finite number."""
    return OddValueError(_sentence(place, "a finite number", value))


def refuse_odd(values: Iterable, place: str) -> None:
    """Raise OddValueError for the first odd value of a list."""
    for number, value in enumerate(values):
        if is_odd(value):
            raise odd(f"{place}.{number}", value)


def mapping(data, place: str) -> Mapping:
    """The value itself, if it is an object."""
    if type(data) is not dict:
        raise wrong(place, "an object", data)
    return data


def sequence(data, place: str) -> Sequence:
    """The value itself, if it is a list."""
    if type(data) is not list:
        raise wrong(place, "a list", data)
    return data


def text(data: Mapping, key: str, place: str, default: str | None = None) -> str:
    """A text; the default, if there is one, stands for an absent key."""
    value = data.get(key)
    if type(value) is str and (value != UNDEFINED or default is None):
        return value
    if (value is None or value == UNDEFINED) and default is not None:
        return default
    raise wrong(f"{place}.{key}", "a text", value)


def name(data: Mapping, key: str, place: str) -> str:
    """A text that is not empty."""
    value = text(data, key, place)
    if not value:
        raise wrong(f"{place}.{key}", "a name", value)
    return value


def number(data: Mapping, key: str, place: str, default: float | None = None) -> float:
    """A finite number; the default, if there is one, stands for an absent key."""
    value = data.get(key)
    if value is not None and type(value) in NUMBERS and abs(value) <= sys.float_info.max:
        return value
    if (value is None or value == UNDEFINED) and default is not None:
        return default
    raise wrong(f"{place}.{key}", "a number", value)


def texts(data: Mapping, key: str, place: str) -> list[str]:
    """A list of texts."""
    value = sequence(data.get(key), f"{place}.{key}")
    if not set(map(type, value)) <= {str}:
        raise wrong(f"{place}.{key}", "a list of texts", value)
    return list(value)


def count(data: Mapping, key: str, place: str, most: int) -> int:
    """A whole number from 1 to `most`."""
    value = data.get(key)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is int and 1 <= value <= most:
        return value
    raise wrong(f"{place}.{key}", f"a whole number from 1 to {most}", value)


def numbers(data, place: str) -> tuple[float, ...]:
    """A list of numbers as a tuple. Databases hold millions, so no loop in Python."""
    if type(data) is not list:
        raise wrong(place, "a list of numbers", data)
    if not set(map(type, data)) <= NUMBERS:
        refuse_odd(data, place)
        raise wrong(place, "a list of numbers", data)
    return tuple(data)


def rows(data, place: str) -> tuple[tuple[float, ...], ...]:
    """A list of lists of numbers as tuples."""
    if type(data) is not list or not set(map(type, data)) <= {list}:
        raise wrong(place, "a list of lists of numbers", data)
    if set(map(type, chain.from_iterable(data))) <= NUMBERS:
        return tuple(map(tuple, data))
    for number, row in enumerate(data):
        refuse_odd(row, f"{place}.{number}")
    raise wrong(place, "a list of lists of numbers", data)


def curve(data, place: str) -> dict[int, tuple[float, ...]]:
    """An object of lists of numbers by size in bytes."""
    values = rows(list(mapping(data, place).values()), place)
    digits = "".join(data)
    if data and not (digits.isdecimal() and digits.isascii() and all(data)):
        raise wrong(place, "an object by size in bytes", list(data))
    if data and max(map(len, data)) > 18:
        raise wrong(place, "an object by size in bytes", list(data))
    return dict(zip(map(int, data), values))


def items(data: Mapping, key: str, place: str) -> Iterable[tuple[str, object]]:
    """Keys and values of an object; none where the key is absent."""
    value = data.get(key)
    if type(value) is dict:
        return value.items()
    if value is None or value == UNDEFINED:
        return ()
    raise wrong(f"{place}.{key}", "an object", value)
