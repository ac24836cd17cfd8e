"""Builds and runs the checks' C programs in tests."""

import os
import subprocess

import pytest

STRICT = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
MPI = {"openmpi": ["mpirun.openmpi", "--oversubscribe"], "mpich": ["mpirun.mpich"]}


def run(command, **environment):
    return subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )


def build(compiler, sources, program, *flags):
    result = run([compiler, *STRICT, *flags, *sources, "-o", program, "-lm"])
    assert result.returncode == 0, result.stderr
    return program


@pytest.fixture(scope="module", params=["openmpi", "mpich"])
def mpi(request):
    """(compiler, launcher) of an MPI library. Debian installs both libraries under these names."""
    return f"mpicc.{request.param}", MPI[request.param]
