"""`make release-check`: both locks against the sources, and the digest that both use.

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

from nearmetal.checks import sources as of_programs
from nearmetal.checks.programs import Program
from nearmetal.checks.runtime import image as of_checks
from nearmetal.checks.runtime import runtime_of
from nearmetal.locks import sources
from nearmetal.locks import spack as locks
from tests.support.paths import CHECKOUT

LOCKED = """
import yaml
from nearmetal.locks import images, spack
lock = images.CONTAINERS / "images.lock"
entries = images.read_lock(lock)
for stack, entry in entries.items():
    entry.update(images.made_from(stack, entry["software"]), revision="0123456789ab")
lock.write_text(yaml.safe_dump(entries))
spack.write_digest()
"""
IMAGES, SPACK = (["nearmetal.locks.images", "--check"], ["nearmetal.locks.spack", "--release"])


@pytest.fixture
def release(tmp_path):
    """A copy of the checkout with locks of its sources, and a way to check them."""
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
            found = "\n".join(line for line in done.stdout.splitlines() if "Fix: " in line)
            assert done.returncode == (bad if found else 0), done.stdout
            words.append(found)
        return tuple(words)

    return SimpleNamespace(root=tmp_path, check=check)


def add_a_comment(path: Path, comment: str) -> None:
    path.write_text(f"{path.read_text()}\n{comment}\n")


def test_locks_of_these_sources_are_fit_for_a_release(release):
    assert release.check() == ("", "")


def test_another_mpj_native_makes_the_locks_that_hold_it_those_of_others(release):
    add_a_comment(release.root / "mpj-native/src/main/java/mpi/MPI.java", "// another")
    image, package = release.check()
    assert re.fullmatch(r".*images\.lock: mpj-native: .*\bmpj-native\b.*make images-lock", image)
    assert re.fullmatch(r".*mpj_native/package\.py: DIGEST .*\(mpj-native\).*spack-lock", package)


def test_a_changed_source_makes_both_locks_those_of_others(release):
    add_a_comment(release.root / "reframe_checks/src/npb/is.c", "/* more */")
    images, spack = release.check()
    assert images.count("containers/images.lock: ") == images.count("make images-lock") == 3
    assert "reframe_checks/src" in images and "reframe_checks/src" in spack
    assert "nearmetal_benchmarks/package.py: DIGEST" in spack and "make spack-lock" in spack


def test_a_changed_definition_makes_the_lock_of_its_image_another_ones(release):
    add_a_comment(release.root / "containers/mpich.def", "# more")
    images, spack = release.check()
    [fault] = images.splitlines()
    assert fault.startswith("containers/images.lock: mpich: ")
    assert "definition" in fault and "make images-lock" in fault
    assert spack == ""


@pytest.mark.parametrize(
    "change, words",
    [
        (lambda lock: lock.pop("mpich"), "mpich: .*no such image"),
        (lambda lock: lock.update(other=lock["mpich"]), "other: no definition"),
        (lambda lock: lock["mpich"].update(revision="a-dirty"), "mpich: .*uncommitted"),
        (lambda lock: lock["mpich"].pop("sources"), "mpich: .*other sources .*unknown"),
    ],
)
def test_an_incomplete_or_unreproducible_lock_is_unfit_for_a_release(release, change, words):
    path = release.root / "containers" / "images.lock"
    lock = yaml.safe_load(path.read_text())
    change(lock)
    path.write_text(yaml.safe_dump(lock))
    images, _ = release.check()
    assert re.search(f"^containers/images.lock: {words}.*Fix: ", images)


def test_a_recipe_without_digest_is_named(release, monkeypatch):
    recipe = release.root / locks.recipe("nearmetal-benchmarks").relative_to(CHECKOUT)
    recipe.write_text(recipe.read_text().replace("DIGEST =", "OTHER ="))
    monkeypatch.setattr(locks, "HERE", release.root / "spack-env")
    with pytest.raises(locks.LockError, match=r"package\.py: .*DIGEST.*make spack-lock"):
        locks.locked_digest()


# The digest


def test_the_digest_is_of_what_is_built_and_of_nothing_else(tmp_path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(sources.DIRECTORY, copy)
    whole = sources.digest()
    assert re.fullmatch("[0-9a-f]{64}", whole) and sources.digest(copy) == whole
    add_a_comment(copy / "provenance.sh", "# runs from the checkout")
    assert sources.digest(copy) == whole
    found = {whole}
    for name in ("npb/is.c", "programs.txt", "install.sh", "java/PingPong.java"):
        add_a_comment(copy / name, "")
        found.add(sources.digest(copy))
    (copy / "npb" / "is.c").rename(copy / "npb" / "si.c")
    found.add(sources.digest(copy))
    assert len(found) == 6


# What a run says


def environ(name, *features, **extras):
    return SimpleNamespace(name=name, features=features, extras=extras)


def sources_of(stagedir, environ, source="pingpong.c"):
    return runtime_of(environ, None).sources_of(Program(source), str(stagedir))


@pytest.fixture
def warned(monkeypatch):
    """The warnings of a run."""
    said = []
    monkeypatch.setattr(of_programs, "getlogger", lambda: SimpleNamespace(warning=said.append))
    of_programs.warn_of_others.cache_clear()
    yield said
    of_programs.warn_of_others.cache_clear()


@pytest.fixture
def lock(monkeypatch, tmp_path):
    """The lock of a site's own images, of older sources."""
    entries = yaml.safe_load((CHECKOUT / "containers" / "images.lock").read_text())
    entries["openmpi"]["sources"] = "0" * 64
    entries["mpich"]["sources"] = sources.digest()
    del entries["mpj-native"]["sources"]
    (tmp_path / "ours.lock").write_text(yaml.safe_dump(entries))
    monkeypatch.setenv("NEARMETAL_IMAGES", str(tmp_path / "ours"))
    of_checks.locked.cache_clear()
    yield tmp_path / "ours.lock"
    of_checks.locked.cache_clear()


def test_a_program_that_the_run_builds_is_of_the_checkouts_sources(tmp_path, warned):
    assert sources_of(tmp_path, environ("gnu")) == sources.digest()
    assert sources_of(tmp_path, environ("gnu"), source="") == ""
    assert warned == []


def test_an_image_of_older_sources_is_recorded_and_said_once(tmp_path, lock, warned):
    older = environ("openmpi-sif", "installed", image="openmpi")
    for _ in range(2):
        assert sources_of(tmp_path, older) == "0" * 64
    [words] = warned
    assert "openmpi-sif" in words and "0" * 12 in words and sources.digest()[:12] in words
    assert "make images-lock" in words


def test_an_image_of_the_checkouts_sources_needs_no_warning(tmp_path, lock, warned):
    same = environ("mpich-sif", "installed", image="mpich")
    assert sources_of(tmp_path, same) == sources.digest()
    assert warned == []


def test_an_image_whose_lock_names_no_sources_runs(tmp_path, lock, warned):
    """As locks of before they did."""
    nameless = environ("mpj-sif", "installed", image="mpj-native")
    assert sources_of(tmp_path, nameless) == "unknown"
    assert warned == []


@pytest.mark.parametrize("written", ["0" * 64, None])
def test_an_installation_names_its_sources_itself(tmp_path, warned, written):
    bin, file = tmp_path / "prefix" / "bin", tmp_path / "prefix" / sources.INSTALLED
    (tmp_path / "links").mkdir()
    bin.mkdir(parents=True)
    (bin / "nearmetal-pingpong").write_text("#!/bin/sh\n")
    (bin / "nearmetal-pingpong").chmod(0o755)
    (tmp_path / "links" / "nearmetal-pingpong").symlink_to(bin / "nearmetal-pingpong")
    if written:
        file.parent.mkdir()
        file.write_text(f"{written}\n")
    command = of_programs.record("nearmetal-pingpong", "openmpi-spack")
    path = f"{tmp_path / 'links'}:{os.environ['PATH']}"
    subprocess.run(["bash", "-e", "-c", command], cwd=tmp_path, env={"PATH": path}, check=True)
    installed = environ("openmpi-spack", "spack", "installed")
    found = sources_of(tmp_path, installed)
    assert found == (written or "unknown")
    assert len(warned) == (1 if written else 0)
    if written:
        assert "make spack-lock" in warned[0]
