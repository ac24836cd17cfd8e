"""What each node of a partition can do by itself."""

import statistics

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.fleet import (
    MOST_SECONDS,
    Fleet,
    known_switches,
    spread_of_nodes,
    stored_nodes,
)
from nearmetal.checks.parsing import ParseError
from nearmetal.checks.parsing.nodes import parse_nodes
from nearmetal.checks.settings import setting
from nearmetal.model.node_metrics import LEAST_NOISE


@rfm.simple_test
class fleet_nodes(Fleet, NearmetalCheck):
    """Memory bandwidth, floating-point rate, noise, memory latency and messages within each node
    of a partition.

    Method: two processes on each node, and a thread on each CPU, in one job. Each metric has a
    fifth of a node's turn: STREAM's triad; products of matrices of 32 x 32, verified; fixed work
    quanta, as in `osnoise`; a chain of dependent loads in random order; half round trips of 1 B
    between the two processes.

    Why: a memory module at half its rate, a setting of the BIOS, a throttled processor or a
    neighbour makes one node slow, and all programs wait for it.

    Reproduces: no figure.

    Read: `nearmetal fleet` names the node that is slower than the others, and in what.
    """

    #: Seconds of a node's turn. Default: the partition's `fleet_node_seconds` (extras), or 10.
    #: :type: float
    seconds = setting(float, 10.0, extra="fleet_node_seconds", least=0.5, most=MOST_SECONDS)

    #: Nodes that are measured at the same time; 0: all. Fewer where nodes share something, such as
    #: virtual machines on one host. Default: the partition's `fleet_nodes_at_once` (extras), or 0.
    #: :type: int
    at_once = setting(int, 0, extra="fleet_nodes_at_once", least=0)

    #: MB of each of a CPU's three arrays. Together they must exceed its caches several times. The
    #: chain of loads has four times as much. Default: the partition's `fleet_megabytes` (extras),
    #: or 16. :type: int
    megabytes = setting(int, 16, extra="fleet_megabytes", least=1, most=65_536)

    valid_systems = ["+fleet"]
    valid_prog_environs = ["+mpi"]
    num_tasks_per_node = processes_on_each = 2
    repeats = 3  # fresh launches; a node's value is that of the quickest
    tags = {"cpu", "memory", "noise", "fleet"}
    time_limit = "30m"  # or more, by the seconds (allow_time_for)

    @builtin.run_before("compile")
    def choose_program(self):
        self.build_ours("nodes.c")

    @builtin.run_before("run")
    def set_command(self):
        turns = -(-self.num_nodes // self.at_once) if self.at_once else 1
        self.allow_time_for(turns * self.seconds)
        # The job has the nodes, and the program binds its threads itself.
        self.bind_to("none")
        self.executable_opts = [
            *("--seconds", f"{self.seconds:g}", "--repeats", "1"),
            *("--at-once", str(self.at_once), "--megabytes", str(self.megabytes)),
        ]

    def read_output(self, text):
        try:
            self.launches = parse_nodes(text)
        except ParseError as fault:
            raise self.with_last_words(fault) from None
        self.expect_repeats(self.launches)
        self.record_program(self.launches[0].facts, "nodes")
        found = stored_nodes(self.launches, self._counters[0], known_switches())
        self.node_values = self.with_refused(found)
        self.expect_all_started()
        if dead := found["dead"]:
            node, failed = next(iter(dead.items()))
            name, why = next(iter(failed.items()))
            raise SanityError(
                f"{len(dead)} nodes failed in every repeat, the first one is {node} ({name}: "
                f"{why}): `nearmetal fleet` names all of them"
            )

    @builtin.run_before("performance")
    def set_variables(self):
        self.perf_variables = {}
        for name, unit, worst in (
            ("memory", "GB/s", min),
            ("processor", "Gflop/s", min),
            ("noise", "% lost", max),
            ("memory_latency", "ns", max),
            ("shared_memory", "us", max),
        ):
            self.perf_variables |= {
                name: sn.make_performance_function(
                    self._over_nodes, unit, name, name, statistics.median
                ),
                f"worst_node_{name}": sn.make_performance_function(
                    self._over_nodes, unit, f"worst_node_{name}", name, worst
                ),
                f"{name}_spread": sn.make_performance_function(
                    self._over_nodes, "% spread", f"{name}_spread", name, spread_of_nodes
                ),
            }

    def _over_nodes(self, variable, metric, of_launch):
        values = [list(launch.of_nodes(metric).values()) for launch in self.launches]
        return self.over_launches(
            variable, [of_launch([max(one, LEAST_NOISE) for one in found]) for found in values]
        )
