"""Errors that end a command with one line and an exit code."""

import errno
import getpass
import os


class NearmetalError(ValueError):
    """Bad usage or unreadable input. The message names the place and the fix."""

    exit_code = 3
    prefix = ""  #: what the printed line begins with


class Incomplete(NearmetalError):
    """The requested results are missing. The message names them."""

    exit_code = 2
    prefix = "incomplete: "


#: What to do about an error of the system, by its number.
FIXES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM), "name another place, or let {user} use this one"),
    errno.EROFS: "name another place: this one cannot be written",
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "make space there, or name another place"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST), "correct the path"),
}


def of_system(error: OSError) -> str:
    """The error in words: the file, what the system says of it, and the fix where one is known."""
    place = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    fix = FIXES.get(error.errno or 0, "").format(user=_user())
    return f"{place}{error.strerror or error}" + (f". Fix: {fix}" if fix else "")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        return f"user {os.getuid()}"
