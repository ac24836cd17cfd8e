"""The cases that a session should hold, from its command. A session without one is incomplete."""

import hashlib
import re
from pathlib import Path
from types import SimpleNamespace

from nearmetal import naming
from nearmetal.command import Command, CommandError, parse
from nearmetal.gate.baseline import Baseline, Key
from nearmetal.results import Session

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
#: Options that choose cases or set how often ReFrame runs them.
CHOOSING = (
    "system",
    "prgenv",
    "names",
    "exclude_names",
    "failed",
    "restore_session",
    "repeat",
    "distribute",
    "parameterize",
    "reruns",
    "duration",
)


def promised(session: Session, baseline: Baseline) -> tuple[set[Key], str]:
    """The baseline's cases that the session's command selects, and a note if they are unknown."""
    try:
        command = parse(session.command)
        keys = {key for key in baseline.entries if _selected(key, session, command)}
    except (CommandError, re.error) as error:
        return set(), f"the session's command cannot be read ({error}): {session.command}"
    except OSError as error:
        return set(), (
            f"the file {error.filename} of -c cannot be read ({error.strerror}), so a missing case "
            f"is not noticed: {session.command}"
        )
    if any(command.given(name) for name in OPAQUE) or _by_number(command):
        return set(), (
            "the command has filters that only ReFrame can evaluate, so a missing case is not "
            f"noticed: {session.command}"
        )
    return keys, ""


def _by_number(command: Command) -> bool:
    """Whether tests are chosen by variant number, as in `-n pingpong@1`."""
    patterns = [*(command.given("names") or ()), *(command.given("exclude_names") or ())]
    return any("@" in pattern for pattern in patterns)


def _selected(key: Key, session: Session, command: Command) -> bool:
    check, partition, environ = key
    asked = session.selection or {
        "system": command.given("system") or "",
        "environs": command.given("prgenv") or [".*"],
        "paths": [str(Path(session.directory, path)) for path in command.given("checkpath") or ()],
    }
    only = asked["system"].partition(":")[2]
    return (
        only in ("", partition)
        and any(re.match(pattern, environ) for pattern in asked["environs"])
        and _named(check, command)
        and not _replaced(check, command)
        and _within(check.split()[0], asked["paths"])
    )


def _named(check: str, command: Command) -> bool:
    """Whether -n and -x choose a check with this display name, by ReFrame's own filters."""
    # Imported here, because it takes a second.
    from reframe.core.exceptions import ReframeError
    from reframe.frontend.filters import have_any_name, have_not_name

    case = SimpleNamespace(check=SimpleNamespace(display_name=check, hashcode=_hashcode(check)))
    names = [name for name in command.given("names") or () if "@" not in name]
    excluded = [name for name in command.given("exclude_names") or () if "@" not in name]
    try:
        chosen = bool(not names or have_any_name(names)(case))
        return chosen and all(have_not_name(name)(case) for name in excluded)
    except ReframeError as error:  # no regular expression
        raise CommandError(str(error)) from None


def _hashcode(check: str) -> str:
    """ReFrame's hash of a check with this display name: `-n /1953a4fc` selects by it."""
    name, *parameters = check.split(" %")
    return hashlib.sha256("".join([name, *sorted(parameters)]).encode()).hexdigest()[:8]


def _replaced(check: str, command: Command) -> bool:
    """Whether -P replaced the value of a parameter that the check itself has."""
    own = dict(naming.PARAMETER.findall(check))
    for words in command.given("parameterize") or ():
        name, _, values = words.partition("=")
        name = name.rpartition(".")[2]
        delimiter = command.given("param_values_delim") or ","
        if name in own and own[name] not in values.split(delimiter):
            return True
    return False


def _within(check: str, paths: list[str]) -> bool:
    """Whether a path of -c may hold the check: any directory, or a file that defines it."""
    files = [Path(path) for path in paths]
    if not files or any(path.is_dir() for path in files):
        return True
    definition = re.compile(rf"^class {re.escape(check)}\b", re.MULTILINE)
    return any(definition.search(path.read_text(errors="replace")) for path in files)
