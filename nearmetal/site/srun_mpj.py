"""The launcher `srun-mpj`: srun for programs of message-passing libraries in Java, which know no
PMI and no daemons here.

A system's partition goes on naming `srun`; checks with programs in Java take this one where their
environment has the feature `mpj` (nearmetal/checks/runtime/jvm.py), since ReFrame has one launcher
a partition and not one an environment.
"""

from __future__ import annotations

from reframe.core.backends import register_launcher
from reframe.core.launchers.mpi import SrunLauncher

#: The name by which ReFrame knows the launcher.
NAME = "srun-mpj"


def step_options(
    tasks: int, tasks_per_node: int | None, threads: bool, cpus: int | None = None
) -> list[str]:
    """srun's options for so many ranks: a JVM each, of so many cores, or all of them threads of one
    with a core for each."""
    options = ["--mpi=none", "--kill-on-bad-exit=1"]
    if threads:
        return [
            *options,
            "--nodes=1",
            "--ntasks=1",
            "--ntasks-per-node=1",
            f"--cpus-per-task={tasks}",
        ]
    per_node = min(tasks, tasks_per_node or 1)
    options += [
        f"--nodes={-(-tasks // per_node)}",
        f"--ntasks={tasks}",
        f"--ntasks-per-node={per_node}",
    ]
    return options + [f"--cpus-per-task={cpus}"] * bool(cpus)


@register_launcher(NAME)
class SrunMpjLauncher(SrunLauncher):
    """One JVM a task, or one for all ranks of a node; what it starts is src/java/launch/jvm.sh."""

    def __init__(self):
        super().__init__()
        self.threads = False

    def command(self, job):
        words = ["srun"]
        words += step_options(
            job.num_tasks, job.num_tasks_per_node, self.threads, job.num_cpus_per_task
        )
        # ReFrame has them since 4.9.
        if variables := getattr(self, "env_vars", {}):
            exported = ",".join(f"{key}={value}" for key, value in variables.items())
            words.append(f"--export={exported}")
        return words
