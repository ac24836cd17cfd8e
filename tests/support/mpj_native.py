"""Builds mpj-native and runs programs with it, for tests of the tier `node`. Their image has a JDK
and both MPI libraries."""

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from nearmetal.checks.disturbance import without_usage
from tests.support.jvm_ranks import JAVAC
from tests.support.paths import CHECKOUT
from tests.support.programs import MPI

NATIVE = CHECKOUT / "mpj-native"
LIBRARIES = {"openmpi": "libmpi.so.40", "mpich": "libmpich.so.12"}
#: The JVMs of a test share two cores.
JVM = ["-XX:+UseG1GC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
#: The same, but arrays cannot be pinned.
SERIAL = ["-XX:+UseSerialGC", *JVM[1:]]


@dataclass(frozen=True)
class Built:
    """Directories of the library's classes and of other classes."""

    library: Path
    classes: Path

    def java(self, *arguments, jvm=JVM) -> list[str]:
        path = f"{self.library}:{self.classes}"
        return ["java", *jvm, "--enable-native-access=ALL-UNNAMED", "-cp", path, *arguments]

    def run(self, mpi: str, ranks: int, *arguments, timeout=240, jvm=JVM):
        """The completed launch of a class on ranks of an MPI library, without lines of usage."""
        done = subprocess.run(
            [*MPI[mpi], "-n", str(ranks), *self.java(*arguments, jvm=jvm)],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=os.environ | {"MPJ_NATIVE_LIBRARY": LIBRARIES[mpi]},
        )
        done.stdout = without_usage(done.stdout)
        return done


def compiled(directory: Path, *sources) -> Built:
    """The library, and classes compiled against it."""
    built = Built(directory / "library", directory / "classes")
    strict = [*JAVAC, "-Xlint:all", "-Werror", "--release", "22", "-cp", built.library]
    for command in (
        ["sh", NATIVE / "build.sh", built.library],
        [*strict, "-d", built.classes, *sources],
    ):
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return built
