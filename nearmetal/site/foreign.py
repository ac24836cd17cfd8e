"""Another site's configuration of ReFrame, unchanged: what its own words say to our checks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from reframe.core.runtime import runtime

#: The page that says what such a configuration gives.
PAGE = "docs/foreign.md#another-sites-configuration"
#: Names of compilers that are an MPI library's: mpicc, mpiicx, ...
OF_MPI = re.compile(r"mpi\w*c", re.IGNORECASE)


def is_described(partition) -> bool:
    """Whether a system's file of Nearmetal describes a partition: each has `link_class`."""
    return "link_class" in partition.extras


def features(environ, partition) -> set[str]:
    """Features that follow from an environment's compiler.

    Left out are those that the site gives to an environment of the partition: it uses these names
    itself. `serial`, `openmp` and `mpi` are those of public suites too.
    """
    # ReFrame's own system takes every host that no configuration knows.
    reframes_own = (partition.fullname, environ.name) == ("generic:default", "builtin")
    if is_described(partition) or reframes_own or not environ.cc:
        return set()
    by_compiler = {"serial", "openmp"}
    if OF_MPI.match(Path(environ.cc).name):
        by_compiler = {"mpi"}
    for other in partition.environs:
        by_compiler = by_compiler.difference(other.features)
    return by_compiler


def known_features(environ, partition) -> set[str]:
    """All names by which ReFrame or our checks choose an environment of a partition."""
    return {*environ.features, *environ.extras, *features(environ, partition)}


def with_names(valid_prog_environs: Iterable[str]) -> list[str]:
    """ReFrame's selectors of environments, and the names of those that fit by their compilers."""
    selectors = dict.fromkeys(valid_prog_environs)
    wanted = []
    for selector in selectors:
        words = selector.split()
        if all(word.startswith("+") for word in words):
            wanted.append({word.removeprefix("+") for word in words})
    for partition in runtime().system.partitions:
        for environ in partition.environs:
            if not features(environ, partition):
                continue
            known = known_features(environ, partition)
            if any(map(known.issuperset, wanted)):
                selectors[environ.name] = None
    return list(selectors)


def notes(partitions: Iterable, one_at_a_time: bool) -> list[str]:
    """What a run says of partitions that no file of ours describes. [] if all are described.

    :arg one_at_a_time: whether ReFrame runs one job after the other, whatever `max_jobs` says.
    """
    others = [partition for partition in partitions if not is_described(partition)]
    if not others:
        return []
    names = ", ".join(partition.fullname for partition in others)
    not_known = "Link and hypervisor are unknown, and a value passes without a baseline"
    lines = [f"{names}: no system's file of Nearmetal describes it. {not_known} ({PAGE})"]
    by_compiler, at_once = {}, []
    for partition in others:
        if partition.max_jobs > 1:
            at_once.append(partition.fullname)
        for environ in partition.environs:
            if guessed := sorted(features(environ, partition).difference(environ.features)):
                about = f"({', '.join(guessed)}: its compiler is {environ.cc})"
                by_compiler[environ.name] = f"{environ.name} {about}"
    if by_compiler:
        lines.append(f"features by the compiler: {', '.join(by_compiler.values())}")
    if at_once and not one_at_a_time:
        lines.append(
            f"{', '.join(at_once)}: several jobs may run at once and disturb each other. "
            "Fix: give --exec-policy=serial"
        )
    return lines
