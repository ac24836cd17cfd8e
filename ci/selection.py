"""What a session was meant to run, from the command that started it: fewer cases than that are not a pass."""

import argparse
import re
import shlex

from .baseline import Baseline, Key
from .results import Session


class _Quiet(argparse.ArgumentParser):
    def error(self, message):
        raise ValueError(message)


#: ReFrame's options that choose cases by what a case's key tells.
CHOOSING = {"name": ("-n", "--name"), "exclude": ("-x", "--exclude"), "prgenv": ("-p", "--prgenv")}
#: Those that choose by what it doesn't.
OPAQUE = (
    "-t",
    "--tag",
    "-T",
    "--exclude-tag",
    "-E",
    "--filter-expr",
    "--maintainer",
    "--gpu-only",
    "--cpu-only",
    "--failed",
)
SWITCHES = ("--gpu-only", "--cpu-only", "--failed")


def parse(command: str) -> tuple[argparse.Namespace, list[str]]:
    """What a ReFrame command selects, and its other words. Raises ValueError."""
    parser = _Quiet(add_help=False, allow_abbrev=False)
    parser.add_argument("--system")
    for name, flags in CHOOSING.items():
        parser.add_argument(*flags, action="append", default=[], dest=name)
    for flag in OPAQUE:
        parser.add_argument(
            flag,
            dest="opaque",
            **({"action": "store_true"} if flag in SWITCHES else {"action": "append"}),
        )
    return parser.parse_known_args(shlex.split(command)[1:])


def promised(session: Session, baseline: Baseline) -> tuple[set[Key], str]:
    """The baseline's cases that the session's command selects, and a note where that can't be told from the command."""
    try:
        chosen, _ = parse(session.command)
        keys = {key for key in baseline.entries if _selected(key, chosen)}
    except (ValueError, re.error) as error:
        return set(), f"the session's command can't be read ({error}): {session.command}"
    if chosen.opaque:
        return (
            set(),
            f"selected by what only ReFrame knows, so that a case that is not there goes unseen: {session.command}",
        )
    return keys, ""


def _selected(key: Key, chosen) -> bool:
    check, partition, environ = key
    system = (chosen.system or "").partition(":")[2]
    # ReFrame matches names without spaces, and `name@part` as well.
    name = check.replace(" ", "")
    return (
        (not system or system == partition)
        and (not chosen.name or any(re.match(pattern, name) for pattern in chosen.name))
        and not any(re.match(pattern, name) for pattern in chosen.exclude)
        and (not chosen.prgenv or any(re.match(pattern, environ) for pattern in chosen.prgenv))
    )
