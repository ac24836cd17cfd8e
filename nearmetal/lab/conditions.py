"""Refuse hosts and checkouts on which the lab cannot run, before anything is started.

Each function raises LabError with one sentence that has the fix.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from nearmetal.lab.namespaces import LabError

#: Megabytes of disk for building a node image: packages and the unpacked tree.
IMAGE_MB = 4000
#: Megabytes for building container images: a base, and a tree and a file for each stack.
CONTAINERS_MB = 3000
#: UID and GID without any rights.
NOBODY = 65534
#: Characters that a shell line, a list of paths or an option of `mount` would split at.
UNFIT = r"[\s:,'\"\\$`*?\[\]{}()<>|&;!#%]"
#: Files and directories of the checkout that the lab's user reads.
READ = (
    *("nearmetal", "containers", "reframe_checks", "site-config", "spack-env"),
    "pyproject.toml",
)


def become_root(arguments: Sequence[str], *kept: str) -> None:
    """Run this program anew by `sudo`, unless root runs it. Raises LabError without `sudo`.

    :arg arguments: of Python.
    :arg kept: variables of the environment that the program reads.
    """
    if os.geteuid() == 0:
        return
    refuse_without_root()
    # -B: root writes no byte code into the checkout.
    # -P: root imports nothing from the working directory.
    python = (sys.executable, "-B", "-P")
    os.execvp("sudo", ["sudo", f"--preserve-env={','.join(kept)}", *python, *arguments])


def refuse_without_root() -> None:
    """Refuse an ordinary user whom `sudo` does not make root. Raises LabError."""
    # Containers often have neither root nor sudo.
    if shutil.which("sudo") is None:
        raise LabError(
            "this needs root to make namespaces, and there is no sudo here: run it as root, "
            "or install sudo"
        )
    asked = ["sudo", "-v"] if sys.stdin.isatty() else ["sudo", "-n", "true"]
    if subprocess.run(asked, stdin=None, check=False).returncode:
        raise LabError(
            "this needs root to make namespaces, and sudo does not let this user: run it as root, "
            "or let the administrator add the user to sudo's"
        )


def refuse_checkout(checkout: Path, uid: int, gid: int) -> None:
    """Refuse a checkout that the lab's user cannot use where it is. Raises LabError."""
    refuse_path(checkout, "the checkout")
    options = mount_options(checkout)
    for option, why in (("ro", "results are written there"), ("noexec", "programs run from there")):
        if option in options:
            raise LabError(
                f"{checkout} is on a file system mounted {option}, but {why}: move the checkout, "
                "or mount the file system without that option"
            )
    closed = closed_directory(checkout, uid, gid)
    if closed:
        raise LabError(
            f"{closed} cannot be entered by the lab's user ({uid}), who runs the checks: "
            f"move the checkout, for example to /srv, or: chmod o+x {closed}"
        )
    _refuse_unreadable(checkout, uid, gid, f"the lab's user ({uid})")


def refuse_cache(cache: Path, needed_mb: int) -> None:
    """Refuse a directory in which no image can be made. Raises LabError."""
    refuse_path(cache, "the directory of node images (NEARMETAL_CACHE)")
    there = nearest(cache)
    # mmdebstrap makes devices, and nodes run programs of the image.
    options = mount_options(there)
    for option in ("ro", "noexec", "nodev"):
        if option in options:
            raise LabError(
                f"{cache} is on a file system mounted {option}, where no node image can be made: "
                "set NEARMETAL_CACHE to another directory"
            )
    if not as_user(0, 0, "test", "-w", str(there)):
        raise LabError(
            f"{there} is not writable for root: set NEARMETAL_CACHE to another directory"
        )
    free = shutil.disk_usage(there).free >> 20
    if free < needed_mb:
        raise LabError(
            f"{there} has {free} MB free, and {needed_mb} MB are needed: free some there, "
            "or set NEARMETAL_CACHE to another directory"
        )


def refuse_overlay(cache: Path, upper: bool = False) -> None:
    """Refuse a file system that cannot be the lower directory of an overlay. Raises LabError.

    :arg upper: test the upper directory instead, as the layer of guests needs it.
    """
    kind = "lower"
    if upper:
        kind = "upper"
    script = (
        "mount -t tmpfs t /mnt && mkdir /mnt/l /mnt/a /mnt/m && "
        'trial=$(mktemp -d "$1/trial-XXXXXX") && mkdir "$trial/a" && ended=0 && '
        '{ if [ "$2" = upper ]; then lower=/mnt/l upper=$trial; else lower=$trial upper=/mnt; fi; '
        'mkdir "$upper/w" && mount -t overlay '
        '-o "lowerdir=$lower,upperdir=$upper/a,workdir=$upper/w" o /mnt/m || ended=1; '
        'umount /mnt/m 2> /dev/null; rm -r "$trial"; exit $ended; }'
    )
    command = ["unshare", "--mount", "sh", "-c", script, "overlay", str(cache), kind]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(
            f"no overlay can be mounted with {cache} as its {kind} directory "
            f"({done.stderr.strip() or 'mount failed'}): set NEARMETAL_CACHE to a directory on "
            "ext4, XFS or Btrfs"
        )


def refuse_state(directory: Path) -> None:
    """Refuse a directory for the state of running labs that cannot be written. Raises LabError."""
    there = nearest(directory)
    if not os.access(there, os.W_OK | os.X_OK):
        raise LabError(
            f"{there} is not writable for root, and running labs are recorded in {directory}: "
            "mount a tmpfs there"
        )


def refuse_without_user_namespaces(uid: int, gid: int) -> None:
    """Refuse a kernel without user namespaces, which Apptainer needs. Raises LabError."""
    mount = "mount -t tmpfs t /mnt"
    if not as_user(uid, gid, "unshare", "--user", "--map-root-user", "--mount", "sh", "-c", mount):
        raise LabError(
            "the kernel gives ordinary users no user namespaces, which Apptainer needs: as root, "
            "`sysctl user.max_user_namespaces=15000`, and where these exist `sysctl "
            "kernel.unprivileged_userns_clone=1 kernel.apparmor_restrict_unprivileged_userns=0`"
        )


def refuse_private_checkout(checkout: Path) -> None:
    """Refuse a checkout that the user who builds images cannot read. Raises LabError."""
    refuse_path(checkout, "the checkout")
    _refuse_unreadable(checkout, NOBODY, NOBODY, "the user who builds images")


def _refuse_unreadable(checkout: Path, uid: int, gid: int, user: str) -> None:
    """Refuse a checkout with a file or directory that a user cannot read. Raises LabError."""
    # Not needed: editors' files (with a dot) and byte code. Links have no mode.
    read = list(filter(Path.exists, [checkout / name for name in READ]))
    left_out = ["(", "-name", ".*", "-o", "-name", "__pycache__", "-o", "-type", "l", ")", "-prune"]
    unfit = ["(", "!", "-readable", "-o", "-type", "d", "!", "-executable", ")"]
    find = ["find", *map(str, read), *left_out, "-o", *unfit, "-print", "-quit"]
    if unreadable := _as_user(uid, gid, find).stdout.strip():
        raise LabError(
            f"{unreadable} cannot be read by {user}, as in a clone made under `umask 077`: "
            f"chmod -R go+rX {checkout}"
        )


def refuse_path(path: Path, what: str) -> None:
    """Refuse a path that other programs would split. Raises LabError."""
    unfit = re.search(UNFIT, str(path))
    if unfit:
        raise LabError(
            f"{path}: {what} cannot be below a path with {unfit[0]!r}, at which compilers, Slurm "
            "or mounts would split it: move it"
        )


def nearest(path: Path) -> Path:
    """The path if it exists, else its nearest parent that exists."""
    while not path.exists():
        path = path.parent
    return path


def mount_options(path: Path) -> list[str]:
    """Mount options ro, noexec and nodev, as far as the path's file system has them."""
    flags = os.statvfs(path).f_flag
    names = {os.ST_RDONLY: "ro", os.ST_NOEXEC: "noexec", os.ST_NODEV: "nodev"}
    return [name for flag, name in names.items() if flags & flag]


def closed_directory(path: Path, uid: int, gid: int) -> Path | None:
    """The topmost directory on a path that a user cannot enter."""
    for directory in [*reversed(path.parents), path]:
        if not as_user(uid, gid, "test", "-x", str(directory)):
            return directory
    return None


def as_user(uid: int, gid: int, *command: str) -> bool:
    """Whether a command succeeds as this user without further groups."""
    return _as_user(uid, gid, command).returncode == 0


def _as_user(uid: int, gid: int, command) -> subprocess.CompletedProcess:
    user: dict = {}
    if os.geteuid() == 0:  # only root can be somebody else
        user = {"user": uid, "group": gid, "extra_groups": []}
    return subprocess.run(
        list(command),
        **user,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
