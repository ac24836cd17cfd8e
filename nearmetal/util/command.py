"""A ReFrame command line, read by ReFrame's own parser.

So joined options (`-rp mpich`), abbreviations (`--prg`) and both spellings of a value have
ReFrame's meaning.
"""

import argparse
import contextlib
import functools
import io
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


class CommandError(ValueError):
    """A command line that ReFrame's parser refuses; the message says why."""


@dataclass(frozen=True)
class Command:
    """The options of one command line; None where one was not given."""

    options: argparse.Namespace

    def given(self, name: str):
        """The value of an option by ReFrame's name, such as `names` of -n; None: not given."""
        return getattr(self.options, name, None)

    def actions(self) -> Iterator[tuple[argparse.Action, Any]]:
        """Each given option of ReFrame's parser, and its value."""
        for action in _parser()._actions:
            value = self.given(action.dest)
            if value is not None:
                yield action, value


def parse(line: str) -> Command:
    """The options of a command line whose first word is the program. Raises CommandError."""
    try:
        words = shlex.split(line)[1:]
        with contextlib.redirect_stdout(io.StringIO()):
            return Command(_parser().parse_args(words))
    except SystemExit:
        raise CommandError("it asks for help or a version alone") from None
    except (argparse.ArgumentError, ValueError) as error:
        raise CommandError(str(error)) from None


def words_of(action: argparse.Action, value) -> list[str]:
    """Words for another command line that the parser reads as this value of an option."""
    flag = max(action.option_strings, key=len)
    if isinstance(action, argparse._CountAction):
        return [flag] * value
    if action.nargs == 0 or value is action.const:
        return [flag]
    values = value if isinstance(value, list) else [value]
    return [f"{flag}={one}" for one in values]


class _Built(BaseException):
    """Carries the parser out of ReFrame's main function."""


@functools.cache
def _parser() -> argparse.ArgumentParser:
    """ReFrame's own parser, taken from its main function, which alone builds it."""
    from reframe.frontend import cli  # not at the top: it takes a second, and few commands need it

    def take(parser, *_):
        raise _Built(parser)

    own = argparse.ArgumentParser.parse_args
    argparse.ArgumentParser.parse_args = take  # type: ignore[method-assign, assignment]
    try:
        cli.main()
    except _Built as built:
        (parser,) = built.args
    finally:
        argparse.ArgumentParser.parse_args = own  # type: ignore[method-assign]
    parser.error = _refuse
    return parser


def _refuse(message: str):
    raise CommandError(message)
