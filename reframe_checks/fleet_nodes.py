"""What each node of a partition can do by itself."""

import functools
import statistics

import reframe as rfm
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.fleet import MOST_SECONDS, Fleet, known_switches
from nearmetal.checks.fleet_values import spread_of_nodes, stored_nodes
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
    parse, stored_as = staticmethod(parse_nodes), "node_values"
    num_tasks_per_node = processes_on_each = 2
    bound_to = "none"  # the job has the nodes, and the program binds its threads itself
    repeats = 3  # fresh launches; a node's value is that of the quickest
    tags = {"cpu", "memory", "noise", "fleet"}
    time_limit = "30m"  # or more, by the seconds (allow_time_for)

    def build(self):
        self.build_ours("nodes.c")

    def seconds_of_a_repeat(self):
        if not self.at_once:
            return self.seconds
        turns = -(-self.num_nodes // self.at_once)
        return turns * self.seconds

    def options(self):
        return [
            *("--seconds", f"{self.seconds:g}", "--repeats", "1"),
            *("--at-once", str(self.at_once), "--megabytes", str(self.megabytes)),
        ]

    def stored(self, facts):
        self.record_program(self.runs[0].facts, "nodes")
        return stored_nodes(self.runs, facts, known_switches())

    def expect_all_measured(self, values):
        if dead := values["dead"]:
            node, failed = next(iter(dead.items()))
            name, why = next(iter(failed.items()))
            raise SanityError(
                f"{len(dead)} nodes failed in every repeat, the first one is {node} ({name}: "
                f"{why}): `nearmetal fleet` names all of them"
            )

    def name_variables(self):
        self.perf_variables = {}
        for name, unit, worst in (
            ("memory", "GB/s", min),
            ("processor", "Gflop/s", min),
            ("noise", "% lost", max),
            ("memory_latency", "ns", max),
            ("shared_memory", "us", max),
        ):
            for variable, unit_of, of_nodes in (
                (name, unit, statistics.median),
                (f"worst_node_{name}", unit, worst),
                (f"{name}_spread", "% spread", spread_of_nodes),
            ):
                self.define(variable, unit_of, functools.partial(_over_nodes, name, of_nodes))


def _over_nodes(metric: str, of_nodes, launch) -> float:
    """What a function says of a metric of all nodes in a launch."""
    return of_nodes([max(value, LEAST_NOISE) for value in launch.of_nodes(metric).values()])
