"""What a system lacks, and the fix."""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Finding:
    """A sentence on what is missing, and the fix."""

    what: str  #: without its full stop
    fix: str
    partition: str = ""  #: '': all of the system
    environ: str = ""  #: '': all of the partition
    blocks: bool = True  #: whether no job can run while it is missing

    def __str__(self) -> str:
        text = f"{self.what}. Fix: {self.fix}"
        if self.environ:
            text = f"{self.environ}: {text}"
        return f"{self.partition}: {text}" if self.partition else text

    def covers(self, partition: str, environ: str) -> bool:
        """Whether a case there cannot run, as far as this finding goes."""
        here = self.partition in ("", partition) and self.environ in ("", environ)
        return self.blocks and here


def together(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, those that several partitions share as one."""
    partitions: dict[Finding, list[str]] = {}
    for one in findings:
        names = partitions.setdefault(replace(one, partition=""), [])
        if one.partition not in names:
            names.append(one.partition)
    return [replace(one, partition=", ".join(names)) for one, names in partitions.items()]
