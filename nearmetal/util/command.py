"""A ReFrame command line, read by ReFrame's own parser, and which options may start it once more.

So joined options (`-rp mpich`), abbreviations (`--prg`) and both spellings of a value have
ReFrame's meaning.

A database is data: somebody else may have written it. An option that names a program, a file or a
Python expression could run what that person wants. So the command of a session is not repeated. Its
options are rebuilt from a list of harmless ones, and every other option is refused by its name.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import os
import re
import shlex
from argparse import Action
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nearmetal.checkout import CHECKOUT, PACKAGE

#: Options that are kept: a number, a choice or no value at all, and the name of a mode.
KEPT = (
    *("recursive", "exec_policy", "max_retries", "flex_alloc_nodes", "flex_alloc_strict", "mode"),
    *("skip_performance_check", "skip_prgenv_check", "skip_sanity_check", "skip_system_check"),
    *("non_default_craype", "purge_env", "keep_stage_files", "verbose", "quiet", "colorize"),
)
#: Options that are left out: the new run chooses its cases and its outputs by itself.
LEFT_OUT = (
    *("run", "system", "prgenv", "names", "exclude_names", "failed", "restore_session"),
    *("tags", "exclude_tags", "filter_expr", "maintainers", "gpu_only", "cpu_only"),
    *("repeat", "distribute", "parameterize", "param_values_delim", "reruns", "duration"),
    *("report_file", "report_junit", "compress_report", "timestamp", "session_extras"),
    *("performance_report", "failure_stats", "table_format", "table_format_delim"),
    *("term_lhs", "term_rhs", "exec_order", "maxfail", "save_log_files", "warn_as_error"),
)
#: Options that are kept where their values are files of this checkout or of the configuration.
PATHS = ("checkpath", "config_files")
#: Words of `--job-option` that say where a job runs, and nothing else.
JOB_OPTION = re.compile(
    r"-{0,2}(account|qos|reservation|partition|nodelist|exclude|constraint|time)=[\w.,:@%+\[\]-]+",
    re.ASCII,
)
#: A value that names no file and is no part of a shell's language.
PLAIN = re.compile(r"[\w.,:+-]*", re.ASCII)
#: Line of a check that declares a setting.
SETTING = re.compile(r"^    (\w+) = (?:\w+\.)?setting\(", re.MULTILINE)
#: Variables that are no settings, and as harmless.
VARIABLES = ("suite", "num_tasks", "time_limit", "max_pending_time")
#: The setting that chooses how often a case runs, which the new run says by itself.
REPEATS = "repeats"


class CommandError(ValueError):
    """A command line that ReFrame's parser refuses; the message says why."""


@dataclass(frozen=True)
class Command:
    """The options of one command line; None where one was not given."""

    options: argparse.Namespace

    def given(self, name: str):
        """The value of an option by ReFrame's name, such as `names` of -n; None: not given."""
        return getattr(self.options, name, None)

    def actions(self) -> Iterator[tuple[Action, Any]]:
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


def words_of(action: Action, value) -> list[str]:
    """Words for another command line that the parser reads as this value of an option."""
    flag = max(action.option_strings, key=len)
    if isinstance(action, argparse._CountAction):
        return [flag] * value
    if action.nargs == 0 or value is action.const:
        return [flag]
    if not isinstance(value, list):
        value = [value]
    return [f"{flag}={text}" for text in value]


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


@dataclass(frozen=True)
class Rebuilt:
    """The options of a stored command for a new run."""

    words: tuple[str, ...]
    #: words that a database may not choose
    refused: tuple[str, ...]


def rebuild(command: Command, directory: str, given: Sequence[str] = ()) -> Rebuilt:
    """The harmless options of a command, and the refused ones.

    :arg directory: where the command ran, for its relative paths.
    :arg given: the command that starts ReFrame. What it gives by itself is not refused.
    """
    words, refused = [], []
    for action, value in command.actions():
        is_given = _gives(given, action)
        if action.dest in LEFT_OUT or (is_given and action.dest in PATHS):
            continue
        for word, safe in _of_option(action, value, directory):
            if safe:
                words.append(safe)
            elif not is_given:
                refused.append(word)
    return Rebuilt(tuple(words), tuple(refused))


def _of_option(action: Action, value, directory: str) -> Iterator[tuple[str, str]]:
    """Each word of an option, and the same word for the new run; '' if it is refused."""
    for word in words_of(action, value):
        option, _, text = word.partition("=")
        if action.dest in PATHS:
            path = _path(text, directory)
            yield word, path and f"{option}={path}"
            continue
        if action.dest == "vars":
            if _name_of(text) == REPEATS:
                continue
            harmless = _is_setting(text)
        elif action.dest == "job_options":
            harmless = bool(JOB_OPTION.fullmatch(text))
        else:
            harmless = action.dest in KEPT and bool(PLAIN.fullmatch(text))
        yield word, word * harmless


def _path(text: str, directory: str) -> str:
    """The whole path of a file of ours; '' if it is none."""
    # A colon begins the name of a file that replaces the others.
    name = text.removeprefix(":")
    try:
        path = Path(directory or CHECKOUT, name).resolve()
        is_ours = any(_is_of(path, place.resolve()) for place in _places())
    except (OSError, ValueError, RuntimeError):
        # It is no path at all, or links form a circle.
        return ""
    if not is_ours:
        return ""
    colon = text[: len(text) - len(name)]
    return f"{colon}{path}"


def _is_of(path: Path, place: Path) -> bool:
    """Whether a path is below a directory, and of its owner, of root or of this user.

    Results may be below it, which are another user's. Raises OSError.
    """
    if not path.is_relative_to(place):
        return False
    owners = {0, os.geteuid(), place.stat().st_uid}
    for part in (path, *path.parents):
        if part.is_relative_to(place) and part.stat().st_uid not in owners:
            return False
    return True


def _places() -> list[Path]:
    """The directories of our checks, and of the user's configuration of ReFrame."""
    configured = filter(None, os.environ.get("RFM_CONFIG_PATH", "").split(":"))
    return [CHECKOUT / "reframe_checks", CHECKOUT / "site-config", *map(Path, configured)]


def _name_of(text: str) -> str:
    """The variable that a text of `-S` sets, without its check."""
    place, _, _ = text.partition("=")
    return place.rpartition(".")[2]


def _is_setting(text: str) -> bool:
    """Whether the text of `-S` gives a plain value to a setting of our checks."""
    place, _, value = text.partition("=")
    name = _name_of(text)
    known = name in VARIABLES or name in _settings()
    return bool(known and PLAIN.fullmatch(place) and PLAIN.fullmatch(value))


@functools.cache
def _settings() -> frozenset[str]:
    """Names of all settings that our checks declare."""
    names: set[str] = set()
    for directory in (PACKAGE / "checks", CHECKOUT / "reframe_checks"):
        for file in directory.rglob("*.py"):
            names.update(SETTING.findall(file.read_text(errors="replace")))
    return frozenset(names)


def _gives(given: Sequence[str], action: Action) -> bool:
    """Whether these words have the option, as `-C FILE`, `-CFILE` or `--config-file=FILE`."""
    gives = False
    for word in given:
        if Path(word).name == "reframe":
            # The words before it are of another program, such as `sudo`.
            gives = False
        for flag in action.option_strings:
            # The value of a short flag needs no `=`.
            is_short = not flag.startswith("--")
            if word == flag or word.startswith(f"{flag}=") or (is_short and word.startswith(flag)):
                gives = True
    return gives


def how_to_give(refused: Sequence[str]) -> str:
    """The option of `nearmetal gate` that gives refused words."""
    return f"--reframe={shlex.quote(shlex.join(['reframe', *refused]))}"
