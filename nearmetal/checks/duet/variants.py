"""The kinds of difference between A and B of a duet, one class each.

A kind narrows ReFrame's selection, says why a partition cannot run it, builds and submits what its
variants need in addition, and yields the two variants. To add a kind, write its class, enter it in
KINDS, and add a variable of its name to `base.py`.
"""

import re
from dataclasses import replace

import reframe.core.runtime as runtime
from reframe.core.exceptions import SanityError

from nearmetal.checks import pages
from nearmetal.checks.runtime import Bare
from nearmetal.checks.settings import nodes_of
from nearmetal.cluster import slurm
from nearmetal.job.launch import Side


class Kind:
    """Base class of the kinds. `names` are those of A and B, `check` is the test case."""

    #: Attribute of the check that each name is a value of, while the check reads its output.
    setting = ""

    def __init__(self, names):
        self.names = tuple(names)

    def select(self, check) -> None:
        """After init: narrow the systems or environments to A's. If A is unknown,
        `skip_reason` says so."""

    def skip_reason(self, check) -> str:
        """After setup: the reason why this partition cannot run the duet, or ''.

        Raises SanityError if a name is unknown everywhere.
        """
        return ""

    def runtimes(self, check) -> tuple[Bare, Bare]:
        """The runtimes of A and B, if there is no such reason."""
        return check.runtime, check.runtime

    def build(self, check) -> None:
        """Before A is compiled: add the commands that build B."""

    def submit(self, check) -> None:
        """Before run: add options that the job needs."""

    def sides(self, side: Side) -> tuple[Side, Side]:
        """The sides A and B of the job.

        :arg side: the check's own.
        """
        raise NotImplementedError

    def refuse_unknown(self, known, what: str, hint: str = "") -> None:
        for name in self.names:
            if name not in known:
                raise SanityError(
                    f"{what} {name!r} is unknown here; choose from {', '.join(sorted(known))}{hint}"
                )


def environments(partitions) -> dict:
    """The environments of partitions, by name."""
    by_name = {}
    for partition in partitions:
        for environ in partition.environs:
            by_name[environ.name] = environ
    return by_name


def set_anew(environ) -> list[str]:
    """Variables that an environment sets. Those that it only extends, such as PATH, are not among
    them."""
    names = []
    for name, value in environ.env_vars.items():
        extends = re.search(rf"\${{?{re.escape(name)}\b", value)
        if not extends:
            names.append(name)
    return names


class Environs(Kind):
    """Two programming environments. The program is built with each; each launch has its own
    modules."""

    def select(self, check):
        self.wanted = []  # sets of features, each of which suffices
        for features in check.valid_prog_environs:
            self.wanted.append({feature.lstrip("+") for feature in features.split()})
        # Only A's cases: B runs in the jobs of A.
        if self.names[0] in environments(runtime.runtime().system.partitions):
            check.valid_prog_environs = [self.names[0]]
        check.further_environs = self.names[1:]

    def skip_reason(self, check):
        self.refuse_unknown(environments(check.current_system.partitions), "environment")
        here = environments([check.current_partition])
        for name in self.names:
            if name not in here:
                return f"has no environment {name!r}"
            if not any(map(set(here[name].features).issuperset, self.wanted)):
                choices = [" and ".join(sorted(features)) for features in self.wanted]
                return f"has an environment {name!r} without {' or '.join(choices)}"
        self.a, self.b = check.runtime, check.runtime_in(here[self.names[1]])
        reason = self.b.skip_reason(check.job.launcher.registered_name)
        if reason:
            return f"cannot: {reason}"
        return ""

    def runtimes(self, check):
        return self.a, self.b

    def build(self, check):
        # The check's program, built into another file.
        self.program_of_b = check.target.at(f"./{check.unique_name}.{self.b.environ.name}")
        reason = self.b.skip_reason_of(self.program_of_b)
        if reason:
            check.skip(f"{check.display_name}: {reason}")
        check.postbuild_cmds += [*self._change(), *self.b.build_commands(self.program_of_b)]

    def sides(self, side):
        self.b.sources_of(self.program_of_b)  # warns early
        b = replace(
            side,
            runtime=self.b,
            launcher=self.b.launcher(side.launcher),
            program=self.b.command(self.program_of_b),
            env_setup=tuple(self._change()),
        )
        return side, b

    def _change(self) -> list[str]:
        """Shell commands that change from A's environment to B's."""
        modules_system = runtime.runtime().modules_system
        a, b = self.a.environ, self.b.environ
        # In the opposite order of the job's beginning: modules may depend on those before them.
        lines = self.a.env_teardown()
        for module in reversed(a.modules):
            lines += modules_system.emit_unload_commands(module)
        lines += [f"unset {name}" for name in set_anew(a)]
        return [*lines, *runtime.emit_loadenv_commands(b), *self.b.env_setup()]


class Partitions(Kind):
    """Two partitions in one allocation, a heterogeneous job of Slurm:
    https://slurm.schedmd.com/heterogeneous_jobs.html"""

    def select(self, check):
        if self.names[0] in {partition.name for partition in runtime.runtime().system.partitions}:
            check.valid_systems = [f"*:{self.names[0]}"]

    def skip_reason(self, check):
        known = {partition.name: partition for partition in check.current_system.partitions}
        system = check.current_system.name
        self.refuse_unknown(
            known,
            "partition",
            f" (`--system {system}:...` hides the others: give `--system {system}`)",
        )
        self.pair = [known[name] for name in self.names]
        for partition in self.pair:
            scheduler = partition.scheduler.registered_name
            launcher = partition.launcher_type.registered_name
            if scheduler not in slurm.SCHEDULERS or launcher != "srun":
                return (
                    f"needs a heterogeneous job of Slurm to share an allocation with "
                    f"{self.names[1]}: {partition.name} has {scheduler} and {launcher} instead of "
                    "slurm and srun"
                )
            # Options on the command line of sbatch hold for all components.
            if partition.scheduler.get_option("sched_access_in_submit"):
                return (
                    "gives its access options on the command line (sched_access_in_submit), but "
                    f"{self.names[1]} has others"
                )
            if check.current_environ.name not in environments([partition]):
                return f"shares no environment {check.current_environ.name!r} with {partition.name}"
            nodes = nodes_of(partition, default=check.num_nodes)
            if nodes < check.num_nodes:
                return f"needs {check.num_nodes} nodes of {partition.name}, which has {nodes}"
        return ""

    def submit(self, check):
        a, b = self.pair
        tasks = check.num_tasks // check.num_nodes
        exclusive = ["--exclusive"] * check.exclusive_access
        # ReFrame's own options come first and are A's. Options of `-J` hold for both and come last.
        # The component of B needs all that ReFrame writes of A.
        check.job.options += [
            *a.get_resource("hetjob"),
            *check.job.cli_options,
            "#SBATCH hetjob",
            *b.access,
            *b.get_resource("hetjob"),
            f"--ntasks={check.num_tasks}",
            f"--ntasks-per-node={tasks}",
            *exclusive,
            f"--time={minutes(check.time_limit)}",
        ]
        check.num_components = 2

    def sides(self, side):
        return replace(side, component="0"), replace(side, component="1")


def minutes(seconds: float) -> int:
    """A time limit in whole minutes, rounded up, as Slurm takes it."""
    return -int(-seconds // 60)


class Bindings(Kind):
    """Two bindings of a check, which exports variables for each (`environment_by_binding`)."""

    setting = "binding"

    def skip_reason(self, check):
        self.refuse_unknown(check.environment_by_binding, "binding")
        return ""

    def select(self, check):
        self.variables = check.environment_by_binding

    def sides(self, side):
        return tuple(replace(side, env_setup=self._exports(name)) for name in self.names)

    def _exports(self, name: str) -> tuple[str, ...]:
        """Shell commands that set the variables of a binding, and no others."""
        every = set().union(*self.variables.values())
        exports = [f"export {key}={value}" for key, value in self.variables[name].items()]
        # A variable of the other binding alone must not stay.
        return (f"unset {' '.join(sorted(every))}", *exports)


class PageSizes(Kind):
    """Two kinds of pages of the program's memory (nearmetal/checks/pages.py)."""

    setting = "pages"

    def skip_reason(self, check):
        self.refuse_unknown(pages.CHOICES, "kind of pages")
        if check.pages != "default":
            raise SanityError(
                f"{check.display_name}: pages is {check.pages!r}, but page_sizes sets it for A and "
                "for B: leave pages out"
            )
        return ""

    def build(self, check):
        check.have_pages_chosen()

    def sides(self, side):
        return tuple(replace(side, pages=name) for name in self.names)


KINDS = {
    "environs": Environs,
    "partitions": Partitions,
    "bindings": Bindings,
    "page_sizes": PageSizes,
}
