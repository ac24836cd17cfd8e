"""ReFrame's phases of a case. Our words say why one failed: a full disk, a refusal of sbatch, or
what disturbed the nodes."""

from __future__ import annotations

import functools
from pathlib import Path

import reframe as rfm
from reframe.core.exceptions import BuildError, PerformanceError, PipelineError, SanityError
from reframe.core.meta import RegressionTestMeta

from nearmetal.checks import failures, waiting
from nearmetal.checks.settings import BUILD_ON_NODES
from nearmetal.checks.waiting import Waiting

#: What ReFrame raises where a phase of a case fails.
FAILURES = (BuildError, PerformanceError, PipelineError, SanityError)


class Phases(rfm.RegressionTest, special=True):  # type: ignore[call-arg]
    """The methods of ReFrame that our checks extend, which `special=True` allows."""

    @classmethod
    @functools.cache
    def loggable_attrs(cls):
        """What ReFrame reads for each log record, without `variables`, its old name of `env_vars`.

        ReFrame warns of the old name and walks the call stack for it: half of a dry run's time.
        """
        attributes = RegressionTestMeta.loggable_attrs(cls)
        return [(name, logged_as) for name, logged_as in attributes if name != "variables"]

    def setup(self, partition, environ, **job_opts):
        """ReFrame's setup. It creates the build's job, so the place of the build is set before."""
        case = f"{self.display_name} on {partition.fullname} with {environ.name}"
        self._waiting, self._waits_for_the_build = Waiting(case), Waiting(f"the build of {case}")
        if BUILD_ON_NODES.of(partition, False):
            self.build_locally = False
        begin = functools.partial(super().setup, partition, environ, **job_opts)
        self._with_full_disk(begin)

    def compile(self):
        """ReFrame's build. A failure also names a full disk."""
        self._with_full_disk(functools.partial(waiting.submitted, super().compile))

    def compile_wait(self):
        """ReFrame's wait for the build. A failure also names a full disk."""
        self._with_full_disk(super().compile_wait)

    def compile_complete(self):
        """ReFrame's look at the build, which may wait for a node."""
        self._waits_for_the_build.look(self.build_job)
        return super().compile_complete()

    def run(self):
        """ReFrame's submission. A failure names a full disk, or the key that sbatch refuses."""
        self._with_full_disk(functools.partial(waiting.submitted, super().run))

    def run_complete(self):
        """ReFrame's look at the job. It says once why the job waits."""
        self._waiting.look(self.job)
        return super().run_complete()

    def skip(self, msg=None):
        """ReFrame's skip. The reason is stored, which ReFrame only prints."""
        self.skip_reason = (msg or "").removeprefix(f"{self.display_name}: ")
        super().skip(msg)

    def check_sanity(self):
        """ReFrame's check. A failure also names what disturbed the nodes."""
        self._with_disturbance(super().check_sanity)

    def check_performance(self):
        """ReFrame's check. A failure also names the expectation, and what disturbed the nodes."""
        check = super().check_performance
        self._with_disturbance(lambda: self.check_against_expectations(check))

    def _with_full_disk(self, phase) -> None:
        try:
            phase()
        except (OSError, *FAILURES) as error:
            cause = self._full_disk(str(error))
            if not cause or cause in str(error):
                raise
            # An OSError is none of ReFrame's own errors.
            kind = PipelineError
            if isinstance(error, FAILURES):
                kind = type(error)
            raise kind(f"{cause}{error}") from None

    def _with_disturbance(self, check) -> None:
        try:
            self._with_full_disk(check)
        except (SanityError, PerformanceError) as error:
            clause = ""
            if not self.is_dry_run():
                clause = failures.disturbance(self.stagedir)
            if not clause or clause in str(error):
                raise
            raise type(error)(f"{error}{clause}") from None  # ReFrame appends a cause

    def _refuse_a_job_that_failed(self) -> None:
        # A heterogeneous job has the states of its components, joined by commas.
        states, code = self.job.state.split(","), self.job.exitcode
        failed = [state for state in states if state not in ("COMPLETED", "SUCCESS")]
        # ReFrame's scheduler `squeue`, for sites without accounting, reports no exit code.
        if not failed and (code == 0 or (code is None and self._reached_its_end())):
            return
        state = [*failed, *states][0]
        if state == "NODE_FAIL":
            # Slurm requeues a job that could not start, even if the site forbids requeueing.
            # ReFrame would not notice the second run.
            self.job.scheduler.cancel(self.job)
        raise self._failure(
            failures.explain(
                type(self).__name__,
                self.job.jobid,
                self.job.nodelist,
                state,
                code,
                self._last_words(),
                self._read(self.stderr, missing=""),
                self._waiting.why_cancelled(self.job),
                accounting=self.job.scheduler.registered_name != "squeue",
            )
        )

    def _reached_its_end(self) -> bool:
        """Whether the job's script took its last snapshot, which `set -e` keeps from a failed
        one."""
        return Path(self.stagedir, "provenance.after").exists()
