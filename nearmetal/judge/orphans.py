"""Finds a ReFrame that an interrupted `nearmetal gate` or `nearmetal fleet` left behind.

SIGKILL ends the command before it can end its ReFrame, which goes on and stores what it measures.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nearmetal.results import CONFIRMS, OTHER_NODES

#: Processes of this host.
PROCESSES = Path("/proc")


@dataclass(frozen=True)
class Orphan:
    """A running ReFrame."""

    process: int
    owner: str


def of_session(uuid: str) -> Iterator[Orphan]:
    """Each ReFrame on this host that measures cases of the session again."""
    extras = {f"{CONFIRMS}={uuid}{suffix}" for suffix in ("", OTHER_NODES)}
    for place in PROCESSES.glob("[0-9]*"):
        try:
            words = (place / "cmdline").read_bytes().decode(errors="replace").split("\0")
            owner = place.stat().st_uid
        except OSError:  # it has ended
            continue
        if os.geteuid() not in (0, owner):  # a stranger could call any process so
            continue
        # An interpreter's first word is its own name. Shells and wrappers have other names.
        names = [Path(word).name for word in words[:3]]
        if extras.intersection(words) and "reframe" in names:
            yield Orphan(int(place.name), user(owner))


def user(number: int) -> str:
    """The user of a number in words."""
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"
