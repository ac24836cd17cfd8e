"""Several instances of a program at once, and processes that are held to one socket."""

import reframe.core.builtins as builtin

from nearmetal.checks import first_nodes
from nearmetal.checks.settings import setting
from nearmetal.checks.versions import Plugin


class Instances(Plugin):
    """A check whose program can run on one socket, and as several instances at once.

    It comes before Scaling and the base among the base classes. The check calls
    `multiply_the_job()` once the shape of one instance is known, and reads the launches of all
    instances by `each_repeat()`.
    """

    #: Instances at once, each on nodes of its own. On a partition of guests of one host they share
    #: that host. Rates of all are summed. :type: int
    instances = setting(int, 1, least=1, most=64)
    #: Socket whose processors and memory alone the program uses, on each node: the kernel's
    #: physical_package_id. Default: all sockets. :type: int
    socket = setting(int, -1, least=0, most=255)

    #: Shell commands after each launch of an instance.
    after_launch: tuple[str, ...] = ()

    def multiply_the_job(self) -> None:
        """Give the job the nodes and the processes of all instances."""
        self._nodes_each = self.num_nodes
        self._processes_each = self.num_tasks
        if self.instances == 1:
            return
        if self.job.launcher.registered_name != "srun":
            self.skip(
                f"{self.display_name}: srun alone places instances on nodes of their own, and "
                f"{self.current_partition.fullname} has {self.job.launcher.registered_name}"
            )
        self.num_nodes *= self.instances
        self.num_tasks *= self.instances

    def launch(self, launcher, executable, options=()):
        if self.socket >= 0:
            executable = f"sh held.sh {self.socket} {self.num_tasks_per_node} {executable}"
        if self.instances == 1:
            return [*super().launch(launcher, executable, options), *self.after_launch]
        each = self._nodes_each
        own = [
            f"--nodes={each}",
            f"--ntasks={self._processes_each}",
            f"--ntasks-per-node={self.num_tasks_per_node}",
            f"--nodelist=${first_nodes.variable(each, '')}",
        ]
        lines = super().launch(launcher, executable, [*options, *own])
        body = [f"    {line}" for line in (*lines, *self.after_launch)]
        function = ["instance() {", *body, "}"]
        return [". ./instances.sh", *function, f"instances {self.instances} {each}"]

    def each_repeat(self, runs: list) -> list[list]:
        """The launches of all instances of each repeat. One that lacks some is a list of fewer."""
        count = self.instances
        return [runs[begin : begin + count] for begin in range(0, len(runs), count)]

    def factors(self):
        held = {"binding": f"socket {self.socket}"} if self.socket >= 0 else {}
        return {**super().factors(), **held}

    # Last: the check has then chosen where its processes run.
    @builtin.run_before("run", always_last=True)
    def leave_binding_to_numactl(self):
        if self.socket >= 0:
            self.bind_to("none")
