"""The directory of the images, and their lock."""

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


class ImagesError(ValueError):
    """Images cannot be used, or their lock not be read; the message says what to do."""


def directory() -> Path:
    return Path(os.environ.get("NEARMETAL_IMAGES") or CHECKOUT / "containers" / "images")


def lock_path() -> Path:
    """Beside the directory of the images."""
    return directory().with_name(directory().name + ".lock")


def read_lock(path: Path) -> dict:
    """The entries of a lock by stack; {} without the file.

    Raises ImagesError if the file violates images-schema.yaml.
    """
    if not path.exists():
        return {}
    try:
        entries = yaml.safe_load(path.read_bytes())
        jsonschema.validate(
            entries, yaml.safe_load((PACKAGE / "locks" / "images-schema.yaml").read_text())
        )
    # PyYAML's constructors raise whatever Python does on a date, a number or a key that is none.
    except (
        *(OSError, yaml.YAMLError, jsonschema.ValidationError),
        *(ValueError, LookupError, TypeError, AttributeError, RecursionError),
    ) as error:
        raise ImagesError(
            f"{path}: {_words(error)}. Fix: write it anew with make images-lock"
        ) from None
    return entries


def _words(error: Exception) -> str:
    """What is wrong, and the key where the schema knows it: `mpich.digest: ...`."""
    if not isinstance(error, jsonschema.ValidationError):
        return str(error)
    place = ".".join(map(str, error.absolute_path))
    return f"{place}: {error.message}" if place else error.message


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
