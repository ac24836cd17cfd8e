"""Parsers of benchmark output: they return numbers, or raise a ParseError that says what is wrong.

Parsers are pure functions of text, one module for each program. Names hold the units: ``_us`` are
microseconds, ``_gbps`` 1e9 bit/s (networks), ``mbytes_per_s`` and STREAM's rates 1e6 byte/s.
Message sizes are in bytes.

A module has a function that reads one launch from an `Output`. The decorator `each_launch` makes it
a parser of a text with several launches.

A parser refuses damaged output. Each number passes `whole`, `positive` or `real`. Figures that the
program prints twice (a mean and its parts, a time and its rate) must `agree`. Each launch has a
`did`: the parameters that the program reports. The check compares them with those that it requested
(`request.py`).

No output may stop or fill a command. Each parser is `bounded`. What it builds grows with the output
and not with a count that the output claims (`Output.expect_lines_for`). Each pattern takes time in
proportion to its line.
"""

from __future__ import annotations

import functools
import json
import math
import re
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,3})?", re.ASCII)
WHOLE = re.compile(r"\d{1,18}", re.ASCII)
#: Last line of our programs' output, and of IMB's.
END = "# nearmetal complete"
IMB_END = "# All processes entering MPI_Finalize"
#: First line of a launch of IMB.
IMB_START = r"#\s+Intel ?\(R\) MPI Benchmarks"

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

#: The end of an error about an output that contradicts itself or lacks something.
DAMAGED = "lines were lost, mixed or damaged; rerun, and look at the job's stderr"
#: The end of an error about a line that a program does not print.
OTHERS = (
    "the program failed here, lines were mixed, or a library or the site printed it. Fix: see the "
    "job's stderr; have others print to stderr or nothing (such as UCX_LOG_LEVEL=error), and rerun"
)
#: What a line of JSON looks like if a program writes a value a line.
JSON_LINE = re.compile(r'".*|[][{}, ]*|-?\d[\d.eE+-]*,?|true,?|false,?|null,?|')
#: Facts that a launch may report many times, once for each message size, thread, function, ...
SERIES = {"batches", "sockets", "threads", "binding", "passes", "detours", "iterations", "parts"}

Run = TypeVar("Run")


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
    _expect_at_most(len(text), MOST_CHARACTERS, "the output has", "characters")
    _expect_at_most(sum(map(text.count, ENDS)), MOST_LINES, "the output has", "lines")
    if match := TOO_LONG.search(text):
        number = text.count("\n", 0, match.start()) + 1
        line = text[match.start() :].partition("\n")[0]
        _expect_at_most(len(line), LONGEST_LINE, f"line {number} of the output has", "characters")
    if match := TOO_MANY_DIGITS.search(text):
        number = text.count("\n", 0, match.start()) + 1
        what = f"a number in line {number} of the output has"
        _expect_at_most(len(match[0]), MOST_DIGITS, what, "digits")


def _expect_at_most(count: int, most: int, what: str, unit: str) -> None:
    if count > most:
        raise ParseError(
            f"{what} {count} {unit}, but the most are {most}: it is damaged, or another program "
            "wrote into it. Fix: see the job's stdout and stderr, and rerun"
        )


def each_launch(
    program: str, start: str = "", what: str = "", strip: bool = True
) -> Callable[[Callable[[Output], Run]], Callable[[str], list[Run]]]:
    """Decorator of a reader of one launch: a parser of a text that returns every launch, in order.

    :arg program: name of the program.
    :arg start: pattern of the first line of a launch; default: that of our program of this name.
    :arg what: name of a launch, for the error about a text without one.
    :arg strip: whether lines lose their indentation.
    """
    start = start or f"# nearmetal program: {program}"

    def decorate(read: Callable[[Output], Run]) -> Callable[[str], list[Run]]:
        @bounded
        @functools.wraps(read)
        def parse(text: str) -> list[Run]:
            outputs = launches_of(text, start, what or program, strip)
            return [read(Output(program, lines)) for lines in outputs]

        return parse

    return decorate


def launches_of(text: str, start: str, what: str, strip: bool = True) -> list[list[str]]:
    """The lines of each launch. Lines before the first launch (of a launcher, a prolog or `module`)
    are dropped."""
    outputs: list[list[str]] = []
    for line in text.splitlines():
        if re.match(start, line):
            outputs.append([])
        if outputs:
            outputs[-1].append(line.strip() if strip else line.rstrip())
    if outputs:
        return outputs
    hint = "it is empty"
    if text.strip():
        hint = f"it begins {text.strip().splitlines()[0][:80]!r}"
    raise ParseError(
        f"no {what} in this output ({hint}): see the job's stderr and whether the launcher ran"
    )


class Output:
    """The lines of one launch of a program. Errors name the program."""

    def __init__(self, program: str, lines: list[str]):
        self.program, self.lines = program, lines

    @functools.cached_property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def ours(self) -> bool:
        """Whether a program of ours printed it. IMB and the official NPB print the same tables."""
        return self.lines[0].startswith("# nearmetal")

    def own_lines(self) -> list[str]:
        """The lines of a complete launch of ours whose rows begin with a number.

        A library may print others between them, and a site behind them. A row that is lost is
        missed by the table's sizes.
        """
        if not self.ours or END not in self.lines:
            return self.lines
        own, ended = [], False
        for line in self.lines:
            first = line.partition(" ")[0]
            if line.startswith("#") or (NUMBER.fullmatch(first) and not ended):
                own.append(line)
            ended = ended or line == END
        return own

    def facts(self, *needed: str) -> dict[str, str]:
        """The facts of a complete launch of ours by key, without those of SERIES.

        Raises ParseError if the launch has no end, or if lines of two launches were mixed: a line
        begins like a fact but is none, a fact appears twice, or one of ``needed`` is missing. Lines
        of ours after the last line of the launch are an error too.
        """
        if END not in self.lines:
            raise cut_off(f'the output of {self.program} stops before its last line "{END}"')
        facts: dict[str, str] = {}
        ended = False
        for line in self.lines:
            if "# nearmetal" not in line:
                continue
            key, value = fact(line)
            if key == "jvm":  # jvm.sh prints this before the next launch begins
                continue
            # Two processes that write at once leave the end of one line behind another one.
            if ended or not (key or line == END) or "# nearmetal" in line[1:]:
                raise damaged(f"{line[:80]!r} does not belong to the output of {self.program}")
            ended = line == END
            if key in SERIES:
                continue
            if key in facts:
                raise damaged(f"{self.program} reports {key!r} twice in one launch")
            if key:
                facts[key] = value
        self._expect("does not report its", [key for key in needed if key not in facts])
        return facts

    def _expect(self, lacks: str, missing: list[str]) -> None:
        if missing:
            raise damaged(f"{self.program} {lacks} {', '.join(missing)}")

    def method(self, facts: dict[str, str], names: str) -> dict[str, float]:
        """The parameters in the fact `method`, by these names; all but `warmup` are positive."""
        what = f"the method of {self.program}"
        numbers = {}
        for name, text in words_of(facts["method"], what, names).items():
            read = real if name == "warmup" else positive
            numbers[name] = read(text, f"{what}: {name}")
        return numbers

    def on_nodes(
        self, names: str, *needed: str
    ) -> tuple[dict[str, str], dict[str, str], dict[str, float]]:
        """Facts, words and numbers of the method of a complete launch over nodes.

        :arg names: of the method's parameters.
        :arg needed: facts that the program prints beside those of every program.
        """
        facts = self.facts("mpi_library", "compiler", "method", *needed)
        what = f"the method of {self.program}"
        words = words_of(facts["method"], what, names)
        did = {name: real(text, f"{what}: {name}") for name, text in words.items()}
        self.expect_ranks(facts, len(ranks_of(facts)))
        return facts, words, did

    def expect_ranks(self, facts: dict[str, str], processes: int) -> None:
        """Raise ParseError unless every rank of a launch reports its place once."""
        ranks = ranks_of(facts)
        # The number comes first: it may be damaged, and names for all ranks would fill the memory.
        if len(ranks) != processes or any(f"rank {rank}" not in ranks for rank in range(processes)):
            raise damaged(
                f"{self.program} ran on {processes} processes, but {len(ranks)} ranks report "
                "their place"
            )
        for key, text in ranks.items():
            if not re.fullmatch(r"host=\S+ cpu=-?\d+ allowed_cpus=-?\d+", text, re.ASCII):
                raise damaged(f"{self.program}: {key} is {text!r}, not the place of a rank")

    def expect_lines_for(self, claimed: int) -> None:
        """Raise ParseError if a launch claims far more values than it prints lines.

        :arg claimed: lines of a launch in which every node answers.
        """
        if claimed > CLAIMED_A_LINE * len(self.lines):
            lines = f"prints {len(self.lines)} lines"
            raise damaged(f"{self.program} claims {claimed} values, but {lines}")

    def refuse(self, pattern: str) -> None:
        """Raise ParseError if the program reports an error: the last group of the pattern."""
        if match := re.search(pattern, self.text, re.M):
            raise ParseError(f"{self.program} says {match[match.lastindex or 0]!r}")

    def only(self, pattern: str) -> re.Match | None:
        """The match in the output, or None. Raises ParseError if the matches differ."""
        matches = list(re.finditer(pattern, self.text, re.M | re.A))
        for match in matches[1:]:
            # A program may print a figure again at its end; blanks of columns may differ.
            if match[0].split() != matches[0][0].split():
                raise damaged(f"{self.program} prints {match[0].strip()!r} a second time")
        return matches[0] if matches else None

    def figures(self, patterns: dict[str, str], reason: str = "") -> dict[str, re.Match]:
        """The match of each pattern, by name. Raises ParseError if one is missing.

        :arg reason: what the program says of its end.
        """
        matches = {}
        missing = []
        for name, pattern in patterns.items():
            match = self.only(pattern)
            if match:
                matches[name] = match
            else:
                missing.append(name)
        if missing:
            raise self.incomplete(", ".join(missing), reason)
        return matches

    def incomplete(self, missing: str, reason: str = "") -> ParseError:
        """The error about an output of others that lacks something."""
        said = f" ({reason})" if reason else ""
        return cut_off(
            f"the output of {self.program} stops before its end{said}, or lines were lost: it "
            f"lacks {missing}"
        )

    def document(self, read: Callable[[dict], Run]) -> Run:
        """What `read` makes of the JSON document that the program printed among lines of others."""
        text = "\n".join(line for line in self.lines if not line.startswith("#"))
        # The program and others may print a sentence before its document, and after it.
        text = text[max(0, text.find("{")) : text.rfind("}") + 1]
        try:
            self._expect_shallow(text)
            return read(json.loads(text))
        # A ParseError is a ValueError too.
        except ParseError:
            raise
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
            raise self._unreadable(text, error) from None

    def _expect_shallow(self, text: str) -> None:
        depth = 0
        for bracket in BRACKETS.finditer(text):
            depth += 1 if bracket[0] in "[{" else -1
            _expect_at_most(depth, DEEPEST, f"the document of {self.program} has", "levels")

    def _unreadable(self, text: str, error: Exception) -> ParseError:
        """The error about a JSON document. It quotes a line of others, if there is one."""
        for line in map(str.strip, text.splitlines()):
            if not JSON_LINE.fullmatch(line):
                return foreign(line, self.program)
        return damaged(
            f"{self.program}'s document cannot be read ({type(error).__name__}: {error})"
        )


def _parsed(text: str) -> float | None:
    """The number of a text, nan and inf too, which programs print; None for any other text."""
    try:
        number = float(text)
    except ValueError:
        return None
    # Python also reads 1_000, blanks and digits of other scripts.
    return number if NUMBER.fullmatch(text) or not math.isfinite(number) else None


def real(text: str, what: str, finite: bool = True) -> float:
    """A finite number. Raises ParseError, which names ``what``, for any other text.

    :arg finite: False lets nan and inf pass, for callers that handle them.
    """
    number = _parsed(text)
    if number is None:
        raise ParseError(f"{what} is {text!r}, not a number: rerun, and look at the job's stderr")
    if finite and not math.isfinite(number):
        raise _unmeasured(text, what)
    return number


def positive(text: str, what: str) -> float:
    """A finite number above zero. Raises ParseError, which names ``what``, for any other text."""
    number = real(text, what)
    if number <= 0:
        raise _unmeasured(text, what)
    return number


def _unmeasured(text: str, what: str) -> ParseError:
    return ParseError(
        f"{what} is {text}, which no measurement gives: raise the iterations and rerun"
    )


def whole(text: str, what: str, least: int = 0) -> int:
    """A whole number of at least ``least``. Raises ParseError, which names ``what``, for any other
    text."""
    if not WHOLE.fullmatch(text):
        raise ParseError(f"{what} is {text!r}, not a number: rerun, and look at the job's stderr")
    if int(text) < least:
        raise damaged(f"{what} is {text}, but the least is {least}")
    return int(text)


def positives(texts: Iterable[str], what: str) -> list[float]:
    """As `positive`, of several texts."""
    return [positive(text, what) for text in texts]


def wholes(texts: Iterable[str], what: str, least: int = 0) -> list[int]:
    """As `whole`, of several texts."""
    return [whole(text, what, least) for text in texts]


def unit(text: str) -> float:
    """The value of one unit in the last printed digit: 0.01 for ``1.96``."""
    digits, _, exponent = text.lower().partition("e")
    decimals = len(digits.partition(".")[2])
    # `1.96e3` has the step 10.
    return 10.0 ** (int(exponent or 0) - decimals)


def decimals(text: str, count: int, what: str) -> None:
    """Raise ParseError unless a number is printed with `count` decimals: digits were lost."""
    if len(text.partition(".")[2]) != count:
        raise damaged(f"{what} is {text}, not printed with {count} decimals")


def agree(what: str, figure: float, other: float, within: float) -> None:
    """Raise ParseError if two figures of one quantity differ by more than their rounding."""
    # 1 % more, as the bound is itself computed from rounded figures. NaN agrees with nothing.
    if not abs(figure - other) <= within * 1.01 + 1e-9 * abs(figure):
        raise damaged(f"{what}: the output gives {figure:.9g} and {other:.9g} for it")


def fact(line: str) -> tuple[str, str]:
    """``# nearmetal key: value`` as (key, value); ('', '') for any other line."""
    match = re.fullmatch(r"# nearmetal ([^:]+): ?(.*)", line)
    return (match[1], match[2]) if match else ("", "")


def ranks_of(facts: dict[str, str]) -> dict[str, str]:
    """The facts of ranks: `rank 0` -> `host=n1 cpu=0 allowed_cpus=4`."""
    return {key: text for key, text in facts.items() if key.startswith("rank ")}


def hosts_of(facts: dict[str, str]) -> tuple[str, ...]:
    """The host of each rank, as `Output.expect_ranks` wants them."""
    ranks = ranks_of(facts)
    return tuple(re.split("[= ]", ranks[f"rank {rank}"])[1] for rank in range(len(ranks)))


def words_of(value: str, what: str, names: str) -> dict[str, str]:
    """``a=1 b=2`` by name. Raises ParseError if the names are not those in ``names``."""
    words = {}
    given = value.split()
    for pair in given:
        name, _, words[name] = pair.partition("=")
    if len(words) < len(given) or list(words) != names.split() or not all(words.values()):
        raise damaged(f"{what} is {value!r} instead of {names} with a number each")
    return words


def parts(line: str) -> tuple[str, list[float]]:
    """(name, [1.5, 1.6]) of ``# nearmetal <parts>: <key>=<name> <unit>=1.5,1.6``: the timed parts
    of one launch, in order."""
    match = re.fullmatch(r"# nearmetal \w+: \w+=(\w+) \w+=(\S+)", line)
    if not match:
        raise damaged(f"{line!r} does not give the parts of a launch")
    return match[1], positives(match[2].split(","), f"a part of {match[1]}")


def powers_of_two(first: int, largest: int) -> list[int]:
    """`first`, which is a power of two, and the powers of two beyond it up to `largest`."""
    sizes = [first]
    while sizes[-1] * 2 <= largest:
        sizes.append(sizes[-1] * 2)
    return sizes


def expect_equal(runs: Iterable, what: str) -> None:
    """Raise ParseError if instances that ran at once did different things."""
    did = [run.did for run in runs]
    if any(each != did[0] for each in did):
        raise ParseError(
            f"instances at once measured {did}, not the same: have their nodes the same {what}?"
        )


def reason_of(words: list[str], reasons: Collection[str]) -> str:
    """Why our program has no value: one of its reasons. Raises ParseError for any other words."""
    reason = " ".join(words)
    if reason not in reasons:
        raise damaged(f"a value failed for {reason!r}")
    return reason
