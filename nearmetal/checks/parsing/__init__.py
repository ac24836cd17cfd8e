"""Parsers of benchmark output: they return numbers, or raise a ParseError that says what is wrong.

Parsers are pure functions of text, one module for each program. Names hold the units: ``_us`` are
microseconds, ``_gbps`` 1e9 bit/s (networks), ``mbytes_per_s`` and STREAM's rates 1e6 byte/s.
Message sizes are in bytes.

A parser refuses damaged output. Each number passes `whole`, `positive` or `real`. Figures that the
program prints twice (a mean and its parts, a time and its rate) must `agree`. Each launch has a
`did`: the parameters that the program reports. The check compares them with those that it requested
(`request.py`).

No output may stop or fill a command. Each parser is `bounded`. What it builds grows with the output
and not with a count that the output claims (`backed`). Each pattern takes time in proportion to its
line.
"""

from __future__ import annotations

import functools
import json
import math
import re

NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
WHOLE = re.compile(r"\d{1,18}", re.ASCII)
#: Last line of our programs' output.
END = "# nearmetal complete"


#: Most characters and lines of an output, beyond those of all pairs of 2048 nodes in three repeats.
MOST_CHARACTERS, MOST_LINES = 1 << 29, 10_000_000
#: Most characters of a line. The longest is a list of 20,000 ranks.
LONGEST_LINE = 1 << 17
#: Most digits of a number: Python refuses to read one of 4301, and 309 are infinite.
MOST_DIGITS = 300
#: Deepest JSON: fio's and IOR's have seven levels.
DEEPEST = 100
#: Most values that a launch may claim for each line that it prints. Nodes that fail print less.
CLAIMED_A_LINE = 100
#: Most characters of an error.
LONGEST_MESSAGE = 2000
#: What ends a line (str.splitlines).
ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"
TOO_LONG = re.compile(rf"^.{{{LONGEST_LINE + 1}}}", re.M)
TOO_MANY_DIGITS = re.compile(rf"(?<!\d)\d{{{MOST_DIGITS + 1},}}")
BRACKETS = re.compile(r"[][{}]")


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


def bounded(parse):
    """Decorator of a parser: no text can stop or fill it. It raises ParseError for such a text."""

    @functools.wraps(parse)
    def run(text: str, *further):
        expect_bounds(text)
        try:
            return parse(text, *further)
        except ArithmeticError as error:
            raise ParseError(
                f"a figure of the output is beyond all measurements ({error}): digits were "
                "damaged; rerun"
            ) from None

    return run


def expect_bounds(text: str) -> None:
    """Raise ParseError if a text is longer than any output, or has a longer line or number."""
    _expect_at_most(len(text), MOST_CHARACTERS, "the output has", "characters")
    _expect_at_most(sum(map(text.count, ENDS)), MOST_LINES, "the output has", "lines")
    if found := TOO_LONG.search(text):
        number = text.count("\n", 0, found.start()) + 1
        line = text[found.start() :].partition("\n")[0]
        _expect_at_most(len(line), LONGEST_LINE, f"line {number} of the output has", "characters")
    if found := TOO_MANY_DIGITS.search(text):
        number = text.count("\n", 0, found.start()) + 1
        what = f"a number in line {number} of the output has"
        _expect_at_most(len(found[0]), MOST_DIGITS, what, "digits")


def _expect_at_most(count: int, most: int, what: str, unit: str) -> None:
    if count > most:
        raise ParseError(
            f"{what} {count} {unit}, but the most are {most}: it is damaged, or another program "
            "wrote into it. Fix: see the job's stdout and stderr, and rerun"
        )


def backed(claimed: int, lines: list[str], what: str) -> None:
    """Raise ParseError if a launch claims far more values than it prints lines.

    :arg claimed: lines of a launch in which every node answers.
    """
    if claimed > CLAIMED_A_LINE * len(lines):
        raise ParseError(
            f"{what} claims {claimed} values, but prints {len(lines)} lines: digits were damaged; "
            "rerun"
        )


def document(text: str, program: str):
    """The JSON document that a program printed. Raises ParseError if it is too deep, and
    ValueError."""
    depth = 0
    for found in BRACKETS.finditer(text):
        depth += 1 if found[0] in "[{" else -1
        _expect_at_most(depth, DEEPEST, f"the document of {program} has", "levels")
    return json.loads(text)


def real(text: str, what: str, finite: bool = True) -> float:
    """A finite number. Raises ParseError, which names ``what``, for any other text.

    :arg finite: False lets nan and inf pass, for callers that handle them.
    """
    if not NUMBER.fullmatch(text):
        try:
            known = not math.isfinite(float(text))  # programs print nan and inf
        except ValueError:
            known = False
        if not known:
            raise ParseError(
                f"{what} is {text!r}, not a number: rerun, and look at the job's stderr"
            )
    value = float(text)
    if finite and not math.isfinite(value):
        raise ParseError(
            f"{what} is {text}, which no measurement gives: raise the iterations and rerun"
        )
    return value


def positive(text: str, what: str) -> float:
    """A finite number above zero. Raises ParseError, which names ``what``, for any other text."""
    value = real(text, what)
    if value <= 0:
        raise ParseError(
            f"{what} is {text}, which no measurement gives: raise the iterations and rerun"
        )
    return value


def whole(text: str, what: str, least: int = 0) -> int:
    """A whole number of at least ``least``. Raises ParseError, which names ``what``, for any other
    text."""
    if not WHOLE.fullmatch(text):
        raise ParseError(f"{what} is {text!r}, not a number: rerun, and look at the job's stderr")
    if int(text) < least:
        raise ParseError(f"{what} is {text}, but the least is {least}: lines were damaged; rerun")
    return int(text)


def unit(text: str) -> float:
    """The value of one unit in the last printed digit: 0.01 for ``1.96``."""
    digits, _, exponent = text.lower().partition("e")
    decimals = len(digits.partition(".")[2])
    return 10.0 ** (int(exponent or 0) - decimals)


def decimals(text: str, count: int, what: str) -> None:
    """Raise ParseError unless a number is printed with `count` decimals: digits were lost."""
    if len(text.partition(".")[2]) != count:
        raise ParseError(
            f"{what} is {text}, not printed with {count} decimals: digits were lost; rerun"
        )


def agree(what: str, one: float, other: float, within: float) -> None:
    """Raise ParseError if two figures of one quantity differ by more than their rounding."""
    if not abs(one - other) <= within * 1.01 + 1e-9 * abs(one):
        raise ParseError(
            f"{what}: the output gives {one:.9g} and {other:.9g} for it: digits or lines were "
            "damaged; rerun"
        )


#: What a line of JSON looks like if a program writes a value a line.
JSON_LINE = re.compile(r'".*|[][{}, ]*|-?\d[\d.eE+-]*,?|true,?|false,?|null,?|')
#: The end of an error about a line that a program does not print.
OTHERS = (
    "the program failed here, lines were mixed, or a library or the site printed it. Fix: see the "
    "job's stderr; have others print to stderr or nothing (such as UCX_LOG_LEVEL=error), and rerun"
)


def foreign(line: str, program: str) -> ParseError:
    """The error about a line within a program's output that the program does not print."""
    return ParseError(f"{line[:200]!r} stands in the output of {program}: {OTHERS}")


def unreadable(text: str, program: str, error: Exception) -> ParseError:
    """The error about a JSON document. It quotes a line of others, if there is one."""
    for line in text[max(0, text.find("{")) : text.rfind("}") + 1].splitlines():
        if not JSON_LINE.fullmatch(line.strip()):
            return foreign(line.strip(), program)
    return ParseError(
        f"{program}'s document cannot be read ({type(error).__name__}: {error}): lines were lost; "
        "rerun, and look at the job's stderr"
    )


def own_lines(lines: list[str]) -> list[str]:
    """The lines of a complete launch of ours whose rows begin with a number.

    A library may print others between them, and a site behind them. A row that is lost is missed by
    the table's sizes.
    """
    if END not in lines:
        return lines
    own, ended = [], False
    for line in lines:
        first = line.partition(" ")[0]
        if line.startswith("#") or (NUMBER.fullmatch(first) and not ended):
            own.append(line)
        ended = ended or line == END
    return own


def launches_of(text: str, start: str, program: str, strip: bool = True) -> list[list[str]]:
    """The lines of each launch. Lines before the first launch (of a launcher, a prolog or `module`)
    are dropped."""
    launches: list[list[str]] = []
    for line in text.splitlines():
        if re.match(start, line):
            launches.append([])
        if launches:
            launches[-1].append(line.strip() if strip else line.rstrip())
    if not launches:
        hint = (
            "it is empty"
            if not text.strip()
            else f"it begins {text.strip().splitlines()[0][:80]!r}"
        )
        raise ParseError(
            f"no {program} in this output ({hint}): see the job's stderr and whether the launcher "
            "ran"
        )
    return launches


def fact(line: str) -> tuple[str, str]:
    """``# nearmetal key: value`` as (key, value); ('', '') for any other line."""
    found = re.fullmatch(r"# nearmetal ([^:]+): ?(.*)", line)
    return (found[1], found[2]) if found else ("", "")


#: Facts that a launch may report many times, once for each message size, thread, function, ...
SERIES = {"batches", "sockets", "threads", "binding", "passes", "detours", "iterations", "parts"}


def facts_of(lines: list[str], needed: tuple = (), program: str = "the program") -> dict[str, str]:
    """The facts of one launch of our programs by key, without those of SERIES.

    Raises ParseError if lines of two launches were mixed, or lines were lost: a line begins like a
    fact but is none, a fact appears twice, or one of ``needed`` is missing. Lines of ours after the
    last line of the launch are an error too.
    """
    facts: dict[str, str] = {}
    ended = False
    for line in lines:
        if "# nearmetal" not in line:
            continue
        key, value = fact(line)
        if key == "jvm":  # jvm.sh prints this before the next launch begins
            continue
        if ended or not (key or line == END) or "# nearmetal" in line[1:]:
            raise ParseError(
                f"{line[:80]!r} does not belong to the output of {program}: lines were mixed or "
                "lost; rerun"
            )
        ended = line == END
        if key in facts and key not in SERIES:
            raise ParseError(
                f"{program} reports {key!r} twice in one launch: lines were mixed or lost; rerun"
            )
        if key:
            facts[key] = value
    missing = [key for key in needed if key not in facts]
    if missing:
        raise ParseError(
            f"{program} does not report its {', '.join(missing)}: lines were lost; rerun"
        )
    return {key: value for key, value in facts.items() if key not in SERIES}


def expect_ranks(facts: dict[str, str], processes: int, program: str) -> None:
    """Raise ParseError unless every rank of a launch reports its place once."""
    ranks = {key: text for key, text in facts.items() if key.startswith("rank ")}
    # The number comes first: it may be damaged, and names for all ranks would fill the memory.
    if len(ranks) != processes or any(f"rank {rank}" not in ranks for rank in range(processes)):
        raise ParseError(
            f"{program} ran on {processes} processes, but {len(ranks)} ranks report their place: "
            "lines were lost; rerun"
        )
    for key, text in ranks.items():
        if not re.fullmatch(r"host=\S+ cpu=-?\d+ allowed_cpus=-?\d+", text, re.ASCII):
            raise ParseError(f"{program}: {key} is {text!r}, not the place of a rank: rerun")


def reported(
    lines: list[str], program: str, names: str, further: tuple = ()
) -> tuple[dict[str, str], dict[str, str], dict[str, float], int]:
    """Facts, words and numbers of the method, and number of ranks of a complete launch over nodes.

    :arg names: of the method's parameters.
    :arg further: facts that the program prints beside those of every program.
    Raises ParseError if the output stops early, or lacks one of them.
    """
    if END not in lines:
        raise ParseError(f'the output stops before "{END}": the job was cut off; rerun')
    facts = facts_of(lines, ("mpi_library", "compiler", "method", *further), program)
    what = f"the method of {program}"
    given = words_of(facts["method"], what, names)
    did = {name: real(text, f"{what}: {name}") for name, text in given.items()}
    ranks = sum(key.startswith("rank ") for key in facts)
    expect_ranks(facts, ranks, program)
    return facts, given, did, ranks


def hosts_of(facts: dict[str, str], ranks: int) -> tuple[str, ...]:
    """The host of each rank, as `expect_ranks` wants them."""
    return tuple(re.split("[= ]", facts[f"rank {rank}"])[1] for rank in range(ranks))


def words_of(value: str, what: str, names: str) -> dict[str, str]:
    """``a=1 b=2`` by name. Raises ParseError if the names are not those in ``names``."""
    pairs = [word.partition("=") for word in value.split()]
    if [name for name, _, _ in pairs] != names.split() or not all(pair[2] for pair in pairs):
        raise ParseError(f"{what} is {value!r} instead of {names} with a number each: rerun")
    return {name: text for name, _, text in pairs}


def numbers_of(value: str, what: str, names: str) -> dict[str, float]:
    """As `words_of`, with the values as numbers."""
    return {
        name: positive(text, f"{what}: {name}") if name != "warmup" else real(text, what)
        for name, text in words_of(value, what, names).items()
    }


def parts(line: str) -> tuple[str, list[float]]:
    """(name, [1.5, 1.6]) of ``# nearmetal <parts>: <key>=<name> <unit>=1.5,1.6``: the timed parts
    of one launch, in order."""
    found = re.fullmatch(r"# nearmetal \w+: \w+=(\w+) \w+=(\S+)", line)
    if not found:
        raise ParseError(f"{line!r} does not give the parts of a launch: rerun it")
    return found[1], [positive(number, f"a part of {found[1]}") for number in found[2].split(",")]
