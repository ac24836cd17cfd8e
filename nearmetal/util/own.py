"""Root touches the results of another user as that user.

That user may put a link in a file's place at any time. Root would follow it to any file, but the
user gets no further by it than without root.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pwd
import stat
import sys
import sysconfig
import termios
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nearmetal.checkout import PACKAGE
from nearmetal.errors import NearmetalError

#: Most links in a path, which is also the kernel's limit.
MOST_LINKS = 40
#: Variables of the environment that name places of root's, beside those that begin with XDG_.
PLACES = ("PYTHONPYCACHEPREFIX", "TMPDIR")


@dataclass(frozen=True)
class User:
    """A user other than root, to whom a path belongs."""

    path: Path
    name: str  #: of the account, or the number
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str

    def __str__(self) -> str:
        return f"user {self.name}"


def become_owner(places: Iterable[Path]) -> None:
    """Become the owner of some places for good, where root runs this. Raises NearmetalError."""
    user = owner_of(places)
    if user and os.geteuid() == 0:
        become(user)


def become(user: User) -> None:
    """Become this user for good, as root. Raises NearmetalError."""
    try:
        os.setgroups(user.groups)
        os.setresgid(user.gid, user.gid, user.gid)
        os.setresuid(user.uid, user.uid, user.uid)
    except OSError as error:  # in a container that lacks this user
        raise NearmetalError(
            f"{user.path} belongs to {user}, whom root cannot become here "
            f"({error.strerror}). Fix: run this command as {user}"
        ) from None
    # Root may have another one.
    os.umask(0o022)
    _leave_terminal()
    _use_home_of(user)
    _refuse_unreadable_program(user)


@contextlib.contextmanager
def as_owner(place: Path) -> Iterator[None]:
    """Let root's file operations be those of a place's owner meanwhile: for tools of root."""
    user = owner_of([place])
    if user is None or os.geteuid() != 0:
        yield
        return
    groups, gid = os.getgroups(), os.getegid()
    os.setgroups(user.groups)
    os.setegid(user.gid)
    os.seteuid(user.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)


def owner_of(places: Iterable[Path]) -> User | None:
    """The first user on the ways to some places who is not root; None if all is root's.

    Such a user can put something else in place of all that comes after. Whoever can put another
    program in place of this one is trusted.
    """
    for place in places:
        for path, status in _way_to(place):
            if status.st_uid and path not in PACKAGE.parent.parents:
                return _user(path, status)
    return None


def _way_to(place: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Each directory and link on the way from `/` to a place, and the place, if they exist."""
    here, parts, links = Path("/"), list(Path(place).absolute().parts[1:]), 0
    while parts and links <= MOST_LINKS:
        path = here / parts.pop(0)
        try:
            status = path.lstat()
        except (OSError, ValueError):  # whatever opens the path says what is wrong with it
            return
        yield path, status
        if not stat.S_ISLNK(status.st_mode):
            here = path
            continue
        links += 1
        target = path.readlink()
        if target.is_absolute():
            here = Path("/")
        parts = [part for part in target.parts if part != "/"] + parts


def _user(path: Path, status: os.stat_result) -> User:
    uid = status.st_uid
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        gid = status.st_gid or uid  # never root's group
        return User(path, str(uid), uid, gid, (gid,), "/")
    name, gid = entry.pw_name, entry.pw_gid
    return User(path, name, uid, gid, tuple(os.getgrouplist(name, gid)), entry.pw_dir)


def _use_home_of(user: User) -> None:
    """Let nothing in the environment name root, its home or its caches."""
    for name in list(os.environ):
        if name.startswith("XDG_") or name in PLACES:
            del os.environ[name]
    os.environ |= dict.fromkeys(("USER", "LOGNAME"), user.name) | {"HOME": user.home}
    sys.pycache_prefix = None


def _leave_terminal() -> None:
    """Keep the user's programs from typing into root's shell. Ctrl-C still comes."""
    if os.getsid(0) == os.getpid():  # there is no shell, and the terminal would hang up
        return
    # Without a terminal there is none to leave.
    with contextlib.suppress(OSError), open("/dev/tty", "rb", buffering=0) as terminal:
        fcntl.ioctl(terminal, termios.TIOCNOTTY)


def _refuse_unreadable_program(user: User) -> None:
    """Raise NearmetalError where the user cannot read this program, whose modules come later."""
    for path in (PACKAGE, Path(sysconfig.get_path("purelib")), Path(sys.executable)):
        if not os.access(path, os.R_OK | os.X_OK):
            raise NearmetalError(
                f"{user.path} belongs to {user}, as whom root works there, and {user} cannot read "
                f"{path}. Fix: put the checkout and its virtual environment where all "
                "users can read them, as in /srv, or chmod -R o+rX them"
            )
