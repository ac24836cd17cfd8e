"""What a system lacks, and the fix."""

from __future__ import annotations

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

    @classmethod
    def of(cls, sentence: str, fix: str = "", blocks: bool = True) -> Finding:
        """The finding of a sentence that ends with its fix, or else has this one."""
        what, _, own = sentence.partition(". Fix: ")
        return cls(what, own or fix, blocks=blocks)

    def __str__(self) -> str:
        places = filter(None, [self.partition, self.environ])
        return ": ".join([*places, f"{self.what}. Fix: {self.fix}"])

    def covers(self, partition: str, environ: str) -> bool:
        """Whether a case there cannot run, as far as this finding goes."""
        here = self.partition in ("", partition) and self.environ in ("", environ)
        return self.blocks and here


def together(findings: Iterable[Finding]) -> list[Finding]:
    """The findings, those that several partitions share as one."""
    partitions: dict[Finding, dict[str, None]] = {}
    for finding in findings:
        names = partitions.setdefault(replace(finding, partition=""), {})
        names[finding.partition] = None
    return [replace(each, partition=", ".join(names)) for each, names in partitions.items()]
