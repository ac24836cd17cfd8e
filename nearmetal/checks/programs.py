"""What a check runs: a program of ours, built from src/ or installed, or one that the environment brings."""

import functools

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.buildsystems import SingleSource
from reframe.core.exceptions import SanityError

from nearmetal.checkout import CHECKOUT
from nearmetal.checks import images, sources

SOURCES = CHECKOUT / "reframe_checks" / "src"


@functools.cache
def flags_of() -> dict[str, tuple[str, ...]]:
    """The compiler's flags of our programs, by source."""
    rows = (
        line.split()
        for line in (SOURCES / "programs.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    return {source: tuple(flags) for source, _, *flags in rows}


def installed_name(source: str) -> str:
    """What src/install.sh calls the program."""
    return "nearmetal-" + source.removesuffix(".c").replace("/", "-")


def presence(program: str, where: str) -> str:
    """The command that fails where there is no such program on PATH, and says where it comes from."""
    return f'command -v {program} > /dev/null || {{ echo "{program} is not on PATH: {where}" >&2; exit 1; }}'


class Programs(rfm.RegressionTestPlugin):
    """How programs come to be, and what is asked of their launches. Part of the base of all checks."""

    #: Container image name and digest; '' without an image. :type: str
    image = builtin.variable(str, value="", loggable=True)

    _source = ""  # of a program of ours

    @builtin.run_after("setup")
    def skip_where_the_environment_cannot(self):
        if self.image:
            raise SanityError(
                f"image is {self.image!r}, but it is the environment that has an image: choose one, such as "
                "-p '.*-sif'"
            )
        if obstacle := self.obstacle_in(self.current_environ):
            self.skip(f"{self.display_name}: {obstacle}")

    def build_ours(self, source: str) -> None:
        """Build a file of src/ by programs.txt, which the program tells in its output; an environment with the feature
        `installed` has it."""
        self._source = source
        if "installed" not in self.current_environ.features:
            self.sourcepath = source
            self.build_system = self._single_source()
            return
        self.build_system = "CustomBuild"
        self.build_system.commands = self.commands_to_build(self.current_environ)
        self.executable = self.program_in(self.current_environ)

    def _single_source(self):
        flags = flags_of()[self._source]
        system = SingleSource()
        system.cflags = ["-std=c11", *flags, f"""-DNEARMETAL_CFLAGS='"{" ".join(flags)}"'"""]
        system.ldflags = ["-lm"]
        return system

    def run_theirs(self, program: str, where: str) -> None:
        """Run what is on PATH by this name; the case fails at once where it is not, and says where it comes from."""
        self.executable = program
        self._skip_in_an_image(self.current_environ)
        self.build_system = "CustomBuild"
        self.build_system.commands = [presence(program, where)]

    def _skip_in_an_image(self, environ) -> None:
        if image := images.image_of(environ):
            self.skip(
                f"{self.display_name}: {self.executable} is not in the image {image}, which has our own programs"
            )

    # What a duet asks, whose halves are of two environments.

    def program_in(self, environ) -> str:
        """What a launch in another environment of the partition runs; '' where that is the check's own executable."""
        if "installed" in environ.features and self._source:
            return self.within_image(environ, installed_name(self._source))
        return f"./{self.unique_name}.{environ.name}" if self._source else ""

    def image_in(self, environ) -> str:
        """Name and digest of what its programs are in; '' if in none."""
        return images.called(environ) if images.image_of(environ) else ""

    def sources_in(self, environ) -> str:
        """Digest of the sources that its program was built from; '' of a program of others. Where they are not the
        checkout's, the run says so."""
        if not self._source:
            return ""
        if images.image_of(environ):
            found, fix = images.sources_of(environ), "make images-lock"
        else:
            found = sources.recorded(self.stagedir, environ.name)
            fix = "make spack-lock, or install these"
        sources.warn_of_others(environ.name, found, fix)
        return found

    def facts_of(self, environ) -> dict[str, str]:
        """What is recorded of an environment's software with each result."""
        found = self.sources_in(environ)
        return {"sources": found} if found else {}

    def within_image(self, environ, program: str) -> str:
        """The command that runs it where the environment has its programs."""
        return (
            images.command(environ, self.current_partition, program)
            if images.image_of(environ)
            else program
        )

    def commands_to_build(self, environ) -> list[str]:
        """Those that build the program in another environment than the check's own, as `program_in` has it."""
        if not self._source:
            self._skip_in_an_image(environ)
            return self.build_system.emit_build_commands(environ)
        if images.image_of(environ):
            return ["true"]  # the job says whether it is the image that was locked
        if "installed" in environ.features:
            return [
                presence(
                    self.program_in(environ),
                    f"the environment {environ.name} is to have nearmetal-benchmarks installed",
                ),
                sources.record(self.program_in(environ), environ.name),
            ]
        system = self._single_source()
        system.srcfile, system.executable = self._source, self.program_in(environ)
        return system.emit_build_commands(environ)

    def launcher_in(self, environ):
        """The launcher of programs of that environment."""
        return self.job.launcher

    def preparations_in(self, environ) -> list[str]:
        """Commands before the first launch in that environment."""
        if not (verified := self.verifications_in(environ)):
            return []
        meet = self.within_image(
            environ, f"{installed_name('launch.c')} --ranks {self.job.num_tasks}"
        )
        own, self.job.launcher = self.job.launcher, self.launcher_in(environ)
        try:
            return [*verified, images.trial(self.launch_of_all(meet))]
        finally:
            self.job.launcher = own

    def verifications_in(self, environ) -> list[str]:
        """Of an image whether it is the one that was locked, and can run here."""
        if not images.image_of(environ):
            return []
        self.sources_in(environ)  # says so before the job starts
        return [
            images.verification(
                environ, self.current_partition, by_srun=self.job.launcher.registered_name == "srun"
            )
        ]

    def launch_of_all(self, command: str) -> str:
        """The command line that runs this on all processes of the job."""
        return f"{self.job.launcher.run_command(self.job)} {command}"

    def obstacle_in(self, environ) -> str:
        """Why the check cannot run in that environment; '' if it can."""
        return images.obstacle(environ, self.current_partition) if images.image_of(environ) else ""

    def record_program(self, facts: dict, suite: str) -> None:
        """The library and compiler that the first launch tells of; programs of other suites may not."""
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
        """Of each round its launches by `self.counts`, which is what they ran on; SanityError where they ran on others."""
        told = [on(run) for run in launches]
        if told != (wanted := self.counts * self.repeats):
            raise SanityError(f"the output holds launches on {told} {what} instead of {wanted}")
        size = len(self.counts)
        return [
            dict(zip(self.counts, launches[start : start + size]))
            for start in range(0, len(launches), size)
        ]


class OursOrTheirs(rfm.RegressionTestPlugin):
    """A check that runs our program or the suite's own that ours is written after."""

    #: Origin of the program: ours, or the suite that the check's description names. :type: str
    suite = builtin.variable(str, value="nearmetal", loggable=True)

    def theirs(self, name: str) -> bool:
        """Whether that suite's program is asked for; SanityError where neither it nor ours is."""
        if self.suite not in ("nearmetal", name):
            raise SanityError(
                f"{type(self).__name__}.suite is {self.suite!r}; choose 'nearmetal' or {name!r}"
            )
        return self.suite == name


class Imb(OursOrTheirs):
    """A check written after one of the Intel MPI Benchmarks."""

    def choose_imb(self, source: str) -> None:
        if self.theirs("imb"):
            self.run_theirs("IMB-MPI1", "it comes from the `imb` module or Spack environment")
        else:
            self.build_ours(source)
