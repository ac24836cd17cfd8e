"""Whether a user's jobs may use a partition, and by which options. Pure functions."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from nearmetal.cluster.cluster import Cluster
from nearmetal.cluster.slurm import Partition


@dataclass(frozen=True)
class Identity:
    """The accounts or the QOS of a user, and those that a partition takes."""

    what: str
    option: str
    mine: Sequence[str]
    allowed: Sequence[str]
    denied: Sequence[str]

    @property
    def admitted(self) -> list[str]:
        """The user's names that the partition admits."""
        # Slurm ignores what is denied beside a list of what is allowed.
        if self.allowed:
            return [name for name in self.mine if name in self.allowed]
        return [name for name in self.mine if name not in self.denied]


def given(access: Sequence[str]) -> dict[str, str]:
    """The account, QOS and reservation that the options of --access name."""
    # srun has many more options, which are passed on as they are.
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-A", "--account")
    parser.add_argument("-q", "--qos")
    parser.add_argument("--reservation")
    try:
        options, _ = parser.parse_known_args(words_of(access))
    except argparse.ArgumentError:  # an option without its value, which Slurm will refuse
        return {}
    return {name: value for name, value in vars(options).items() if value}


def words_of(access: Sequence[str]) -> list[str]:
    """The words of several options."""
    return shlex.split(" ".join(access))


def identities(cluster: Cluster, partition: Partition, access: Sequence[str]) -> list[Identity]:
    """The user's accounts and QOS, or those that the options name."""
    names, accounts, qos = given(access), cluster.accounts, cluster.qos
    if "account" in names:
        accounts = [names["account"]]
    if "qos" in names:
        qos = [names["qos"]]
    return [
        Identity("accounts", "--account", accounts, partition.accounts, partition.denied_accounts),
        Identity("QOS", "--qos", qos, partition.qos, partition.denied_qos),
    ]


def refusal(cluster: Cluster, partition: Partition, access: Sequence[str]) -> str:
    """Why a partition takes no job of this user; '' if it takes them, as far as Slurm tells."""
    name = partition.name
    if partition.hidden:
        return f"it is hidden. Fix: --partition={name}"
    if partition.root_only:
        return f"only root may use it (RootOnly=YES). If you may: --partition={name}"
    if partition.needs_reservation and "reservation" not in given(access):
        return "its jobs need a reservation (ReqResv=YES). Fix: --access=--reservation=NAME"
    # Slurm may list hosts with their domain or without it.
    host = cluster.host.split(".")[0]
    hosts = partition.submit_hosts
    if hosts and not {host, cluster.host}.intersection(hosts):
        return (
            f"it takes no job from {host}, only from {', '.join(hosts)} (AllocNodes). "
            "Fix: run this there"
        )
    for identity in identities(cluster, partition, access):
        if identity.admitted or not identity.mine:
            continue
        who = f"{', '.join(identity.denied)} may not"
        if identity.allowed:
            who = f"{', '.join(identity.allowed)} may"
        return (
            f"none of your {identity.what} may use it ({who}). Fix: "
            f"--access={identity.option}=NAME. If one of yours is below an account that may: "
            f"--partition={name}"
        )
    return ""


def options(cluster: Cluster, partition: Partition, access: Sequence[str]) -> tuple[list[str], str]:
    """Further options that let the user in, and why they are a guess; ([], '') without any.

    Where the partition takes some of the user's accounts, Slurm refuses the job of another one.
    """
    further, guesses = [], []
    for identity in identities(cluster, partition, access):
        admitted = identity.admitted
        # The first QOS is the default one; which account is, is not known.
        takes_default = identity.what == "QOS" and admitted[:1] == identity.mine[:1]
        if admitted and admitted != identity.mine and not takes_default:
            further.append(f"{identity.option}={admitted[0]}")
            guesses.append(f"of your {identity.what} the partition takes {', '.join(admitted)}")
    return further, "; ".join(guesses)


def access_of(cluster: Cluster, partition: Partition, access: Sequence[str]) -> list[str]:
    """The words for srun that let the user's job in, beside the partition's name."""
    return words_of([*access, *options(cluster, partition, access)[0]])
