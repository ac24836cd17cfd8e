"""Inspects one node of each partition with a job of some seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nearmetal.checkout import SOURCES
from nearmetal.checks import provenance
from nearmetal.checks.provenance import ProvenanceError
from nearmetal.cluster import node
from nearmetal.cluster.ask import Asker
from nearmetal.errors import NearmetalError
from nearmetal.init.gather import Cluster, Inspected

#: The facts that every check records.
PROVENANCE = SOURCES / "provenance.sh"
#: Runs both scripts, whose paths follow.
BOTH = ("sh", "-c", 'sh "$1" && sh "$2"', "sh")
#: Minutes of a job in Slurm.
MINUTES = 5
#: Seconds for a job once it has its node: a node of a cloud boots first.
BOOT = 900


def scripts() -> list[str]:
    """Paths of the scripts. Raises NearmetalError outside of a checkout."""
    if not PROVENANCE.is_file():
        raise NearmetalError(
            f"there is no {PROVENANCE}. Fix: run this in a checkout of Nearmetal's repository, "
            "or give --no-jobs"
        )
    return [str(PROVENANCE), str(node.SCRIPT)]


def groups(cluster: Cluster, chosen: Sequence[str]) -> list[list[str]]:
    """Partitions that have the same nodes, so that one job inspects all of them.

    Left out are partitions without a node where jobs can run now.
    """
    by_nodes: dict[frozenset[str], list[str]] = {}
    for name in chosen:
        usable = frozenset(one.name for one in cluster.nodes_of(name) if one.usable)
        if usable:
            by_nodes.setdefault(usable, []).append(name)
    return list(by_nodes.values())


def command(partition: str, access: Sequence[str], seconds: int) -> list[str]:
    """The command that prints the facts of one node of a partition.

    :arg access: further options of srun, such as an account.
    :arg seconds: after which a job that has no node yet is given up.
    """
    return [
        *("srun", f"--partition={partition}", *access),
        *("--nodes=1", "--ntasks=1", f"--time={MINUTES}", "--mpi=none", f"--immediate={seconds}"),
        *("--job-name=nearmetal-init", *BOTH, *scripts()),
    ]


def inspect(
    cluster: Cluster,
    together: Sequence[list[str]],
    access: Sequence[str],
    seconds: int,
    asker: Asker,
    tell: Callable[[str], None],
) -> None:
    """Inspect one node of each group of partitions, and keep its facts in the cluster."""
    for names in together:
        tell(f"inspecting a node of {', '.join(names)} (srun, at most {seconds} s in the queue)")
        words = command(names[0], access, seconds)
        if not (answer := asker.ask(words, seconds + BOOT)):
            asker.unread[-1] = f"no node of {', '.join(names)} was inspected: {asker.unread[-1]}"
            continue
        found = facts_of(answer.output)
        if isinstance(found, str):
            asker.unread.append(f"no node of {', '.join(names)} was inspected: {found}")
            continue
        host, facts = found
        origin = f"srun -p {names[0]}, on {host}"
        cluster.inspected |= dict.fromkeys(names, Inspected(host, facts, origin))


def inspect_login_node(cluster: Cluster, asker: Asker) -> None:
    """Keep the facts of this login node, by which partitions are guessed."""
    if not PROVENANCE.is_file():
        return
    answer = asker.ask([*BOTH, *scripts()])
    if not answer:
        return
    found = facts_of(answer.output)
    if isinstance(found, str):
        asker.unread.append(f"this login node was not inspected: {found}")
    else:
        cluster.login = Inspected(found[0], found[1], "this login node")


def facts_of(text: str) -> tuple[str, dict[str, str]] | str:
    """The node's name and its facts, or why there are none."""
    # A prolog may print lines of its own.
    lines = [line for line in text.splitlines() if provenance.LINE.fullmatch(line)]
    try:
        nodes = provenance.parse("\n".join(lines))
    except ProvenanceError as error:
        return str(error)
    if len(nodes) != 1:
        return f"facts of {len(nodes)} nodes instead of one"
    return next(iter(nodes.items()))
