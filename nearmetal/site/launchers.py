"""The launchers that ReFrame lacks, and how all of them bind processes to cores."""

from __future__ import annotations

import copy

from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher
from reframe.core.launchers.mpi import SrunLauncher


@register_launcher("prun")
class PrunLauncher(JobLauncher):
    """`prun` of PRRTE, the runtime of Open MPI 5, with the variables that Open MPI's mpirun sets.

    With these it takes no option that names the daemons: it finds those of the user on this node.
    Our checks start the daemons in each job. A check of others needs `prte --daemonize` before its
    first launch.

    The script `prun` of OpenHPC is another program. It takes no options: name the launcher that it
    calls (mpirun, mpiexec or srun) as `launcher` instead.
    """

    #: Shell commands of a job that start the daemons. They end with the job's script.
    start = [
        "prte --daemonize --report-pid dvm.pid",
        "trap 'kill \"$(cat dvm.pid)\"' EXIT",
    ]

    def command(self, job):
        return ["prun", "--personality", "ompi", "-n", str(job.num_tasks)]


#: The launcher of JVMs, as ReFrame knows it.
SRUN_MPJ = "srun-mpj"


def step_options(
    tasks: int, tasks_per_node: int | None, threads: bool, cpus: int | None = None
) -> list[str]:
    """srun's options for so many ranks: a JVM each, of so many cores, or all of them threads of one
    with a core for each."""
    nodes, per_node = 1, 1
    if threads:
        tasks, cpus = 1, tasks
    else:
        per_node = min(tasks, tasks_per_node or 1)
        nodes = -(-tasks // per_node)
    options = ["--mpi=none", "--kill-on-bad-exit=1"]
    options += [f"--nodes={nodes}", f"--ntasks={tasks}", f"--ntasks-per-node={per_node}"]
    if cpus:
        options.append(f"--cpus-per-task={cpus}")
    return options


@register_launcher(SRUN_MPJ)
class SrunMpjLauncher(SrunLauncher):
    """srun for message-passing libraries in Java, which know no PMI and no daemons here.

    It starts src/java/launch/jvm.sh: one JVM a task, or one for all ranks of a node. A partition
    goes on naming `srun`. Checks take this launcher where their environment has the feature `mpj`
    (nearmetal/checks/runtime/jvm.py): ReFrame has one launcher a partition, not an environment.
    """

    def __init__(self):
        super().__init__()
        self.threads = False

    def command(self, job):
        shape = job.num_tasks, job.num_tasks_per_node, self.threads, job.num_cpus_per_task
        words = ["srun", *step_options(*shape)]
        variables = getattr(self, "env_vars", {})  # ReFrame has them since 4.9
        if exported := ",".join(f"{key}={value}" for key, value in variables.items()):
            words.append(f"--export={exported}")
        return words


SRUN = {
    "none": ["--cpu-bind=none"],
    "core": ["--cpu-bind=cores"],
    "numa": ["--cpu-bind=ldoms"],
}
#: Open MPI's, PRRTE's and MPICH's launchers all know it. Intel MPI's takes it and ignores it.
MPI = {binding: ["--bind-to", binding] for binding in ("none", "core", "numa")}
INTEL = {
    "none": ["-genv", "I_MPI_PIN", "off"],
    "core": ["-genv", "I_MPI_PIN_DOMAIN", "core"],
    "numa": ["-genv", "I_MPI_PIN_DOMAIN", "numa"],
}
#: Launcher -> binding -> its options. Of other launchers we know none.
OPTIONS = {
    "srun": SRUN,
    "srun-mpj": SRUN,
    "mpirun": MPI,
    "mpiexec": MPI,
    "mpirun-openmpi": MPI,
    "prun": MPI,
    "mpirun-intelmpi": INTEL,
}


def binding_options(launcher: str, binding: str) -> list[str]:
    """The options with which a launcher binds each process. [] for a launcher without any.

    :arg binding: `none`, `core` or `numa`.
    """
    return list(OPTIONS.get(launcher, {}).get(binding, []))


def with_binding(launcher, binding: str):
    """ReFrame's launcher, with its options that bind each process.

    :arg binding: `none`, `core` or `numa`; '': the launcher's own choice.
    """
    bound = copy.copy(launcher)
    bound.options = [*launcher.options, *binding_options(launcher.registered_name, binding)]
    return bound


def advice(launcher: str, binding: str) -> str:
    """What to do where a launcher has not bound processes, as the end of a sentence."""
    options = " ".join(binding_options(launcher, binding))
    if launcher == "srun":
        return f"launch with `srun {options}`, which needs `TaskPlugin=task/affinity` in slurm.conf"
    if not options:
        return f"launch with the option of {launcher} that binds each process to its {binding}"
    order = "--map-by core " if options.startswith("--bind-to") and binding == "core" else ""
    return f"launch with `{launcher.partition('-')[0]} {order}{options}`"
