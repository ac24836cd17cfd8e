"""What Spack installed against the lock that it was to install; locks are read by
``nearmetal/locks/spack.py``."""

import re
from dataclasses import dataclass

from nearmetal.checks.parsing import ParseError

#: What `spack find --format` is asked for.
FORMAT = "{name} {version} {hash}"
ROW = re.compile(r"[a-z0-9][a-z0-9._-]* [\w.:=+-]+ [a-z2-7]{32}", re.ASCII)


@dataclass(frozen=True)
class Installed:
    """A package in Spack's database."""

    name: str
    version: str
    hash: str


def parse_installed(text: str) -> dict[str, Installed]:
    """By hash, from the output of ``spack find --format`` with FORMAT. ParseError for any other
    line, and for none."""
    found = {}
    for line in filter(str.strip, text.splitlines()):
        words = line.split()
        if not ROW.fullmatch(" ".join(words)):
            raise ParseError(
                f"{line!r} is not a package with version and hash, which `spack find` was asked for"
            )
        if words[2] in found:
            raise ParseError(f"{line!r} has the hash of another package: lines were damaged")
        found[words[2]] = Installed(*words)
    if not found:
        raise ParseError("`spack find` names no package: nothing of the environment is installed")
    return found


def measured(lock) -> list:
    """The packages of a lock that results are told with: those asked for, and the MPI that any of
    them uses."""
    roots = [lock.nodes[key] for key in lock.roots.values()]
    used = [lock.nodes[node.virtuals["mpi"]] for node in roots if "mpi" in node.virtuals]
    return sorted(
        {node.hash: node for node in (*roots, *used)}.values(), key=lambda node: node.name
    )


def disagreements(lock, installed: dict[str, Installed]) -> list[str]:
    """A sentence for all in which the lock and what is installed differ."""
    by_name = {node.name: node for node in lock.nodes.values()}
    return (
        [
            f"{node.name}@{node.version}/{node.hash} of the lock is not installed"
            for node in measured(lock)
            if node.hash not in installed
        ]
        + [
            f"{one.name}@{one.version}/{one.hash} is installed, where the lock has "
            + (
                f"{by_name[one.name].version}/{by_name[one.name].hash}"
                if one.name in by_name
                else "none"
            )
            for one in installed.values()
            if one.hash not in lock.nodes
        ]
        + [
            f"{one.name}@{one.version} is installed with the hash {one.hash}, which the lock has "
            f"for {lock.nodes[one.hash].name}@{lock.nodes[one.hash].version}"
            for one in installed.values()
            if one.hash in lock.nodes
            and (one.name, one.version) != (lock.nodes[one.hash].name, lock.nodes[one.hash].version)
        ]
    )
