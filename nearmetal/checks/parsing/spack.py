"""Compares the packages that Spack installed with the lock. ``nearmetal/locks/spack.py`` reads
locks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, bounded, damaged

#: Argument of `spack find --format`.
FORMAT = "{name} {version} {hash}"
ROW = re.compile(r"[a-z0-9][a-z0-9._-]* [\w.:=+-]+ [a-z2-7]{32}", re.ASCII)


@dataclass(frozen=True)
class Installed:
    """A package in Spack's database."""

    name: str
    version: str
    hash: str


@bounded
def parse_installed(text: str) -> dict[str, Installed]:
    """Installed packages by hash, from the output of ``spack find --format`` with FORMAT. Raises
    ParseError for any other line, and if there are no packages."""
    packages: dict[str, Installed] = {}
    for line in filter(str.strip, text.splitlines()):
        words = line.split()
        if not ROW.fullmatch(" ".join(words)):
            raise ParseError(
                f"{line!r} is not a package with version and hash, as requested from `spack find`"
            )
        package = Installed(*words)
        if package.hash in packages:
            # A hash belongs to one package alone.
            raise damaged(f"{line!r} has the hash of another package")
        packages[package.hash] = package
    if not packages:
        raise ParseError("`spack find` names no package: the environment is not installed")
    return packages


def measured(lock) -> list:
    """The packages of a lock that are recorded with each result: the roots, and the MPI libraries
    that they use."""
    nodes = {}
    for key in lock.roots.values():
        root = lock.nodes[key]
        nodes[root.hash] = root
        if "mpi" in root.virtuals:
            library = lock.nodes[root.virtuals["mpi"]]
            nodes[library.hash] = library
    return sorted(nodes.values(), key=lambda node: node.name)


def disagreements(lock, installed: dict[str, Installed]) -> list[str]:
    """A sentence for each difference between the lock and the installed packages."""
    sentences = []
    for node in measured(lock):
        if node.hash not in installed:
            full_name = f"{node.name}@{node.version}/{node.hash}"
            sentences.append(f"{full_name} from the lock is not installed")
    by_name = {node.name: node for node in lock.nodes.values()}
    for package in installed.values():
        locked = lock.nodes.get(package.hash)
        name = f"{package.name}@{package.version}"
        if locked is None:
            wanted = "none"
            if other := by_name.get(package.name):
                wanted = f"{other.version}/{other.hash}"
            sentences.append(f"{name}/{package.hash} is installed, but the lock has {wanted}")
        elif (package.name, package.version) != (locked.name, locked.version):
            sentences.append(
                f"{name} is installed with the hash {package.hash}, which is that of "
                f"{locked.name}@{locked.version} in the lock"
            )
    return sentences
