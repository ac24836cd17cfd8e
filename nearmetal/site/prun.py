"""The launcher `prun` of PRRTE, the runtime of Open MPI 5, which ReFrame does not know.

`prun` starts processes through daemons that `prte` has started on the job's nodes. Our checks start
them in each job. A check of others needs `prte --daemonize` before its first launch.

The script `prun` of OpenHPC is another program. It takes no options: name the launcher that it
calls (mpirun, mpiexec or srun) as `launcher` instead.
"""

from __future__ import annotations

from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher


@register_launcher("prun")
class PrunLauncher(JobLauncher):
    """`prun`, with the variables that Open MPI's own mpirun sets.

    With these it takes no option that names the daemons: it finds those of the user on this node.
    """

    #: Shell commands of a job that start the daemons. They end with the job's script.
    start = [
        "prte --daemonize --report-pid dvm.pid",
        "trap 'kill \"$(cat dvm.pid)\"' EXIT",
    ]

    def command(self, job):
        return ["prun", "--personality", "ompi", "-n", str(job.num_tasks)]
