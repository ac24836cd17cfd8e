"""The lock of the images' stacks, and the images with the record of what was built.

The lock holds what an image's programs are built on. Sources of this checkout are in no lock: the
record beside an image names them, and the digest of the image.
"""

import os
import platform
from pathlib import Path

from nearmetal.checkout import CHECKOUT
from nearmetal.util import documents

SCHEMA = Path(__file__).resolve().parent / "images-schema.yaml"

#: Package of Debian or Spack -> the message-passing library that it is.
LIBRARIES = {
    "libopenmpi40": "Open MPI",
    "openmpi": "Open MPI",
    "libmpich12": "MPICH",
    "mpich": "MPICH",
    "libmpj-java": "MPJ Express",
    "mpj-express": "MPJ Express",
}
#: What a stack is made from: keys of its entry in the lock, in words.
MADE_FROM = {
    "software": "software",
    "inputs": "definition, stages or Spack environment (containers, spack-env)",
}


class ImagesError(ValueError):
    """Images cannot be used, or a file on them not be read; the message says what to do."""


def directory() -> Path:
    """Where images are: NEARMETAL_IMAGES, or a directory for this machine's architecture."""
    name, machine = "images", platform.machine()
    if machine != "x86_64":
        name += f"-{machine}"
    return Path(os.environ.get("NEARMETAL_IMAGES") or CHECKOUT / "containers" / name)


def lock_path() -> Path:
    """Beside the directory of the images."""
    return directory().with_name(directory().name + ".lock")


def image_path(stack: str) -> Path:
    return directory() / f"{stack}.sif"


def record_path(stack: str) -> Path:
    """Beside the image."""
    return directory() / f"{stack}.yaml"


def read_lock(path: Path) -> dict:
    """The entries of a lock by stack; {} without the file. Raises ImagesError."""
    if path.exists():
        return _read(path, "lock", "make images-lock")
    return {}


def read_record(path: Path) -> dict:
    """What a built image is. Raises ImagesError, also without the file."""
    return _read(path, "record", "make images")


def _read(path: Path, kind: str, command: str) -> dict:
    schema = documents.part(SCHEMA, kind)
    return documents.read(path, schema, ImagesError, f"write it anew with {command}")


def other_origin(locked: dict, here: dict) -> list[str]:
    """In words why a lock is of another stack than this checkout, or than a built image."""
    words = []
    for key, what in MADE_FROM.items():
        if locked[key] != here[key]:
            there = locked[key][:12]
            words.append(f"the lock is of other {what}: {there} there, {here[key][:12]} here")
    return words


def differences(locked: dict, built: dict) -> list[str]:
    """In words what is in a built image and not in its lock, and the reverse."""
    words = other_origin(locked, built)
    before, after = locked["packages"], built["packages"]
    for name in sorted(before | after):
        if name not in after:
            words.append(f"{name} is gone instead of {before[name]}")
        elif name not in before:
            words.append(f"{name} {after[name]} is new")
        elif before[name] != after[name]:
            words.append(f"{name} {after[name]} instead of {before[name]}")
    return words


def label(name: str, entry: dict) -> str:
    """An image's name. Libraries and versions follow where the name is not the library's.

    `mpj-native` holds Open MPI, which mpj-native calls, and MPJ Express.
    """
    libraries = []
    for package, library in LIBRARIES.items():
        version = entry["packages"].get(package)
        if version and library.lower().replace(" ", "") != name:
            libraries.append(f"{library} {version}")
    if libraries:
        return f"{name} ({', '.join(libraries)})"
    return name
