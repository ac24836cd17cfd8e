"""Build, keep and remove the node images and layers that all labs of a host use.

Each is a directory with a marker file beside it. The marker is written last and removed first, so
an incomplete directory has none. Builders run in namespaces that end with this process, even
if it is killed. The next command removes their directories.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

#: Command prefix: the kernel kills the command when its parent process ends.
ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")
#: Command prefix: the same for all its processes and mounts, in namespaces. Needs root.
CONTAINED = (*ENDS_WITH_US, "unshare", "--mount-proc", "--pid", "--fork", "--kill-child", "--")
#: Directories that interrupted commands left; nobody uses them while the cache's lock is free.
LEFT_OVERS = ("building-*", "removing-*")
#: Seconds within which killed processes end.
REMOVAL_SECONDS = 20


class ImageError(RuntimeError):
    """The node image could not be built; the message says what to do."""


def cache_dir() -> Path:
    return Path(os.environ.get("NEARMETAL_CACHE", "/var/cache/nearmetal"))


def built(what: str, name: str, takes: str, build, say) -> Path:
    """A directory of the cache, built if it is missing or incomplete. Raises ImageError.

    :arg what: "node image", for example, in messages.
    :arg name: name of the directory.
    :arg takes: duration and size of a build, for the message.
    :arg build: called with a work directory and `say`; makes `root` in the work directory.
    """
    cache = cache_dir()
    directory = cache / name
    if held(cache / "lock") and directory.exists() and is_whole(directory):
        return directory  # another command builds something else
    with _locked(cache, say):
        for pattern in LEFT_OVERS:
            for left in cache.glob(pattern):
                remove_tree(left)
        if directory.exists():
            if is_whole(directory):
                return directory
            say(f"{what}: {directory} is incomplete: its removal was interrupted")
            remove(directory)
        say(f"{what}: none for these inputs yet; building one ({takes})")
        started = time.monotonic()
        # In the cache itself, so that a rename suffices at the end.
        work = Path(tempfile.mkdtemp(prefix="building-", dir=cache))
        try:
            with interruptible():
                build(work, say)
                (work / "root").rename(directory)
                mark_whole(directory)
        except KeyboardInterrupt:
            raise ImageError(f"{what}: interrupted; {cache} keeps nothing of it") from None
        finally:
            remove_tree(work)
        say(f"{what}: built in {time.monotonic() - started:.0f} s as {directory}")
    return directory


def clean(in_use: set[str], say=print) -> None:
    """Remove this host's node images and layers that no lab uses."""
    cache = cache_dir()
    if not cache.is_dir():
        return
    with _locked(cache, say):
        for image in sorted([*cache.glob("image-*/"), *cache.glob("layer-*/")]):
            if str(image) in in_use:
                say(f"node image: {image} stays, since a lab of another checkout uses it")
                continue
            remove(image)
            say(f"node image: removed {image}")
        for pattern in LEFT_OVERS:
            for left in cache.glob(pattern):
                remove_tree(left)


def marker(directory: Path) -> Path:
    """The file whose presence says that the directory is complete."""
    return directory.with_name(f"{directory.name}.complete")


def mark_whole(directory: Path) -> None:
    """Write the marker, with the time of the newest directory."""
    directories = os.walk(directory, followlinks=False)
    newest = max(os.stat(path).st_mtime_ns for path, _, _ in directories)
    marker(directory).touch()
    os.utime(marker(directory), ns=(newest, newest))


def is_whole(directory: Path) -> bool:
    """Whether there is a marker and no directory below has changed since."""
    if not marker(directory).exists():
        return False
    command = ["find", str(directory), "-xdev", "-type", "d", "-newer", str(marker(directory))]
    newer = subprocess.run([*command, "-print", "-quit"], capture_output=True, check=False)
    return newer.returncode == 0 and not newer.stdout


def remove(directory: Path) -> None:
    """Remove a directory of the cache. If interrupted, what is left has no marker."""
    marker(directory).unlink(missing_ok=True)
    # Another name first: nobody takes half of it for an image.
    aside = directory.with_name(f"removing-{directory.name}-{secrets.token_hex(4)}")
    directory.rename(aside)
    remove_tree(aside)


def remove_tree(directory: Path) -> None:
    """Remove a directory, again until killed processes no longer write into it."""
    deadline = time.monotonic() + REMOVAL_SECONDS
    while directory.exists():
        late = time.monotonic() > deadline
        shutil.rmtree(directory, ignore_errors=not late)
        time.sleep(0.02)


@contextmanager
def work_directory(parent: Path, prefix: str):
    """A new directory that is removed at the end. Those of killed processes are removed too."""
    parent.mkdir(parents=True, exist_ok=True)
    for left in parent.glob(f"{prefix}*"):
        # A directory whose lock is free belongs to no process.
        lock = _claim(left)
        if lock is not None:
            remove_tree(left)
            os.close(lock)
    lock = None
    while lock is None:  # another process may have removed the new directory as one that was left
        directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = _claim(directory)
    try:
        yield directory
    finally:
        remove_tree(directory)
        os.close(lock)


def _claim(directory: Path) -> int | None:
    """File descriptor of the lock on a directory of this user; None if it is in use or gone."""
    try:
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(opened)
        if status.st_uid == os.geteuid() and os.path.samestat(status, os.stat(directory)):
            return opened
    except OSError:
        pass
    os.close(opened)
    return None


@contextmanager
def running(command, contained: bool = True, **options):
    """A process that is killed, with its children, at the end of the block or of this process.

    :arg contained: run it in its own namespaces, which needs root; else as a process group.
    """
    before = CONTAINED if contained else ENDS_WITH_US
    process = subprocess.Popen([*before, *command], start_new_session=not contained, **options)
    try:
        yield process
    finally:
        if process.poll() is None and contained:
            process.kill()
        elif process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def interruptible():
    """Within the block SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does."""
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


def held(path: Path) -> bool:
    """Whether a process holds the lock on this file."""
    try:
        with open(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def lock_alone(file, waits: Callable[[], None]) -> None:
    """Lock an open file for this process alone. `waits` is called where another one holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waits()
        fcntl.flock(file, fcntl.LOCK_EX)


@contextmanager
def _locked(cache: Path, say):
    """Let one process change the cache; others say that they wait, and find what it built."""
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as file:
        waits = f"node image: waiting for another command that changes {cache}"
        lock_alone(file, lambda: say(waits))
        yield
