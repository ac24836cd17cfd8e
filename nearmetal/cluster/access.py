"""What the options of srun and sbatch in `access` name."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence


def words_of(access: Sequence[str]) -> list[str]:
    """The words of several options."""
    return shlex.split(" ".join(access))


def named(access: Sequence[str]) -> dict[str, str]:
    """The partition, account, QOS and reservation that options name.

    Of an option that is given twice, the last one counts.
    """
    # srun has many more options, which are passed on as they are.
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("-p", "--partition")
    parser.add_argument("-A", "--account")
    parser.add_argument("-q", "--qos")
    parser.add_argument("--reservation")
    try:
        options, _ = parser.parse_known_args(words_of(access))
    except (argparse.ArgumentError, ValueError):
        return {}  # an option without its value, or an open quote, which Slurm will refuse
    return {name: value for name, value in vars(options).items() if value}
