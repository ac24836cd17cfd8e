"""Head of the output of IMB-MPI1 (Intel MPI Benchmarks): its command line and message sizes."""

import re

from nearmetal.checks.parsing import ParseError, whole
from nearmetal.checks.parsing.request import options


def imb_call(lines: list[str]) -> dict:
    """The command-line options that IMB reports, by name. Raises ParseError if it reports none."""
    calls = [line for line in lines if re.match(r"# (?:\S*/)?IMB-\S+( |$)", line)]
    if len(calls) != 1:
        raise ParseError(
            f"IMB prints its command line {len(calls)} times instead of once: lines were lost; "
            "rerun"
        )
    begin = lines.index(calls[0])
    words = calls[0].split()[2:]
    for line in lines[begin + 1 :]:  # a long command line continues on the next line
        if not re.match(r"#  +\S", line):
            break
        words += line[1:].split()
    return options(words)


def imb_sizes(lines: list[str], call: dict, low: int, high: int) -> tuple[int, int]:
    """Shortest (except 0) and longest message in bytes, from the option -msglog. `low` and `high`
    are IMB's default exponents.

    Raises ParseError if IMB's lines with both lengths disagree.
    """
    asked = str(call.get("msglog", f"{low}:{high}")).split(":")
    exponents = [whole(text, "an exponent of IMB's -msglog") for text in asked]
    if len(exponents) == 1:
        exponents = [0, *exponents]
    if len(exponents) != 2 or not exponents[0] <= exponents[1] <= 40:
        raise ParseError(
            f"IMB's command line has -msglog {call.get('msglog')!r}, which is not a range: rerun"
        )
    for name, wanted in (("Minimum", 0), ("Maximum", 1 << exponents[1])):
        said = [line for line in lines if line.startswith(f"# {name} message length in bytes:")]
        if len(said) != 1 or said[0].split(":")[1].strip() != str(wanted):
            raise ParseError(
                f"IMB's {name.lower()} message length is not given as {wanted} bytes: lines were "
                "damaged; rerun"
            )
    return 1 << exponents[0], 1 << exponents[1]
