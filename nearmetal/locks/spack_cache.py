"""Build caches: the locked software of spack-env as binaries, for machines that do not compile it.

make spack-cache [CACHE=PLACE] [SITE=DIRECTORY] [ENVIRONMENTS='openmpi apps']
"""

import argparse
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nearmetal.checkout import CHECKOUT
from nearmetal.locks.spack import HERE, LockError, choose, externals, lock_paths
from nearmetal.util.cli_errors import HELP, OPTION, guarded

#: The cache without CACHE.
DEFAULT = CHECKOUT / "results" / "spack-cache"
#: Name of the cache in Spack's configuration.
MIRROR = "nearmetal"


def place_of(text: str) -> str:
    """A cache as Spack takes it: a URL, or the absolute path of a directory."""
    if "://" in text:
        return text
    return str(Path(text).absolute())


def add_mirror(environment: str, place: str) -> list[str]:
    """Arguments of Spack that let an environment take binaries from a cache.

    The binaries are not signed: whoever can write to the cache decides what is installed.
    """
    return ["-e", environment, "mirror", "add", "--unsigned", MIRROR, place]


def from_cache(environment: str) -> str:
    """The shell command that installs what a cache has of an environment's lock.

    By itself `spack install` also wants what only building needs, even where it builds nothing. No
    cache of `fill` has that, so Spack would compile it first.
    """
    return (
        f"spack -e {environment} install --only-concrete --cache-only || "
        "echo 'The cache has not all packages: Spack builds the others'"
    )


@contextmanager
def copy_of(name: str, site: Path = HERE) -> Iterator[Path]:
    """A copy of an environment, whose configuration may change.

    :arg site: directory of the environments.
    """
    root = Path(tempfile.mkdtemp(prefix="nearmetal-spack-"))
    try:
        # Its views are large, and made anew.
        unneeded = shutil.ignore_patterns(".spack-env")
        shutil.copytree(site, root / "spack-env", ignore=unneeded)
        yield root / "spack-env" / name
    finally:
        shutil.rmtree(root)


def fill(spack: list[str], name: str, place: str, run: Callable, site: Path = HERE) -> str:
    """Install an environment by its lock and put it into a cache. Raises LockError.

    :arg run: function: a command -> its exit code.
    :arg site: directory of the environments.
    :returns: a sentence on what the cache now has.
    """
    lock = choose(site / name, platform.machine())
    with copy_of(name, site) as copy:
        shutil.copyfile(lock.path, copy / "spack.lock")
        here = str(copy)
        for words in (
            add_mirror(here, place),
            ["-e", here, "install", "--only-concrete", "--fail-fast"],
            [
                *("-e", here, "buildcache", "push", "--unsigned", "--update-index"),
                *("--without-build-dependencies", "--fail-fast", place),
            ],
        ):
            command = [*spack, *words]
            if code := run(command):
                raise LockError(f"{name}: exit code {code} of: {shlex.join(command)}")
        # Another version of Spack may concretize anew.
        if (copy / "spack.lock").read_bytes() != lock.path.read_bytes():
            raise LockError(
                f"{name}: Spack changed the copy of {lock.path}, so the cache has other packages. "
                f"Fix: use Spack {lock.spack}"
            )
    return (
        f"{name}: {place} has the packages of the lock that programs run with. Not in it, because "
        f"they are the system's: {', '.join(externals(lock)) or 'none'}"
    )


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(
        prog="spack_cache",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit status: 0 all are in the cache, 1 bad usage, 2 a lock cannot be read or Spack "
        "fails, 3 an unforeseen error.",
    )
    parser.add_argument(
        "environments", nargs="*", metavar="ENVIRONMENT", help="default: all of the directory"
    )
    parser.add_argument(
        "--site",
        type=Path,
        default=HERE,
        metavar="DIRECTORY",
        help="a site's own environments (default: spack-env)",
    )
    parser.add_argument("--cache", default=str(DEFAULT), help="directory or URL of the cache")
    parser.add_argument("--spack", type=shlex.split, default=["spack"], metavar="COMMAND")
    parser.add_argument(OPTION, action="store_true", help=HELP)
    options = parser.parse_args(arguments)
    site = options.site.absolute()
    # Links lead to our environments (`spack.write_into`).
    own = [path.parent for path in site.glob("*/spack.yaml") if not path.parent.is_symlink()]
    names = sorted(path.name for path in own if lock_paths(path)[0].exists())
    fault = ""
    if not names:
        fault = f"{site} has no environment with a lock. Fix: make spack-lock SITE={site}"
    elif unknown := sorted(set(options.environments) - set(names)):
        fix = f"choose from {', '.join(names)}"
        fault = f"there is no environment {', '.join(unknown)}. Fix: {fix}"
    elif not shutil.which(options.spack[0]):
        fault = f"{options.spack[0]} is not on PATH. Fix: install Spack as README.md says"
    if fault:
        print(f"spack_cache: {fault}", file=sys.stderr)
        return 1
    try:
        for name in options.environments or names:
            place = place_of(options.cache)
            print(fill(options.spack, name, place, subprocess.call, site), flush=True)
    except LockError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main, "spack_cache"))
