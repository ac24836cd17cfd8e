"""`make images`: builds the images by Apptainer, as an ordinary user, and tells whether they are
those of images.lock.

What is built from is a definition a stack (*.def) and what these copy. Where this host has
Apptainer and Internet access, the base is Debian's from the Docker hub; else Apptainer is the
lab's, and the base is made from this host's own Debian archive.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import yaml

from nearmetal import files, own
from nearmetal.checkout import CHECKOUT
from nearmetal.lab import conditions
from nearmetal.locks import sif, sources
from nearmetal.locks.builder import Builder, BuildError, cache, digest_of, node_image
from nearmetal.locks.images_lock import ImagesError, directory, label, lock_path, read_lock

#: Definitions, their stages and the lock.
CONTAINERS = CHECKOUT / "containers"
STACKS = sorted(path.stem for path in CONTAINERS.glob("*.def"))
#: What an image was built from: keys of its entry in the lock, in words.
MADE_FROM = {
    "software": "software",
    "sources": "sources (reframe_checks/src)",
    "inputs": "definition, stages, library or recipes (containers, nearmetal/locks/sif.py, "
    "mpj-native, spack-env)",
}
EPILOG = """exit codes: 0 built, and as locked; 1 an image could not be built; 2 bad usage; 3 built,
but not what the lock has (--check: the lock is not of this checkout); 4 an unforeseen error
(--debug prints its traceback). NEARMETAL_IMAGES=DIRECTORY keeps images there, and their lock in
DIRECTORY.lock; checks read them there too."""


def inputs(stack: str, software: str) -> list[Path]:
    """The files that an image is made from, beside the sources of our programs."""
    paths = [
        CONTAINERS / f"{stack}.def",
        *(CONTAINERS / "stages").iterdir(),
        Path(sif.__file__),
    ]
    # What the definition copies: not `.spack-env`, which a user of the checkout installed there.
    copied = [
        CHECKOUT / name
        for name in re.findall(r"^    ((?:mpj-native|spack-env)/\S+) ", paths[0].read_text(), re.M)
        if software == "spack" or not name.startswith("spack-env/")
    ]
    paths += [
        path
        for top in copied
        for path in [top, *top.rglob("*")]
        if path.is_file() and path.suffix != ".pyc"
    ]
    return sorted(paths)


def made_from(stack: str, software: str) -> dict:
    """What an image of this checkout is built from, as its entry in the lock has it."""
    return {
        "software": software,
        "sources": sources.digest(),
        "inputs": digest_of_all(inputs(stack, software)),
    }


def digest_of_all(paths: list[Path]) -> str:
    """SHA-256 over the names and contents of files of the checkout."""
    whole = hashlib.sha256()
    for path in paths:
        whole.update(
            f"{path.relative_to(CHECKOUT)}\0".encode() + hashlib.sha256(path.read_bytes()).digest()
        )
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

    last = git("log", "-1", "--format=%h %ct", "--abbrev=12") or ["unknown", "0"]
    return last[0] + ("-dirty" if git("status", "--porcelain") else ""), int(last[1])


def other_origin(locked: dict, here: dict) -> list[str]:
    """In words why a lock is not of what stands in this checkout; nothing if it is."""
    words = []
    for key, what in MADE_FROM.items():
        there = locked.get(key, "unknown")
        if there != here[key]:
            words.append(f"the lock is of other {what}: {there[:12]} there, {here[key][:12]} here")
    return words


def is_uncommitted(entry: dict) -> bool:
    """Whether an image was built from changes that no commit holds."""
    return entry["revision"].endswith("-dirty")


def faults() -> list[str]:
    """Why the committed lock is unfit for a release: a sentence a fault, with file and fix."""
    lock, found = Path("containers/images.lock"), []
    entries = read_lock(CONTAINERS / "images.lock")
    for stack in STACKS:
        if stack not in entries:
            found.append(f"{lock}: {stack}: the lock has no such image. Fix: make images-lock")
            continue
        entry = entries[stack]
        words = other_origin(entry, made_from(stack, entry["software"]))
        if is_uncommitted(entry):
            words.append("it was built from uncommitted changes")
        found += [f"{lock}: {stack}: {each}. Fix: make images-lock" for each in words]
    extra = sorted(entries.keys() - set(STACKS))
    found += [f"{lock}: {stack}: no definition. Fix: remove the entry" for stack in extra]
    return found


def differences(old: dict, new: dict) -> list[str]:
    """In words what is in one image and not in the other."""
    words = other_origin(old, new)
    if old.get("revision") != new.get("revision"):
        words.append(f"revision {new['revision']} instead of {old.get('revision', 'unknown')}")
    before, after = old["packages"], new["packages"]
    words += [
        f"{name} {after.get(name, 'is gone')}"
        + (f" instead of {before[name]}" if name in before else " is new")
        for name in sorted(before | after)
        if before.get(name) != after.get(name)
    ]
    return words or [
        (
            "its contents are listed alike: this build is not reproducible, compare the images by "
            "diffoscope"
        )
    ]


def main(words=None) -> int:
    parser = argparse.ArgumentParser(
        prog="images",
        description=__doc__.partition("\n")[0],
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--debug", action="store_true", help="with an unforeseen error, print the traceback as well"
    )
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
    has_apptainer = shutil.which("apptainer") is not None
    try:
        if not has_apptainer:
            conditions.refuse_without_root()
        elif os.geteuid() != 0:
            conditions.refuse_without_user_namespaces(os.geteuid(), os.getegid())
    except conditions.LabError as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    if os.geteuid() != 0 and not has_apptainer:
        # Namespaces for a builder that this host lacks; the build itself is an ordinary user's
        # there.
        os.execvp(
            "sudo",
            [
                "sudo",
                "--preserve-env=NEARMETAL_CACHE,NEARMETAL_MIRROR,NEARMETAL_IMAGES",
                sys.executable,
                "-B",
                *sys.argv,
            ],
        )
    os.umask(0o022)
    try:
        return build_all(
            arguments.stacks or STACKS,
            arguments.software,
            arguments.lock,
            lambda text: print(text, flush=True),
        )
    except (ImagesError, BuildError, cache.ImageError, conditions.LabError, OSError) as error:
        print(f"images: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("images: interrupted; whole images stay, and of others nothing", file=sys.stderr)
        return 130


def check() -> int:
    """Print what is wrong with the lock; the exit code."""
    try:
        found = faults()
    except ImagesError as error:
        found = [str(error)]
    print("\n".join(found) or "containers/images.lock is of this checkout's sources")
    return 3 if found else 0


def refuse_unsuitable_host() -> None:
    """Before anything is built: what would end it later, in other words. Raises LabError."""
    if shutil.which("apptainer"):
        return
    directory = cache.cache_dir()
    there = (directory / f"image-{node_image.key()}").exists()
    conditions.refuse_private_checkout(CHECKOUT)
    conditions.refuse_cache(
        directory, conditions.CONTAINERS_MB + (0 if there else conditions.IMAGE_MB)
    )
    directory.mkdir(parents=True, exist_ok=True)
    conditions.refuse_overlay(directory)
    conditions.refuse_without_user_namespaces(conditions.NOBODY, conditions.NOBODY)


def software_of(entry: dict | None, asked: str | None) -> str:
    """What an image is built from: what was asked for, or what its lock has, or Debian."""
    return asked or (entry["software"] if entry else "debian")


def build_all(stacks, asked, lock_anew, say) -> int:
    place, lock = directory(), lock_path()
    with own.as_owner(place):
        place.mkdir(parents=True, exist_ok=True)
        entries = read_lock(lock)
    builder, other = None, []
    try:
        for stack in stacks:
            software = software_of(entries.get(stack), asked)
            here, old = made_from(stack, software), entries.get(stack)
            unchanged = (
                old is not None
                and not other_origin(old, here)
                and not (lock_anew and is_uncommitted(old))
            )
            if (
                old is not None
                and unchanged
                and (path := place / f"{stack}.sif").is_file()
                and digest_of(path) == old["digest"]
            ):
                say(f"{label(stack, old)}: as locked")
                continue
            revision, epoch = (
                (old["revision"], old["epoch"])
                if old and unchanged
                else revision_of([*inputs(stack, software), sources.DIRECTORY])
            )
            if builder is None:
                refuse_unsuitable_host()
                builder = Builder(say)
            say(
                "\n  ".join(
                    [
                        f"{stack}: building from {software}",
                        *(other_origin(old, here) if old else []),
                    ]
                )
            )
            started = time.monotonic()
            path, new = builder.image(stack, software, revision, epoch)
            new["inputs"] = here["inputs"]
            with open(path, "rb") as image, own.as_owner(place):
                files.write_parts(place / f"{stack}.sif", iter(lambda: image.read(1 << 20), b""))
            said = (
                f"{label(stack, new)}: {new['bytes'] / 1e6:.0f} MB in "
                f"{time.monotonic() - started:.0f} s, "
                f"{new['digest'][:19]}"
            )
            if old and old["digest"] == new["digest"]:
                say(f"{said}, as locked")
            elif lock_anew:
                entries[stack] = new
                with own.as_owner(lock):
                    files.write(
                        lock,
                        "# Written by `make images-lock`: what each image is, and what it was "
                        "built from.\n" + yaml.safe_dump(entries, width=128),
                    )
                say("\n  ".join([f"{said}, locked", *(differences(old, new) if old else [])]))
                if is_uncommitted(new):
                    say(f"  of uncommitted changes: commit {stack}'s sources, and lock it again")
            else:
                other.append(stack)
                say(
                    "\n  ".join(
                        [
                            f"{said}, not as locked:",
                            *(differences(old, new) if old else ["there is no lock of it"]),
                        ]
                    )
                )
    finally:
        if builder:
            builder.close()
    if other:
        print(
            f"images: {', '.join(other)}: checks refuse what is not locked in {lock}; if it is "
            "meant, make images-lock",
            file=sys.stderr,
        )
    return 3 if other else 0


if __name__ == "__main__":
    from nearmetal.unforeseen import guarded

    sys.exit(guarded(main, "images", 4))
