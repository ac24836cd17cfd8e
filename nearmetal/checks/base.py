"""What every Nearmetal check has: provenance, repeats as fresh launches, and no way to pass silently."""

import functools
import inspect
import math
import re
import statistics
import subprocess
from collections.abc import Sequence
from pathlib import Path

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from reframe.core.exceptions import ConfigError, PerformanceError, SanityError

from nearmetal.checkout import CHECKOUT
from nearmetal.checks import failures, provenance, storage
from nearmetal.checks.baselines import Baselined
from nearmetal.checks.parsing import ParseError, request
from nearmetal.checks.programs import Programs
from nearmetal.checks.settings import MAX_PENDING_TIME, MAX_TIME_LIMIT, NODES, Settings, setting
from nearmetal.checks.spack import FromSpack
from nearmetal.site import selection

selection.refuse_empty_runs()


@functools.cache  # one run measures one revision
def git_revision() -> str:
    """Revision of this checkout, `-dirty` if changed since; `unknown` outside of git."""
    done = subprocess.run(
        ["git", "-C", CHECKOUT, "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"


def rounded(value: float) -> float:
    """To six significant digits, which no measurement has."""
    return float(f"{value:.6g}")


def all_of(launches) -> list:
    """Each launch, also where these are in rounds by what they ran on."""
    return [
        run for each in launches for run in (each.values() if isinstance(each, dict) else [each])
    ]


class NearmetalCheck(rfm.RegressionTest, Baselined, FromSpack, Programs, Settings, special=True):  # type: ignore[call-arg]
    """Base of all checks. A check says what to build and run, reads the output in `read_output`, and names what it
    measures with `@performance_function`s that return `self.over_launches(name, values)`."""

    #: Fresh launches of the program within one job. A value is their median. The gate needs 5.
    #: :type: int
    repeats = setting(int, 3, least=1)
    #: Nodes in the job. :type: int
    num_nodes = builtin.variable(int, value=1)

    #: Facts of the run (see src/provenance.sh). Where nodes differ: `a | b`. :type: str
    kernel = builtin.variable(str, value="", loggable=True)
    hypervisor = builtin.variable(str, value="", loggable=True)
    cpu_model = builtin.variable(str, value="", loggable=True)
    governor = builtin.variable(str, value="", loggable=True)
    smt = builtin.variable(str, value="", loggable=True)
    thp = builtin.variable(str, value="", loggable=True)
    nic_driver = builtin.variable(str, value="", loggable=True)
    mtu = builtin.variable(str, value="", loggable=True)
    mpi_library = builtin.variable(str, value="", loggable=True)
    transport = builtin.variable(str, value="", loggable=True)
    compiler = builtin.variable(str, value="", loggable=True)
    revision = builtin.variable(str, value="", loggable=True)
    #: All further facts of the nodes. :type: dict
    facts = builtin.variable(dict, value={}, loggable=True)
    #: Performance variable -> value of every repeat. :type: dict
    samples = builtin.variable(dict, value={}, loggable=True)
    #: Performance variable -> values within every repeat, a second level of samples. :type: dict
    within = builtin.variable(dict, value={}, loggable=True)
    #: Curve -> message size in bytes -> value of every repeat: `{'half_round_trip_us': {1:
    #: [...]}}`. :type: dict
    curves = builtin.variable(dict, value={}, loggable=True)

    #: Selection of the run, beyond the names of checks (selection.py). :type: dict
    selection = builtin.variable(dict, value={}, loggable=True)

    #: Set by a check whose job is not just `num_nodes` nodes: srun's further options for a probe of them all, and how many.
    probe_options, nodes_expected = "", 0
    #: Sentences on variables whose values are no numbers.
    _refused: Sequence[str] = ()
    #: What stands for the transport where `payload_bytes` is 0.
    no_transport = "none needed"

    require_reference = True
    valid_systems = ["*"]
    sourcesdir = "src"
    exclusive_access = True
    time_limit = "10m"
    maintainers = ["nearmetal"]

    def read_output(self, text: str) -> None:
        """Parse the job's output and keep what the performance functions need; raises on anything incomplete."""
        raise NotImplementedError

    def requested(self) -> dict:
        """What each launch is asked to do, by the names that its `did` has (parsing/request.py): the options of its
        command line, where a check says nothing else. {} where the program does not say what it did."""
        return request.options(self._command)

    def expect_what_was_asked(self) -> None:
        """Raises ParseError where a launch says that it did something else."""
        for run in all_of(getattr(self, "launches", ())):
            asked = self.requested()
            if asked and not hasattr(run, "did"):
                raise ParseError(
                    f"a launch of {type(self).__name__} has no `did`: say there what the program says it did, or return "
                    "{} from requested()"
                )
            if asked:
                request.expect(asked, run.did)

    def payload_bytes(self) -> int:
        """Bytes that the program moved between its processes, for telling the transport; 0: moves none."""
        return 0

    def over_launches(self, name: str, values, within=()) -> float:
        """Median of a variable over the launches, whose values are recorded as its samples, and their parts as a second
        level. A mean would not stand the one launch in hundreds that goes astray."""
        samples = [rounded(value) for value in values]
        within = [[rounded(part) for part in launch] for launch in within if launch]
        self._refuse_what_is_no_number(name, samples, *within)
        self.samples = {**self.samples, name: samples}
        if within:
            self.within = {**self.within, name: within}
        return rounded(statistics.median(self.samples[name]))

    def _refuse_what_is_no_number(self, name: str, *launches: list[float]) -> None:
        """Raise PerformanceError before it is stored: no reader takes JSON with NaN or Infinity, so that the whole
        session would be lost."""
        bad = [value for values in launches for value in values if not math.isfinite(value)]
        if bad:
            text = f"{name} is {', '.join(map(str, dict.fromkeys(bad)))} in {len(bad)} value(s)"
            self._refused = [*self._refused, text]
            raise PerformanceError(f"{text}: see {self.stagedir}/{self.stdout}")

    @builtin.run_after("init")
    def describe(self):
        # ReFrame's --repeat, --distribute and -P derive a class without docstring from the check's.
        text = inspect.getdoc(type(self)) or ""
        self.descr = " ".join(re.split(r"(?<!\.)\.(?!\S)", text)[0].split())

    @builtin.run_after("setup")
    def record_what_the_run_selects(self):
        self.selection = selection.recorded()

    @builtin.run_after("setup")
    def refuse_a_run_that_cannot_be_stored(self):
        # ReFrame only warns, at the end, and the run passes: later commands would judge an older session.
        path = None if self.is_dry_run() else storage.database()
        if path is None:
            return
        if why := storage.fault(path):
            raise ConfigError(why)
        storage.watch(path)

    # Last, so that it knows how many the check has settled on.
    @builtin.run_after("setup", always_last=True)
    def skip_what_has_too_few_nodes(self):
        nodes = NODES.of(self.current_partition, default=self.num_nodes)
        if nodes < self.num_nodes:
            self.skip(
                f"{self.display_name} needs {self.num_nodes} nodes, but {self.current_partition.fullname} has {nodes} "
                "(`nodes` in its extras)"
            )

    @builtin.run_after("setup", always_last=True)
    def skip_what_is_not_of_one_node(self):
        # `.nid` is ReFrame's parameter: the node that it gives the job.
        node = getattr(self, ".nid", None)
        needed = self.nodes_expected or self.num_nodes
        if node and needed > 1:
            self.skip(
                f"{self.display_name} needs {needed} nodes, but --distribute gives each job one. "
                "Fix: run it without --distribute"
            )

    @builtin.run_after("setup")
    def wait_no_longer_than_the_site_says(self):
        # A variable of ReFrame, None unless the command line sets it.
        if self.max_pending_time is None:
            self.max_pending_time = MAX_PENDING_TIME.of(self.current_partition)

    @builtin.run_after("setup")
    def ask_for_no_more_time_than_the_site_gives(self):
        limit = MAX_TIME_LIMIT.of(self.current_partition)
        if limit:
            asked, self.time_limit = self.time_limit, limit
            self.time_limit = min(asked or self.time_limit, self.time_limit)

    @builtin.run_before("run")
    def tell_the_job_its_shape(self):
        # ReFrame does so only when it submits, but launchers that go by it write further launches out before.
        for name in ("num_tasks", "num_tasks_per_node", "num_cpus_per_task"):
            setattr(self.job, name, getattr(self, name))

    # Last, so that it repeats the command that the check has set.
    @builtin.run_before("run", always_last=True)
    def surround_with_provenance_and_repeat(self):
        # A lost rank ends the step, and a failed command the job: neither may pass for a short run.
        self.env_vars["SLURM_KILL_BAD_EXIT"] = "1"
        prepare = [
            *self.arrival_in(self.current_environ),
            *self.preparations_in(self.current_environ),
        ]
        self._command = [str(option) for option in self.executable_opts]
        probe, further = self.probe(self.probe_options), self.further_launches()
        self.prerun_cmds = ["set -e", *prepare, *self.prerun_cmds, f"{probe} > provenance.before"]
        self.postrun_cmds = [*further, *self.postrun_cmds, f"{probe} counters > provenance.after"]

    def probe(self, options: str = "") -> str:
        """The command that says what the nodes are; srun's options may choose among them."""
        command = "sh provenance.sh"
        if not self.by_srun():
            return command
        return f"srun {options}--mpi=none --ntasks={self.num_nodes} --ntasks-per-node=1 {command}"

    def by_srun(self) -> bool:
        """Whether srun starts the program: by itself, or JVMs (nearmetal/site/srun_mpj.py)."""
        return self.job.launcher.registered_name in ("srun", "srun-mpj")

    def launch(self, executable: str, options=()) -> list[str]:
        """The command lines of one launch, with further options of the launcher."""
        return [
            " ".join(
                [
                    self.job.launcher.run_command(self.job),
                    *options,
                    executable,
                    *self.executable_opts,
                ]
            )
        ]

    def further_launches(self) -> list[str]:
        """The command lines of all launches but the first, which is ReFrame's own."""
        return (self.launch(self.executable) * self.repeats)[1:]

    @builtin.run_before("sanity")
    def refuse_a_job_that_failed(self):
        if self.is_dry_run():
            return
        # A heterogeneous job has the states of its components, joined by commas.
        states, code = self.job.state.split(","), self.job.exitcode
        state = next((state for state in states if state not in ("COMPLETED", "SUCCESS")), "")
        if not state and code in (
            0,
            None,
        ):  # `squeue`, ReFrame's scheduler for sites without accounting, knows no code
            return
        state = state or states[0]
        if state == "NODE_FAIL":
            # Slurm queues a job anew whose launch failed, whatever the site says of requeueing: it would run unwatched.
            self.job.scheduler.cancel(self.job)
        words = failures.last_words(
            *(self._read(name, missing="") for name in (self.stderr, self.stdout))
        )
        raise self._failure(
            failures.explain(
                type(self).__name__, self.job.jobid, self.job.nodelist, state, code, words
            )
        )

    @builtin.run_before("sanity")
    def record_provenance(self):
        if self.is_dry_run():
            return
        try:
            before, after = provenance.snapshots(
                *(self._read(f"provenance.{when}") for when in ("before", "after"))
            )
        except provenance.ProvenanceError as error:
            raise self._failure(f"provenance.before or .after: {error}") from None
        if len(before) != (expected := self.nodes_expected or self.num_nodes):
            raise SanityError(
                f"the job ran on {len(before)} node(s) ({', '.join(before)}) instead of {expected}"
            )
        before = provenance.with_foreign_processes(before, after)
        facts, differing = provenance.common(before)
        for name in ("kernel", "hypervisor", "cpu_model", "governor", "smt", "thp"):
            setattr(self, name, facts[name])
        for name, key in (("nic_driver", "driver"), ("mtu", "mtu")):
            setattr(
                self,
                name,
                ", ".join(
                    f"{k.split('.')[1]}: {v}"
                    for k, v in sorted(facts.items())
                    if k.startswith("nic.") and k.endswith(f".{key}")
                )
                or "no network interface",
            )
        self.revision, self.image = git_revision(), self.image_in(self.current_environ)
        self.facts = {
            **facts,
            "differs_between_nodes": differing,
            "nodes": sorted(before),
            **self.facts_of(self.current_environ),
        }
        self._counters = before, after

    @builtin.sanity_function
    def output_is_whole(self):
        try:
            self.read_output(self._read(self.stdout))
            self.expect_what_was_asked()
            payload = self.payload_bytes()
            self.transport = (
                provenance.transport(*self._counters, payload).name
                if payload
                else self.no_transport
            )
        except (ParseError, provenance.ProvenanceError) as error:
            raise self._failure(str(error)) from None
        self.check_transport()
        return sn.assert_true(True)

    def check_transport(self) -> None:
        """Raise SanityError if the bytes went another way than the check means to measure."""

    def _read(self, name, missing=None) -> str:
        try:
            return Path(self.stagedir, str(name)).read_text(errors="replace")
        except OSError as error:
            if missing is not None:
                return missing
            raise self._failure(f"{name} cannot be read: {error.strerror}") from None

    def _failure(self, message: str) -> SanityError:
        causes = failures.full(self.stagedir) + failures.disturbance(self.stagedir)
        return SanityError(f"{message}{causes} (files: {self.stagedir})")

    # `special=True` of the class lets it extend these two methods of ReFrame's.
    def check_sanity(self):
        """ReFrame's, whose failure also names what disturbed the nodes."""
        self._with_disturbance(super().check_sanity)

    def check_performance(self):
        """ReFrame's, whose failure also names what disturbed the nodes."""
        self._with_disturbance(super().check_performance)

    def _with_disturbance(self, check) -> None:
        try:
            check()
        except (SanityError, PerformanceError) as error:
            told = "" if self.is_dry_run() else failures.disturbance(self.stagedir)
            if not told or told in str(error):
                raise
            raise type(error)(f"{error}{told}") from None  # ReFrame would append the cause

    # Last, so that every check has kept its curves.
    @builtin.run_before("performance", always_last=True)
    def refuse_curves_that_are_no_numbers(self):
        curves, self.curves = self.curves, {}
        for name, curve in curves.items():
            self._refuse_what_is_no_number(name, *curve.values())
        self.curves = curves

    @builtin.run_after("performance")
    def refuse_missing_values(self):
        # ReFrame only warns when a performance function raises; a number that is none would pass without reference.
        if self.is_dry_run():
            return
        got = {key.rsplit(":", 1)[-1]: value[0] for key, value in self.perfvalues.items()}
        missing = sorted(set(self.perf_variables) - set(got))
        bad = sorted(f"{k}={v}" for k, v in got.items() if not math.isfinite(v) or v <= 0)
        if missing or bad or not got:
            raise PerformanceError(
                f"no usable value for {', '.join(missing + bad) or 'any variable'}"
                f"{''.join(f'; {text}' for text in self._refused)}: "
                f"see {self.stagedir}/{self.stdout}{failures.disturbance(self.stagedir)}"
            )
