"""The base of every check: it records provenance, repeats the launch, and fails a case that would
pass silently."""

from __future__ import annotations

import copy
import functools
import inspect
import math
import re
import shlex
import subprocess
from pathlib import Path

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from reframe.core.backends import getlauncher
from reframe.core.exceptions import (
    BuildError,
    ConfigError,
    PerformanceError,
    PipelineError,
    SanityError,
)
from reframe.core.meta import RegressionTestMeta
from reframe.core.runtime import valid_sysenv_comb

from nearmetal.checkout import CHECKOUT
from nearmetal.checks import disturbance, failures, provenance, remeasure, storage, waiting
from nearmetal.checks.baselines import Baselined
from nearmetal.checks.expected import Expected
from nearmetal.checks.launchers import binding_options
from nearmetal.checks.parsing import ParseError, request
from nearmetal.checks.programs import Program
from nearmetal.checks.recorded import Recorded
from nearmetal.checks.runtime import facts_of, image_in, runtime_of
from nearmetal.checks.runtime.jvm import facts_of_jvms
from nearmetal.checks.runtime.spack import have_it_installed
from nearmetal.checks.settings import (
    BUILD_ON_NODES,
    LINK_CLASS,
    NODES,
    OF_HYPERVISOR,
    Settings,
    nodes_of,
    setting,
)
from nearmetal.checks.waiting import Waiting
from nearmetal.model.facts import UNKNOWN, of_hypervisor
from nearmetal.site import foreign, selection

selection.refuse_empty_runs()
#: What ReFrame raises where a phase of a case fails.
FAILURES = (BuildError, PerformanceError, PipelineError, SanityError)


@functools.cache  # one run measures one revision
def git_revision() -> str:
    """Revision of this checkout, `-dirty` if changed since; `unknown` outside of git."""
    done = subprocess.run(
        ["git", "-C", CHECKOUT, "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
    )
    return done.stdout.strip() or "unknown"


def all_of(launches) -> list:
    """All launches in one list. Rounds are dictionaries of launches."""
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


class NearmetalCheck(  # type: ignore[call-arg]
    rfm.RegressionTest, Expected, Baselined, Settings, Recorded, special=True
):
    """Base of all checks. A check defines, in the order of the pipeline:

    - `num_nodes` and `num_tasks`, in a hook after setup if they depend on the partition;
    - before compile, `self.build_ours(source)` or `self.run_theirs(program, where)`;
    - before run, `self.executable_opts`, the options of each launch (`launch`);
    - `read_output(text)`, which parses the output (parsing/) into `self.launches`, one per repeat;
    - `requested()`, if the command line does not hold all parameters of a launch;
    - `payload_bytes()` and `check_transport()`, if processes send messages;
    - `@performance_function`s that return `self.over_launches(name, values)`.

    The base repeats the launch, records facts of the nodes, and refuses incomplete values.
    `self.runtime` (runtime/) builds and starts programs. It follows from the environment.
    """

    #: Fresh launches of the program within one job. A value is their median. Five decide about
    #: large changes without a confirmation (`make bench-gate`: "a plain session"). :type: int
    repeats = setting(int, 5, least=1)
    #: Repeats that may run again in one job because something disturbed them. :type: int
    spare_repeats = setting(int, 2, least=0)
    #: What happens where a Spack environment is not installed: `skip` the case, or `install` on a
    #: node of the partition first. Default: the partition's `spack_missing` (extras), or skip.
    #: :values: `skip`, `install`
    spack_missing = setting(
        str, "skip", extra="spack_missing", choices=("skip", "install"), loggable=False
    )
    #: Nodes in the job. :type: int
    num_nodes = builtin.variable(int, value=1)

    #: Facts of the run (src/provenance.sh). If nodes differ: `a | b`. :type: str
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
    #: Curve -> message size in bytes -> value of every repeat: `{'half_round_trip_us': {1:
    #: [...]}}`. :type: dict
    curves = builtin.variable(dict, value={}, loggable=True)

    #: Why the case was skipped; '' if it was not. :type: str
    skip_reason = builtin.variable(str, value="", loggable=True)
    #: Selection of the run, beyond the names of checks (selection.py). :type: dict
    selection = builtin.variable(dict, value={}, loggable=True)
    #: Name and digest of the environment's container image; '' without one. :type: str
    image = builtin.variable(str, value="", loggable=True)

    #: Names of further environments that the check needs. A duet needs that of B.
    further_environs = ()
    #: The program of the check, once a hook has set it.
    target = Program()
    #: Class of the same program in Java, below src/java/; '' if there is none.
    java_program = ""
    #: For a job of several components: srun's options that reach all its nodes, and their number.
    probe_options, nodes_expected = "", 0
    #: Recorded transport if `payload_bytes` is 0.
    no_transport = "none needed"

    require_reference = True
    valid_systems = ["*"]
    sourcesdir = "src"
    exclusive_access = True
    time_limit = "10m"
    maintainers = ["nearmetal"]

    def read_output(self, text: str) -> None:
        """Parse the job's output and keep the values that the performance functions need.

        Raises ParseError or SanityError if anything is incomplete.
        """
        raise NotImplementedError

    def record_program(self, facts: dict, suite: str) -> None:
        """Record the MPI library and compiler that the first launch reports."""
        self.mpi_library = facts.get("mpi_library", f"not told by {suite}")
        self.compiler = facts.get("compiler", f"not told by {suite}")

    def expect_repeats(self, launches: list) -> None:
        """Raise SanityError unless the output holds one launch per repeat."""
        if len(launches) != self.repeats:
            raise SanityError(
                f"{len(launches)} launches are in the output instead of {self.repeats}"
            )

    def rounds(
        self, launches: list, on=lambda run: run.processes, what: str = "processes"
    ) -> list[dict]:
        """Group launches by repeat, and within a repeat by `self.counts`.

        Raises SanityError if a launch ran on another count.

        :arg on: function: launch -> its count; None if the program does not report it.
        """
        wanted = self.counts * self.repeats
        if on and (told := [on(run) for run in launches]) != wanted:
            raise SanityError(f"the output holds launches on {told} {what} instead of {wanted}")
        if len(launches) != len(wanted):
            raise SanityError(f"the output holds {len(launches)} launches instead of {len(wanted)}")
        size = len(self.counts)
        return [
            dict(zip(self.counts, launches[start : start + size]))
            for start in range(0, len(launches), size)
        ]

    def requested(self) -> dict:
        """Parameters requested of each launch, under the names of its `did` (parsing/request.py).

        By default these are the options of the command line. {} if the program does not report
        its parameters.
        """
        return request.options(self._command)

    def expect_what_was_asked(self) -> None:
        """Raise ParseError if a launch reports other parameters than the requested ones."""
        for run in all_of(getattr(self, "launches", ())):
            asked = self.requested()
            if asked and not hasattr(run, "did"):
                raise ParseError(
                    f"a launch of {type(self).__name__} has no `did`: store there the parameters "
                    "that the program reports, or return {} from requested()"
                )
            if asked:
                request.expect(asked, run.did)

    def payload_bytes(self) -> int:
        """Bytes that the program sent between its processes; they identify the transport.

        0 if it sent none.
        """
        return 0

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
        # ReFrame's --repeat, --distribute and -P derive classes without a docstring.
        text = inspect.getdoc(type(self)) or ""
        self.descr = " ".join(re.split(r"(?<!\.)\.(?!\S)", text)[0].split())

    # Last: the check has then chosen where it runs.
    @builtin.run_after("init", always_last=True)
    def have_spack_install_what_it_needs(self):
        self.valid_prog_environs = foreign.with_names(self.valid_prog_environs)
        self._installers = have_it_installed(self, self.further_environs)
        if not any(valid_sysenv_comb(self.valid_systems, self.valid_prog_environs).values()):
            selection.report_nowhere(self)

    @builtin.run_after("setup")
    def measure_again_what_is_asked_for(self):
        remeasure.measure_again(self)

    def by_slurm(self) -> bool:
        """Whether Slurm runs the job, with or without accounting."""
        return remeasure.by_slurm(self)

    @builtin.run_after("setup")
    def take_the_environments_runtime(self):
        if self.image:
            raise SanityError(
                f"image is {self.image!r}, but the environment names the image: choose an "
                "environment, such as -p '.*-sif'"
            )
        self.runtime = self.runtime_in(self.current_environ)
        self.runtimes = (self.runtime,)
        obstacle = self.runtime.obstacle(self.job.launcher.registered_name)
        if obstacle:
            self.skip(f"{self.display_name}: {obstacle}")
        self.job.launcher = self.runtime.launcher(self.job.launcher)

    @builtin.run_after("setup")
    def keep_to_what_the_site_allows(self):
        who = f"{self.display_name} on {self.current_partition.fullname}"
        who += f" with {self.current_environ.name}"
        self._waiting, self._waits_for_the_build = Waiting(who), Waiting(f"the build of {who}")
        self.selection = selection.recorded()
        self.link_class = LINK_CLASS.of(self.current_partition, "")
        self._refuse_a_run_that_cannot_be_stored()
        self.keep_to_the_partitions_limits()

    def _refuse_a_run_that_cannot_be_stored(self) -> None:
        # ReFrame only warns at the end, and the run passes. Later commands would judge an older
        # session.
        path = None if self.is_dry_run() else storage.database()
        if path is None:
            return
        if why := storage.fault(path):
            raise ConfigError(why)
        storage.watch(path)

    # Last: the check has then chosen its number of nodes.
    @builtin.run_after("setup", always_last=True)
    def skip_what_the_nodes_cannot_hold(self):
        # `.nid` is ReFrame's parameter: the node that --distribute chose.
        needed = self.nodes_expected or self.num_nodes
        if getattr(self, ".nid", None) and needed > 1:
            self.skip(
                f"{self.display_name} needs {needed} nodes, but --distribute gives each job one. "
                "Fix: run it without --distribute"
            )
        place = self.current_partition
        nodes = nodes_of(place, default=self.num_nodes)
        if nodes < self.num_nodes:
            origin = (
                "its scheduler is local" if NODES.of(place) is None else "`nodes` in its extras"
            )
            self.skip(
                f"{self.display_name} needs {self.num_nodes} nodes, but {place.fullname} has "
                f"{nodes} ({origin})"
            )
        if self.num_tasks > 1 and self.job.launcher.registered_name == "local":
            self.skip(
                f"{self.display_name} needs {self.num_tasks} processes, but {place.fullname} has "
                "the launcher local, which starts one"
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
        """The test that installed the packages of an environment. None if none did."""
        name = self._installers.get((self.current_partition.fullname, environ.name))
        return name and self.getdep(name, environ.name)

    def build_ours(self, source: str) -> None:
        """Run a program of src/: compiled by its line in programs.txt, or the image's."""
        # ReFrame's default name, unless the check has set another.
        path = getattr(self, "executable", f"./{self.unique_name}")
        self._run(Program(source, path, self.java_program))

    def run_theirs(self, program: str, where: str) -> None:
        """Run a program on PATH. The case fails at once if it is missing.

        :arg where: source of the program, for the error.
        """
        self._run(Program(path=program, java=self.java_program, where=where))

    def run_installed(self, program: str, feature: str = "") -> None:
        """Run a program that a site installed.

        :arg feature: of its environments. Default: the check's name.
        """
        check = type(self).__name__
        feature = feature or check
        self.run_theirs(
            shlex.quote(program),
            f"load its module in this environment, which has the feature {feature}, or name it "
            f"with -S {check}.program=...",
        )

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
        # ReFrame sets these when it submits. Launchers need them earlier, for further launches.
        for name in ("num_tasks", "num_tasks_per_node", "num_cpus_per_task"):
            setattr(self.job, name, getattr(self, name))

    # Last: the check has then set the command.
    @builtin.run_before("run", always_last=True)
    def surround_with_provenance_and_repeat(self):
        # A lost rank ends the step, and a failed command ends the job. Neither is a short run.
        self.env_vars["SLURM_KILL_BAD_EXIT"] = "1"
        self.use_the_c_locale()
        prepare = [
            *self.runtime.arrival(),
            *getattr(self.job.launcher, "start", []),  # daemons, of `prun`
            *self.preparations(self.runtime),
        ]
        self._command = [str(option) for option in self.executable_opts]
        probe = self.probe(self.probe_options)
        definitions, (first, *further) = self.measurement(probe)
        self.prerun_cmds = [
            *("set -e", *prepare, *self.prerun_cmds),
            *(f"{probe} > provenance.before", *definitions),
        ]
        self.postrun_cmds = [*further, *self.postrun_cmds]
        # These lines launch the program themselves, so ReFrame's own line starts them alone.
        self.job.launcher, self.executable = getlauncher("local")(), first
        self.executable_opts = []

    def preparations(self, runtime) -> list[str]:
        """Shell commands that a runtime needs before its first launch."""
        runtime.sources_of(self.target)  # warns early
        launcher = runtime.launcher(self.job.launcher)
        return runtime.preparations(self.launch_of_all, launcher, self.job.num_tasks)

    def probe(self, options: str = "") -> str:
        """The command that records facts of the nodes. Options of srun may select nodes."""
        command = "sh provenance.sh"
        if self.by_slurm():  # whatever launches the program
            tasks = f"{self.options_of_nodes()} --ntasks-per-node=1"
            if hasattr(self.job.launcher, "start"):
                tasks = (
                    f"--overlap {tasks}"  # the daemons are a step of the job, which does not end
                )
            return f"srun {options}--mpi=none {tasks} {command}"
        if self.job.launcher.registered_name == "local":
            return command
        return self.launch_of_all(self.job.launcher, command)

    def options_of_nodes(self) -> str:
        """srun's options for a step with one task on each node of the job."""
        return f"--ntasks={self.num_nodes}"

    def by_srun(self) -> bool:
        """Whether srun starts the processes, directly or as JVMs (nearmetal/site/srun_mpj.py)."""
        return self.job.launcher.registered_name in ("srun", "srun-mpj")

    def bind_to(self, binding: str) -> bool:
        """Have the launcher bind each process; false if we know no option of this launcher for it.

        :arg binding: `none`, `core` or `numa`.
        """
        launcher = self.job.launcher
        options = binding_options(launcher.registered_name, binding)
        if not set(options) <= set(launcher.options):  # Open MPI refuses an option given twice
            launcher.options += options
        return bool(options)

    def command_line(self, launcher, command: str, options=(), tasks: int | None = None) -> str:
        """The command line that launches a command.

        :arg options: further options of the launcher.
        :arg tasks: number of processes, for launchers that read it from the job. Default: the
            job's.
        """
        launcher, job = copy.copy(launcher), copy.copy(self.job)
        launcher.options = [*launcher.options, *options]
        job.num_tasks = tasks or job.num_tasks
        return f"{launcher.run_command(job)} {command}"

    def launch(self, launcher, executable: str, options=()) -> list[str]:
        """The command lines of one repeat.

        :arg options: further options of the launcher.
        """
        command = " ".join([executable, *self.executable_opts])
        return [self.command_line(launcher, command, options)]

    def launch_of_all(self, launcher, command: str) -> str:
        """The command line that runs a command on all processes of the job."""
        return self.command_line(launcher, command)

    def measurement(self, probe: str) -> tuple[list[str], list[str]]:
        """Lines of shell that define functions, and the calls that measure.

        :arg probe: the command that records facts of the nodes.
        """
        lines = self.launch(self.job.launcher, self.executable)
        definitions = [
            *("launch() {", *(f"    {line}" for line in lines), "}"),
            f"snapshot() {{ {probe} counters; }}",
            ". ./repeats.sh",
        ]
        limits = self.limits_of_disturbance()
        call = f"repeats {self.repeats} {self.spare_repeats} {limits} {self.stdout}"
        return definitions, [call]

    @builtin.run_before("sanity")
    def read_the_job(self):
        if not self.is_dry_run():
            # Also of a job that failed: `nearmetal explain` compares them with the baseline's.
            self.facts = provenance.of_nodes(self._read("provenance.before", missing=""))
            self._refuse_a_job_that_failed()
            self._record_provenance()

    def _refuse_a_job_that_failed(self) -> None:
        # A heterogeneous job has the states of its components, joined by commas.
        states, code = self.job.state.split(","), self.job.exitcode
        state = next((state for state in states if state not in ("COMPLETED", "SUCCESS")), "")
        # ReFrame's scheduler `squeue`, for sites without accounting, reports no exit code.
        if not state and (code == 0 or (code is None and self._reached_its_end())):
            return
        state = state or states[0]
        if state == "NODE_FAIL":
            # Slurm requeues a job that could not start, even if the site forbids requeueing.
            # ReFrame would not notice the second run.
            self.job.scheduler.cancel(self.job)
        raise self._failure(
            failures.explain(
                *(type(self).__name__, self.job.jobid, self.job.nodelist, state, code),
                *(self._last_words(), self._read(self.stderr, missing="")),
                self._waiting.why_cancelled(self.job),
                accounting=self.job.scheduler.registered_name != "squeue",
            )
        )

    def _reached_its_end(self) -> bool:
        """Whether the job's script took its last snapshot, which `set -e` keeps from a failed
        one."""
        return Path(self.stagedir, "provenance.after").exists()

    def nodes_that_start(self) -> int:
        """Number of the job's nodes that have to answer."""
        return self.nodes_expected or self.num_nodes

    def _record_provenance(self) -> None:
        before, after = self._snapshots()
        expected = self.nodes_that_start()
        if len(before) != expected:
            raise SanityError(
                f"the job ran on {len(before)} node(s) ({', '.join(before)}) instead of {expected}"
            )
        before = provenance.with_foreign_processes(before, after)
        facts = self._facts_of(before)
        for name in ("kernel", "hypervisor", "cpu_model", "governor", "smt", "thp"):
            setattr(self, name, facts[name])
        self.nic_driver, self.mtu = of_interfaces(facts, "driver"), of_interfaces(facts, "mtu")
        self.revision, self.image = git_revision(), image_in(self.runtimes)
        self.facts = {
            **facts,
            **of_hypervisor(
                facts, {one.key: one.of(self.current_partition) for one in OF_HYPERVISOR}
            ),
            **self.factors(),
            **facts_of(self.runtimes, self.target),
        }
        self._counters = before, after

    def factors(self) -> dict[str, str]:
        """Facts of the job itself: binding of its processes or threads, and pages of its memory."""
        attributes = {"binding": ("binding", "_binding"), "pages": ("pages", "page_size")}
        return {
            name: next(
                (str(getattr(self, one)) for one in those if getattr(self, one, "")), UNKNOWN
            )
            for name, those in attributes.items()
        }

    @builtin.sanity_function
    def output_is_whole(self):
        try:
            text = provenance.by_node(self._measured(self._read(self.stdout)), self._counters[0])
            self.read_output(text)
            self.expect_what_was_asked()
            self.facts = {**self.facts, **facts_of_jvms(self.runtimes, text)}
            payload = self.payload_bytes()
            self.transport = (
                provenance.transport(*self._counters, payload).name
                if payload
                else self.no_transport
            )
            self.check_pages()
        except (ParseError, provenance.ProvenanceError, disturbance.EvidenceError) as error:
            raise self._failure(str(error)) from None
        self.check_transport()
        return sn.assert_true(True)

    def _measured(self, text: str) -> str:
        """The output of the repeats that count. Records the evidence of all. EvidenceError."""
        found = self._record_evidence()
        for one in found:
            # Counters that were lost do not say how much it sent. They need not fail the case.
            if one.again and not one.unknown:
                self._leave_out_the_bytes_of(one.number)
        return disturbance.measured(text, found)

    def _leave_out_the_bytes_of(self, repeat: int) -> None:
        first, last = (
            provenance.parse(self._read(f"evidence.{number}")) for number in (repeat - 1, repeat)
        )
        before, after = self._counters
        self._counters = before, provenance.without_growth(after, first, last)

    def check_transport(self) -> None:
        """Raise SanityError if the bytes took another path than the check is to measure."""

    def check_pages(self) -> None:
        """Raise SanityError if the program's memory had other pages than the requested ones."""

    # `special=True` of the class allows it to override these methods of ReFrame.
    def setup(self, partition, environ, **job_opts):
        """ReFrame's setup. It creates the build's job, so the place of the build is set before."""
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

    def expected_facts(self) -> dict[str, str]:
        """The case's facts, and those of its interfaces, its messages and its compiler."""
        return {
            **self.facts,
            "mtu": self.mtu,
            "transport": self.transport,
            "compiler": self.compiler,
        }

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
            kind = type(error) if isinstance(error, FAILURES) else PipelineError
            raise kind(f"{cause}{error}") from None

    def _with_disturbance(self, check) -> None:
        try:
            self._with_full_disk(check)
        except (SanityError, PerformanceError) as error:
            told = "" if self.is_dry_run() else failures.disturbance(self.stagedir)
            if not told or told in str(error):
                raise
            raise type(error)(f"{error}{told}") from None  # ReFrame appends a cause

    # Last: the check has then stored its curves.
    @builtin.run_before("performance", always_last=True)
    def refuse_curves_that_are_no_numbers(self):
        curves, self.curves = self.curves, {}
        for name, curve in curves.items():
            self._refuse_what_is_no_number(name, *curve.values())
        self.curves = curves

    @builtin.run_after("performance")
    def refuse_missing_values(self):
        # ReFrame only warns if a performance function raises. Without a reference, a value that is
        # not finite would pass.
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
