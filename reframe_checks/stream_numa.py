"""Memory bandwidth by NUMA node."""

import reframe as rfm
from reframe.core.exceptions import SanityError

from nearmetal.checks.parsing.stream import parse_numa
from nearmetal.job.launch import Launch

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

    def launches(self):
        return [Launch("sh numa.sh", [self.executable, self.ntimes])]

    def requested(self):
        return {"ntimes": self.ntimes}

    def read_output(self, text):
        self.runs = parse_numa(text)
        self.expect_repeats(self.runs)
        nodes = self.runs[0].nodes
        if self.facts["numa_nodes"].isdecimal() and nodes != int(self.facts["numa_nodes"]):
            raise SanityError(
                f"numactl found {nodes} NUMA nodes where the kernel has "
                f"{self.facts['numa_nodes']}: does the scheduler or container hide the others?"
            )

    def name_variables(self):
        kinds = ["local", "alone"]
        # Only the node says how many NUMA nodes it has.
        if not self.is_dry_run() and self.runs[0].nodes > 1:
            kinds.append("remote")
        self.perf_variables = {}
        for kind in kinds:
            self._define("copy", kind)
            self._define("triad", kind)
        if "remote" in kinds:
            self.define("remote_share", "% of ideal", self._remote_share)

    def _define(self, function, kind):
        self.define(f"{function}_{kind}", "MB/s", lambda run: run.rate(kind, function))

    def _remote_share(self, run):
        return 100 * run.rate("remote", "triad") / run.rate("alone", "triad")
