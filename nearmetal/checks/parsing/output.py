"""The output of one launch of a program, and what all parsers read of it."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from nearmetal.checks.parsing import (
    ParseError,
    bounded,
    cut_off,
    damaged,
    expect_at_most,
    foreign,
    numbers,
)

#: Last line of our programs' output, and of IMB's.
END = "# nearmetal complete"
IMB_END = "# All processes entering MPI_Finalize"
#: First line of a launch of IMB.
IMB_START = r"#\s+Intel ?\(R\) MPI Benchmarks"

#: Deepest JSON: fio's and IOR's have seven levels.
DEEPEST = 100
#: Most values that a launch may claim for each line that it prints. Nodes that fail print less.
CLAIMED_A_LINE = 100
BRACKETS = re.compile(r"[][{}]")

#: What a line of JSON looks like if a program writes a value a line.
JSON_LINE = re.compile(r'".*|[][{}, ]*|-?\d[\d.eE+-]*,?|true,?|false,?|null,?|')
#: Facts that a launch may report many times, once for each message size, thread, function, ...
SERIES = {"batches", "sockets", "threads", "binding", "passes", "detours", "iterations", "parts"}
#: Facts that jvm.sh and instances.sh print before the next launch begins.
BETWEEN = {"jvm", "instance"}

Run = TypeVar("Run")


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


@dataclass
class Launch:
    """One complete launch of a program."""

    #: What the program says of itself; {} from one that says nothing.
    facts: dict[str, str]
    #: Parameters that the program reports. The check compares them with the requested ones.
    did: dict


@dataclass(frozen=True)
class Form:
    """A line of a result: words that name it, then its values, or `failed` and the reason."""

    names: int  #: number of words, the kind of line among them
    values: int  #: number of words
    read: Callable[[list[str], list[str]], Any]  #: these names and values -> the result
    may_fail: bool = True


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
            if line.startswith("#") or (numbers.NUMBER.fullmatch(first) and not ended):
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
            if key in BETWEEN:
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
        did = {}
        for name, text in words_of(facts["method"], what, names).items():
            read = numbers.real if name == "warmup" else numbers.positive
            did[name] = read(text, f"{what}: {name}")
        return did

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
        did = {name: numbers.real(text, f"{what}: {name}") for name, text in words.items()}
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

    def results(
        self,
        forms: Mapping[str, Form],
        key_of: Callable[[list[str]], tuple | None],
        reasons: Collection[str],
        fails_twice: bool = False,
    ) -> dict[tuple, Any]:
        """What was printed of each result: its values, or the reason why there are none.

        :arg forms: by the first word of a line. Lines with other words are skipped.
        :arg key_of: function: the words that name a result -> its key; None: it was not measured.
        :arg reasons: that the program gives.
        :arg fails_twice: whether both ends of a result may say that it failed, even one alone.
        """
        results: dict[tuple, Any] = {}
        for line in self.lines:
            form = forms.get(line.partition(" ")[0])
            if form is None:
                continue
            words = line.split()
            names, values = words[: form.names], words[form.names :]
            failed = form.may_fail and values[:1] == ["failed"]
            if not values or not (failed or len(values) == form.values):
                raise damaged(f"a line is {line!r}")
            key = key_of(names)
            if key is None:
                raise damaged(f"a line is {line!r}, which was not measured")
            if failed:
                result = reason_of(values[1:], reasons)
            else:
                result = form.read(names, values)
            if key not in results or (fails_twice and isinstance(results[key], str)):
                results[key] = result
            elif not (fails_twice and failed):
                raise damaged(f"{line!r} was printed twice")
        return results

    def application(self, pattern: str) -> dict[str, str]:
        """The fact that names the program, with the version in its first line."""
        match = re.search(pattern, self.lines[0])
        version = "unknown"
        if match:
            version = match[1]
        return {"application": f"{self.program} {version}"}

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

    def figures(self, patterns: dict[str, str], reason: str = "") -> Figures:
        """What the named groups of the patterns match, by their names with blanks.

        Raises ParseError if a pattern is missing.

        :arg reason: what the program says of its end.
        """
        pairs: list[tuple[str, str]] = []
        missing = []
        for name, pattern in patterns.items():
            if match := self.only(pattern):
                for group, text in match.groupdict().items():
                    pairs.append((group.replace("_", " "), text))
            else:
                missing.append(name)
        if missing:
            raise self.incomplete(", ".join(missing), reason)
        return Figures(self.program, pairs)

    def incomplete(self, missing: str, reason: str = "") -> ParseError:
        """The error about an output of others that lacks something."""
        cause = f" ({reason})" if reason else ""
        return cut_off(
            f"the output of {self.program} stops before its end{cause}, or lines were lost: it "
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
            expect_at_most(depth, DEEPEST, f"the document of {self.program} has", "levels")

    def _unreadable(self, text: str, error: Exception) -> ParseError:
        """The error about a JSON document. It quotes a line of others, if there is one."""
        for line in map(str.strip, text.splitlines()):
            if not JSON_LINE.fullmatch(line):
                return foreign(line, self.program)
        return damaged(
            f"{self.program}'s document cannot be read ({type(error).__name__}: {error})"
        )


class Figures(dict[str, str]):
    """What a program prints by name, once each. Raises ParseError for what is missing."""

    def __init__(self, program: str, pairs: Iterable[tuple[str, str]]):
        super().__init__()
        self.program = program
        for name, text in pairs:
            if name in self:
                raise damaged(f"{program} gives {name} twice")
            self[name] = text.strip()

    def __missing__(self, name: str) -> str:
        raise ParseError(
            f"the output of {self.program} lacks {name}: it was cut off, or is of another version; "
            "see the job's stderr"
        )

    def whole(self, name: str, least: int = 1) -> int:
        return numbers.whole(self[name], f"{self.program}: {name}", least)

    def positive(self, name: str) -> float:
        return numbers.positive(self[name], f"{self.program}: {name}")

    def real(self, name: str, least: float = 0) -> float:
        """A number of at least `least`."""
        number = numbers.real(self[name], f"{self.program}: {name}")
        if number < least:
            raise damaged(f"{self.program}: {name} is {self[name]}")
        return number

    def agree(self, name: str, computed: float, within: float) -> float:
        """The number, which follows from others."""
        number = self.positive(name)
        numbers.agree(f"{self.program}: {name}", number, computed, within)
        return number


def chunks(items: list, size: int) -> list[list]:
    """The items in lists of so many. The last one may be shorter."""
    return [items[begin : begin + size] for begin in range(0, len(items), size)]


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
    return match[1], numbers.positives(match[2].split(","), f"a part of {match[1]}")


def expect_equal(runs: Iterable, what: str) -> None:
    """Raise ParseError if instances that ran at once did different things."""
    did = [run.did for run in runs]
    if did.count(did[0]) < len(did):
        raise ParseError(
            f"instances at once measured {did}, not the same: have their nodes the same {what}?"
        )


def reason_of(words: list[str], reasons: Collection[str]) -> str:
    """Why our program has no value: one of its reasons. Raises ParseError for any other words."""
    reason = " ".join(words)
    if reason not in reasons:
        raise damaged(f"a value failed for {reason!r}")
    return reason
