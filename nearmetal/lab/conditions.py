"""What the host and the place of the checkout must allow: refused in one sentence each, before
anything is started."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from nearmetal.lab.room import LabError

#: Megabytes of disk that a node image takes while it is built: packages and the unpacked tree.
IMAGE_MB = 4000
#: The same of containers' images: a base, and for each stack its tree and its file.
CONTAINERS_MB = 3000
#: A user of no rights.
NOBODY = 65534
#: What ends a word in some shell line, list of paths, or option of `mount`.
UNFIT = r"[\s:,'\"\\$`*?\[\]{}()<>|&;!#%]"
#: What the lab's user reads of the checkout.
READ = (
    *("nearmetal", "containers", "reframe_checks", "site-config", "spack-env"),
    "pyproject.toml",
)


def refuse_without_root() -> None:
    """Refuse an ordinary user whom `sudo` does not make root. Raises LabError."""
    if os.geteuid() == 0:
        return
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
    for option, why in (("ro", "results go into it"), ("noexec", "programs of it are started")):
        if option in options:
            raise LabError(
                f"{checkout} is on a file system mounted {option}, and {why}: move the checkout, "
                "or mount the file system otherwise"
            )
    closed = closed_directory(checkout, uid, gid)
    if closed:
        raise LabError(
            f"{closed} cannot be entered by the lab's user ({uid}), who runs the checks: "
            f"move the checkout, for example to /srv, or: chmod o+x {closed}"
        )
    _refuse_unreadable(unreadable_file(checkout, uid, gid), checkout, f"the lab's user ({uid})")


def refuse_cache(cache: Path, needed_mb: int) -> None:
    """Refuse a directory in which no image can be made. Raises LabError."""
    refuse_path(cache, "the directory of node images (NEARMETAL_CACHE)")
    there = nearest(cache)
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
            f"{there} has {free} MB free, and {needed_mb} MB are needed: make room there, "
            "or set NEARMETAL_CACHE to another directory"
        )


def refuse_overlay(cache: Path, upper: bool = False) -> None:
    """Refuse a file system that no overlay takes as its lower directory, or as its upper one, as
    guests' layers need it. Raises LabError."""
    script = (
        "mount -t tmpfs t /mnt && mkdir /mnt/l /mnt/a /mnt/m && "
        'trial=$(mktemp -d "$1/trial-XXXXXX") && mkdir "$trial/a" && ended=0 && '
        '{ if [ "$2" = upper ]; then lower=/mnt/l upper=$trial; else lower=$trial upper=/mnt; fi; '
        'mkdir "$upper/w" && mount -t overlay '
        '-o "lowerdir=$lower,upperdir=$upper/a,workdir=$upper/w" o /mnt/m || ended=1; '
        'umount /mnt/m 2> /dev/null; rm -r "$trial"; exit $ended; }'
    )
    kind = "upper" if upper else "lower"
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
    """Refuse a kernel that gives an ordinary user no namespaces, which Apptainer needs. Raises
    LabError."""
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
    _refuse_unreadable(private_file(checkout), checkout, "the user who builds images")


def _refuse_unreadable(unreadable: str | None, checkout: Path, user: str) -> None:
    if unreadable:
        raise LabError(
            f"{unreadable} cannot be read by {user}, as in a clone made under `umask 077`: "
            f"chmod -R go+rX {checkout}"
        )


def refuse_path(path: Path, what: str) -> None:
    if found := re.search(UNFIT, str(path)):
        raise LabError(
            f"{path}: {what} cannot be below a path with {found[0]!r}, at which compilers, Slurm "
            "or mounts would split it: move it"
        )


def nearest(path: Path) -> Path:
    """The path, or the nearest directory above it that is there."""
    while not path.exists():
        path = path.parent
    return path


def mount_options(path: Path) -> list[str]:
    """Options of the file system that a path is on, as the kernel has them."""
    flags = os.statvfs(path).f_flag
    names = {os.ST_RDONLY: "ro", os.ST_NOEXEC: "noexec", os.ST_NODEV: "nodev"}
    return [name for flag, name in names.items() if flags & flag]


def closed_directory(path: Path, uid: int, gid: int) -> Path | None:
    """The topmost directory on a path that a user cannot enter."""
    for directory in [*reversed(path.parents), path]:
        if not as_user(uid, gid, "test", "-x", str(directory)):
            return directory
    return None


def unreadable_file(checkout: Path, uid: int, gid: int) -> str | None:
    """A file or directory of the checkout that a user cannot read."""
    unfit = ["(", "!", "-readable", "-o", "-type", "d", "!", "-executable", ")"]
    return _first(_as_user(uid, gid, _find(checkout, unfit)))


def private_file(checkout: Path) -> str | None:
    """A file or directory of the checkout that not every user can read."""
    unfit = ["(", "!", "-perm", "-004", "-o", "-type", "d", "!", "-perm", "-001", ")"]
    return _first(
        subprocess.run(_find(checkout, unfit), capture_output=True, text=True, check=False)
    )


def _find(checkout: Path, unfit: list[str]) -> list[str]:
    # Editors' files begin with a dot; byte code is read where it can be, and links have no mode.
    there = [str(checkout / name) for name in READ if (checkout / name).exists()]
    left_out = ["(", "-name", ".*", "-o", "-name", "__pycache__", "-o", "-type", "l", ")", "-prune"]
    return ["find", *there, *left_out, "-o", *unfit, "-print", "-quit"]


def _first(done: subprocess.CompletedProcess) -> str | None:
    return done.stdout.splitlines()[0] if done.stdout else None


def as_user(uid: int, gid: int, *command: str) -> bool:
    """Whether a command ends well as a user without further groups."""
    return _as_user(uid, gid, command).returncode == 0


def _as_user(uid: int, gid: int, command) -> subprocess.CompletedProcess:
    other: dict[str, Any] = (
        {"user": uid, "group": gid, "extra_groups": []} if os.geteuid() == 0 else {}
    )
    return subprocess.run(
        list(command),
        **other,
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
