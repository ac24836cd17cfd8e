"""The lab for the tests of this directory, and a second checkout for disturbing ones."""

import os
import re
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import pytest

from nearmetal.locks import images
from nearmetal.util import files
from tests.support.lab import IMAGES, Lab, fresh_prefix, make_images
from tests.support.paths import CHECKOUT


@pytest.fixture(scope="session")
def lab() -> Lab:
    """This checkout's lab, up and healthy, without virtual machines."""
    lab = Lab(CHECKOUT)
    lab("up", "--vm", "none", timeout=600)
    return lab


@pytest.fixture
def prefix(lab, request):
    """Where this test's results go."""
    return fresh_prefix(lab, request.node.name)


def build_as_locked(*stacks: str) -> dict:
    """Images of these stacks, or of all, built as locked; their records.

    Where the lock is of other definitions, or Debian's archive has moved on since, they are locked
    anew.
    """
    files.copy(CHECKOUT / "containers" / "images.lock", f"{IMAGES}.lock")
    if faults := images.faults():
        warnings.warn(f"images.lock is not of this checkout: {faults}", stacklevel=1)
        done = make_images("--lock", *stacks)
    else:
        done = make_images(*stacks)
    if done.returncode == 3:
        said = [line for line in done.stdout.splitlines() if line.startswith("  ")]
        assert said and all(
            re.fullmatch(r"  \S+ \S+ (instead of \S+|is new)|  \S+ is gone.*", line)
            for line in said
        ), done.stdout
        warnings.warn(
            f"the archive has other packages than images.lock (make images-lock): {said}",
            stacklevel=2,
        )
        done = make_images("--lock", *stacks)
    assert done.returncode == 0, done.stdout
    return {
        stack: images.read_record(IMAGES / f"{stack}.yaml") for stack in stacks or images.STACKS
    }


@pytest.fixture(scope="session")
def images_directory(lab):
    """Where images are built. One that is there already stays."""
    if not IMAGES.is_dir():
        fresh_prefix(lab, IMAGES.name)


@pytest.fixture(scope="session")
def built_images(images_directory) -> dict:
    """All images, built as locked; their records."""
    return build_as_locked()


@pytest.fixture(scope="session")
def built_image(images_directory) -> tuple[str, dict]:
    """A stack whose image is built as locked, and the image's record."""
    return "mpich", build_as_locked("mpich")["mpich"]


@pytest.fixture(scope="module")
def other_lab(lab):
    """A second checkout below /home; its lab is down at first, and at the end."""
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
