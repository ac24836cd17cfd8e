"""Reads ordinary files alone, up to a size, and writes files whole.

A reader of a FIFO or a device might never end. A written file appears by a rename.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

#: Most bytes of a file, unless its reader says otherwise.
MOST_BYTES = 64 << 20
#: Paths of this process's own open files. Those of another user can be written, but not opened.
OPEN_FILE = re.compile(r"/dev/(stdout|stderr|fd/(\d+))")


class UnfitFileError(OSError):
    """A path leads to no ordinary file, or to one that is too large."""

    def __init__(self, path, what: str):
        super().__init__(errno.EINVAL, what, str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def is_absent(path: Path | str) -> bool:
    """Whether nothing is at a path.

    False where that cannot be known, as below a directory that may not be entered: whoever reads
    the path then names the fault, which `os.path.lexists` hides.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def read(path: Path | str, most: int = MOST_BYTES) -> bytes:
    """The bytes of an ordinary file of at most this size. Raises OSError."""
    with opened(path, most) as source:
        return source.read(min(most, os.fstat(source.fileno()).st_size))


@contextmanager
def opened(path: Path | str, most: int | None = MOST_BYTES) -> Iterator[BinaryIO]:
    """An ordinary file, open for reading. Raises OSError.

    :arg most: its largest size in bytes; None: any.
    """
    refuse_unfit(path, most)
    # O_NONBLOCK: if a FIFO took the file's place meanwhile, it has no writer to wait for.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as source:
        _refuse(path, os.fstat(source.fileno()), most)
        yield source


def refuse_unfit(path: Path | str, most: int | None = None) -> None:
    """Raise OSError where `opened` does, before another program opens the path by itself."""
    try:
        status = os.stat(path)
    except ValueError:
        raise UnfitFileError(path, "has a null character. Fix: give another path") from None
    _refuse(path, status, most)


def _refuse(path: Path | str, status: os.stat_result, most: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = "not an ordinary file"
        if stat.S_ISDIR(status.st_mode):
            kind = "a directory"
        raise UnfitFileError(path, f"is {kind}. Fix: remove it, or give another path")
    if most is not None and status.st_size > most:
        raise UnfitFileError(
            path, f"has {status.st_size} bytes, and at most {most} are read. Fix: make it smaller"
        )


def write(path: Path | str, data: str | bytes) -> None:
    """Write a file whole, with missing directories above it. Raises OSError.

    A link stays, and so does an open file of this process, a FIFO or a device: it gets the data.
    """
    if isinstance(data, str):
        data = data.encode("utf-8")
    write_parts(path, [data])


def write_parts(path: Path | str, parts: Iterable[bytes]) -> None:
    """Write a file of several parts, as `write` does. Raises OSError."""
    with _sink(path) as sink:
        for part in parts:
            sink.write(part)


def copy(source: Path | str, path: Path | str) -> None:
    """Copy a file's contents to a path, as `write` does. Raises OSError."""
    with open(source, "rb") as opened:
        write_parts(path, parts_of(opened))


def parts_of(source: BinaryIO) -> Iterator[bytes]:
    """The contents of an open file, in parts of a mebibyte."""
    return iter(lambda: source.read(1 << 20), b"")


@contextmanager
def _sink(path: Path | str) -> Iterator[BinaryIO]:
    """An open file that gets its path once all data is written."""
    if own := OPEN_FILE.fullmatch(str(path)):
        number = int(own[2] or {"stdout": 1, "stderr": 2}[own[1]])
        with open(os.dup(number), "wb") as sink:
            yield sink
        return
    place = Path(os.path.realpath(path))
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists() and not place.is_file():
        with open(place, "wb") as sink:
            yield sink
        return
    part = place.with_name(f".{place.name}.{secrets.token_hex(8)}.part")
    try:
        with open(part, "xb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        os.replace(part, place)
    except BaseException as error:
        with suppress(OSError):  # it may not have been made
            part.unlink()
        if isinstance(error, OSError) and error.filename == str(part):
            error.filename = str(path)
        raise
