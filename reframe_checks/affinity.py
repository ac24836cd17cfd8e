"""Binding of processes to cores, as the launcher does it."""

import reframe as rfm
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.parsing.binding import Place, bound_percent, faults, parse_bindings
from nearmetal.checks.scaling import cores_of
from nearmetal.checks.settings import NODES, setting
from nearmetal.site.launchers import advice


@rfm.simple_test
class affinity(NearmetalCheck):
    """Whether the launcher binds each process to cores of its own, on each of two nodes.

    Method: the partition's launcher starts `binding.sh` with its own option of binding. Each
    process asks hwloc on which cores it may run. A core that two processes of a node have in
    common fails the case, which names processes, cores and the launcher's option.

    Why: two processes on one core take turns. Every figure of an MPI program then measures the
    kernel's scheduler. Launchers differ in what they do without an option: in the lab Open MPI
    binds each of two processes on a node to a core, and MPICH and srun bind none.

    Reproduces: no figure. It comes before all of them.

    Read: `bound` is the percentage of processes that are bound as requested: 100, or the case
    fails. `-S affinity.binding=default` gives the launcher no option, and so shows what users get
    that give none.
    """

    #: Requested binding. `default`: the launcher's own choice, which must give each process cores
    #: of its own. :values: `core`, `numa`, `default`
    binding = setting(str, "core", choices=("core", "numa", "default"))
    #: Processes on each node. Default: the partition's `affinity_ranks_per_node` or
    #: `ranks_per_node` (extras), or its `cores_per_node`. :type: int
    ranks_per_node = setting(int, 0, extra="ranks_per_node", least=1)

    own_extras = {"ranks_per_node": "affinity_ranks_per_node"}
    # Processes of an image are bound as others are: the launcher starts them outside of it.
    valid_prog_environs = ["+mpi -image"]
    repeats = 1  # the binding is no measurement
    tags = {"cpu", "mpi"}

    def configure(self):
        if not self.ranks_per_node:
            self.ranks_per_node = cores_of(self.current_partition, "affinity_ranks_per_node")
        self.num_nodes = min(2, NODES.of(self.current_partition, default=2))
        self.num_tasks_per_node = self.ranks_per_node
        self.num_tasks = self.num_nodes * self.ranks_per_node

        if self.binding != "default":
            self.bound_to = self.binding

    def build(self):
        self.run_script("sh binding.sh")

    def read_output(self, text):
        self.runs = parse_bindings(text, self.num_tasks)
        self.expect_repeats(self.runs)
        for places in self.runs:
            self._expect_nodes(places)
            self._expect_binding(places)

    def requested(self):
        return {}  # a process reports what it has, and no options

    def _expect_nodes(self, places: list[Place]) -> None:
        hosts = [place.host for place in places]
        for host in sorted(set(hosts)):
            count = hosts.count(host)
            if count != self.ranks_per_node:
                raise SanityError(
                    f"{count} processes are on {host} instead of {self.ranks_per_node}: the "
                    f"launcher {self._launcher} does not follow the job's processes a node"
                )

    def _expect_binding(self, places: list[Place]) -> None:
        if fault := faults(places, self._wanted):
            raise SanityError(f"{fault}: {advice(self._launcher, self._wanted)}")

    @property
    def _launcher(self) -> str:
        return self.current_partition.launcher_type.registered_name

    @property
    def _wanted(self) -> str:
        return "numa" if self.binding == "numa" else "core"

    def name_variables(self):
        self.define("bound", "% of ideal", lambda places: bound_percent(places, self._wanted))
