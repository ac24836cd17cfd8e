"""The lab for tests."""

import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from nearmetal.util import files, own
from tests.support.paths import CHECKOUT

#: Directory of the images that tests build. The lab's nodes see it.
IMAGES = CHECKOUT / "results" / "tests" / "images"


@dataclass(frozen=True)
class Lab:
    """A checkout's lab, used through its public commands."""

    checkout: Path

    def __call__(
        self, *arguments: str, check: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess:
        """Run `python -m nearmetal.lab ARGUMENTS`."""
        done = subprocess.run(
            [sys.executable, "-m", "nearmetal.lab", *arguments],
            cwd=self.checkout,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
        )
        assert not check or done.returncode == 0, done.stdout
        return done

    def run(self, line: str, node: str = "login", root: bool = False, **options) -> str:
        """Output of one command line in the lab."""
        return self("exec", "--node", node, *(["--root"] if root else []), line, **options).stdout

    def end(self, program: str, node: str = "login", signal: str = "TERM"):
        """End a daemon of a node, and wait until it is gone: a busy one runs on for a while."""
        name = shlex.quote(program)
        gone = f"while pgrep -x {name} > /dev/null; do sleep 0.05; done"
        self.run(f"pkill -{signal} -x {name} && {gone}", node=node, root=True)

    def reframe(
        self, *arguments: str, prefix: Path, timeout: float = 300, **environment
    ) -> subprocess.CompletedProcess:
        """Run `reframe -c reframe_checks ARGUMENTS` on the login node, with results in `prefix`."""
        settings = [
            f"{name}={shlex.quote(value)}"
            for name, value in {"RFM_PREFIX": str(prefix), **environment}.items()
        ]
        return self(
            "exec",
            " ".join(
                [*settings, "reframe --nocolor -c reframe_checks", *map(shlex.quote, arguments)]
            ),
            check=False,
            timeout=timeout,
        )


def fresh_prefix(lab: Lab, name: str) -> Path:
    """An empty directory for results, which the lab's user and the host see. It is kept until the
    next run."""
    directory = CHECKOUT / "results" / "tests" / name
    quoted = shlex.quote(str(directory))
    # By the host's user: a test may have put files there that are not the lab's user's.
    shutil.rmtree(directory, ignore_errors=True)
    lab.run(f"mkdir -p {quoted}")
    return directory


def give(path: Path, data: bytes) -> None:
    """Write a file that belongs to the owner of the results."""
    with own.as_owner(path):
        files.write(path, data)


def make_images(*words, directory=IMAGES) -> subprocess.CompletedProcess:
    """Run `make images`, with images and lock in this directory."""
    return subprocess.run(
        [sys.executable, "-m", "nearmetal.locks.images", *words],
        cwd=CHECKOUT,
        text=True,
        timeout=1500,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "NEARMETAL_IMAGES": str(directory)},
    )
