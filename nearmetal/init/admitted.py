"""Whether a user's jobs may use a partition, and by which options. Pure functions."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping, Sequence

from nearmetal.cluster.cluster import Cluster
from nearmetal.cluster.slurm import Partition


def given(access: Sequence[str]) -> dict[str, str]:
    """The account, QOS and reservation that the options of --access name."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-A", "--account")
    parser.add_argument("-q", "--qos")
    parser.add_argument("--reservation")
    words = [word for option in access for word in shlex.split(option)]
    try:
        found, _ = parser.parse_known_args(words)
    except argparse.ArgumentError:  # an option without its value, which Slurm will refuse
        return {}
    return {name: value for name, value in vars(found).items() if value}


def refusal(cluster: Cluster, one: Partition, access: Sequence[str]) -> str:
    """Why a partition takes no job of this user; '' if it takes them, as far as Slurm tells."""
    asked = given(access)
    if one.hidden:
        return f"it is hidden. Fix: --partition={one.name}"
    if one.root_only:
        return f"only root may use it (RootOnly=YES). If you may: --partition={one.name}"
    if one.needs_reservation and "reservation" not in asked:
        return "its jobs need a reservation (ReqResv=YES). Fix: --access=--reservation=NAME"
    host = cluster.host.split(".")[0]
    if one.submit_hosts and not {host, cluster.host} & {*one.submit_hosts}:
        return (
            f"it takes no job from {host}, only from {', '.join(one.submit_hosts)} (AllocNodes). "
            "Fix: run this there"
        )
    for what, option, mine, allowed, denied in _lists(cluster, one, asked):
        if mine and not _admitted(mine, allowed, denied):
            who = f"{', '.join(allowed)} may" if allowed else f"{', '.join(denied)} may not"
            return (
                f"none of your {what} may use it ({who}). Fix: --access={option}=NAME. If one of "
                f"yours is below an account that may: --partition={one.name}"
            )
    return ""


def options(cluster: Cluster, one: Partition, access: Sequence[str]) -> tuple[list[str], str]:
    """Further options that let the user in, and why they are a guess; ([], '') without any.

    Where the partition takes some of the user's accounts, Slurm refuses the job of another one.
    """
    asked, found, guesses = given(access), [], []
    for what, option, mine, allowed, denied in _lists(cluster, one, asked):
        admitted = _admitted(mine, allowed, denied)
        # The first QOS is the default one; which account is, is not known.
        is_enough = admitted == mine or (what == "QOS" and admitted[:1] == mine[:1])
        if not admitted or is_enough:
            continue
        found.append(f"{option}={admitted[0]}")
        guesses.append(f"of your {what} the partition takes {', '.join(admitted)}")
    return found, "; ".join(guesses)


def access_of(cluster: Cluster, one: Partition, access: Sequence[str]) -> list[str]:
    """The words for srun that let the user's job in, beside the partition's name."""
    words = [*access, *options(cluster, one, access)[0]]
    return [word for option in words for word in shlex.split(option)]


def _lists(
    cluster: Cluster, one: Partition, asked: Mapping[str, str]
) -> list[tuple[str, str, list[str], tuple[str, ...], tuple[str, ...]]]:
    """Of accounts and QOS: what they are, their option, the user's, the allowed, the denied."""
    accounts = [asked["account"]] if "account" in asked else cluster.accounts
    qos = [asked["qos"]] if "qos" in asked else cluster.qos
    return [
        ("accounts", "--account", accounts, one.accounts, one.denied_accounts),
        ("QOS", "--qos", qos, one.qos, one.denied_qos),
    ]


def _admitted(mine: Sequence[str], allowed: Sequence[str], denied: Sequence[str]) -> list[str]:
    """The user's names that a partition admits. Slurm ignores what is denied beside a list of
    what is allowed."""
    if allowed:
        return [name for name in mine if name in allowed]
    return [name for name in mine if name not in denied]
