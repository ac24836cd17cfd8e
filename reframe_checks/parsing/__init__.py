"""From the output of a benchmark program to numbers, or to a ParseError that says what is wrong.

Pure functions of text, a module a program.  Units are in the names: ``_us`` microseconds, ``_gbps`` 1e9 bit/s (networks),
``mbytes_per_s`` and STREAM's rates 1e6 byte/s.  Message sizes are bytes.
"""

import math
import re


class ParseError(ValueError):
    """The output can't be used; the message says what is missing or wrong and what to do."""


def positive(text: str, what: str) -> float:
    """A measured number; ParseError, which names ``what``, for anything but a finite one above zero."""
    try:
        value = float(text)
    except ValueError:
        raise ParseError(
            f"{what} is {text!r}, not a number: rerun, and look at the job's stderr"
        ) from None
    if not (math.isfinite(value) and value > 0):
        raise ParseError(
            f"{what} is {text}, which no measurement gives: raise the iterations and rerun"
        )
    return value


def launches_of(text: str, start: str, program: str) -> list[list[str]]:
    """The lines of each launch; what stands before the first (a launcher's or module's words) is dropped."""
    launches: list[list[str]] = []
    for line in text.splitlines():
        if re.match(start, line):
            launches.append([])
        if launches:
            launches[-1].append(line.strip())
    if not launches:
        hint = (
            "it is empty"
            if not text.strip()
            else f"it begins {text.strip().splitlines()[0][:80]!r}"
        )
        raise ParseError(
            f"no {program} in this output ({hint}): see the job's stderr and whether the launcher ran"
        )
    return launches


def fact(line: str) -> tuple[str, str]:
    """``# nearmetal key: value`` as (key, value); ('', '') for any other line."""
    found = re.fullmatch(r"# nearmetal ([^:]+): ?(.*)", line)
    return (found[1], found[2]) if found else ("", "")


def parts(line: str) -> tuple[str, list[float]]:
    """``# nearmetal <parts>: <key>=<name> <unit>=1.5,1.6`` as (name, [1.5, 1.6]): what one launch was timed in, in order."""
    found = re.fullmatch(r"# nearmetal \w+: \w+=(\w+) \w+=(\S+)", line)
    if not found:
        raise ParseError(f"{line!r} does not give the parts of a launch: rerun it")
    return found[1], [positive(number, f"a part of {found[1]}") for number in found[2].split(",")]
