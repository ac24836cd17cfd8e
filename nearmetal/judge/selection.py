"""The cases that a session should hold, from its command. A session without one is incomplete."""

import contextlib
import functools
import hashlib
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

from nearmetal.judge.baseline import Baseline, Key
from nearmetal.model import naming
from nearmetal.results import Session
from nearmetal.util import files
from nearmetal.util.command import Command, CommandError, parse

#: Filters that cannot be evaluated offline, by ReFrame's names.
OPAQUE = (
    "tags",
    "exclude_tags",
    "filter_expr",
    "maintainers",
    "gpu_only",
    "cpu_only",
    "failed",
    "restore_session",
    "mode",
)
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
#: Seconds of processor time for all that a stored command chooses by: expressions and files.
PATIENCE = 2.0
#: Most bytes of a file of checks.
MOST_BYTES = 4 << 20
#: What Python raises on an expression that is none, or too large a one.
NO_EXPRESSION = (re.error, OverflowError, RecursionError)


class TooSlow(Exception):
    """PATIENCE is over. The message names what was evaluated last."""


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise TooSlow in the body after PATIENCE. `re` looks for signals while it matches."""
    if threading.current_thread() is not threading.main_thread():
        raise TooSlow("an expression outside the main thread, where it has no time limit")

    def end(*_):
        raise TooSlow("the files of -c")

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before or signal.SIG_DFL)


def promised(session: Session, baseline: Baseline) -> tuple[set[Key], str]:
    """The baseline's cases that the session's command selects, and a note if they are unknown."""
    try:
        command = parse(session.command)
        asked = _asked(session, command)
        with _limited():
            keys: set[Key] = set()
            undefined: set[Key] = set()
            for key in baseline.entries:
                if not _selected(key, asked, command):
                    continue
                if _defined(key[0].split()[0], session, asked):
                    keys.add(key)
                else:
                    undefined.add(key)
    except (CommandError, *NO_EXPRESSION) as error:
        return set(), f"the session's command cannot be read ({error}): {session.command}"
    except TooSlow as error:
        return set(), (
            f"the session's command takes too long to evaluate ({error}), so a missing case is not "
            f"noticed: {session.command}"
        )
    except OSError as error:
        return set(), (
            f"the file {error.filename} of -c cannot be read ({error.strerror}), so a missing case "
            f"is not noticed: {session.command}"
        )
    if any(map(command.given, OPAQUE)) or _by_number(command):
        return set(), (
            "the command has filters that only ReFrame can evaluate, so a missing case is not "
            f"noticed: {session.command}"
        )
    return keys, _note(undefined, session)


def _note(undefined: set[Key], session: Session) -> str:
    """Checks of the baseline that no file of this session defines; '' if there is none."""
    lacking = undefined - session.by_key.keys()
    if session.selection or not lacking:
        return ""
    names = {naming.base_name(check) for check, *_ in lacking}
    return f"in the baseline, but in no file of -c: {', '.join(sorted(names))}"


def _by_number(command: Command) -> bool:
    """Whether tests are chosen by variant number, as in `-n pingpong@1`."""
    patterns = [*(command.given("names") or ()), *(command.given("exclude_names") or ())]
    return "@" in "".join(patterns)


def _asked(session: Session, command: Command) -> dict:
    """System, environments and paths of checks that the session's command asks for."""
    return session.selection or {
        "system": command.given("system") or "",
        "environs": command.given("prgenv") or [".*"],
        "paths": [str(Path(session.directory, path)) for path in command.given("checkpath") or ()],
    }


def _selected(key: Key, asked: dict, command: Command) -> bool:
    """Whether the command selects a case, wherever its check is."""
    check, partition, environ = key
    if asked["system"].partition(":")[2] not in ("", partition):
        return False
    for pattern in asked["environs"]:
        if _in_time(pattern, re.compile(pattern).match, environ):
            return _named(check, command) and not _replaced(check, command)
    return False


def _in_time(pattern: str, match: Callable, where) -> bool:
    """Whether a stored expression matches. Raises TooSlow, which names it."""
    try:
        return bool(match(where))
    except TooSlow:
        raise TooSlow(pattern) from None


def _named(check: str, command: Command) -> bool:
    """Whether -n and -x choose a check with this display name, by ReFrame's own filters."""
    # Imported here, because it takes a second.
    from reframe.core.exceptions import ReframeError
    from reframe.frontend.filters import have_any_name, have_not_name

    case = SimpleNamespace(check=SimpleNamespace(display_name=check, hashcode=_hashcode(check)))
    names = [name for name in command.given("names") or () if "@" not in name]
    excluded = [name for name in command.given("exclude_names") or () if "@" not in name]
    try:
        chosen = not names or _in_time("|".join(names), have_any_name(names), case)
        return chosen and all(_in_time(name, have_not_name(name), case) for name in excluded)
    except ReframeError as error:  # no regular expression
        raise CommandError(str(error)) from None


def _hashcode(check: str) -> str:
    """ReFrame's hash of a check with this display name: `-n /1953a4fc` selects by it."""
    name = naming.PARAMETER.sub("", check)
    parameters = sorted(map("=".join, naming.parameters(check).items()))
    return hashlib.sha256("".join([name, *parameters]).encode()).hexdigest()[:8]


def _replaced(check: str, command: Command) -> bool:
    """Whether -P replaced the value of a parameter that the check itself has."""
    own = naming.parameters(check)
    for words in command.given("parameterize") or ():
        name, _, values = words.partition("=")
        name = name.rpartition(".")[2]
        delimiter = command.given("param_values_delim") or ","
        if name in own and own[name] not in values.split(delimiter):
            return True
    return False


def _defined(check: str, session: Session, asked: dict) -> bool:
    """Whether a path of -c may hold the check. Raises OSError."""
    paths = tuple(asked["paths"])
    # Of our own suite, a check is missing also if its file is gone. A suite of others is one of
    # several, so that only what its directory defines can be missing.
    if not paths or (session.selection and any(Path(path).is_dir() for path in paths)):
        return True
    return check in _classes(paths)


@functools.lru_cache(maxsize=8)
def _classes(paths: tuple[str, ...]) -> frozenset[str]:
    """Names of the classes in files and directories. Raises OSError."""
    names: set[str] = set()
    for path in map(Path, paths):
        listed = [path]
        if path.is_dir():
            listed = list(path.rglob("*.py"))
        for file in listed:
            text = files.read(file, MOST_BYTES).decode(errors="replace")
            names.update(CLASS.findall(text))
    return frozenset(names)
