"""Builds and runs the checks' C programs in tests."""

import os
import re
import subprocess

import pytest

from nearmetal.checks.disturbance import without_usage

STRICT = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
MPI = {"openmpi": ["mpirun.openmpi", "--oversubscribe"], "mpich": ["mpirun.mpich"]}


def run(command, **environment):
    """The completed command; its output without what the ranks say of themselves at their end."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )
    done.stdout = without_usage(done.stdout)
    return done


def on_host(name, command):
    """The command, on a host of that name."""
    own = ["unshare", "--user", "--map-current-user", "--keep-caps", "--uts"]
    return [*own, "sh", "-c", 'hostname "$0" && exec "$@"', name, *command]


def hosts_named_on(name, command, **environment):
    """Hosts that the ranks of a launch name on that host, in its facts and at their end."""
    done = subprocess.run(
        list(map(str, on_host(name, command))),
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | environment,
    )
    named = re.findall(r"^# nearmetal (?:rank \d+|usage): host=(\S*)", done.stdout, re.M)
    assert named, done.stderr
    return set(named)


def build(compiler, sources, program, *flags):
    result = run([compiler, *STRICT, *flags, *sources, "-o", program, "-lm"])
    assert result.returncode == 0, result.stderr
    return program


@pytest.fixture(scope="module", params=["openmpi", "mpich"])
def mpi(request):
    """(compiler, launcher) of an MPI library. Debian installs both libraries under these names."""
    return f"mpicc.{request.param}", MPI[request.param]
