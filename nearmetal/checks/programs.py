"""The programs that checks run: ours, built from src/ or in an image, and those of others."""

import functools
import re
import shlex
from dataclasses import dataclass, replace

from reframe.core.buildsystems import CustomBuild, SingleSource
from reframe.core.exceptions import SanityError

from nearmetal.checkout import SOURCES
from nearmetal.checks.versions import Plugin

#: The line of a source that says how it is built: by the MPI library's compiler (mpi), with SLEPc
#: (slepc) or with neither (serial), and with which flags. Images are built by it, too (install.sh).
BUILD = re.compile(r"^ \* Build: (?:mpi|serial|slepc) (.*)$", re.MULTILINE)
#: The option for OpenMP in such a line.
OPENMP = "-fopenmp"


@functools.cache
def flags_of() -> dict[str, tuple[str, ...]]:
    """Compiler flags of our programs, by source."""
    flags = {}
    for path in sorted(SOURCES.rglob("*.c")):
        if build := BUILD.search(path.read_text(encoding="utf-8")):
            flags[str(path.relative_to(SOURCES))] = tuple(build[1].split())
    return flags


def installed_name(source: str) -> str:
    """The name under which an image has the program (src/install.sh)."""
    return "nearmetal-" + source.removesuffix(".c").replace("/", "-")


def presence(program: str, where: str) -> str:
    """The command that fails if the program is not on PATH. Its error says where to get it."""
    said = shlex.quote(f"{program} is not on PATH: {where}")
    return f"command -v {program} > /dev/null || {{ echo {said} >&2; exit 1; }}"


@dataclass(frozen=True)
class Program:
    """The program of a check."""

    source: str = ""  #: file below src/; '' for programs of others, or only in Java
    path: str = ""  #: file that the build writes, or name on PATH
    java: str = ""  #: class or file of the same program below src/java/; '' if none
    where: str = ""  #: where to get a program of others; '' for ours

    @property
    def is_ours(self) -> bool:
        return not self.where

    def at(self, path: str) -> "Program":
        """The same program, built into another file."""
        if not self.is_ours:
            return self
        return replace(self, path=path)


def single_source(source: str, omp_flag: str = OPENMP) -> SingleSource:
    """The build system for one source, with its flags.

    :arg omp_flag: the compiler's option for OpenMP.
    """
    flags = [omp_flag if flag == OPENMP else flag for flag in flags_of()[source]]
    system = SingleSource()
    # The program reports its flags as the compiler's facts.
    system.cflags = ["-std=c11", *flags, f"""-DNEARMETAL_CFLAGS='"{" ".join(flags)}"'"""]
    system.ldflags = ["-lm"]
    return system


#: Suite of others -> its program, and where to get it.
SUITES = {
    "imb": ("IMB-MPI1", "it comes from the `imb` module or Spack environment"),
    "osu": ("osu_latency", "it comes from the environment `apps-spack`, or from the site"),
}


def is_theirs(check, *suites: str) -> bool:
    """Whether a check's variable `suite` selects the program of one of these suites, not ours.

    Raises SanityError for any other suite.
    """
    if check.suite not in ("nearmetal", *suites):
        known = " or ".join(map(repr, ("nearmetal", *suites)))
        raise SanityError(f"{type(check).__name__}.suite is {check.suite!r}; choose {known}")
    return check.suite in suites


class Programs(Plugin):
    """A check that runs a program of ours, or one of others."""

    #: The program of the check, once `build` has chosen it.
    target = Program()
    #: Class of the same program in Java, below src/java/; '' if there is none.
    java_program = ""

    def build_ours(self, source: str) -> None:
        """Run a program of src/: compiled by its line `Build:`, or the image's."""
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

    def run_script(self, command: str) -> None:
        """Run a script of src/, which needs no compiler."""
        self.build_system = CustomBuild()
        self.build_system.commands = ["true"]
        self.executable = command

    def _run(self, program: Program) -> None:
        self.target = program
        reason = self.runtime.skip_reason_of(program)
        if reason:
            self.skip(f"{self.display_name}: {reason}")
        if self.runtime.is_compiled(program):
            self.sourcepath = program.source
        self.build_system = self.runtime.build_system(program)
        self.executable = self.runtime.command(program)
