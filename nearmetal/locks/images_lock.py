"""The lock of the images' stacks, and the images with the record of what was built.

The lock holds what an image's programs are built on. Sources of this checkout are in no lock: the
record beside an image names them, and the digest of the image.
"""

import os
from pathlib import Path

import jsonschema
import yaml

from nearmetal.checkout import CHECKOUT, PACKAGE

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
    return Path(os.environ.get("NEARMETAL_IMAGES") or CHECKOUT / "containers" / "images")


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
    return _read(path, "lock", "make images-lock") if path.exists() else {}


def read_record(path: Path) -> dict:
    """What a built image is. Raises ImagesError, also without the file."""
    return _read(path, "record", "make images")


def _read(path: Path, kind: str, command: str) -> dict:
    schema = yaml.safe_load((PACKAGE / "locks" / "images-schema.yaml").read_text())
    try:
        document = yaml.safe_load(path.read_bytes())
        jsonschema.validate(document, {**schema, "$ref": f"#/$defs/{kind}"})
    # PyYAML's constructors raise whatever Python does on a date, a number or a key that is none.
    except (
        *(OSError, yaml.YAMLError, jsonschema.ValidationError),
        *(ValueError, LookupError, TypeError, AttributeError, RecursionError),
    ) as error:
        raise ImagesError(f"{path}: {_words(error)}. Fix: write it anew with {command}") from None
    return document


def _words(error: Exception) -> str:
    """What is wrong, and the key where the schema knows it: `mpich.digest: ...`."""
    if not isinstance(error, jsonschema.ValidationError):
        return str(error)
    place = ".".join(map(str, error.absolute_path))
    return f"{place}: {error.message}" if place else error.message


def other_origin(locked: dict, here: dict) -> list[str]:
    """In words why a lock is of another stack than this checkout, or than a built image."""
    words = []
    for key, what in MADE_FROM.items():
        if locked[key] != here[key]:
            words.append(
                f"the lock is of other {what}: {locked[key][:12]} there, {here[key][:12]} here"
            )
    return words


def differences(locked: dict, built: dict) -> list[str]:
    """In words what is in a built image and not in its lock, and the reverse."""
    words = other_origin(locked, built)
    before, after = locked["packages"], built["packages"]
    for name in sorted(before | after):
        if before.get(name) == after.get(name):
            continue
        origin = f" instead of {before[name]}" if name in before else " is new"
        words.append(f"{name} {after.get(name, 'is gone')}{origin}")
    return words


def label(name: str, entry: dict) -> str:
    """An image's name. Libraries and versions follow where the name is not the library's.

    `mpj-native` holds Open MPI, which mpj-native calls, and MPJ Express.
    """
    held = [
        f"{library} {version}"
        for package, library in LIBRARIES.items()
        if (version := entry["packages"].get(package)) and library.lower().replace(" ", "") != name
    ]
    return f"{name} ({', '.join(held)})" if held else name
