"""The bare runtime: our programs, built by the environment's compiler, or found on PATH."""

from reframe.core.backends import getlauncher
from reframe.core.buildsystems import CustomBuild, SingleSource

from nearmetal.checks import sources
from nearmetal.checks.programs import (
    OPENMP,
    Program,
    presence,
    single_source,
)
from nearmetal.checks.settings import OF_JVMS, OMP_FLAG


class Bare:
    """Builds and starts an environment's programs in a partition. Base class of all runtimes."""

    #: Whether all ranks are threads of one process.
    one_process = False
    #: Whether programs are written in Java.
    java = False

    def __init__(self, environ, partition):
        self.environ, self.partition = environ, partition

    @property
    def image(self) -> str:
        """Name and digest of the container image. '' if there is none."""
        return ""

    def skip_reason(self, launcher: str) -> str:
        """The reason why no program can run here. '' if programs can run.

        :arg launcher: name of the partition's launcher.
        """
        return ""

    def skip_reason_of(self, program: Program) -> str:
        """The reason why this program cannot run here. '' if it can."""
        return ""

    def is_compiled(self, program: Program) -> bool:
        """Whether ReFrame compiles the program as one source."""
        return program.is_ours

    def unused_settings(self) -> tuple[str, ...]:
        """Settings of a check that mean nothing here. Its results do not record them."""
        return OF_JVMS

    def build_system(self, program: Program):
        """The build system of a check that runs the program."""
        if self.is_compiled(program):
            return self._single_source(program.source)
        system = CustomBuild()
        system.commands = self.build_commands(program)
        return system

    def _single_source(self, source: str) -> SingleSource:
        return single_source(source, OMP_FLAG.of(self.environ, OPENMP))

    def build_commands(self, program: Program) -> list[str]:
        """Shell commands that build the program. They fail if a program to be found is missing."""
        if not program.is_ours:
            return [presence(program.path, program.where)]
        # The lines that ReFrame writes for A, for the program of B.
        system = self._single_source(program.source)
        system.srcfile, system.executable = program.source, program.path
        return system.emit_build_commands(self.environ)

    def command(self, program: Program) -> str:
        """The command that one process runs, without the program's options."""
        return program.path

    def within(self, command: str) -> str:
        """The command line that runs a command beside the programs (within the image)."""
        return command

    def verifications(self, by_srun: bool) -> list[str]:
        """Shell commands that verify the image, before a job's first launch.

        :arg by_srun: whether srun starts the ranks. It must then use the image's PMI.
        """
        return []

    def launcher(self, own):
        """The launcher of this runtime's programs, with the options of the job's launcher."""
        return like(own, self.partition.launcher_type.registered_name)

    def preparations(self, launch, by_srun: bool, tasks: int) -> list[str]:
        """Shell commands before the first launch.

        :arg launch: function: command -> the command line that runs it on all processes.
        :arg by_srun: whether srun starts the processes.
        :arg tasks: number of processes of the job.
        """
        return []

    def trial(self, command: str) -> str:
        """The command by which one process shows whether its node can start a program."""
        return f"env LD_TRACE_LOADED_OBJECTS=1 {command}"  # the loader's list

    def env_setup(self) -> list[str]:
        """Shell commands that add to PATH what modules and variables do not add."""
        return []

    def env_teardown(self) -> list[str]:
        """Shell commands that remove it from PATH."""
        return []

    def sources_of(self, program: Program) -> str:
        """Digest of the sources of one of our programs. '' for a program of others."""
        if not program.source:
            return ""
        return self._sources()

    def _sources(self) -> str:
        """Digest of the sources that our programs are built from."""
        return sources.of_checkout()

    def packages(self) -> dict[str, str]:
        """Packages that are recorded with each result."""
        return {}

    def facts(self, program: Program) -> dict[str, str]:
        """Facts of the software that are recorded with each result."""
        digest = self.sources_of(program)
        if not digest:
            return self.packages()
        return {"sources": digest, **self.packages()}


def like(own, name: str):
    """A launcher of this name with the options of `own`. `own` itself if it has the name."""
    # The job's launcher may be that of the other half of a duet.
    if own.registered_name == name:
        return own
    launcher = getlauncher(name)()
    launcher.options = list(own.options)
    return launcher
