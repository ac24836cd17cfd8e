"""A test's display name in ReFrame, taken apart; and the file of what has a name.

ReFrame's own options add parameters to a test whose names begin with a point, and clone the test:
`--repeat=N` adds `%.repeat_no=0`, `--distribute` adds `%.part=lab:native %.nid=native1`, and
`-P sizes=1,2` adds `%.sizes=1` where `sizes` is a variable of the check.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

#: One parameter of a display name; a value may hold spaces.
PARAMETER = re.compile(r" %([^\s=]+)=(.*?)(?= %[^\s=]+=|$)")
#: What a file's name holds of a name: no separator, no point, nothing that a shell takes apart.
OF_NO_FILE = re.compile(r"[^A-Za-z0-9_-]")
#: Format of a baseline's file. Format 1 had no number, and could bound the wrong side.
BASELINE_FORMAT = 2
#: Most characters of a name that a file's name holds.
MOST_OF_FILE = 80


class NoFileNameError(ValueError):
    """A name is none of a file. The message says it, with the fix."""


@dataclass(frozen=True)
class Name:
    """What the display name of one clone of a test says."""

    check: str  #: the case's name, without what `--repeat` and `--distribute` added
    plain: str  #: the same without what `-P` added
    node: str  #: the node that `--distribute` gave the job; empty: Slurm chose
    repeat: int  #: number of the clone that `--repeat` made, from 0

    @property
    def varied(self) -> dict[str, str]:
        """Variables of the check that `-P` set, with their values."""
        given = parameters(self.check).items()
        return {name[1:]: value for name, value in given if name.startswith(".")}


@functools.lru_cache(maxsize=65536)
def base_name(display_name: str) -> str:
    """The check's own name, without its parameters."""
    return display_name.partition(" ")[0]


@functools.lru_cache(maxsize=65536)
def parameters(display_name: str) -> Mapping[str, str]:
    """The parameters in a display name, as text: `pingpong %placement=internode` has one."""
    return MappingProxyType(dict(PARAMETER.findall(display_name)))


@functools.lru_cache(maxsize=65536)
def parse(display_name: str) -> Name:
    """The parts of a display name such as `tcp %.repeat_no=1 %.part=lab:cc %.nid=n7`."""
    given = parameters(display_name)
    repeat = given.get(".repeat_no", "0")
    # Names are stored text, in which anything may stand.
    if not repeat.isdecimal():
        repeat = "0"
    return Name(
        _without(display_name, lambda name: name in (".repeat_no", ".part", ".nid")),
        _without(display_name, lambda name: name.startswith(".")),
        given.get(".nid", ""),
        int(repeat),
    )


def _without(display_name: str, unwanted) -> str:
    def kept(parameter: re.Match) -> str:
        if unwanted(parameter[1]):
            return ""
        return parameter[0]

    return PARAMETER.sub(kept, display_name)


def plain(check: str) -> str:
    """A check's name without the percent signs that ReFrame sets before parameters."""
    return PARAMETER.sub(r" \1=\2", check)


def step_of(value: object) -> str | int | float:
    """A parameter's value as a key of a reference file, as ReFrame 4.10 makes it by `$index`."""
    if isinstance(value, (str, int, float)):
        return value
    return str(value)


def stem(name: str) -> str:
    """The name as the name of a file, with `_` for what may not stand there. Two may be equal."""
    return OF_NO_FILE.sub("_", name)[:MOST_OF_FILE] or "_"


def file_of(name: str, ending: str) -> str:
    """The file of what alone has this name, in no other directory. Raises NoFileNameError.

    A name may be stored text: `../x` and `/x` are refused.
    """
    if stem(name) != name:
        raise NoFileNameError(
            f"{name!r} is no name of a file. Fix: take at most {MOST_OF_FILE} letters, digits, "
            "_ and -"
        )
    return name + ending
