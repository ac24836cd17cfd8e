"""Builds and runs the checks' C programs in tests."""

import os
import re
import subprocess

from nearmetal.checks.disturbance import without_usage
from nearmetal.checks.programs import flags_of
from tests.support.paths import SOURCES

STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
#: Launchers of the MPI libraries. Debian installs both libraries under these names.
MPI = {"openmpi": ["mpirun.openmpi", "--oversubscribe"], "mpich": ["mpirun.mpich"]}
COMPILERS = {**{library: f"mpicc.{library}" for library in MPI}, "serial": "cc"}


def run(command, timeout=120, **environment):
    """The completed command; its output without what the ranks say of themselves at their end."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        timeout=timeout,
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


def build(library, source, program, *further):
    """Compile a source of ours as users do, and further sources or libraries with it."""
    flags = flags_of().get(source, ("-O2",))
    words = [COMPILERS[library], *STRICT, *flags, SOURCES / source, *further, "-o", program, "-lm"]
    result = run(words)
    assert result.returncode == 0, result.stderr
    return program


def slepc() -> list[str]:
    """What the eigensolver is built with, after its source."""
    return run(["pkg-config", "--cflags", "--libs", "slepc"]).stdout.split()
