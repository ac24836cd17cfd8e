"""Runs a cluster's commands, and keeps what they did not tell."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

#: Seconds for a command that only reads.
PATIENCE = 60
#: Seconds for a command to end after SIGTERM.
GRACE = 10
#: Variables of Slurm that a user sets for all jobs.
KEPT = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_ACCOUNT", "SLURM_QOS", "SLURM_RESERVATION")
#: Beginnings of variables that change which job a command means, or which columns it prints.
DROPPED = ("SLURM_", "SINFO_", "SQUEUE_", "SCONTROL_", "SACCT_")
#: What makes commands answer in English. Lmod reads its own variable, then LANG; it ignores LC_ALL.
#: A site's file of messages for Lmod would replace the English ones; of a path without a file it
#: reads none. It stops at an empty file.
ENGLISH = {
    "LC_ALL": "C",
    "LANG": "C",
    "LANGUAGE": "C",
    "LMOD_OVERRIDE_LANG": "en",
    "LMOD_SITE_MSG_FILE": f"{os.devnull}/none",
}
#: Seconds until a command that waits is looked after; each time twice as many, up to the second.
LOOK = (0.5, 15.0)


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """The variables of a command: without those of a job that this process may be in.

    `srun` would start a step of that job, and not a job of its own.
    """
    kept = dict(own)
    for name in own:
        if name.startswith(DROPPED) and name not in KEPT:
            del kept[name]
    return kept | ENGLISH


@dataclass(frozen=True)
class Answer:
    """What a command wrote, and how it ended."""

    output: str = ""
    errors: str = ""
    code: int | None = None  #: None: it did not start, or was ended
    why: str = ""  #: why it did not start, or was ended

    @property
    def both(self) -> str:
        """Output and errors: modules systems list modules on either."""
        return f"{self.output}\n{self.errors}"

    @property
    def failure(self) -> str:
        """Why the command failed, in a line; '' if it succeeded."""
        if self.code == 0:
            return ""
        return self.why or last_line(self.both) or "it failed"


@dataclass
class Asker:
    """Runs commands. A command that fails is a sentence in `unread`."""

    unread: list[str] = field(default_factory=list)

    def run(
        self, words: Sequence[str], seconds: float = PATIENCE, stop: Callable[[], str] | None = None
    ) -> Answer:
        """The answer of a command.

        :arg stop: is called again and again. A text ends the command, and is why.
        """
        try:
            # Without a terminal, no command can wait for an answer of the user.
            process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=environment(os.environ),
            )
        except FileNotFoundError:
            return Answer(why="the command is not on PATH")
        except OSError as error:
            return Answer(why=error.strerror or str(error))
        with process:
            try:
                answer = _answer(process, seconds, stop)
            except BaseException:
                end(process)
                raise
            if answer.why:
                end(process)
        return answer

    def output(self, *words: str) -> str:
        """The output of a command that succeeds; '' after a sentence in `unread`."""
        return self.ask(words).output

    def ask(self, words: Sequence[str], seconds: float = PATIENCE) -> Answer:
        """The answer of a command that succeeds; an empty one after a sentence in `unread`."""
        answer = self.run(words, seconds)
        if not answer.failure:
            return answer
        self.unread.append(f"`{shlex.join(words)}`: {answer.failure}")
        return Answer()


def _answer(process: subprocess.Popen, seconds: float, stop: Callable[[], str] | None) -> Answer:
    """The answer of a command within some seconds. With a `why`, the command is to be ended."""
    end = time.monotonic() + seconds
    pause, longest = LOOK
    # A command that nobody stops is waited for once.
    if stop is None:
        pause = longest = seconds
    while (left := end - time.monotonic()) > 0:
        try:
            output, errors = process.communicate(timeout=min(pause, left))
            return Answer(output, errors, process.returncode)
        except subprocess.TimeoutExpired:
            pause = min(2 * pause, longest)
        if stop and (why := stop()):
            return Answer(why=why)
    return Answer(why=f"no answer within {seconds:.0f} s")


def end(process: subprocess.Popen, grace: float = GRACE) -> None:
    """End a command. `srun` and ReFrame cancel jobs at SIGTERM, and could not at SIGKILL.

    :arg grace: seconds for that.
    """
    process.terminate()
    try:
        process.communicate(timeout=grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_line(text: str) -> str:
    """The last line that is not empty, which of a failed command tells most."""
    lines = text.strip().splitlines() or [""]
    return lines[-1].strip()[:200]
