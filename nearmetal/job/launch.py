"""What a job starts, as plain data: programs, and the two sides of a duet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

#: The script that records facts of a node, and counters (reframe_checks/src).
PROBE = "sh provenance.sh"
#: malloc keeps all buffers up to 32 MiB in its heap, which grows by 64 MiB. Each for itself would
#: begin and end within a large page, and so have fewer of them.
ONE_HEAP = "glibc.malloc.mmap_threshold=33554432:glibc.malloc.top_pad=67108864"


@dataclass(frozen=True)
class Launch:
    """One start of a program. Without `nodes`, it has the shape of the job."""

    program: str = ""  #: command of each process; '': the check's program
    options: Sequence = ()  #: of the program
    nodes: int = 0  #: it fills the job's first nodes, one after the other
    processes: int = 0
    processes_per_node: int = 1
    cores: int = 0  #: of each process that is bound to several; 0: the launcher's default
    prefix: str = ""  #: command on the first node that runs the launcher
    after: Sequence[str] = ()  #: shell lines after it
    output: str = ""  #: file of its output; '': the job's
    components: str = ""  #: of a heterogeneous job of Slurm, such as `0,1`; '': the side's
    may_fail: bool = False  #: whether the job goes on if it fails


@dataclass(frozen=True)
class Side:
    """What a job launches by default: a program of a runtime. A duet has two sides."""

    runtime: Any  #: nearmetal/checks/runtime
    launcher: Any  #: ReFrame's, with its options
    program: str  #: command of each process
    pages: str = "default"  #: of the program's memory
    #: Shell lines before each launch. Each launch of a duet has a subshell, so that they end there.
    env_setup: Sequence[str] = ()
    component: str = ""  #: of a heterogeneous job of Slurm


def with_pages(pages: str, program: str) -> str:
    """The command that runs a program with these pages, by src/pages.c."""
    if pages == "default":
        return program
    return f"env GLIBC_TUNABLES={ONE_HEAP} ./pages {pages} {program}"


def number_of(component: str) -> list[str]:
    """srun's option for components of a heterogeneous job."""
    if not component:
        return []
    return [f"--het-group={component}"]
