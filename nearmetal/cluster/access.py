"""What options of srun and sbatch name, such as those in `access`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable

#: Options of srun and sbatch that are read here -> their letters.
OPTIONS = {
    "partition": "-p",
    "account": "-A",
    "qos": "-q",
    "nodelist": "-w",
    "exclude": "-x",
    "constraint": "-C",
}


def words_of(access: Iterable[str]) -> list[str]:
    """The words of several options."""
    return shlex.split(" ".join(access))


def named(access: Iterable[str]) -> dict[str, str]:
    """What options name, by their long names: OPTIONS and the reservation.

    Of an option that is given twice, the last one counts.
    """
    # srun has many more options, which are passed on as they are.
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--reservation")
    for name, letter in OPTIONS.items():
        parser.add_argument(letter, f"--{name}")
    try:
        options, _ = parser.parse_known_args(words_of(access))
    except (argparse.ArgumentError, ValueError):
        return {}  # an option without its value, or an open quote, which Slurm will refuse
    return {name: value.strip() for name, value in vars(options).items() if value}
