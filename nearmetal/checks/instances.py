"""Several instances of a program at once, and processes that are held to one socket."""

from nearmetal.checks.parsing.output import chunks
from nearmetal.checks.settings import setting
from nearmetal.checks.versions import Plugin
from nearmetal.job.launch import Launch


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

    def of_one(self, *options, **fields) -> Launch:
        """A launch of one instance, with these options of the program.

        :arg fields: further ones of the launch.
        """
        # One instance has the shape of the job.
        if self.instances > 1:
            fields["nodes"] = self._nodes_each
            fields["processes"] = self._processes_each
            fields["processes_per_node"] = self.num_tasks_per_node
        return Launch(options=options, **fields)

    def each_repeat(self, runs: list) -> list[list]:
        """The launches of all instances of each repeat. One that lacks some is a list of fewer."""
        return chunks(runs, self.instances)

    def factors(self):
        factors = super().factors()
        if self.socket >= 0:
            factors["binding"] = f"socket {self.socket}"
        return factors
