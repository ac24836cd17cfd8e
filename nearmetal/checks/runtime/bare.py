"""The bare runtime: programs built by the environment's compiler, or found on PATH."""

from reframe.core.backends import getlauncher
from reframe.core.buildsystems import CustomBuild

from nearmetal.checks import sources
from nearmetal.checks.programs import Program, installed_name, presence, single_source


class Bare:
    """How an environment's programs are built and started in a partition; base of all runtimes."""

    #: Whether all ranks are threads of one process.
    one_process = False
    #: Whether programs are written in Java.
    java = False

    def __init__(self, environ, partition):
        self.environ, self.partition = environ, partition

    @property
    def image(self) -> str:
        """Name and digest of the container image; '' without."""
        return ""

    @property
    def installed(self) -> bool:
        """Whether our programs are installed, so that nothing is built."""
        return "installed" in self.environ.features

    def obstacle(self, launcher: str) -> str:
        """Why nothing can run here; '' if it can.

        :arg launcher: name of the partition's launcher.
        """
        return ""

    def obstacle_of(self, program: Program) -> str:
        """Why this program cannot run here; '' if it can."""
        return ""

    def is_compiled(self, program: Program) -> bool:
        """Whether ReFrame compiles the program as one source."""
        return program.is_ours and not self.installed

    def build_system(self, program: Program):
        """The build system of a check that runs the program."""
        if self.is_compiled(program):
            return single_source(program.source)
        system = CustomBuild()
        system.commands = self.build_commands(program)
        return system

    def build_commands(self, program: Program) -> list[str]:
        """Shell commands that build the program, or fail where it is not installed."""
        if not program.is_ours:
            return [presence(program.path, program.where)]
        if self.installed:
            where = f"the environment {self.environ.name} is to have nearmetal-benchmarks installed"
            command = self.command(program)
            return [presence(command, where), sources.record(command, self.environ.name)]
        system = single_source(program.source)
        system.srcfile, system.executable = program.source, program.path
        return system.emit_build_commands(self.environ)

    def command(self, program: Program) -> str:
        """The command of a task, without the program's options."""
        if program.is_ours and self.installed:
            return installed_name(program.source)
        return program.path

    def within(self, command: str) -> str:
        """The command line that runs a command where the programs are."""
        return command

    def verifications(self, by_srun: bool) -> list[str]:
        """Shell commands that verify where the programs are, before a job's first launch.

        :arg by_srun: whether srun starts the ranks, and has to use the same PMI.
        """
        return []

    def launcher(self, own):
        """The launcher of this runtime's programs, with the options of the job's own."""
        return like(own, self.partition.launcher_type.registered_name)

    def preparations(self, launch_of_all, launcher, tasks: int) -> list[str]:
        """Shell commands before the first launch.

        :arg launch_of_all: function: launcher and command -> command line on all processes.
        :arg launcher: this runtime's.
        :arg tasks: number of processes of the job.
        """
        return []

    def arrival(self) -> list[str]:
        """Shell commands that put on PATH what modules and variables do not."""
        return []

    def departure(self) -> list[str]:
        """Shell commands that take it from PATH."""
        return []

    def sources_of(self, program: Program, stagedir: str) -> str:
        """Digest of the sources that a program of ours was built from; '' for one of others.

        The run warns where they are not the checkout's.
        """
        if not program.source:
            return ""
        found, fix = self._sources(stagedir)
        sources.warn_of_others(self.environ.name, found, fix)
        return found

    def _sources(self, stagedir: str) -> tuple[str, str]:
        """Digest of the sources, and what makes it the checkout's."""
        found = sources.recorded(stagedir, self.environ.name)
        return found, "make spack-lock, or install these"

    def packages(self) -> dict[str, str]:
        """Packages recorded with each result."""
        return {}

    def facts(self, program: Program, stagedir: str) -> dict[str, str]:
        """Facts of the software, recorded with each result."""
        found = self.sources_of(program, stagedir)
        return {**({"sources": found} if found else {}), **self.packages()}


def like(own, name: str):
    """A launcher of this name with another's options; the other itself where it has the name."""
    if own.registered_name == name:
        return own
    launcher = getlauncher(name)()
    launcher.options = list(own.options)
    return launcher
