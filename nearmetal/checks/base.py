"""What every Nearmetal check has: provenance, repeats as fresh launches, and no way to pass
silently."""

import copy
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
from reframe.core.meta import RegressionTestMeta

from nearmetal.checkout import CHECKOUT
from nearmetal.checks import failures, provenance, storage
from nearmetal.checks.baselines import Baselined
from nearmetal.checks.parsing import ParseError, request
from nearmetal.checks.programs import Program
from nearmetal.checks.runtime import facts_of, image_in, runtime_of
from nearmetal.checks.runtime.jvm import facts_of_jvms
from nearmetal.checks.runtime.spack import have_it_installed
from nearmetal.checks.settings import MAX_PENDING_TIME, MAX_TIME_LIMIT, NODES, Settings, setting
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


def of_interfaces(facts: dict[str, str], key: str) -> str:
    """A fact of each network interface, such as `eth0: veth`."""
    found = [
        f"{name.split('.')[1]}: {value}"
        for name, value in sorted(facts.items())
        if name.startswith("nic.") and name.endswith(f".{key}")
    ]
    return ", ".join(found) or "no network interface"


class NearmetalCheck(rfm.RegressionTest, Baselined, Settings, special=True):  # type: ignore[call-arg]
    """Base of all checks. A check defines, in the order of the pipeline:

    - `num_nodes` and `num_tasks`; in a hook after setup where they depend on the partition;
    - before compile, `self.build_ours(source)` or `self.run_theirs(program, where)`;
    - before run, `self.executable_opts`, which each repeat is launched with (`launch`);
    - `read_output(text)`, which sets `self.launches` by a parser of parsing/, one a repeat;
    - `requested()`, where the options do not say what each launch was asked to do;
    - `payload_bytes()` and `check_transport()`, where processes send messages;
    - `@performance_function`s that return `self.over_launches(name, values)`.

    The base repeats the launch, records what the nodes are, and refuses every value that is not
    whole. `self.runtime` (runtime/), which follows from the environment, gets programs onto nodes.
    """

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
    #: Name and digest of the container image, which the environment names; '' without. :type: str
    image = builtin.variable(str, value="", loggable=True)

    #: Names of environments that the check needs besides its own (of a duet, B's).
    further_environs = ()
    #: What the check runs, once it is known.
    target = Program()
    #: The class of the same program in Java, below src/java/; '' without.
    java_program = ""
    #: Set by a check whose job is not just `num_nodes` nodes: srun's further options for a probe of
    #: them all, and how many.
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
        """Parse the job's output and keep what the performance functions need; raises on anything
        incomplete."""
        raise NotImplementedError

    def record_program(self, facts: dict, suite: str) -> None:
        """Record the library and compiler that the first launch reports, if it does."""
        self.mpi_library = facts.get("mpi_library", f"not told by {suite}")
        self.compiler = facts.get("compiler", f"not told by {suite}")

    def expect_repeats(self, launches: list) -> None:
        """Raises SanityError where the output holds fewer launches or more."""
        if len(launches) != self.repeats:
            raise SanityError(
                f"{len(launches)} launches are in the output instead of {self.repeats}"
            )

    def rounds(
        self, launches: list, on=lambda run: run.processes, what: str = "processes"
    ) -> list[dict]:
        """Group launches by repeat, and within it by `self.counts`.

        Raises SanityError where they ran on other counts.
        """
        told = [on(run) for run in launches]
        if told != (wanted := self.counts * self.repeats):
            raise SanityError(f"the output holds launches on {told} {what} instead of {wanted}")
        size = len(self.counts)
        return [
            dict(zip(self.counts, launches[start : start + size]))
            for start in range(0, len(launches), size)
        ]

    def requested(self) -> dict:
        """What each launch is asked to do, by the names that its `did` has (parsing/request.py):
        the options of its command line, where a check says nothing else. {} where the program does
        not say what it did."""
        return request.options(self._command)

    def expect_what_was_asked(self) -> None:
        """Raises ParseError where a launch says that it did something else."""
        for run in all_of(getattr(self, "launches", ())):
            asked = self.requested()
            if asked and not hasattr(run, "did"):
                raise ParseError(
                    f"a launch of {type(self).__name__} has no `did`: say there what the program "
                    "says it did, or return {} from requested()"
                )
            if asked:
                request.expect(asked, run.did)

    def payload_bytes(self) -> int:
        """Bytes that the program moved between its processes, for telling the transport; 0: moves
        none."""
        return 0

    def over_launches(self, name: str, values, within=()) -> float:
        """Median of a variable over the launches, whose values are recorded as its samples, and
        their parts as a second level. A mean would not stand the one launch in hundreds that goes
        astray."""
        samples = [rounded(value) for value in values]
        within = [[rounded(part) for part in launch] for launch in within if launch]
        self._refuse_what_is_no_number(name, samples, *within)
        self.samples = {**self.samples, name: samples}
        if within:
            self.within = {**self.within, name: within}
        return rounded(statistics.median(self.samples[name]))

    def _refuse_what_is_no_number(self, name: str, *launches: list[float]) -> None:
        """Raise PerformanceError before it is stored: no reader takes JSON with NaN or Infinity, so
        that the whole session would be lost."""
        bad = [value for values in launches for value in values if not math.isfinite(value)]
        if bad:
            text = f"{name} is {', '.join(map(str, dict.fromkeys(bad)))} in {len(bad)} value(s)"
            self._refused = [*self._refused, text]
            raise PerformanceError(f"{text}: see {self.stagedir}/{self.stdout}")

    @classmethod
    @functools.cache
    def loggable_attrs(cls):
        """What ReFrame reads for each log record, without `variables`, its old name of `env_vars`.

        ReFrame warns of the old name and walks the call stack for it: half of a dry run's time.
        """
        found = RegressionTestMeta.loggable_attrs(cls)
        return [(name, logged_as) for name, logged_as in found if name != "variables"]

    @builtin.run_after("init")
    def describe(self):
        # ReFrame's --repeat, --distribute and -P derive a class without docstring from the check's.
        text = inspect.getdoc(type(self)) or ""
        self.descr = " ".join(re.split(r"(?<!\.)\.(?!\S)", text)[0].split())

    # Last, when the check has settled where it runs.
    @builtin.run_after("init", always_last=True)
    def have_spack_install_what_it_needs(self):
        self._installers = have_it_installed(self, self.further_environs)

    @builtin.run_after("setup")
    def take_the_environments_runtime(self):
        if self.image:
            raise SanityError(
                f"image is {self.image!r}, but it is the environment that has an image: choose "
                "one, such as -p '.*-sif'"
            )
        self.runtime = self.runtime_in(self.current_environ)
        self.runtimes = (self.runtime,)
        obstacle = self.runtime.obstacle(self.job.launcher.registered_name)
        if obstacle:
            self.skip(f"{self.display_name}: {obstacle}")
        self.job.launcher = self.runtime.launcher(self.job.launcher)

    @builtin.run_after("setup")
    def keep_to_what_the_site_allows(self):
        self.selection = selection.recorded()
        self._refuse_a_run_that_cannot_be_stored()
        # A variable of ReFrame, None unless the command line sets it.
        if self.max_pending_time is None:
            self.max_pending_time = MAX_PENDING_TIME.of(self.current_partition)
        limit = MAX_TIME_LIMIT.of(self.current_partition)
        if limit:
            asked, self.time_limit = self.time_limit, limit
            self.time_limit = min(asked or self.time_limit, self.time_limit)

    def _refuse_a_run_that_cannot_be_stored(self) -> None:
        # ReFrame only warns, at the end, and the run passes: later commands would judge an older
        # session.
        path = None if self.is_dry_run() else storage.database()
        if path is None:
            return
        if why := storage.fault(path):
            raise ConfigError(why)
        storage.watch(path)

    # Last, so that it knows how many nodes the check has settled on.
    @builtin.run_after("setup", always_last=True)
    def skip_what_the_nodes_cannot_hold(self):
        # `.nid` is ReFrame's parameter: the node that it gives the job.
        needed = self.nodes_expected or self.num_nodes
        if getattr(self, ".nid", None) and needed > 1:
            self.skip(
                f"{self.display_name} needs {needed} nodes, but --distribute gives each job one. "
                "Fix: run it without --distribute"
            )
        nodes = NODES.of(self.current_partition, default=self.num_nodes)
        if nodes < self.num_nodes:
            self.skip(
                f"{self.display_name} needs {self.num_nodes} nodes, but "
                f"{self.current_partition.fullname} has {nodes} (`nodes` in its extras)"
            )

    def runtime_in(self, environ):
        """The runtime of an environment of this partition."""
        return runtime_of(
            environ,
            self.current_partition,
            self._installer_of,
            self.jvm_settings if self.java_program else None,
        )

    def _installer_of(self, environ):
        name = self._installers[self.current_partition.fullname, environ.name]
        return self.getdep(name, environ.name)

    def build_ours(self, source: str) -> None:
        """Build and run a file of src/, by its line in programs.txt, or run what is installed of
        it."""
        # What ReFrame takes by default, unless the check has set another.
        path = getattr(self, "executable", f"./{self.unique_name}")
        self._run(Program(source, path, self.java_program))

    def run_theirs(self, program: str, where: str) -> None:
        """Run a program on PATH. Without it the case fails at once.

        :arg where: where the program comes from, for the error.
        """
        self._run(Program(path=program, java=self.java_program, where=where))

    def _run(self, program: Program) -> None:
        self.target = program
        obstacle = self.runtime.obstacle_of(program)
        if obstacle:
            self.skip(f"{self.display_name}: {obstacle}")
        if self.runtime.is_compiled(program):
            self.sourcepath = program.source
        self.build_system = self.runtime.build_system(program)
        self.executable = self.runtime.command(program)

    @builtin.run_before("compile")
    def put_software_on_path(self):
        self.prebuild_cmds += self.runtime.arrival()

    @builtin.run_before("run")
    def tell_the_job_its_shape(self):
        # ReFrame does so only when it submits, but launchers that go by it write further launches
        # out before.
        for name in ("num_tasks", "num_tasks_per_node", "num_cpus_per_task"):
            setattr(self.job, name, getattr(self, name))

    # Last, so that it repeats the command that the check has set.
    @builtin.run_before("run", always_last=True)
    def surround_with_provenance_and_repeat(self):
        # A lost rank ends the step, and a failed command the job: neither may pass for a short run.
        self.env_vars["SLURM_KILL_BAD_EXIT"] = "1"
        prepare = [*self.runtime.arrival(), *self.preparations(self.runtime)]
        self._command = [str(option) for option in self.executable_opts]
        probe, further = self.probe(self.probe_options), self.further_launches()
        self.prerun_cmds = ["set -e", *prepare, *self.prerun_cmds, f"{probe} > provenance.before"]
        self.postrun_cmds = [*further, *self.postrun_cmds, f"{probe} counters > provenance.after"]

    def preparations(self, runtime) -> list[str]:
        """Shell commands of a runtime before its first launch."""
        runtime.sources_of(self.target, self.stagedir)  # warns before the job starts
        launcher = runtime.launcher(self.job.launcher)
        return runtime.preparations(self.launch_of_all, launcher, self.job.num_tasks)

    def probe(self, options: str = "") -> str:
        """The command that says what the nodes are; srun's options may choose among them."""
        command = "sh provenance.sh"
        if not self.by_srun():
            return command
        return f"srun {options}--mpi=none --ntasks={self.num_nodes} --ntasks-per-node=1 {command}"

    def by_srun(self) -> bool:
        """Whether srun starts the program: by itself, or JVMs (nearmetal/site/srun_mpj.py)."""
        return self.job.launcher.registered_name in ("srun", "srun-mpj")

    def command_line(self, launcher, command: str, options=(), tasks: int | None = None) -> str:
        """The command line that launches a command.

        :arg options: further ones of the launcher. :arg tasks: number of processes, for launchers
        that take it from the job; default: the job's.
        """
        launcher, job = copy.copy(launcher), copy.copy(self.job)
        launcher.options = [*launcher.options, *options]
        job.num_tasks = tasks or job.num_tasks
        return f"{launcher.run_command(job)} {command}"

    def launch(self, launcher, executable: str, options=()) -> list[str]:
        """The command lines of one repeat, with further options of the launcher."""
        command = " ".join([executable, *self.executable_opts])
        return [self.command_line(launcher, command, options)]

    def launch_of_all(self, launcher, command: str) -> str:
        """The command line that runs a command on all processes of the job."""
        return self.command_line(launcher, command)

    def further_launches(self) -> list[str]:
        """The command lines of all launches but the first, which is ReFrame's own."""
        return (self.launch(self.job.launcher, self.executable) * self.repeats)[1:]

    @builtin.run_before("sanity")
    def read_the_job(self):
        if not self.is_dry_run():
            self._refuse_a_job_that_failed()
            self._record_provenance()

    def _refuse_a_job_that_failed(self) -> None:
        # A heterogeneous job has the states of its components, joined by commas.
        states, code = self.job.state.split(","), self.job.exitcode
        state = next((state for state in states if state not in ("COMPLETED", "SUCCESS")), "")
        # `squeue`, ReFrame's scheduler for sites without accounting, knows no code.
        if not state and code in (0, None):
            return
        state = state or states[0]
        if state == "NODE_FAIL":
            # Slurm queues a job again if it could not start it, even if the site forbids
            # requeueing. ReFrame would not notice the second run.
            self.job.scheduler.cancel(self.job)
        words = failures.last_words(
            *(self._read(name, missing="") for name in (self.stderr, self.stdout))
        )
        raise self._failure(
            failures.explain(
                type(self).__name__, self.job.jobid, self.job.nodelist, state, code, words
            )
        )

    def _record_provenance(self) -> None:
        before, after = self._snapshots()
        expected = self.nodes_expected or self.num_nodes
        if len(before) != expected:
            raise SanityError(
                f"the job ran on {len(before)} node(s) ({', '.join(before)}) instead of {expected}"
            )
        before = provenance.with_foreign_processes(before, after)
        facts, differing = provenance.common(before)
        for name in ("kernel", "hypervisor", "cpu_model", "governor", "smt", "thp"):
            setattr(self, name, facts[name])
        self.nic_driver, self.mtu = of_interfaces(facts, "driver"), of_interfaces(facts, "mtu")
        self.revision, self.image = git_revision(), image_in(self.runtimes)
        self.facts = {
            **facts,
            "differs_between_nodes": differing,
            "nodes": sorted(before),
            **facts_of(self.runtimes, self.target, self.stagedir),
        }
        self._counters = before, after

    def _snapshots(self):
        try:
            return provenance.snapshots(
                *(self._read(f"provenance.{when}") for when in ("before", "after"))
            )
        except provenance.ProvenanceError as error:
            raise self._failure(f"provenance.before or .after: {error}") from None

    @builtin.sanity_function
    def output_is_whole(self):
        try:
            text = self._read(self.stdout)
            self.read_output(text)
            self.expect_what_was_asked()
            self.facts = {**self.facts, **facts_of_jvms(self.runtimes, text)}
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
        # ReFrame only warns when a performance function raises; a number that is none would pass
        # without reference.
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
