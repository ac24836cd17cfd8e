"""Head of the output of IMB-MPI1 (Intel MPI Benchmarks): its command line and message sizes."""

from __future__ import annotations

import re

from nearmetal.checks.parsing import damaged, numbers
from nearmetal.checks.parsing.request import options


def imb_call(lines: list[str]) -> dict:
    """The command-line options that IMB reports, by name. Raises ParseError if it reports none."""
    calls = [line for line in lines if re.match(r"# (?:\S*/)?IMB-\S+( |$)", line)]
    if len(calls) != 1:
        raise damaged(f"IMB prints its command line {len(calls)} times instead of once")
    words = calls[0].split()[2:]
    for line in lines[lines.index(calls[0]) + 1 :]:
        # A long command line continues on the next line.
        if not re.match(r"#  +\S", line):
            break
        words += line[1:].split()
    return options(words)


def imb_sizes(lines: list[str], call: dict, low: int, high: int) -> tuple[int, int]:
    """Shortest (except 0) and longest message in bytes, from the option -msglog. `low` and `high`
    are IMB's default exponents.

    Raises ParseError if IMB's lines with both lengths disagree.
    """
    words = str(call.get("msglog", f"{low}:{high}")).split(":")
    exponents = numbers.wholes(words, "an exponent of IMB's -msglog")
    # IMB reads `-msglog 22` as `0:22`.
    if len(exponents) == 1:
        exponents = [0, *exponents]
    if len(exponents) != 2 or not exponents[0] <= exponents[1] <= 40:
        raise damaged(f"IMB's command line has -msglog {call.get('msglog')!r}, which is no range")
    for name, length in (("Minimum", 0), ("Maximum", 1 << exponents[1])):
        title = f"# {name} message length in bytes:"
        lengths = [line.removeprefix(title).strip() for line in lines if line.startswith(title)]
        if lengths != [str(length)]:
            raise damaged(f"IMB's {name.lower()} message length is not given as {length} bytes")
    return 1 << exponents[0], 1 << exponents[1]
