"""Compares the packages that Spack installed with the lock. ``nearmetal/locks/spack.py`` reads
locks."""

import re
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError, bounded

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
    found = {}
    for line in filter(str.strip, text.splitlines()):
        words = line.split()
        if not ROW.fullmatch(" ".join(words)):
            raise ParseError(
                f"{line!r} is not a package with version and hash, as requested from `spack find`"
            )
        if words[2] in found:
            raise ParseError(f"{line!r} has the hash of another package: lines were damaged")
        found[words[2]] = Installed(*words)
    if not found:
        raise ParseError("`spack find` names no package: the environment is not installed")
    return found


def measured(lock) -> list:
    """The packages of a lock that are recorded with each result: the roots, and the MPI libraries
    that they use."""
    roots = [lock.nodes[key] for key in lock.roots.values()]
    used = [lock.nodes[node.virtuals["mpi"]] for node in roots if "mpi" in node.virtuals]
    return sorted(
        {node.hash: node for node in (*roots, *used)}.values(), key=lambda node: node.name
    )


def disagreements(lock, installed: dict[str, Installed]) -> list[str]:
    """A sentence for each difference between the lock and the installed packages."""
    by_name = {node.name: node for node in lock.nodes.values()}
    return (
        [
            f"{node.name}@{node.version}/{node.hash} from the lock is not installed"
            for node in measured(lock)
            if node.hash not in installed
        ]
        + [
            f"{one.name}@{one.version}/{one.hash} is installed, but the lock has "
            + (
                f"{by_name[one.name].version}/{by_name[one.name].hash}"
                if one.name in by_name
                else "none"
            )
            for one in installed.values()
            if one.hash not in lock.nodes
        ]
        + [
            f"{one.name}@{one.version} is installed with the hash {one.hash}, which is that of "
            f"{lock.nodes[one.hash].name}@{lock.nodes[one.hash].version} in the lock"
            for one in installed.values()
            if one.hash in lock.nodes
            and (one.name, one.version) != (lock.nodes[one.hash].name, lock.nodes[one.hash].version)
        ]
    )
