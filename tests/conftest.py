"""The lab for tests that are marked `lab`, and a second checkout for those that would disturb it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from nearmetal import files
from nearmetal.locks import images
from tests.support.paths import CHECKOUT

#: Built by these tests, and seen by the lab's nodes.
IMAGES = CHECKOUT / "results" / "tests" / "images"


@dataclass(frozen=True)
class Lab:
    """A checkout's lab, used by the commands that a person has."""

    checkout: Path

    def __call__(
        self, *arguments: str, check: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess:
        """`python -m nearmetal.lab ARGUMENTS`."""
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

    def reframe(
        self, *arguments: str, prefix: Path, timeout: float = 300, **environment
    ) -> subprocess.CompletedProcess:
        """`reframe -c reframe_checks ARGUMENTS` on the login node, its results below the prefix."""
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


@pytest.fixture(scope="session")
def lab() -> Lab:
    """This checkout's lab, up and healthy, without virtual machines."""
    lab = Lab(CHECKOUT)
    lab("up", "--vm", "none", timeout=600)
    return lab


def fresh_prefix(lab: Lab, name: str) -> Path:
    """Where results go: seen by the lab's user and by the host, and kept until the next time for a look."""
    directory = CHECKOUT / "results" / "tests" / name
    quoted = shlex.quote(str(directory))
    lab.run(f"rm -rf {quoted} && mkdir -p {quoted}")
    return directory


@pytest.fixture
def prefix(lab, request):
    """Where this test's results go."""
    return fresh_prefix(lab, request.node.name)


def make_images(*words, directory=IMAGES) -> subprocess.CompletedProcess:
    """`make images`, with images and lock in this directory."""
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


@pytest.fixture(scope="session")
def built_images(lab) -> dict:
    """All images, by the committed lock; its entries.

    Where the lock is of other sources, or Debian's archive has moved on since, they are locked anew.
    """
    fresh_prefix(lab, "images")
    files.copy(CHECKOUT / "containers" / "images.lock", f"{IMAGES}.lock")
    done = make_images()
    if done.returncode == 3:
        said = [line for line in done.stdout.splitlines() if line.startswith("  ")]
        assert said and all(
            re.fullmatch(
                r"  \S+ \S+ (instead of \S+|is new)|  \S+ is gone.*|  the lock is of other .*", line
            )
            for line in said
        ), done.stdout
        warnings.warn(
            f"images.lock is of other sources or packages (make images-lock): {said}",
            stacklevel=1,
        )
        done = make_images("--lock")
    assert done.returncode == 0, done.stdout
    return images.read_lock(Path(f"{IMAGES}.lock"))


@pytest.fixture(scope="module")
def other_lab(lab):
    """A second checkout, where most people have theirs; its lab is down at first, and at the end."""
    if os.geteuid() != 0:
        pytest.skip("breaks and counts what belongs to root: run it as root, as CI does")
    home = Path(tempfile.mkdtemp(prefix="nearmetal-test-", dir="/home"))
    home.chmod(0o755)
    checkout = home / "checkout"
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split("\0")
    for name in filter(None, tracked):
        if (CHECKOUT / name).exists():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(CHECKOUT / name, checkout / name)
    other = Lab(checkout)
    yield other
    other("down")
    shutil.rmtree(home)
