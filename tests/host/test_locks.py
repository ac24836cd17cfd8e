"""`make release-check`: both locks against a checkout, and the digest of the sources.

In a copy of the checkout.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from nearmetal.checks import sources
from nearmetal.checks.programs import Program
from nearmetal.checks.runtime import image as of_checks
from nearmetal.checks.runtime import runtime_of
from tests.support.paths import CHECKOUT

LOCKED = """
import yaml
from nearmetal.locks import images
entries = images.read_lock(images.lock_path())
for stack, entry in entries.items():
    entry.update(inputs=images.made_from(stack, entry["software"])["inputs"])
images.write_lock(entries)
"""
IMAGES, SPACK = (["nearmetal.locks.images", "--check"], ["nearmetal.locks.spack"])


@pytest.fixture
def release(tmp_path):
    """A copy of the checkout with locks of its stacks, and a way to check them."""
    for name in ("nearmetal", "containers", "spack-env", "reframe_checks", "mpj-native"):
        unneeded = shutil.ignore_patterns("__pycache__", "images", ".spack-env")
        shutil.copytree(CHECKOUT / name, tmp_path / name, ignore=unneeded)

    def python(*words) -> subprocess.CompletedProcess:
        return subprocess.run(
            [sys.executable, *words],
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    done = python("-c", LOCKED)
    assert done.returncode == 0, done.stdout

    def check() -> tuple[str, str]:
        """Faults of the images' lock and of Spack's locks."""
        words = []
        for command, bad in ((IMAGES, 3), (SPACK, 1)):
            done = python("-m", *command)
            lines = done.stdout.splitlines()
            found = "\n".join(line for line in lines if re.search("Fix: |write it anew", line))
            assert done.returncode == (bad if found else 0), done.stdout
            words.append(found)
        return tuple(words)

    return SimpleNamespace(root=tmp_path, check=check)


def add_a_comment(path: Path, comment: str) -> None:
    path.write_text(f"{path.read_text()}\n{comment}\n")


@pytest.mark.parametrize(
    "source",
    [
        "reframe_checks/src/npb/is.c",
        "reframe_checks/src/java/PingPong.java",
        "mpj-native/src/main/java/mpi/MPI.java",
    ],
)
def test_a_changed_source_asks_for_no_lock(release, source):
    assert release.check() == ("", "")
    add_a_comment(release.root / source, "// more")
    assert release.check() == ("", "")


def test_a_changed_definition_makes_the_lock_of_its_image_another_ones(release):
    add_a_comment(release.root / "containers/mpich.def", "# more")
    images, spack = release.check()
    [fault] = images.splitlines()
    assert fault.startswith("containers/images.lock: mpich: ")
    assert "definition" in fault and "make images-lock" in fault
    assert spack == ""


def test_a_changed_environment_makes_its_lock_another_ones(release):
    path = release.root / "spack-env/mpich/spack.yaml"
    path.write_text(path.read_text().replace("specs: [mpich]", "specs: [mpich, zlib]"))
    images, spack = release.check()
    assert images == "" and "make spack-lock" in spack


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda lock: lock.pop("mpich"), "mpich: .*no such image"),
        (lambda lock: lock.update(other=lock["mpich"]), "other: no definition"),
    ],
)
def test_an_incomplete_lock_is_unfit_for_a_release(release, change, words):
    path = release.root / "containers" / "images.lock"
    lock = yaml.safe_load(path.read_text())
    change(lock)
    path.write_text(yaml.safe_dump(lock))
    images, _ = release.check()
    assert re.search(f"^containers/images.lock: {words}.*Fix: ", images)


# The digest


def test_the_digest_is_of_what_is_built_and_of_nothing_else(tmp_path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(sources.SOURCES, copy)
    whole = sources.digest()
    assert re.fullmatch("[0-9a-f]{64}", whole) and sources.digest(copy) == whole
    add_a_comment(copy / "provenance.sh", "# runs from the checkout")
    assert sources.digest(copy) == whole
    found = {whole}
    for name in ("npb/is.c", "install.sh", "java/PingPong.java"):
        add_a_comment(copy / name, "")
        found.add(sources.digest(copy))
    (copy / "npb" / "is.c").rename(copy / "npb" / "si.c")
    found.add(sources.digest(copy))
    assert len(found) == 5


# What a run says


def environ(name, *features, **extras):
    return SimpleNamespace(name=name, features=features, extras=extras)


def sources_of(environ, source="pingpong.c"):
    return runtime_of(environ, None).sources_of(Program(source))


@pytest.fixture
def warned(monkeypatch):
    """The warnings of a run."""
    said = []
    monkeypatch.setattr(sources, "getlogger", lambda: SimpleNamespace(warning=said.append))
    sources.warn_of_others.cache_clear()
    yield said
    sources.warn_of_others.cache_clear()


@pytest.fixture
def image(monkeypatch):
    """Sets the digest of the sources that an image was built from. Returns its environment."""

    def of(found: str):
        monkeypatch.setattr(of_checks, "record_of", lambda path: {"sources": found})
        return environ("openmpi-sif", image="openmpi")

    return of


@pytest.mark.parametrize("features", [[], ["spack"]])
def test_a_program_that_the_run_builds_is_of_the_checkouts_sources(warned, features):
    assert sources_of(environ("gnu", *features)) == sources.digest()
    assert sources_of(environ("gnu", *features), source="") == ""
    assert warned == []


def test_an_image_of_older_sources_is_recorded_and_said_once(image, warned):
    for _ in range(2):
        assert sources_of(image("0" * 64)) == "0" * 64
    [words] = warned
    assert "openmpi-sif" in words and "0" * 12 in words and sources.digest()[:12] in words
    assert words.endswith("make images")


def test_an_image_of_the_checkouts_sources_needs_no_warning(image, warned):
    assert sources_of(image(sources.digest())) == sources.digest()
    assert warned == []
