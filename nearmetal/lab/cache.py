"""Node images and the layers over them: built once for all labs of a host, whole or not at all.

Each is a directory with a marker beside it, which is written last and removed first. A command that
builds runs in namespaces that end with this process, also where it is killed. The next command
removes what that left.
"""

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

#: Runs a command that the kernel ends when the process that started it ends.
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")
#: The same with all processes and mounts that it makes; needs root.
CONTAINED = (*ENDS_WITH_US, "unshare", "--mount-proc", "--pid", "--fork", "--kill-child", "--")
#: Prefixes of directories that nobody needs once the cache's lock is free.
LEFT_OVERS = ("building-*", "removing-*")
#: Processes that were killed are gone by then.
REMOVAL_SECONDS = 20


class ImageError(RuntimeError):
    """The node image could not be built; the message says what to do."""


def cache_dir() -> Path:
    return Path(os.environ.get("NEARMETAL_CACHE", "/var/cache/nearmetal"))


def built(what: str, name: str, takes: str, build, say) -> Path:
    """The directory of this name in the cache, made now if it is not there. Raises ImageError.

    :arg build: called with a working directory and `say`; makes `root` in the former.
    """
    cache = cache_dir()
    directory = cache / name
    with _locked(cache):
        for pattern in LEFT_OVERS:
            for left in cache.glob(pattern):
                remove_tree(left)
        if directory.exists():
            if is_whole(directory):
                return directory
            say(f"{what}: {directory} is not whole: its removal was interrupted")
            remove(directory)
        say(f"{what}: none for these inputs yet; building one ({takes})")
        started = time.monotonic()
        work = Path(tempfile.mkdtemp(prefix="building-", dir=cache))
        try:
            with interruptible():
                build(work, say)
                (work / "root").rename(directory)
                mark_whole(directory)
        except KeyboardInterrupt:
            raise ImageError(f"{what}: interrupted; nothing of it stays in {cache}") from None
        finally:
            remove_tree(work)
        say(f"{what}: built in {time.monotonic() - started:.0f} s as {directory}")
    return directory


def clean(in_use: set[str], say=print) -> None:
    """Remove this host's node images and layers but those in use; `built` makes them anew."""
    cache = cache_dir()
    if not cache.is_dir():
        return
    with _locked(cache):
        for image in sorted([*cache.glob("image-*/"), *cache.glob("layer-*/")]):
            if str(image) in in_use:
                say(f"node image: {image} stays, a lab of another checkout stands on it")
                continue
            remove(image)
            say(f"node image: removed {image}")
        for pattern in LEFT_OVERS:
            for left in cache.glob(pattern):
                remove_tree(left)


def marker(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.complete")


def mark_whole(directory: Path) -> None:
    """Say that the directory is whole as it is now."""
    newest = max(
        os.stat(place).st_mtime_ns for place, _, _ in os.walk(directory, followlinks=False)
    )
    marker(directory).touch()
    os.utime(marker(directory), ns=(newest, newest))


def is_whole(directory: Path) -> bool:
    """Whether it was marked whole, and no directory of it has changed since."""
    if not marker(directory).exists():
        return False
    command = ["find", str(directory), "-xdev", "-type", "d", "-newer", str(marker(directory))]
    found = subprocess.run([*command, "-print", "-quit"], capture_output=True, check=False)
    return found.returncode == 0 and not found.stdout


def remove(directory: Path) -> None:
    """Remove a directory of the cache; an interrupted removal leaves none that looks whole."""
    marker(directory).unlink(missing_ok=True)
    aside = directory.with_name(f"removing-{directory.name}-{secrets.token_hex(4)}")
    directory.rename(aside)
    remove_tree(aside)


def remove_tree(directory: Path) -> None:
    """Remove a directory, also while processes that were killed still end in it."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    while directory.exists():
        late = time.monotonic() > deadline
        shutil.rmtree(directory, ignore_errors=not late)
        time.sleep(0.02)


@contextmanager
def work_directory(parent: Path, prefix: str):
    """A directory of this process's own, removed at the end, as are those of killed processes."""
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f"{prefix}*"):
        if (lock := _claim(left)) is not None:
            remove_tree(left)
            os.close(lock)
    lock = None
    while lock is None:  # another process may take a new directory for one that was left
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = _claim(directory)
    try:
        yield directory
    finally:
        remove_tree(directory)
        os.close(lock)


def _claim(directory: Path) -> int | None:
    """The lock on a directory of this user's; None where its owner lives, or it is gone."""
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        found = os.fstat(opened)
        if found.st_uid == os.geteuid() and os.path.samestat(found, os.stat(directory)):
            return opened
    except OSError:
        pass
    os.close(opened)
    return None


@contextmanager
def running(command, contained: bool = True, **options):
    """A process that ends at the block's end or with this process, and all that it started with it.

    :arg contained: in namespaces of its own, which needs root; else as a group of processes.
    """
    before = CONTAINED if contained else ENDS_WITH_US
    process = subprocess.Popen([*before, *command], start_new_session=not contained, **options)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill() if contained else os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def interruptible():
    """Here SIGTERM and SIGHUP are as Ctrl-C: what was begun is removed before the process ends."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number, frame):
        raise KeyboardInterrupt

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _locked(cache: Path):
    """Two checkouts may want the same image at once: the second waits and finds it."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
