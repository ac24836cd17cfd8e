"""Checks of others: they run one launch, and store neither facts of the nodes nor evidence."""

from collections.abc import Iterable

from nearmetal.model import naming
from nearmetal.results import Case
from nearmetal.util.suggest import shorten


def note(cases: Iterable[Case]) -> str:
    """The sentence on what such cases lack; '' if there is none."""
    names = sorted({naming.base_name(case.check) for case in cases if case.foreign})
    if not names:
        return ""
    return (
        f"no facts of the nodes and no evidence: {shorten(names)}. What changed with a value, and "
        "whether something disturbed it, is unknown. The mixin nearmetal.checks.Measured stores "
        "both (docs/foreign.md)"
    )


def repeats(count: int, cases: Iterable[Case]) -> str:
    """ReFrame's option for a number of repeats: its own, if checks of others need it."""
    if any(case.foreign for case in cases):
        return f"--reruns={count - 1}"
    return f"-S repeats={count}"
