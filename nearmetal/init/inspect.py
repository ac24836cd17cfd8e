"""Inspects one node of each partition with a job of some seconds."""

from __future__ import annotations

import getpass
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from nearmetal.checkout import SOURCES
from nearmetal.checks import provenance
from nearmetal.checks.provenance import ProvenanceError
from nearmetal.cluster import node, reasons, slurm
from nearmetal.cluster.ask import Asker, last_line
from nearmetal.cluster.cluster import Cluster, Inspected
from nearmetal.cluster.slurm import Partition
from nearmetal.errors import NearmetalError

#: The facts that every check records.
PROVENANCE = SOURCES / "provenance.sh"
#: Prints both scripts' lines behind MARK, and then their number.
SCRIPT = Path(__file__).resolve().parent / "inspect.sh"
MARK = "@nearmetal-init "
END = re.compile(r"lines=(\d+)")
#: A name that no other job of the user has, by which Slurm is asked why it waits.
JOB = f"nearmetal-init-{os.getpid()}"
#: Minutes of a job in Slurm, where the partition allows as many.
MINUTES = 5
#: Seconds for a job once it has its node: a node of a cloud boots first.
BOOT = 900


def scripts() -> list[str]:
    """The command that prints a node's facts. Raises NearmetalError outside of a checkout."""
    if not PROVENANCE.is_file():
        raise NearmetalError(
            f"there is no {PROVENANCE}. Fix: run this in a checkout of Nearmetal's repository, "
            "or give --no-jobs"
        )
    return ["sh", str(SCRIPT), str(PROVENANCE), str(node.SCRIPT)]


def groups(cluster: Cluster, chosen: Sequence[str]) -> list[list[str]]:
    """Partitions that have the same nodes, so that one job inspects all of them.

    Left out are partitions without a node where jobs can run now.
    """
    by_nodes: dict[frozenset[str], list[str]] = {}
    for name in chosen:
        # Partitions often share nodes. One job tells the facts of all of them.
        usable = frozenset(node.name for node in cluster.nodes_of(name) if node.usable)
        if usable:
            by_nodes.setdefault(usable, []).append(name)
    return list(by_nodes.values())


def command(partition: Partition, access: Sequence[str], seconds: int) -> list[str]:
    """The command that prints the facts of one node of a partition.

    :arg access: further options of srun, such as an account.
    :arg seconds: after which a job that has no node yet is given up.
    """
    # Slurm refuses a job of fewer nodes than the partition allows.
    number = partition.limits.get("MinNodes", 1)
    return [
        *(
            "srun",
            f"--partition={partition.name}",
            *access,
            f"--nodes={number}",
            f"--ntasks={number}",
        ),
        *(f"--time={minutes(partition)}", "--mpi=none", f"--immediate={seconds}"),
        *(f"--job-name={JOB}", *scripts()),
    ]


def minutes(partition: Partition) -> int:
    """Minutes of a job: Slurm never starts one that asks for more than the partition allows."""
    if not partition.time_limit:
        return MINUTES
    return min(MINUTES, max(1, slurm.seconds(partition.time_limit) // 60))


@dataclass
class Waiting:
    """Asks Slurm why the job waits, while it waits."""

    asker: Asker
    tell: Callable[[str], None]
    why: str = ""  #: why the job waits, in words

    def __call__(self) -> str:
        """Why the job never starts; '' while it may."""
        words = ["squeue", "--noheader", f"--name={JOB}", "--states=PENDING", "--format=%r"]
        answer = self.asker.run([*words, f"--user={getpass.getuser()}"])
        if answer.failure:
            return ""
        text = answer.output.strip()
        if text in slurm.NOTHING:
            return ""
        reason = reasons.reason_of(text)
        why = f"Slurm's reason is {text}"
        if reason:
            why = f"{why}: {reason.means}. Fix: {reason.fix}"
        if reason and not reason.passes:
            return f"the job does not start. {why}"
        if not self.why:
            self.tell(f"the job waits. {why}")
        self.why = why
        return ""


def inspect(
    cluster: Cluster,
    together: Sequence[list[str]],
    access: Mapping[str, Sequence[str]],
    seconds: int,
    tell: Callable[[str], None],
) -> None:
    """Inspect one node of each group of partitions, and keep its facts in the cluster.

    :arg access: further options of srun by partition.
    """
    partitions = {partition.name: partition for partition in cluster.partitions}
    for names in together:
        first = names[0]
        tell(f"inspecting a node of {', '.join(names)} (srun, at most {seconds} s in the queue)")
        # The first partition stands for all that have these nodes.
        words = command(partitions[first], access[first], seconds)
        answer = _facts(words, seconds + BOOT, cluster.asker, tell)
        if isinstance(answer, str):
            cluster.asker.unread.append(f"no node of {', '.join(names)} was inspected: {answer}")
            continue
        host, facts = answer
        origin = f"srun -p {first}, on {host}"
        cluster.inspected |= dict.fromkeys(names, Inspected(host, facts, origin))


def _facts(
    words: list[str], seconds: float, asker: Asker, tell: Callable[[str], None]
) -> tuple[str, dict[str, str]] | str:
    """The node's name and its facts by a job, or why there are none."""
    waiting = Waiting(asker, tell)
    answer = asker.run(words, seconds, waiting)
    why = answer.failure
    if not why:
        return facts_of(answer.output)
    refused = reasons.reason_of(answer.errors)
    # Of a job that was ended, the reason is known.
    if waiting.why and not answer.why:
        why += f". The job waited: {waiting.why}"
    elif refused:
        why += f": {refused.means}. Fix: {refused.fix}"
    return f"`{shlex.join(words)}`: {why}"


def inspect_login_node(cluster: Cluster) -> None:
    """Keep the facts of this login node, by which partitions are guessed."""
    if not PROVENANCE.is_file():
        return
    answer = cluster.asker.ask(scripts())
    if answer.failure:
        return
    facts = facts_of(answer.output)
    if isinstance(facts, str):
        cluster.asker.unread.append(f"this login node was not inspected: {facts}")
    else:
        cluster.login = Inspected(*facts, "this login node")


def facts_of(text: str) -> tuple[str, dict[str, str]] | str:
    """The node's name and its facts, or why there are none."""
    lines = marked(text)
    if isinstance(lines, str):
        return lines
    try:
        # The form of the facts is that of every job script.
        nodes = provenance.parse("\n".join(lines))
    except ProvenanceError as error:
        return str(error)
    if len(nodes) != 1:
        return f"facts of {len(nodes)} nodes instead of one"
    return next(iter(nodes.items()))


def marked(text: str) -> list[str] | str:
    """The lines behind MARK, or why they are not all there. Text of others is left out."""
    lines = [line.partition(MARK)[2] for line in text.splitlines() if MARK in line]
    end = END.fullmatch((lines or [""])[-1])
    if not end:
        quoted = "nothing"
        if text.strip():
            quoted = repr(last_line(text))
        return f"the job's output does not end with our line; it ends with {quoted}"
    facts = lines[:-1]
    if int(end[1]) != len(facts):
        return f"the job printed {end[1]} lines of facts, and {len(facts)} arrived"
    return facts
