"""Options by which launchers bind processes to cores."""

from __future__ import annotations

import copy

SRUN = {
    "none": ["--cpu-bind=none"],
    "core": ["--cpu-bind=cores"],
    "numa": ["--cpu-bind=ldoms"],
}
#: Open MPI's, PRRTE's and MPICH's launchers all know it, and so does that of Intel MPI.
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
