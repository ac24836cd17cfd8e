"""Starts ranks of Java programs on this machine as srun does, for tests of the tier `node`. Their
image has a JDK and the library."""

import os
import subprocess

import pytest

from nearmetal.checks.disturbance import without_usage
from tests.support.paths import JAVA, SOURCES

JVM = SOURCES / "java" / "launch" / "jvm.sh"
#: A compiler that lives for a second is not worth compiling.
JAVAC = ["javac", "-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"]
#: Environment of a rank in a step of srun.
STEP = {
    "SLURM_JOB_ID": "7",
    "SLURM_STEP_ID": "0",
    "SLURM_STEP_NODELIST": "localhost",
    "SLURMD_NODENAME": "localhost",
    "SLURM_NTASKS": "2",
    "SLURM_PROCID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "2",
    "SLURM_MEM_PER_NODE": "1000",
}


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A directory with compiled classes: the launcher's, Confine, Hello and our programs."""
    directory = tmp_path_factory.mktemp("java")
    home = os.environ.get("MPJ_HOME", "/usr/share/mpj")
    library, tests = f"{home}/lib/mpj.jar", JAVA
    for command in (
        [
            *JAVAC,
            "-Xlint:all",
            "-Werror",
            "--release",
            "17",
            "-d",
            "launch.classes",
            *sorted((SOURCES / "java/launch").glob("*.java")),
            tests / "Pure.java",
        ],
        [
            *JAVAC,
            "-Xlint:all",
            "-Werror",
            "--release",
            "17",
            "-cp",
            library,
            "-d",
            "classes",
            tests / "Hello.java",
            *sorted((SOURCES / "java").glob("*.java")),
        ],
        ["java", "-cp", f"launch.classes:{library}", "launch.Confine", "launch.classes"],
    ):
        # javac would warn about the library's own jars.
        command = [str(word).replace("-Xlint:all", "-Xlint:all,-path") for word in command]
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    return directory


@pytest.fixture
def ranks(built):
    """A function that starts a rank of a program on this machine. At the end, all are killed."""
    started = []

    def start(rank, size, *arguments, main="Hello", options=(), **settings):
        environment = (
            os.environ
            | {"MPJ_HOME": "/usr/share/mpj", **os.environ}
            | STEP
            | {"SLURM_NTASKS": str(size), "SLURM_PROCID": str(rank)}
            | settings
        )
        started.append(
            subprocess.Popen(
                ["sh", str(JVM), "--heap=64", *options, main, *arguments],
                cwd=built,
                text=True,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def ends(process, timeout=40):
    """(exit code, output, errors); the output without what the ranks say at their end."""
    out, err = process.communicate(timeout=timeout)
    return process.returncode, without_usage(out), err
