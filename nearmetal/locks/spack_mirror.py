"""A mirror of sources for Spack, from Debian's source packages: for machines without the internet.

make spack-mirror DIRECTORY=PLACE

DIRECTORY/scope lets Spack use it: `spack -C DIRECTORY/scope`.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nearmetal.lab import image
from nearmetal.locks.spack import SCHEMA, LockError
from nearmetal.util import documents
from nearmetal.util.cli_errors import HELP, OPTION, guarded

SOURCES = Path(__file__).resolve().parent / "spack-sources.yaml"
#: Name of the mirror in Spack's configuration.
MIRROR = "nearmetal-sources"
#: A line of `apt-get source --print-uris`.
LISTED = re.compile(r"^'(\S+)' (\S+) \d+ SHA256:([0-9a-f]{64})$", re.M)


@dataclass(frozen=True)
class Archive:
    """A file of a source package in Debian's archive."""

    url: str
    name: str
    digest: str

    @property
    def version(self) -> str:
        """Upstream's version as Spack writes it.

        Debian adds `+ds` or `+dfsg` where it repacked, and `+really` where it went back.
        """
        version = self.name.split("_")[1].split(".orig")[0].split("really")[-1]
        version = re.sub(r"\+(ds|dfsg)[\d.]*$|-stable$", "", version)
        return version.replace("+", "-")


def archives(listed: str) -> dict[str, Archive]:
    """The archives of a source package by kind, `orig` and `debian`, from what apt-get prints."""
    kinds = {}
    for url, name, digest in LISTED.findall(listed):
        if match := re.search(r"\.(orig|debian)\.tar\.\w+$", name):
            kinds[match[1]] = Archive(url, name, digest)
    return kinds


class Debian:
    """Debian's source packages, whatever the sources of this machine's apt are."""

    def __init__(self, work: Path, suite: str):
        self.work = work
        listed = work / "sources.list"
        signed = f"[signed-by={image.KEYRING}]"
        listed.write_text(f"deb-src {signed} {image.mirror()} {suite} main\n")
        (work / "lists" / "partial").mkdir(parents=True)
        self.options = [f"-oDir::Etc::sourcelist={listed}", f"-oDir::State::lists={work}/lists"]
        self.options += ["-oDir::Etc::sourceparts=-", f"-oDir::Cache={work}"]
        self._apt("update")

    def _apt(self, *words: str) -> str:
        command = ["apt-get", *self.options, "-qq", *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise LockError(f"apt-get {words[-1]} fails: {done.stderr.strip()}")
        return done.stdout

    def archive(self, source: str, kind: str) -> Archive:
        """A file of a source package. Raises LockError."""
        listed = self._apt("source", "--only-source", "--print-uris", source)
        try:
            return archives(listed)[kind]
        except KeyError:
            raise LockError(f"Debian's source package {source} has no {kind} archive") from None

    def fetch(self, archive: Archive) -> Path:
        """The file, whose digest Debian signed. Raises LockError."""
        path = self.work / archive.name
        if not path.exists():
            try:
                with urllib.request.urlopen(archive.url) as answer:
                    data = answer.read()
            except OSError as error:
                raise LockError(f"{archive.url}: {error}") from None
            if hashlib.sha256(data).hexdigest() != archive.digest:
                raise LockError(f"{archive.url}: its digest is not the one that Debian signed")
            path.write_bytes(data)
        return path


def pack(archive: Path, target: Path, inside: str = "", prepare: str = "") -> None:
    """Pack an archive of upstream's as Spack looks for it.

    :arg inside: directory of the archive that becomes the whole; '': all of it.
    :arg prepare: command that makes `configure` before.
    """
    with tempfile.TemporaryDirectory(prefix="nearmetal-mirror-") as work:
        # Debian signed it: so it has no path that leads out of the directory.
        shutil.unpack_archive(archive, work)
        [top] = Path(work).iterdir()
        root = top / inside
        if prepare:
            done = subprocess.run(prepare, shell=True, cwd=root, capture_output=True, text=True)
            if done.returncode != 0:
                words = done.stderr.strip()[-300:]
                raise LockError(f"{archive.name}: {prepare} (autotools) fails: {words}")
        target.parent.mkdir(parents=True, exist_ok=True)
        # Beside it, so that an interrupted one is not taken for a whole one.
        part = target.with_name(f"part-{target.name}")
        mode: Any = f"w:{target.suffix[1:]}"
        with tarfile.open(part, mode) as packed:
            packed.add(root, arcname=target.name.split(".tar")[0])
        part.rename(target)


def patch_of(archive: Path, name: str) -> bytes:
    """A patch that Debian applies."""
    with tempfile.TemporaryDirectory(prefix="nearmetal-mirror-") as work:
        shutil.unpack_archive(archive, work)
        return Path(work, "debian", "patches", name).read_bytes()


def by_digest(place: Path, name: str) -> Path:
    """Where Spack looks for a file whose digest its recipe names, in a directory that exists."""
    directory = place / "_source-cache" / "archive" / name[:2]
    directory.mkdir(parents=True, exist_ok=True)
    return directory / name


def write_scope(place: Path, versions: dict[str, str], required: dict[str, list[str]]) -> None:
    """Spack's configuration that takes these versions from this mirror."""
    packages = {name: {"require": words} for name, words in required.items()}
    for name, version in versions.items():
        packages.setdefault(name, {"require": []})["require"].append(f"@={version}")
    mirror = {"url": place.as_uri(), "source": True, "binary": False}
    settings = {
        "packages": packages,
        "mirrors": {MIRROR: mirror},
        # Spack knows digests of upstream's archives, not of those packed anew.
        "config": {"checksum": False},
    }
    scope = place / "scope"
    scope.mkdir(parents=True, exist_ok=True)
    for name, content in settings.items():
        (scope / f"{name}.yaml").write_text(yaml.safe_dump({name: content}))


def fill(place: Path, sources: dict[str, Any], debian: Debian) -> list[str]:
    """Fill a mirror, whose files stay, and write its scope.

    :returns: a sentence for each package that cannot be had.
    """
    faults, versions = [], {}
    for name, data in sources["packages"].items():
        archive = debian.archive(data.get("source", name), "orig")
        version = versions[name] = data.get("version", archive.version)
        target = place / name / f"{name}-{version}.{data['archive']}"
        if not target.exists():
            try:
                upstream = debian.fetch(archive)
                pack(upstream, target, data.get("inside", ""), data.get("prepare", ""))
            except LockError as error:
                faults.append(f"{error}. Fix: put {target} there yourself, then run this again")
                continue
            print(target, flush=True)
        if digest := sources["digests"].get(name, {}).get(version):
            link = by_digest(place, f"{digest}.{data['archive']}")
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(target, link.parent))
    for digest, data in sources["patches"].items():
        archive = debian.archive(data["source"], "debian")
        by_digest(place, digest).write_bytes(patch_of(debian.fetch(archive), data["patch"]))
    write_scope(place, versions, sources["require"])
    return faults


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(
        prog="spack_mirror",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Exit status: 0 the mirror has all, 1 it lacks some, 2 Debian's sources cannot be "
        "asked, 3 an unforeseen error.",
    )
    parser.add_argument("directory", type=Path, metavar="DIRECTORY")
    parser.add_argument(OPTION, action="store_true", help=HELP)
    place = parser.parse_args(arguments).directory.absolute()
    try:
        sources = documents.read(SOURCES, documents.part(SCHEMA, "sources"), LockError)
        with tempfile.TemporaryDirectory(prefix="nearmetal-debian-") as work:
            faults = fill(place, sources, Debian(Path(work), sources["suite"]))
    except (LockError, image.ImageError) as error:
        print(error, file=sys.stderr)
        return 2
    for fault in faults:
        print(fault, file=sys.stderr)
    print(f"{place} has {len(sources['packages']) - len(faults)} packages of sources")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(guarded(main, "spack_mirror"))
