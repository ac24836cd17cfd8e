"""Parsers of benchmark output: they return numbers, or raise a ParseError that says what is wrong.

Parsers are pure functions of text, one module for each program. Names hold the units: ``_us`` are
microseconds, ``_gbps`` 1e9 bit/s (networks), ``mbytes_per_s`` and STREAM's rates 1e6 byte/s.
Message sizes are in bytes.

A module has a function that reads one launch from an `Output` (`output.py`). The decorator
`each_launch` makes it a parser of a text with several launches.

A parser refuses damaged output. Each number passes `whole`, `positive` or `real` (`numbers.py`).
Figures that the program prints twice (a mean and its parts, a time and its rate) must `agree`. Each
launch has a `did`: the parameters that the program reports. The check compares them with those that
it requested (`request.py`).

No output may stop or fill a command. Each parser is `bounded`. What it builds grows with the output
and not with a count that the output claims (`Output.expect_lines_for`). Each pattern takes time in
proportion to its line.
"""

from __future__ import annotations

import functools
import re

#: Most characters and lines of an output, beyond those of all pairs of 2048 nodes in three repeats.
MOST_CHARACTERS, MOST_LINES = 1 << 29, 10_000_000
#: Most characters of a line. The longest is a list of 20,000 ranks.
LONGEST_LINE = 1 << 17
#: Most digits of a number: Python refuses to read one of 4301, and 309 are infinite.
MOST_DIGITS = 300
#: Most characters of an error.
LONGEST_MESSAGE = 2000
#: What ends a line (str.splitlines).
ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
TOO_LONG = re.compile(rf"^.{{{LONGEST_LINE + 1}}}", re.M)
TOO_MANY_DIGITS = re.compile(rf"(?<!\d)\d{{{MOST_DIGITS + 1},}}")

#: The end of an error about an output that contradicts itself or lacks something.
DAMAGED = "lines were lost, mixed or damaged; rerun, and look at the job's stderr"
#: The end of an error about a line that a program does not print.
OTHERS = (
    "the program failed here, lines were mixed, or a library or the site printed it. Fix: see the "
    "job's stderr; have others print to stderr or nothing (such as UCX_LOG_LEVEL=error), and rerun"
)


class ParseError(ValueError):
    """The output cannot be used. The message says what is missing or wrong, and what to do."""

    def __init__(self, message: str):
        super().__init__(brief(message))


def brief(message: str) -> str:
    """The message; its beginning and its end if it quotes a long line."""
    if len(message) <= LONGEST_MESSAGE:
        return message
    half = LONGEST_MESSAGE // 2
    return f"{message[:half]} ... {message[-half:]}"


def damaged(what: str) -> ParseError:
    """The error about an output that contradicts itself, or that lacks something."""
    return ParseError(f"{what}: {DAMAGED}")


def cut_off(what: str) -> ParseError:
    """The error about an output that has no end."""
    return ParseError(f"{what}: the job was cut off (time limit, crash); see its stderr and rerun")


def foreign(line: str, program: str) -> ParseError:
    """The error about a line within a program's output that the program does not print."""
    return ParseError(f"{line[:200]!r} stands in the output of {program}: {OTHERS}")


def bounded(parse):
    """Decorator of a parser: no text can stop or fill it. It raises ParseError for such a text."""

    @functools.wraps(parse)
    def run(text: str, *further):
        expect_bounds(text)
        try:
            return parse(text, *further)
        except ArithmeticError as error:
            raise damaged(f"a figure is beyond all measurements ({error})") from None

    return run


def expect_bounds(text: str) -> None:
    """Raise ParseError if a text is longer than any output, or has a longer line or number."""
    expect_at_most(len(text), MOST_CHARACTERS, "the output has", "characters")
    expect_at_most(sum(map(text.count, ENDS)), MOST_LINES, "the output has", "lines")
    if match := TOO_LONG.search(text):
        number = text.count("\n", 0, match.start()) + 1
        line = text[match.start() :].partition("\n")[0]
        expect_at_most(len(line), LONGEST_LINE, f"line {number} of the output has", "characters")
    if match := TOO_MANY_DIGITS.search(text):
        number = text.count("\n", 0, match.start()) + 1
        what = f"a number in line {number} of the output has"
        expect_at_most(len(match[0]), MOST_DIGITS, what, "digits")


def expect_at_most(count: int, most: int, what: str, unit: str) -> None:
    if count > most:
        raise ParseError(
            f"{what} {count} {unit}, but the most are {most}: it is damaged, or another program "
            "wrote into it. Fix: see the job's stdout and stderr, and rerun"
        )
