"""Commands that build images, interrupted: no process stays, no tree, and no half image."""

import glob
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nearmetal.lab import cache, image
from tests.support.paths import CHECKOUT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="builds as root: run it as root")


def identity(pid: int) -> tuple[int, str] | None:
    """What tells a living process from a later one of its number."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else (pid, fields[19])


def descendants(pid: int) -> set[tuple[int, str]]:
    """All living processes below one."""
    found = set()
    for task in glob.glob(f"/proc/{pid}/task/*/children"):
        try:
            children = list(map(int, Path(task).read_text().split()))
        except OSError:  # it has ended since
            continue
        for child in children:
            found |= {one for one in [identity(child)] if one} | descendants(child)
    return found


def commands(processes) -> list[str]:
    said = []
    for pid, _ in processes:
        try:
            said.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return said


def until(condition, seconds: float = 60):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.02)
    return value


@pytest.fixture
def place(tmp_path, lab, monkeypatch):
    """A cache of its own, with the node image of this host."""
    built = cache.cache_dir() / f"image-{image.key()}"
    monkeypatch.setenv("NEARMETAL_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / built.name).symlink_to(built)
    shutil.copy2(cache.marker(built), tmp_path / "cache")
    return tmp_path


def started(place: Path, *command) -> subprocess.Popen:
    """A command that has begun to build by mmdebstrap, which has begun to fetch."""
    with open(place / "said", "w") as said:
        process = subprocess.Popen(
            [*map(str, command)],
            cwd=CHECKOUT,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            env={**os.environ, "NEARMETAL_IMAGES": str(place / "images")},
        )

    def fetches():
        assert process.poll() is None, (place / "said").read_text()
        words = [line for line in commands(descendants(process.pid)) if "mmdebstrap" in line]
        return words and glob.glob(f"{place}/cache/*-*/**/var/lib/apt/lists", recursive=True)

    until(fetches)
    return process


MAKE = ["make", "--no-print-directory", "images", "IMAGES=mpich"]
LAB = [sys.executable, "-m", "nearmetal.lab", "image"]


def trees(place: Path) -> list[str]:
    return sorted(
        path.name
        for path in (place / "cache").iterdir()
        if path.name.startswith(("building-", "removing-", "nearmetal-images-"))
    )


@pytest.mark.whole
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_make_images_interrupted_leaves_no_process_and_no_tree(place, number):
    """Ctrl-C goes to all processes of a terminal; the others to make alone."""
    process = started(place, *MAKE)
    below = descendants(process.pid)
    assert any("mmdebstrap" in line for line in commands(below))
    if number == "SIGINT":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.Signals[number])
    assert process.wait(60) != 0
    until(lambda: not any(identity(pid) == (pid, began) for pid, began in below))
    assert trees(place) == []
    assert "Traceback" not in (place / "said").read_text()


@pytest.mark.whole
def test_what_a_killed_build_leaves_is_ended_at_once_and_removed_by_the_next(place):
    process = started(place, *MAKE)
    below = descendants(process.pid)
    python = next(pid for pid, _ in below if "nearmetal.locks.images" in commands([(pid, "")])[0])
    os.kill(python, signal.SIGKILL)
    process.wait(60)
    until(lambda: not any(identity(pid) == (pid, began) for pid, began in below))
    left = trees(place)
    assert len(left) == 1
    with cache.work_directory(place / "cache", "nearmetal-images-") as mine:
        assert trees(place) == [mine.name] != left
    assert trees(place) == []


def test_the_tree_of_a_build_that_runs_is_not_removed(place):
    with cache.work_directory(place / "cache", "nearmetal-images-") as first:
        program = (
            "import sys; from nearmetal.lab import cache; from pathlib import Path\n"
            "with cache.work_directory(Path(sys.argv[1]), 'nearmetal-images-') as one: print(one)"
        )
        done = subprocess.run(
            [sys.executable, "-c", program, place / "cache"],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        )
        assert first.is_dir() and done.stdout.strip() != str(first)


@pytest.mark.whole
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_node_image_interrupted_leaves_no_process_and_is_none(place, number):
    for path in (place / "cache").iterdir():
        path.unlink()
    process = started(place, *LAB)
    below = descendants(process.pid)
    assert any("mmdebstrap" in line for line in commands(below))
    process.send_signal(signal.Signals[number])
    assert process.wait(60) != 0
    until(lambda: not any(identity(pid) == (pid, began) for pid, began in below))
    assert not list((place / "cache").glob("image-*/"))
    if number == "SIGKILL":
        cache.clean(set(), lambda text: None)  # as the next command does
    else:
        said = (place / "said").read_text()
        assert "interrupted" in said and str(place / "cache") in said and "Traceback" not in said
    assert trees(place) == []


# A directory that is there, and whether it is whole. Without mmdebstrap.


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Makes an image of three files in a cache of its own, and says how often it did."""
    monkeypatch.setenv("NEARMETAL_CACHE", str(tmp_path))
    made = []

    def build(work, say):
        made.append(work)
        for name in ("usr/bin/one", "usr/bin/two", "etc/three"):
            (work / "root" / name).parent.mkdir(parents=True, exist_ok=True)
            (work / "root" / name).touch()

    def ensure():
        return cache.built("an image", "image-1", "no time", build, lambda text: None), len(made)

    return ensure


def test_a_whole_image_is_built_but_once(small):
    assert small() == small()


@pytest.mark.parametrize("gone", ["usr/bin/one", "etc/three", "usr/bin"])
def test_an_image_of_which_something_was_removed_is_built_anew(small, gone):
    directory, _ = small()
    path = directory / gone
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert small() == (directory, 2) and path.exists()
    assert small() == (directory, 2)


def test_an_image_without_its_marker_is_built_anew(small):
    directory, _ = small()
    cache.marker(directory).unlink()
    assert small() == (directory, 2)


def test_a_removal_that_is_killed_leaves_nothing_that_is_taken_for_whole(small, monkeypatch):
    directory, _ = small()

    def killed(*arguments, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(cache, "remove_tree", killed)
        with pytest.raises(KeyboardInterrupt):
            cache.clean(set(), lambda text: None)
    assert not directory.exists() and not cache.marker(directory).exists()
    assert small() == (directory, 2)
    assert sorted(path.name for path in directory.parent.iterdir()) == [
        "image-1",
        "image-1.complete",
        "lock",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_command_in_the_lab_too(lab, prefix, number):
    """A command with --confirm is one, and cancels its jobs."""
    process = subprocess.Popen(
        [sys.executable, "-m", "nearmetal.lab", "exec", f"touch {prefix}/started; exec sleep 300"],
        cwd=CHECKOUT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    until((prefix / "started").exists)
    below = descendants(process.pid)
    process.send_signal(number)
    assert process.wait(30) in (130, 143)
    until(lambda: not any(identity(pid) == (pid, start) for pid, start in below))
