"""Install an environment's software by Spack, from a lock in spack-env/.

This serves environments with the feature `spack`.
"""

import platform
import shlex
import shutil
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checkout import CHECKOUT
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.spack import FORMAT, disagreements, measured, parse_installed
from nearmetal.checks.programs import presence
from nearmetal.checks.settings import MAX_PENDING_TIME, MAX_TIME_LIMIT, SPACK_CACHE, SPACK_ENV
from nearmetal.locks import spack as locks
from nearmetal.locks.spack_cache import add_mirror, from_cache

ENVIRONMENTS_DIR = CHECKOUT / "spack-env"
#: Files that an installation leaves in its stage directory: the output of `spack find`, and a
#: script that puts all packages on PATH.
FOUND, LOAD = "spack.found", "load.sh"


def directory(environ) -> Path:
    """Directory of the Spack environment that the extra `spack_env` names.

    The extra is a name in spack-env/, or the absolute path of a site's own directory.
    """
    return ENVIRONMENTS_DIR / SPACK_ENV.of(environ, default=environ.name)


def machine_of(partition) -> str:
    """The architecture of a partition's nodes: the site's `processor`, or else the login node's."""
    return locks.machine_of(partition.processor.arch or platform.machine())


def stage(environment: Path, target: Path) -> None:
    """Copy an environment to `target`, where Spack can write, and link the directories that it
    includes."""
    # ReFrame keeps the stage directory of a case that failed.
    shutil.rmtree(target, ignore_errors=True)
    copy = target / environment.name
    copy.mkdir(parents=True)
    for path in filter(Path.is_file, environment.iterdir()):
        shutil.copy(path, copy)
    for path in filter(Path.is_dir, environment.parent.iterdir()):
        if path != environment:
            (target / path.name).symlink_to(path)


def commands_to_write(script: str, load: str) -> list[str]:
    """Shell commands that save the output of `spack load --sh` as a script. The script works with
    any PATH; PATH=$spackless undoes it."""
    return [
        f"load=$({load}) now=\":$PATH;\" then=':$PATH;'",  # Spack writes out the present PATH
        f"""printf '%s\\n' 'spackless=$PATH' "${{load//"$now"/"$then"}}" > {script}""",
    ]


def differs(lock, stagedir: Path) -> str:
    """Differences between an installation and its lock, or between the lock and its copy; '' if
    there are none."""
    copy = stagedir / "spack-env" / lock.environment.name / "spack.lock"
    if copy.read_bytes() != lock.path.read_bytes():
        return (
            f"Spack changed the lock: its copy differs from {lock.path}. "
            f"Fix: use Spack {lock.spack}"
        )
    try:
        return "; ".join(disagreements(lock, parse_installed((stagedir / FOUND).read_text())))
    except (OSError, ParseError) as error:
        return f"{FOUND}: {error}"


class spack_install(rfm.CompileOnlyRegressionTest):
    """Software of a Spack environment, installed from its lock on a node of the partition."""

    descr = "Software of a Spack environment, installed from its lock on a node of the partition"
    build_locally = False
    # Without a cache, Spack builds all packages from their sources.
    build_time_limit = "1d"
    sourcesdir = None
    maintainers = ["nearmetal"]

    @builtin.run_before("compile")
    def install_from_the_lock(self):
        environ, self.directory = self.current_environ.name, directory(self.current_environ)
        try:
            self.lock = locks.choose(self.directory, machine_of(self.current_partition))
        except locks.LockError as error:
            raise SanityError(
                f"{error} (`spack_env` in the extras of the environment {environ})"
            ) from None
        stage(self.directory, Path(self.stagedir, "spack-env"))
        here = f"spack-env/{self.directory.name}"
        shutil.copy(self.lock.path, Path(self.stagedir, here, "spack.lock"))
        self.build_system = "Spack"
        spack: Any = self.build_system  # ReFrame has replaced the name by an object
        spack.environment = here
        # The lock as it is: Spack must not choose other versions.
        spack.install_opts = ["--only-concrete"]
        self.prebuild_cmds = [
            presence(
                "spack",
                f"install Spack {self.lock.spack} as README.md says, and add it to the "
                f"modules, env_vars or prepare_cmds of the environment {environ}",
            ),
            "spack --version",
            (
                f'[ "$(uname -m)" = {self.lock.machine} ] || {{ echo "this node is $(uname -m), '
                f"and {self.lock.path} is for {self.lock.target}. Fix: name the nodes' processor "
                "(processor: {arch: ...}) in the system's file\" >&2; exit 1; }"
            ),
        ]
        if cache := SPACK_CACHE.of(self.current_partition):
            self.prebuild_cmds += [
                shlex.join(["spack", *add_mirror(here, cache)]),
                from_cache(here),
            ]
        hashes = " ".join(f"/{node.hash}" for node in measured(self.lock))
        self.postbuild_cmds = [
            f"spack -e {here} find --format {shlex.quote(FORMAT)} > {FOUND}",
            *commands_to_write(LOAD, f"spack -e {here} load --sh {hashes}"),
        ]
        self.keep_files = [FOUND, LOAD, f"{here}/spack.lock"]

    @builtin.run_before("compile")
    def ask_for_a_node(self):
        partition, asked = self.current_partition, self.build_time_limit
        # Spack builds with many processes, which would disturb a job beside it.
        self.build_job.exclusive_access = True
        self.build_job.max_pending_time = MAX_PENDING_TIME.of(partition)
        self.build_time_limit = MAX_TIME_LIMIT.of(partition, default=asked)
        self.build_time_limit = min(asked, self.build_time_limit)

    @builtin.sanity_function
    def matches_the_lock(self):
        if fault := differs(self.lock, Path(self.stagedir)):
            raise SanityError(f"{fault} (files: {self.stagedir})")
        return True
