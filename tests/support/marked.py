"""Facts of nodes as provenance.sh prints them, and lines that sites and libraries print."""

from collections import Counter

from nearmetal.checks.provenance import MARK

#: Of a TaskProlog, of a login banner, of a module, and of UCX.
FOREIGN = (
    "SLURM_JOB_ID = 4711",
    "Job ID=4711",
    "Welcome to Alpine: load=3, 2 users",
    "2026-11-29 12:00:01 prolog done",
    "Loading openmpi/5.0.3",
    "[1732874023.4] [n01:4711:0]        mpool.c:55   UCX  WARN  object 0x1 was not returned",
)


def between_lines(text: str, line: str) -> str:
    """The text with another line before, between and after its own."""
    return "".join(f"{line}\n{own}" for own in text.splitlines(True)) + f"{line}\n"


def marked(text: str) -> str:
    """Lines `<node> <key>=<value>` with the mark of provenance.sh and each node's count."""
    lines = text.splitlines()
    counts = Counter(line.split(" ")[0] for line in lines if line)
    lines += [f"{node} lines={count + 1}" for node, count in counts.items()]
    return "".join(f"{MARK}{line}\n" for line in lines)
