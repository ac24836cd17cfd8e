"""Memory bandwidth by NUMA node."""

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError

from nearmetal.checks.parsing.stream import parse_numa

from .stream import stream_program


@rfm.simple_test
class stream_numa(stream_program):
    """Memory bandwidth of one STREAM instance on each NUMA node, all at once, and of local against
    remote memory.

    Method: STREAM (McCalpin). numactl binds each instance to a node's CPUs and to one node's
    memory. An instance has as many threads as the node has CPUs.

    Why: a hypervisor may hide the NUMA nodes, or move a guest from one to the other. Local memory
    then becomes remote. Two guests, one on each node, reach what one large guest cannot.

    Reproduces: the ESX 4.1 STREAM post, table 2 (2 VMs, one on each NUMA node), with numactl in
    place of guests. Also numactl in a guest, slide 8 of the HPC Cloud slides.

    Read: `triad_local` is the sum over all nodes, `triad_alone` one node while the others rest.
    `remote_share` is the bandwidth to another node's memory in percent of `triad_alone`. Machines
    with one NUMA node have the first two.
    """

    executable = "./stream"

    @builtin.run_before("run")
    def set_command(self):
        self.executable, self.executable_opts = "sh numa.sh", [self.executable, str(self.ntimes)]

    def requested(self):
        return {"ntimes": self.ntimes}

    def read_output(self, text):
        self.launches = parse_numa(text)
        self.expect_repeats(self.launches)
        nodes = self.launches[0].nodes
        if self.facts["numa_nodes"].isdecimal() and nodes != int(self.facts["numa_nodes"]):
            raise SanityError(
                f"numactl found {nodes} NUMA nodes where the kernel has "
                f"{self.facts['numa_nodes']}: does the scheduler or container hide the others?"
            )

    @builtin.run_before("performance")
    def name_variables(self):
        kinds = (
            ["local", "alone"]
            if self.is_dry_run() or self.launches[0].nodes == 1
            else ["local", "alone", "remote"]
        )
        self.perf_variables = {
            f"{function}_{kind}": sn.make_performance_function(self._rate, "MB/s", function, kind)
            for kind in kinds
            for function in ("copy", "triad")
        }
        if "remote" in kinds:
            self.perf_variables["remote_share"] = sn.make_performance_function(
                self._share, "% of ideal"
            )

    def _rate(self, function, kind):
        return self.over_launches(
            f"{function}_{kind}", [run.rate(kind, function) for run in self.launches]
        )

    def _share(self):
        return self.over_launches(
            "remote_share",
            [
                100 * run.rate("remote", "triad") / run.rate("alone", "triad")
                for run in self.launches
            ],
        )
