"""Why a repeat of a job was disturbed, as a check stores it and as results hold it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cause:
    """Why a repeat was disturbed."""

    #: a quantity of references/disturbance.yaml
    rule: str
    #: of the quantity, the largest of the nodes
    value: float
    #: in words, with the nodes
    text: str
