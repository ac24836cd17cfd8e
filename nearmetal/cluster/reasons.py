"""Why Slurm does not start a job, in words, and the key that answers it (reasons.yaml)."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from nearmetal import strict_yaml

FILE = Path(__file__).resolve().parent / "reasons.yaml"


@dataclass(frozen=True)
class Reason:
    like: re.Pattern[str]
    means: str
    fix: str
    passes: bool = False  #: whether the job starts later by itself


@functools.cache
def known() -> list[Reason]:
    """The reasons of reasons.yaml, in their order."""
    return [
        Reason(
            re.compile("|".join(one["like"]), re.IGNORECASE),
            one["means"],
            one["fix"],
            one.get("passes", False),
        )
        for one in strict_yaml.load(FILE.read_bytes())
    ]


def reason_of(text: str) -> Reason | None:
    """What Slurm's words on a job that does not start mean; None if they are not known."""
    plain = re.sub(r"(?<=[a-z])_(?=[a-z])", " ", text)
    return next((one for one in known() if one.like.search(plain)), None)
