"""Reads ordinary files alone, and writes files whole, never through a planted link.

Root reads and writes below `results/`, which belongs to the user whose jobs run in the lab. That
user may create a link, a FIFO or a device's link at any time. So a path is opened one directory at
a time (`openat`, O_NOFOLLOW).

A writer follows a link only in a directory where nobody but root and this process can create one.
A file appears by a rename within its directory, and belongs to that directory's owner.

A reader follows a link of root, of this process's user, or of the owner of the file that it leads
to. Any other link may lead to a file that the link's owner cannot read, and errors quote files.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

#: Most bytes of a file, unless its reader says otherwise.
MOST_BYTES = 64 << 20
#: Most links in a path, which is also the kernel's limit. More are taken as a circle.
MOST_LINKS = 40
#: Paths of this process's own open files, such as /dev/stdout. No file is created there.
OPEN_FILES = ("/dev/stdout", "/dev/stderr", "/dev/fd/", "/proc/self/fd/")
#: Flags to open a directory: PASS to go through it, and ENTER to list or change it too, for which
#: the user needs more rights.
PASS = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ENTER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Most levels of directories that `hand_over` enters. No run makes more, but a user could.
DEEPEST = 100


class UnsafePathError(OSError):
    """A path leads through a link or a special file that another user may have planted, or to a
    file that is too large."""

    def __init__(self, path, what: str):
        super().__init__(errno.EINVAL, what, str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def read(path: Path | str, most: int = MOST_BYTES) -> bytes:
    """The bytes of an ordinary file. Raises OSError.

    A FIFO, a device, a directory, a link of a stranger and a larger file are refused, unread.
    """
    with opened(path, most) as source:
        return source.read(min(most, os.fstat(source.fileno()).st_size))


@contextmanager
def opened(path: Path | str, most: int | None = MOST_BYTES) -> Iterator[BinaryIO]:
    """An ordinary file, open for reading, with the rules of `read`. Raises OSError.

    :arg most: None: of any size.
    """
    with _walked(path, most) as walk:
        # O_NONBLOCK: if a FIFO took the file's place meanwhile, it has no writer to wait for.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(walk.name, flags, dir_fd=walk.directory)
    with open(file, "rb") as source:
        _refuse_to_read(walk, os.fstat(file), most)
        yield source


def refuse_unsafe(path: Path | str) -> None:
    """Raise OSError where `opened` does, before another program opens the path by itself."""
    with _walked(path, None):
        pass


def write(path: Path | str, data: str | bytes) -> None:
    """Write a file whole, by a rename. Raises OSError.

    Missing directories above it are made. In a directory of another user, an existing link, FIFO or
    device of this name is refused. An existing hard link is replaced. In a directory of our own,
    `write` uses all of these as `open` does.
    """
    write_parts(path, [data.encode("utf-8") if isinstance(data, str) else data])


def write_parts(path: Path | str, parts: Iterable[bytes]) -> None:
    """Write a file of several parts, with the rules of `write`. Raises OSError."""
    with _sink(path) as sink:
        for part in parts:
            sink.write(part)


def copy(source: Path | str, path: Path | str) -> None:
    """Copy a file's contents to a path, with the rules of `write`. Raises OSError."""
    with open(source, "rb") as opened, _sink(path) as sink:
        while block := opened.read(1 << 20):
            sink.write(block)


def make_directory(path: Path | str) -> None:
    """Make a directory and its parents, each for the owner of its parent. Raises OSError."""
    with _named(path):
        _Walk(path, whole=True).close()


def hand_over(path: Path | str, uid: int, gid: int) -> list[str]:
    """Give a directory, and root's files below it, to a user. Raises OSError.

    Returns the paths that stay root's. A file with several hard links stays root's: it may be a
    system file that the user has linked here.
    """
    with _named(path):
        walk = _Walk(path, whole=True, make=False)
        try:
            top = os.open(".", ENTER, dir_fd=walk.directory)
        finally:
            walk.close()
        try:
            return _hand_over(top, Path(path), uid, gid, DEEPEST)
        finally:
            os.close(top)


@dataclass
class _Walk:
    """An open directory, reached without following other users' links, and a path's last part."""

    path: Path | str
    whole: bool = False  #: whether the last part is a directory, which is entered too
    make: bool = True  #: whether missing directories are made
    reads: bool = False  #: whether the links' owners are judged at the end, by `_refuse_to_read`
    owners: set[int] = field(init=False, default_factory=set)  #: of the followed links
    directory: int = field(init=False)
    name: str = field(init=False, default="")

    def __post_init__(self):
        self.path = os.path.abspath(self.path)
        if "\0" in self.path:
            raise UnsafePathError(self.path, "has a null character. Fix: give another path")
        self._links = 0
        self.directory = os.open("/", PASS)
        try:
            self._follow([part for part in self.path.split("/") if part])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self.directory)

    @property
    def trusted(self) -> bool:
        """Whether nobody but root and this process can put a link into the directory."""
        found = os.fstat(self.directory)
        # For ordinary users, a group may write: many sites have private groups and `umask 002`.
        others = stat.S_IWOTH | (stat.S_IWGRP if os.geteuid() == 0 else 0)
        return found.st_uid in (0, os.geteuid()) and not found.st_mode & others

    def _follow(self, parts: list[str]) -> None:
        while parts:
            name = parts.pop(0)
            found = self._found(name)
            if found is not None and stat.S_ISLNK(found.st_mode):
                parts = self._target(name) + parts
            elif parts or self.whole:
                self._enter(name, found)
            else:
                self.name = name

    def _found(self, name: str) -> os.stat_result | None:
        try:
            return os.stat(name, dir_fd=self.directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _target(self, name: str) -> list[str]:
        """Parts of a link's target. For an absolute target, the walk returns to `/`."""
        found, target = self._link(name)
        sticky = os.fstat(self.directory).st_mode & stat.S_ISVTX
        own = found.st_uid in (0, os.geteuid())
        self.owners.add(found.st_uid)
        if not (self.reads or self.trusted or (sticky and own)):
            raise UnsafePathError(
                self.path,
                f"{name} is a link in a directory that others can write. Fix: remove the link",
            )
        self._links += 1
        if self._links > MOST_LINKS:
            raise UnsafePathError(self.path, f"{name} is a link in a circle. Fix: remove the link")
        if target.startswith("/"):
            self._replace(os.open("/", PASS))
        return [part for part in target.split("/") if part]

    def _link(self, name: str) -> tuple[os.stat_result, str]:
        """A link and its target: both of one link, though another may take its place meanwhile."""
        link = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self.directory)
        try:
            return os.fstat(link), os.readlink("", dir_fd=link)
        finally:
            os.close(link)

    def _enter(self, name: str, found: os.stat_result | None) -> None:
        if found is None and self.make and name != "..":
            self._make(name)
        try:
            self._replace(os.open(name, PASS, dir_fd=self.directory))
        except NotADirectoryError:
            raise UnsafePathError(
                self.path, f"{name} is not a directory. Fix: remove it, or give another path"
            ) from None

    def _make(self, name: str) -> None:
        try:
            os.mkdir(name, dir_fd=self.directory)
        except FileExistsError:
            return  # another process made it; it is opened without following a link
        if os.geteuid() != 0:
            return
        made = os.open(name, ENTER, dir_fd=self.directory)
        try:
            # The user may have replaced the directory by another one.
            _give_to_owner(made, self.directory)
        finally:
            os.close(made)

    def _replace(self, directory: int) -> None:
        os.close(self.directory)
        self.directory = directory


@contextmanager
def _named(path: Path | str):
    """Raise errors with the whole path, not with the part that was opened last."""
    try:
        yield
    except UnsafePathError:
        raise
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from error


@contextmanager
def _walked(path: Path | str, most: int | None) -> Iterator[_Walk]:
    """The directory and name of an ordinary file. Raises OSError."""
    with _named(path):
        walk = _Walk(path, make=False, reads=True)
        try:
            found = os.stat(walk.name or ".", dir_fd=walk.directory, follow_symlinks=False)
            _refuse_to_read(walk, found, most)
            yield walk
        finally:
            walk.close()


def _not_ordinary(walk: _Walk, found: os.stat_result) -> UnsafePathError:
    kind = "a directory" if stat.S_ISDIR(found.st_mode) else "not an ordinary file"
    return UnsafePathError(walk.path, f"is {kind}. Fix: remove it, or give another path")


def _refuse_to_read(walk: _Walk, found: os.stat_result, most: int | None) -> None:
    """Raise UnsafePathError for a stranger's link, a file that is not ordinary, or a large one."""
    if not stat.S_ISREG(found.st_mode):
        raise _not_ordinary(walk, found)
    if walk.owners - {0, os.geteuid(), found.st_uid}:
        raise UnsafePathError(
            walk.path, "is reached by a link of another user than its owner. Fix: remove the link"
        )
    if most is not None and found.st_size > most:
        raise UnsafePathError(
            walk.path,
            f"has {found.st_size} bytes, and at most {most} are read. Fix: make it smaller",
        )


@contextmanager
def _sink(path: Path | str):
    """An open file that gets its path once all data is written."""
    if str(path).startswith(OPEN_FILES):
        with open(path, "wb") as sink:
            yield sink
        return
    with _named(path):
        walk = _Walk(path)
        try:
            with _special(walk) if _is_special(walk) else _renamed(walk) as sink:
                yield sink
        finally:
            walk.close()


def _is_special(walk: _Walk) -> bool:
    """Whether the path is a FIFO or a device. Raises UnsafePathError if another user may have made
    it."""
    try:
        found = os.stat(walk.name, dir_fd=walk.directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if stat.S_ISREG(found.st_mode):
        return False
    if stat.S_ISDIR(found.st_mode) or not walk.trusted:
        raise _not_ordinary(walk, found)
    return True


def _special(walk: _Walk):
    return open(os.open(walk.name, os.O_WRONLY, dir_fd=walk.directory), "wb")


@contextmanager
def _renamed(walk: _Walk):
    """A new file in the walk's directory. At the end it is renamed to `walk.name`, or removed after
    an error."""
    part = f".{walk.name}.{secrets.token_hex(8)}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    made = os.open(part, flags, 0o666, dir_fd=walk.directory)
    try:
        with open(made, "wb") as sink:
            yield sink
            sink.flush()
            _give_to_owner(made, walk.directory)
            os.fsync(made)
        os.rename(part, walk.name, src_dir_fd=walk.directory, dst_dir_fd=walk.directory)
    except BaseException:
        try:
            os.unlink(part, dir_fd=walk.directory)
        except FileNotFoundError:
            pass
        raise


def _give_to_owner(made: int, directory: int) -> None:
    """Give a file or directory that root made to the owner of the directory above it."""
    if os.geteuid() == 0 and os.fstat(made).st_uid == 0:
        owner = os.fstat(directory)
        if owner.st_uid:
            os.fchown(made, owner.st_uid, owner.st_gid)


def _hand_over(directory: int, where: Path, uid: int, gid: int, depth: int) -> list[str]:
    if os.fstat(directory).st_uid == 0:
        os.fchown(directory, uid, gid)
    kept = []
    for name in sorted(os.listdir(directory)):
        try:
            found = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                kept += _hand_over_directory(directory, name, where, uid, gid, depth)
            elif found.st_uid == 0 and stat.S_ISREG(found.st_mode):
                given = _hand_over_file(directory, name, uid, gid)
                kept += [] if given else [str(where / name)]
        except (FileNotFoundError, NotADirectoryError):
            continue  # the user has removed or replaced it meanwhile
    return kept


def _hand_over_directory(
    directory: int, name: str, where: Path, uid: int, gid: int, depth: int
) -> list[str]:
    inner = os.open(name, ENTER, dir_fd=directory)
    try:
        # A mount point of another file system stays as it is.
        if os.fstat(inner).st_dev != os.fstat(directory).st_dev or not depth:
            return [str(where / name)]
        return _hand_over(inner, where / name, uid, gid, depth - 1)
    finally:
        os.close(inner)


def _hand_over_file(directory: int, name: str, uid: int, gid: int) -> bool:
    """Give one of root's files to a user, unless it has several hard links.

    The file is first moved to a directory where only root can create links. If it has one link
    there, it is not also a system file.
    """
    private = f".{secrets.token_hex(8)}.root"
    os.mkdir(private, 0o700, dir_fd=directory)
    safe = os.open(private, ENTER, dir_fd=directory)
    try:
        # The user may have replaced the directory, but cannot make one of root's with this mode.
        made = os.fstat(safe)
        if made.st_uid != 0 or stat.S_IMODE(made.st_mode) != 0o700 or os.listdir(safe):
            return False
        os.rename(name, name, src_dir_fd=directory, dst_dir_fd=safe)
        found = os.stat(name, dir_fd=safe, follow_symlinks=False)
        alone = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
        if alone and found.st_uid == 0:
            os.chown(name, uid, gid, dir_fd=safe, follow_symlinks=False)
        os.rename(name, name, src_dir_fd=safe, dst_dir_fd=directory)
        return alone
    finally:
        os.close(safe)
        try:
            os.rmdir(private, dir_fd=directory)
        except OSError:
            pass  # the user has renamed or filled it meanwhile
