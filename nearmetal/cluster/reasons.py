"""Why Slurm does not start a job, in words, and the key that answers it (reasons.yaml)."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

from nearmetal.util import documents

#: What Slurm's commands write before a refusal: `srun: error: Unable to allocate resources: `.
BEFORE = re.compile(r".*(?:error: |allocate resources: |submission failed: )")
FILE = Path(__file__).resolve().parent / "reasons.yaml"


@dataclass(frozen=True)
class Reason:
    like: re.Pattern[str]  #: how Slurm's words begin
    means: str
    fix: str
    passes: bool = False  #: whether the job starts later by itself


@functools.cache
def known() -> list[Reason]:
    """The reasons of reasons.yaml, in their order."""
    reasons = []
    for entry in documents.read(FILE):
        like = re.compile("|".join(entry["like"]), re.IGNORECASE)
        reasons.append(Reason(like, entry["means"], entry["fix"], entry.get("passes", False)))
    return reasons


def reason_of(text: str) -> Reason | None:
    """What Slurm's words on a job that does not start mean; None if they are not known.

    :arg text: the reason of a pending job, or the errors of srun or sbatch.
    """
    lines = [BEFORE.sub("", line).replace("_", " ") for line in text.splitlines()]
    for reason in known():
        if any(map(reason.like.match, lines)):
            return reason
    return None
