"""Whether a Spack environment is installed, as Spack on the login node reports it."""

import functools
import subprocess
from pathlib import Path

import reframe.core.runtime as runtime
from reframe.core.exceptions import ReframeError

from nearmetal.checks.parsing.spack import measured
from nearmetal.checks.spack_install import directory, machine_of
from nearmetal.locks import spack as locks
from nearmetal.site.selection import spack_install

#: Exit code of the question where Spack is not on PATH.
NO_SPACK = 127
#: Asks for the hashes of all packages. `-E`: of no environment, so that Spack writes nothing.
QUESTION = (
    f"command -v spack > /dev/null || exit {NO_SPACK}",
    "spack -E find --format '{hash}'",
)
#: Seconds that Spack may take for the answer.
PATIENCE = 120


def install_command(lock) -> str:
    """The command that installs an environment by a lock of it, and what to run before."""
    command = spack_install(lock.environment, lock.path)
    if lock.path.parent != lock.environment and lock.system != locks.system_here():
        command += f" (the lock is for {lock.system}: run make spack-lock before)"
    return command


def absence(environ, partition) -> str:
    """Why an environment's software is not there, with the command that installs it.

    '' if it is there. Also '' if the lock cannot be read: then `spack_install` fails and says why.
    """
    try:
        commands = runtime.emit_loadenv_commands(partition.local_env, environ)
    except ReframeError as error:
        return f"{environ.name} cannot be loaded on this node: {error}"
    machine, script = machine_of(partition), "\n".join([*commands, *QUESTION])
    return _absence(environ.name, directory(environ), machine, script)


@functools.cache  # each check asks, and Spack takes a second
def _absence(name: str, environment: Path, machine: str, script: str) -> str:
    try:
        lock = locks.choose(environment, machine)
    except locks.NoLock as error:
        return f"{name}: {error}"
    except locks.LockError:
        return ""
    code, output, words = _ask(script)
    command = install_command(lock)
    if code == NO_SPACK:
        return (
            f"{name} ({_few(measured(lock))}) needs Spack, which is not on PATH of this node"
            f"{words}. Fix: install Spack {lock.spack} as README.md says, then run: {command}"
        )
    if code:
        return f"{name}: `spack -E find` fails: exit code {code}{words}. Fix: run it by hand"
    # Hashes, since another build of the same version is other software.
    installed = set(output.split())
    missing = [node for node in measured(lock) if node.hash not in installed]
    if not missing:
        return ""
    return (
        f"{name} is not installed: Spack has no {_few(missing)} of its lock. Fix: run: {command}, "
        "or give -S spack_missing=install"
    )


def _few(nodes: list) -> str:
    """Packages in words: the first one by name, and the number of the others."""
    first, *further = nodes
    more = f" and {len(further)} more" if further else ""
    return f"{first.name}@{first.version}{more}"


def _ask(script: str) -> tuple[int, str, str]:
    """Exit code, output, and the last error in brackets, of a script on this node."""
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        return 1, "", f" (no answer within {PATIENCE} s)"
    last = done.stderr.strip().splitlines()[-1:]
    return done.returncode, done.stdout, f" ({last[0].strip()})" if last else ""
