"""Run steps on fewer nodes than their job has always on the job's first nodes.

srun rotates through the nodes of a job, even with `--relative=0` (Slurm 24.11). Two launches of one
job would then measure different nodes. The names are known only within the job, so its script
stores them in shell variables.
"""

import re


def component(options) -> str:
    """The number after `--het-group=` among srun's options. '' if there is none."""
    for option in options:
        if match := re.fullmatch(r"--het-group=(\d+)", option):
            return match[1]
    return ""


def variable(count: int, group: str) -> str:
    """Name of the shell variable that holds the names of the first `count` nodes."""
    return f"nodes_{count}_of_{group}" if group else f"nodes_{count}"


def nodelist(count: int, of: int, options=()) -> list[str]:
    """srun's option for a step on `count` of the job's `of` nodes; `options` are its other ones."""
    return [f"--nodelist=${variable(count, component(options))}"] if count < of else []


def definitions(counts, of: int, probe_options: str = "") -> list[str]:
    """Shell lines that set the variables for steps on `counts` nodes.

    :arg probe_options: srun's options for all nodes of the job, such as `--het-group=0,1`.
    """
    groups = re.search(r"--het-group=([\d,]+)", probe_options)
    return [
        f"{variable(count, group)}=$(sh first_nodes.sh {count} {group}".rstrip() + ")"
        for group in (groups[1].split(",") if groups else [""])
        for count in sorted({count for count in counts if count < of})
    ]
