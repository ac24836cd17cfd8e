"""Whether a user's jobs may use a partition, and by which options. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from nearmetal.cluster.access import named, words_of
from nearmetal.cluster.cluster import Cluster
from nearmetal.cluster.slurm import Partition

#: Kind of identity -> how a sentence calls several.
KINDS = {"account": "accounts", "qos": "QOS"}


def _mine(cluster: Cluster, kind: str, access: Sequence[str]) -> list[str]:
    """The user's accounts or QOS, or the one that the options name."""
    options = named(access)
    if kind in options:
        return [options[kind]]
    return cluster.identities[kind]


def refusal(cluster: Cluster, partition: Partition, access: Sequence[str]) -> str:
    """Why a partition takes no job of this user; '' if it takes them, as far as Slurm tells."""
    name = partition.name
    if partition.hidden:
        return f"it is hidden. Fix: --partition={name}"
    if partition.root_only:
        return f"only root may use it (RootOnly=YES). If you may: --partition={name}"
    if partition.needs_reservation and "reservation" not in named(access):
        return "its jobs need a reservation (ReqResv=YES). Fix: --access=--reservation=NAME"
    # Slurm may list hosts with their domain or without it.
    host = cluster.host.split(".")[0]
    hosts = partition.submit_hosts
    if hosts and not {host, cluster.host}.intersection(hosts):
        return (
            f"it takes no job from {host}, only from {', '.join(hosts)} (AllocNodes). "
            "Fix: run this there"
        )
    for kind, what in KINDS.items():
        mine = _mine(cluster, kind, access)
        if not mine or partition.admitted(kind, mine):
            continue
        allowed, denied = partition.lists[kind]
        who = f"{', '.join(denied)} may not"
        if allowed:
            who = f"{', '.join(allowed)} may"
        return (
            f"none of your {what} may use it ({who}). Fix: --access=--{kind}=NAME. If one of yours "
            f"is below an account that may: --partition={name}"
        )
    return ""


def options(cluster: Cluster, partition: Partition, access: Sequence[str]) -> tuple[list[str], str]:
    """Further options that let the user in, and why they are a guess; ([], '') without any.

    Where the partition takes some of the user's accounts, Slurm refuses the job of another one.
    """
    further, guesses = [], []
    for kind, what in KINDS.items():
        mine = _mine(cluster, kind, access)
        admitted = partition.admitted(kind, mine)
        # The first QOS is the default one; which account is, is not known.
        takes_default = kind == "qos" and admitted[:1] == mine[:1]
        if admitted and admitted != mine and not takes_default:
            further.append(f"--{kind}={admitted[0]}")
            guesses.append(f"of your {what} the partition takes {', '.join(admitted)}")
    return further, "; ".join(guesses)


def access_of(cluster: Cluster, partition: Partition, access: Sequence[str]) -> list[str]:
    """The words for srun that let the user's job in, beside the partition's name."""
    return words_of([*access, *options(cluster, partition, access)[0]])
