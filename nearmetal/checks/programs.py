"""What a check runs: a program of ours, built from src/ or installed, or one that the environment
brings."""

import functools
from dataclasses import dataclass, replace

from reframe.core.buildsystems import SingleSource
from reframe.core.exceptions import SanityError

from nearmetal.checkout import CHECKOUT

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
    """The command that fails where there is no such program on PATH, and says where it comes
    from."""
    return (
        f'command -v {program} > /dev/null || {{ echo "{program} is not on PATH: {where}" >&2; '
        f"exit 1; }}"
    )


@dataclass(frozen=True)
class Program:
    """What a check runs: a program of ours, or one that is installed."""

    source: str = ""  #: file below src/; '' for a program in Java alone and for one of others
    path: str = ""  #: file that the build writes, or the name on PATH
    java: str = ""  #: class of the same program below src/java/, or its file; '' without
    where: str = ""  #: where a program of others comes from

    @property
    def is_ours(self) -> bool:
        return not self.where

    def at(self, path: str) -> "Program":
        """The same program, built into another file."""
        return replace(self, path=path) if self.is_ours else self


def single_source(source: str) -> SingleSource:
    """The build of a source, by its flags."""
    flags = flags_of()[source]
    system = SingleSource()
    system.cflags = ["-std=c11", *flags, f"""-DNEARMETAL_CFLAGS='"{" ".join(flags)}"'"""]
    system.ldflags = ["-lm"]
    return system


#: Program of the Intel MPI Benchmarks, and where it comes from.
IMB = "IMB-MPI1", "it comes from the `imb` module or Spack environment"


def is_theirs(check, suite: str) -> bool:
    """Whether a check's variable `suite` asks for that suite's program, and not for ours.

    Raises SanityError where it asks for a third.
    """
    if check.suite not in ("nearmetal", suite):
        raise SanityError(
            f"{type(check).__name__}.suite is {check.suite!r}; choose 'nearmetal' or {suite!r}"
        )
    return check.suite == suite
