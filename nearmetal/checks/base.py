"""The base of every check. A case has three stages: configure, build, run."""

from __future__ import annotations

import inspect
import re

import reframe.core.builtins as builtin
from reframe.core.backends import getlauncher
from reframe.core.exceptions import ConfigError, SanityError
from reframe.core.runtime import valid_sysenv_comb

from nearmetal.checks import capacity, remeasure, storage
from nearmetal.checks.baselines import Baselined
from nearmetal.checks.expected import Expected
from nearmetal.checks.node_facts import NodeFacts
from nearmetal.checks.output import Output
from nearmetal.checks.phases import Phases
from nearmetal.checks.programs import Programs
from nearmetal.checks.recorded import Recorded
from nearmetal.checks.runtime import runtime_of
from nearmetal.checks.runtime.spack import have_it_installed
from nearmetal.checks.settings import LINK_CLASS, Settings, setting
from nearmetal.job.job import Job, Step
from nearmetal.job.launch import Launch, Side
from nearmetal.site import foreign, selection
from nearmetal.site.launchers import with_binding

selection.refuse_empty_runs()


class NearmetalCheck(  # type: ignore[call-arg]
    Phases,
    Programs,
    Output,
    NodeFacts,
    Expected,
    Baselined,
    Settings,
    Recorded,
    special=True,
):
    """Base of all checks. A check defines, in the order of the pipeline:

    - `configure()`: `num_nodes` and `num_tasks`, if they depend on the partition;
    - `build()`: `self.build_ours(source)` or `self.run_theirs(program, where)`;
    - `launches()`: what a repeat launches, and `preparations()` before the first one;
    - `read_output(text)`, which parses the output (parsing/) into `self.runs`, one per repeat;
    - `requested()`, if the options do not hold all parameters of a launch;
    - `payload_bytes()` and `check_transport()`, if processes send messages;
    - each `Variable`, and `name_variables()`, which defines those whose name depends on the case.

    The base repeats the launches, records facts of the nodes, and refuses incomplete values.
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

    #: Why the case was skipped; '' if it was not. :type: str
    skip_reason = builtin.variable(str, value="", loggable=True)
    #: Selection of the run, beyond the names of checks (selection.py). :type: dict
    selection = builtin.variable(dict, value={}, loggable=True)

    #: Names of further environments that the check needs. A duet needs that of B.
    further_environs = ()
    #: Components of the job, a heterogeneous one of Slurm if there are two. Each has `num_nodes`.
    num_components = 1
    #: How the launcher binds each process: `none`, `core` or `numa`. '': its own choice.
    bound_to = ""
    #: Further options of the launcher.
    launcher_options: tuple[str, ...] = ()
    #: Pair and side of each launch of a duet (parsing/duet.py).
    turns = ()
    #: Fewest nodes of a job that leaves out nodes which do not start the program; 0: of no other.
    least_nodes = 0

    require_reference = True
    valid_systems = ["*"]
    sourcesdir = "src"
    exclusive_access = True
    time_limit = "10m"
    maintainers = ["nearmetal"]

    def configure(self) -> None:
        """After setup: choose the shape of the job."""

    def build(self) -> None:
        """Before compile: choose the program."""

    def launches(self) -> list[Launch]:
        """Before run: what a repeat launches, in this order."""
        return [Launch(options=self.executable_opts)]

    def preparations(self) -> list[Step]:
        """What the job runs before the first launch."""
        return []

    def bytes_of_node(self) -> float:
        """Bytes that a launch needs on its fullest node, at least. 0: not known."""
        return 0

    def clean_up(self) -> list[str]:
        """Lines of shell after the last launch."""
        return []

    def everywhere(self) -> Launch:
        """Where all processes of the job run."""
        return Launch()

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
    def configure_case(self):
        remeasure.measure_again(self)
        # ReFrame can set any variable by -S. This one is a fact.
        if self.image:
            raise SanityError(
                f"image is {self.image!r}, but the environment names the image: choose an "
                "environment, such as -p '.*-sif'"
            )
        self.runtime = self.runtime_in(self.current_environ)
        self.runtimes = (self.runtime,)
        reason = self.runtime.skip_reason(self.job.launcher.registered_name)
        if reason:
            self.skip(f"{self.display_name}: {reason}")
        # JVMs have a launcher of their own.
        self.job.launcher = self.runtime.launcher(self.job.launcher)
        self.selection = selection.recorded()
        self.link_class = LINK_CLASS.of(self.current_partition, "")
        self._refuse_a_run_that_cannot_be_stored()
        self.keep_to_the_partitions_limits()
        self.configure()

    def runtime_in(self, environ):
        """The runtime of an environment of this partition."""
        jvm_settings = None
        if self.java_program:
            jvm_settings = self.jvm_settings
        return runtime_of(environ, self.current_partition, self._installer_of, jvm_settings)

    def _installer_of(self, environ):
        """The test that installed the packages of an environment. None if none did."""
        name = self._installers.get((self.current_partition.fullname, environ.name))
        return name and self.getdep(name, environ.name)

    def _refuse_a_run_that_cannot_be_stored(self) -> None:
        # ReFrame only warns at the end, and the run passes. Later commands would judge an older
        # session.
        if self.is_dry_run():
            return
        path = storage.database()
        if path is None:
            return
        if fault := storage.fault(path):
            raise ConfigError(fault)
        storage.watch(path)

    # Last: the check has then chosen its number of nodes.
    @builtin.run_after("setup", always_last=True)
    def skip_what_the_nodes_cannot_hold(self):
        if reason := capacity.skip_reason(self):
            self.skip(reason)

    @builtin.run_before("compile")
    def build_case(self):
        # ReFrame has loaded the modules; Spack's packages are none.
        self.prebuild_cmds += self.runtime.env_setup()
        self.build()

    def binding_of_launcher(self) -> str:
        """How the launcher binds each process (`bound_to`)."""
        return self.bound_to

    @property
    def components(self) -> str:
        """Numbers of the components of a heterogeneous job, such as `0,1`. '' for any other."""
        return "0,1" * (self.num_components > 1)

    def sides(self) -> list[Side]:
        """What the job launches by default."""
        launcher = with_binding(self.job.launcher, self.binding_of_launcher())
        launcher.options = [*self.launcher_options, *launcher.options]
        return [Side(self.runtime, launcher, self.executable, getattr(self, "pages", "default"))]

    # Last: the check has then set what the job needs.
    @builtin.run_before("run", always_last=True)
    def write_the_job(self):
        # A lost rank ends the step, and a failed command ends the job. Neither is a short run.
        self.env_vars["SLURM_KILL_BAD_EXIT"] = "1"
        self.use_the_c_locale()
        # ReFrame sets these when it submits. Launchers need them earlier, for all their lines.
        for name in ("num_tasks", "num_tasks_per_node", "num_cpus_per_task"):
            setattr(self.job, name, getattr(self, name))
        self.runtime.sources_of(self.target)  # warns early
        launches = self.launches()
        self._command = [str(option) for option in launches[0].options]
        script = self.job_of(launches).script()
        # The script launches the program itself, so ReFrame's own line is its last one, alone.
        self.job.launcher = getlauncher("local")()
        *self.prerun_cmds, self.executable = script
        self.executable_opts, self.postrun_cmds = [], []

    def job_of(self, launches: list[Launch]) -> Job:
        """The job that repeats these launches."""
        limits = ""
        if not self.components:  # a snapshot of one component says nothing of the other
            limits = self.limits_of_disturbance()
        return Job(
            shape=self.job,
            nodes=self.num_nodes,
            by_slurm=remeasure.by_slurm(self),
            sides=self.sides(),
            launches=launches,
            repeats=self.repeats,
            spare_repeats=self.spare_repeats,
            limits=limits,
            output=str(self.stdout),
            everywhere=self.everywhere(),
            software=self.runtime.env_setup(),
            preparations=[*self.prerun_cmds, *self.preparations()],
            clean_up=[*self.clean_up(), *self.postrun_cmds],
            turns=self.turns,
            instances=getattr(self, "instances", 1),
            socket=getattr(self, "socket", -1),
            components=self.components,
            least_nodes=self.least_nodes,
        )
