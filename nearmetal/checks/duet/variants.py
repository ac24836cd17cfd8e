"""The kinds of difference between A and B of a duet, one class each.

A kind narrows ReFrame's selection, says why a partition cannot run it, builds and submits what its
variants need in addition, and yields the two variants. To add a kind, write its class, enter it in
KINDS, and add a variable of its name to `base.py`.
"""

import re
from dataclasses import dataclass, field

import reframe.core.runtime as runtime
from reframe.core.exceptions import SanityError

from nearmetal.checks import pages
from nearmetal.checks.runtime import Bare
from nearmetal.checks.settings import nodes_of


@dataclass(frozen=True)
class Variant:
    """The differences of a launch of A or B from the check's own launch."""

    runtime: Bare
    executable: str
    prepare: tuple[str, ...] = ()  #: shell commands before it, in its subshell
    options: tuple[str, ...] = ()  #: further options of the launcher
    #: Attributes of the check while it reads this variant's output.
    settings: dict = field(default_factory=dict)


class Kind:
    """Base class of the kinds. `names` are those of A and B, `check` is the test case."""

    #: Whether A and B run on the same nodes, whose counters before B are those after A.
    same_nodes = True

    def __init__(self, names):
        self.names = tuple(names)

    def select(self, check) -> None:
        """After init: narrow the systems or environments to A's. If A is unknown, `obstacle` says
        so."""

    def obstacle(self, check) -> str:
        """After setup: the reason why this partition cannot run the duet, or ''.

        Raises SanityError if a name is unknown everywhere.
        """
        return ""

    def runtimes(self, check) -> tuple[Bare, Bare]:
        """The runtimes of A and B, if there is no obstacle."""
        return check.runtime, check.runtime

    def build(self, check) -> None:
        """Before A is compiled: add the commands that build B."""

    def submit(self, check) -> None:
        """Before run: add options that the job needs."""

    def variants(self, check) -> tuple[Variant, Variant]:
        raise NotImplementedError

    def refuse_unknown(self, known, what: str, hint: str = "") -> None:
        for name in self.names:
            if name not in known:
                raise SanityError(
                    f"{what} {name!r} is unknown here; choose from {', '.join(sorted(known))}{hint}"
                )


def environments(partitions) -> dict:
    return {environ.name: environ for partition in partitions for environ in partition.environs}


def set_anew(environ) -> list[str]:
    """Variables that an environment sets. Those that it only extends, such as PATH, are not among
    them."""
    return [
        name
        for name, value in environ.env_vars.items()
        if not re.search(rf"\${{?{re.escape(name)}\b", value)
    ]


class Environs(Kind):
    """Two programming environments. The program is built with each; each launch has its own
    modules."""

    def select(self, check):
        self.wanted = [
            {feature.lstrip("+") for feature in wanted.split()}
            for wanted in check.valid_prog_environs
        ]
        if self.names[0] in environments(runtime.runtime().system.partitions):
            check.valid_prog_environs = [self.names[0]]
        check.further_environs = self.names[1:]

    def obstacle(self, check):
        self.refuse_unknown(environments(check.current_system.partitions), "environment")
        here = environments([check.current_partition])
        for name in self.names:
            if name not in here:
                return f"has no environment {name!r}"
            if not any(wanted <= set(here[name].features) for wanted in self.wanted):
                return (
                    f"has an environment {name!r} without "
                    f"{' or '.join(' and '.join(sorted(wanted)) for wanted in self.wanted)}"
                )
        self.a, self.b = check.runtime, check.runtime_in(here[self.names[1]])
        obstacle = self.b.obstacle(check.job.launcher.registered_name)
        return f"cannot: {obstacle}" if obstacle else ""

    def runtimes(self, check):
        return self.a, self.b

    def build(self, check):
        program = self._program_of_b(check)
        obstacle = self.b.obstacle_of(program)
        if obstacle:
            check.skip(f"{check.display_name}: {obstacle}")
        check.postbuild_cmds += [*self._change(), *self.b.build_commands(program)]

    def variants(self, check):
        # Once is enough: the files of a preparation serve every launch.
        change, preparations = self._change(), check.preparations(self.b)
        check.prerun_cmds += ["(", *change, *preparations, ")"] * bool(preparations)
        executable = self.b.command(self._program_of_b(check))
        return (
            Variant(self.a, check.executable),
            Variant(self.b, executable, prepare=tuple(change)),
        )

    def _program_of_b(self, check):
        """The check's program, built into another file."""
        return check.target.at(f"./{check.unique_name}.{self.b.environ.name}")

    def _change(self) -> list[str]:
        """Shell commands that change from A's environment to B's."""
        unload = runtime.runtime().modules_system.emit_unload_commands
        a, b = self.a.environ, self.b.environ
        return [
            *self.a.departure(),
            *(command for module in reversed(a.modules) for command in unload(module)),
            *(f"unset {name}" for name in set_anew(a)),
            *runtime.emit_loadenv_commands(b),
            *self.b.arrival(),
        ]


class Partitions(Kind):
    """Two partitions in one allocation, a heterogeneous job of Slurm:
    https://slurm.schedmd.com/heterogeneous_jobs.html"""

    same_nodes = False

    def select(self, check):
        if self.names[0] in {partition.name for partition in runtime.runtime().system.partitions}:
            check.valid_systems = [f"*:{self.names[0]}"]

    def obstacle(self, check):
        known = {partition.name: partition for partition in check.current_system.partitions}
        system = check.current_system.name
        self.refuse_unknown(
            known,
            "partition",
            f" (`--system {system}:...` hides the others: give `--system {system}`)",
        )
        self.pair = [known[name] for name in self.names]
        for partition in self.pair:
            scheduler, launcher = (
                partition.scheduler.registered_name,
                partition.launcher_type.registered_name,
            )
            if scheduler not in ("slurm", "squeue") or launcher != "srun":
                return (
                    f"needs a heterogeneous job of Slurm to share an allocation with "
                    f"{self.names[1]}: {partition.name} has {scheduler} and {launcher} instead of "
                    "slurm and srun"
                )
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
        # ReFrame's own options come first and are A's. Options of `-J` hold for both and come last.
        check.job.options += [
            *a.get_resource("hetjob"),
            *check.job.cli_options,
            "#SBATCH hetjob",
            *b.access,
            *b.get_resource("hetjob"),
            f"--ntasks={check.num_tasks}",
            f"--ntasks-per-node={tasks}",
            *(["--exclusive"] if check.exclusive_access else []),
            f"--time={minutes(check.time_limit)}",
        ]
        check.probe_options = "--het-group=0,1 "
        check.nodes_expected = 2 * check.num_nodes

    def variants(self, check):
        return tuple(
            Variant(check.runtime, check.executable, options=(f"--het-group={group}",))
            for group in (0, 1)
        )


def minutes(seconds: float) -> int:
    """A time limit in whole minutes, rounded up, as Slurm takes it."""
    return -int(-seconds // 60)


class Bindings(Kind):
    """Two bindings of a check, which exports variables for each (`environment_by_binding`)."""

    def obstacle(self, check):
        self.refuse_unknown(check.environment_by_binding, "binding")
        return ""

    def variants(self, check):
        every = sorted(
            {name for variables in check.environment_by_binding.values() for name in variables}
        )
        return tuple(
            Variant(
                check.runtime,
                check.executable,
                prepare=(
                    f"unset {' '.join(every)}",
                    *(
                        f"export {key}={value}"
                        for key, value in check.environment_by_binding[name].items()
                    ),
                ),
                settings={"binding": name},
            )
            for name in self.names
        )


class PageSizes(Kind):
    """Two kinds of pages of the program's memory (nearmetal/checks/pages.py)."""

    def obstacle(self, check):
        self.refuse_unknown(pages.CHOICES, "kind of pages")
        if check.pages != "default":
            raise SanityError(
                f"{check.display_name}: pages is {check.pages!r}, but page_sizes sets it for A and "
                "for B: leave pages out"
            )
        return ""

    def build(self, check):
        check.have_pages_chosen()

    def variants(self, check):
        return tuple(
            Variant(check.runtime, pages.command(name, check.executable), settings={"pages": name})
            for name in self.names
        )


KINDS = {
    "environs": Environs,
    "partitions": Partitions,
    "bindings": Bindings,
    "page_sizes": PageSizes,
}
