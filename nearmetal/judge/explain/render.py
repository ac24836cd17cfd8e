"""Likely causes as text for a terminal, and as a document for programs."""

from tabulate import tabulate

from nearmetal.judge.render import FORMAT, causes_of, identity, named
from nearmetal.judge.verdict import GateReport
from nearmetal.util import sanitize

HEADERS = ("where", "", "likely cause", "support", "evidence")
#: Least scores of the words for a support.
SUPPORT = ((4.0, "strong"), (2.0, "fair"), (0.1, "weak"))
WIDTH = 72


def support(score: float) -> str:
    """A score as a word; "" for no support."""
    for least, name in SUPPORT:
        if score >= least:
            return name
    return ""


def table(report: GateReport) -> str:
    """The causes as a table, with their evidence."""
    if not report.causes and report.verdict != "clean":
        return "no cause can be given: nothing that got worse, failed or was disturbed has a layer"
    if not report.causes:
        return "nothing got worse, so there is nothing to explain"
    rows: list[list[str]] = []
    counts: dict[str, int] = {}
    for cause in sanitize.every(report.causes):
        # A cause is numbered on its first partition.
        number = counts[cause.places[0]] = counts.get(cause.places[0], 0) + 1
        where, (first, *others) = ", ".join(cause.places), cause.evidence or ("",)
        rows.append([where, str(number), named(cause), support(cause.score), first])
        for line in others:
            rows.append(["", "", "", "", line])
    return tabulate(
        rows,
        HEADERS,
        disable_numparse=True,
        maxcolwidths=[None, None, 40, None, WIDTH],
    )


def document(report: GateReport) -> dict:
    """The causes for programs. Keys: those of `causes` in nearmetal/judge/gate-schema.yaml."""
    return {
        "format": FORMAT,
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "session": sanitize.every(identity(report)),
        "causes": sanitize.every(causes_of(report)),
    }
