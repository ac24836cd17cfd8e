"""`make images`: builds the images by Apptainer, as an ordinary user, and tells whether their
stacks are those of images.lock.

What is built from is a definition a stack (*.def) and what these copy. Where this host has
Apptainer and Internet access, the base is Debian's from the Docker hub; else Apptainer is the
lab's, and the base is made from this host's own Debian archive.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml

from nearmetal.checkout import CHECKOUT
from nearmetal.lab import conditions
from nearmetal.locks import spack as locks
from nearmetal.locks.builder import Builder, BuildError, cache, digest_of, node_image
from nearmetal.locks.images_lock import (
    MADE_FROM,
    ImagesError,
    differences,
    directory,
    image_path,
    label,
    lock_path,
    other_origin,
    read_lock,
    read_record,
    record_path,
)
from nearmetal.util import files, own
from nearmetal.util.cli_errors import HELP, OPTION, guarded

#: Definitions, their stages and the lock.
CONTAINERS = CHECKOUT / "containers"
STACKS = sorted(path.stem for path in CONTAINERS.glob("*.def"))
EPILOG = """exit codes: 0 built, and as locked; 1 an image could not be built; 2 bad usage; 3 built,
but not what the lock has (--check: the lock is not of this checkout); 4 an unforeseen error
(--debug prints its traceback). NEARMETAL_IMAGES=DIRECTORY keeps images there, and their lock in
DIRECTORY.lock; checks read them there too."""


def inputs(stack: str, software: str) -> list[Path]:
    """The files of a stack: its definition, the stages and, with Spack, the environment."""
    places = ["containers"]
    if software == "spack":
        places.append("spack-env")
    return sorted([CONTAINERS / f"{stack}.def", *copied(stack, *places)])


def programs(stack: str) -> list[Path]:
    """The files that an image's programs are built from."""
    return copied(stack, "reframe_checks", "mpj-native")


def copied(stack: str, *places: str) -> list[Path]:
    """The files below some directories of the checkout that a definition copies."""
    # Not `.spack-env`, which a user of the checkout installed there.
    text = (CONTAINERS / f"{stack}.def").read_text()
    named = re.findall(rf"^    ((?:{'|'.join(places)})/\S+) ", text, re.M)
    inputs = []
    for name in named:
        for path in (CHECKOUT / name, *(CHECKOUT / name).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                inputs.append(path)
    return sorted(inputs)


def made_from(stack: str, software: str) -> dict:
    """What an image of this checkout is built from, as its record has it."""
    return {
        "software": software,
        "inputs": digest_of_all(inputs(stack, software)),
        "programs": digest_of_all(programs(stack)),
    }


def digest_of_all(paths: list[Path]) -> str:
    """SHA-256 over the names and contents of files of the checkout."""
    whole = hashlib.sha256()
    for path in paths:
        whole.update(f"{path.relative_to(CHECKOUT)}\0".encode())
        whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


def revision_of(paths: list[Path]) -> tuple[str, int]:
    """The last commit that touched them, `-dirty` if they changed since, and its time in seconds
    since 1970."""

    def git(*words):
        # Root may build in a checkout that belongs to somebody else.
        return subprocess.run(
            ["git", "-C", CHECKOUT, "-c", f"safe.directory={CHECKOUT}", *words, "--", *paths],
            capture_output=True,
            text=True,
        ).stdout.split()

    # The time of this commit is the time of all files in the image.
    revision, seconds = git("log", "-1", "--format=%h %ct", "--abbrev=12") or ["unknown", "0"]
    if git("status", "--porcelain"):
        revision += "-dirty"
    return revision, int(seconds)


def faults() -> list[str]:
    """Why the committed lock is unfit for a release: a sentence a fault, with file and fix."""
    entries, sentences = read_lock(CONTAINERS / "images.lock"), []
    for stack in sorted({*STACKS, *entries}):
        why, fix = ["the lock has no such image"], "make images-lock"
        if stack not in STACKS:
            why, fix = ["no definition"], "remove the entry"
        elif entry := entries.get(stack):
            why = other_origin(entry, made_from(stack, entry["software"]))
        for fault in why:
            sentences.append(f"containers/images.lock: {stack}: {fault}. Fix: {fix}")
    return sentences


def main(words=None) -> int:
    parser = argparse.ArgumentParser(
        prog="images",
        description=__doc__.partition("\n")[0],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(OPTION, action="store_true", help=HELP)
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--lock", action="store_true", help="write the lock anew by what is built")
    action.add_argument(
        "--check",
        action="store_true",
        help="build nothing: say whether containers/images.lock is of this checkout",
    )
    parser.add_argument(
        "--software",
        choices=["debian", "spack"],
        help=(
            "Debian's packages, or what spack-env locks, from source (hours, and Internet access); "
            "default: as the image is locked, or else Debian's"
        ),
    )
    parser.add_argument(
        "stacks", nargs="*", metavar="STACK", help=f"of {', '.join(STACKS)} (default: all)"
    )
    arguments = parser.parse_args(words)
    if unknown := set(arguments.stacks) - set(STACKS):
        parser.error(
            f"no such stack: {', '.join(sorted(unknown))}; choose from {', '.join(STACKS)}"
        )
    if arguments.check:
        return check()
    try:
        if not shutil.which("apptainer"):
            # Namespaces for a builder that this host lacks need root. The build itself is an
            # ordinary user's there.
            variables = ("NEARMETAL_CACHE", "NEARMETAL_MIRROR", "NEARMETAL_IMAGES")
            module = ["-m", "nearmetal.locks.images"]
            conditions.become_root([*module, *sys.argv[1:]], *variables)
        elif os.geteuid() != 0:
            conditions.refuse_without_user_namespaces(os.geteuid(), os.getegid())
        os.umask(0o022)
        return build_all(
            arguments.stacks or STACKS,
            arguments.software,
            arguments.lock,
            lambda text: print(text, flush=True),
        )
    except (
        *(ImagesError, BuildError, cache.ImageError),
        *(locks.LockError, conditions.LabError, OSError),
    ) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("images: interrupted; whole images stay, and of others nothing", file=sys.stderr)
        return 130


def check() -> int:
    """Print what is wrong with the lock; the exit code."""
    try:
        sentences = faults()
    except ImagesError as error:
        sentences = [str(error)]
    print("\n".join(sentences) or "containers/images.lock is of this checkout")
    if sentences:
        return 3
    return 0


def refuse_unsuitable_host() -> None:
    """Before anything is built: what would end it later, in other words. Raises LabError."""
    if shutil.which("apptainer"):
        return
    directory = cache.cache_dir()
    needed = conditions.CONTAINERS_MB
    if not (directory / f"image-{node_image.key()}").exists():
        needed += conditions.IMAGE_MB
    conditions.refuse_private_checkout(CHECKOUT)
    conditions.refuse_cache(directory, needed)
    directory.mkdir(parents=True, exist_ok=True)
    conditions.refuse_overlay(directory)
    conditions.refuse_without_user_namespaces(conditions.NOBODY, conditions.NOBODY)


def is_built(stack: str, entry: dict, here: dict) -> bool:
    """Whether the image is there, of this checkout, and as locked."""
    try:
        built = read_record(record_path(stack))
        # A copy may have been interrupted, or somebody replaced the file.
        is_whole = digest_of(image_path(stack)) == built["digest"]
    except (ImagesError, OSError):
        return False
    is_of_checkout = all(built[key] == value for key, value in here.items())
    return is_whole and is_of_checkout and not differences(entry, built)


def write_lock(entries: dict) -> None:
    title = "# Written by `make images-lock`: the stack of each image. Nothing of our sources.\n"
    files.write(lock_path(), title + yaml.safe_dump(entries, width=128))


def build(builder: Builder, stack: str, software: str, here: dict) -> dict:
    """Build an image, and keep it with its record. Returns the record. Raises BuildError."""
    revision, epoch = revision_of([*inputs(stack, software), *programs(stack)])
    path, described = builder.image(stack, software, revision, epoch)
    record = {**described, **here}
    # The owner of the images cannot enter the directory of root's builder.
    with open(path, "rb") as image, own.as_owner(directory()):
        files.write_parts(image_path(stack), files.parts_of(image))
        files.write(record_path(stack), yaml.safe_dump(record, width=128))
    return record


def build_all(stacks, asked, lock_anew, say) -> int:
    """Build the images that are not there as locked. Returns the exit code."""
    with own.as_owner(directory()):
        directory().mkdir(parents=True, exist_ok=True)
    # A builder is made for the first image that is not there: that takes a minute.
    entries, builder, other = read_lock(lock_path()), None, []
    try:
        for stack in stacks:
            entry = entries.get(stack, {})
            software = asked or entry.get("software", "debian")
            if software == "spack":
                locks.choose(locks.HERE / stack, platform.machine())
            here = made_from(stack, software)
            if entry and is_built(stack, entry, here):
                say(f"{label(stack, entry)}: as locked")
                continue
            if builder is None:
                refuse_unsuitable_host()
                builder = Builder(say)
            say(f"{stack}: building from {software}")
            started = time.monotonic()
            built = build(builder, stack, software, here)
            done = (
                f"{label(stack, built)}: {built['bytes'] / 1e6:.0f} MB in "
                f"{time.monotonic() - started:.0f} s, {built['digest'][:19]}"
            )
            changed = []
            if entry:
                changed = differences(entry, built)
            if entry and not changed:
                say(f"{done}, as locked")
            elif lock_anew:
                entries[stack] = {key: built[key] for key in (*MADE_FROM, "packages")}
                with own.as_owner(lock_path()):
                    write_lock(entries)
                say("\n  ".join([f"{done}, locked", *changed]))
            else:
                other.append(stack)
                why = changed or ["there is no lock of it"]
                say("\n  ".join([f"{done}, not as locked:", *why]))
    finally:
        if builder:
            builder.close()
    if other:
        print(
            f"images: {', '.join(other)}: checks refuse what is not locked in {lock_path()}; if it "
            "is meant, make images-lock",
            file=sys.stderr,
        )
    if other:
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(guarded(main, "images", 4))
