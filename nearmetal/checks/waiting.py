"""Why Slurm does not start a job: said once while it waits, and at once where it never starts."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from reframe.core.exceptions import JobError, PipelineError, SpawnedProcessError
from reframe.core.logging import getlogger

from nearmetal.checks.failures import shortened
from nearmetal.cluster import reasons, slurm
from nearmetal.cluster.ask import Asker

#: Seconds in the queue until Slurm is asked; each time twice as many, up to the second.
LOOK = (2, 60)
#: Seconds in the queue that need no line: the nodes of the job before are often still cleaned up.
USUAL = 5
#: What commands of Slurm write before the words of an error.
PREFIX = re.compile(r"^sbatch: (error: )?(Batch job submission failed: )?")
#: What to do where sbatch refuses a job in words that reasons.yaml does not know.
FIX = (
    "correct what these words name: an account, QOS or reservation in `access`, a time in "
    "`max_time_limit`, memory or GRES in `resources`; or ask the administrators"
)


class Waiting:
    """Asks Slurm why a job waits."""

    def __init__(self, who: str):
        self.reason = ""  #: Slurm's, in words
        self._who = who
        self._said = False
        self._pause = self._next = float(LOOK[0])

    def look(self, job) -> None:
        """Say once why a job waits. Raise JobError and cancel it if it never starts."""
        # ReFrame looks more often than Slurm's controller ought to be asked.
        waited = _seconds_in_the_queue(job)
        if waited < self._next:
            return
        self._pause = min(2 * self._pause, LOOK[1])
        self._next = waited + self._pause
        text = _reason(job)
        if text in slurm.NOTHING:
            return
        known = reasons.reason_of(text)
        self.reason = f"Slurm's reason is {text}"
        if known:
            self.reason += f": {known.means}. Fix: {known.fix}"
        if known and not known.passes:
            job.scheduler.cancel(job)
            raise JobError(f"Slurm never starts the job. {self.reason}", job.jobid)
        if waited >= USUAL and not self._said:
            self._said = True
            getlogger().info(f"Waiting: {self._who}: {self.reason}")

    def why_cancelled(self, job) -> str:
        """Why ReFrame cancelled the job; '' if it did not."""
        if not getattr(job, "is_cancelling", False):
            return ""
        limit = (
            f"max_pending_time, {job.max_pending_time:g} s" if job.max_pending_time else "allowed"
        )
        return f"it waited in the queue for longer than {limit}. {self.reason}".rstrip(". ")


def _seconds_in_the_queue(job) -> float:
    """Seconds for which a job of Slurm has waited; -1 if it does not wait."""
    if not job or job.scheduler.registered_name not in slurm.SCHEDULERS or not job.submit_time:
        return -1
    # sacct knows a job some seconds after squeue does.
    if job.state is None or job.state.startswith("PENDING"):
        return time.time() - job.submit_time
    return -1


def _reason(job) -> str:
    """Slurm's reason for which a job is pending; '' if it is not, or Slurm does not answer."""
    words = ["squeue", "--noheader", f"--jobs={job.jobid}", "--states=PENDING", "--format=%r"]
    answer = Asker().run(words)
    if answer.failure:
        return ""
    return next(iter(answer.output.split("\n")), "").strip()


def submitted(submit: Callable[[], None]) -> None:
    """Submit a job. Raises PipelineError with the key that answers the refusal of sbatch."""
    try:
        submit()
    except SpawnedProcessError as error:
        if not str(error.command).startswith("sbatch"):
            raise
        raise PipelineError(refusal(error.stderr or error.stdout or "")) from None


def refusal(text: str) -> str:
    """A sentence on what sbatch said where it refused a job, and the fix."""
    lines = [PREFIX.sub("", line.strip()) for line in text.splitlines() if line.strip()]
    said = shortened(" / ".join(dict.fromkeys(filter(None, lines)))) or "it said nothing"
    known = reasons.reason_of(text)
    if known:
        return f"sbatch refused the job ({said}): {known.means}. Fix: {known.fix}"
    return f"sbatch refused the job ({said}). Fix: {FIX}"
