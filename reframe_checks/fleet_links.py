"""The links between all nodes of a partition."""

from statistics import fmean, median

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError
from reframe.core.logging import getlogger

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.fleet import MOST_SECONDS, Fleet, known_switches
from nearmetal.checks.fleet_values import of_nodes, spread, stored_links
from nearmetal.checks.output import Variable
from nearmetal.checks.parsing.links import parse_links
from nearmetal.checks.settings import setting
from nearmetal.model.round_robin import LEAST_SLOT, rounds_in, rounds_of


@rfm.simple_test
class fleet_links(Fleet, NearmetalCheck):
    """Start-up latency and bandwidth each way of the links between all nodes of a partition.

    Method: one process on each node. Rounds of disjoint pairs by the circle method, so that N - 1
    rounds measure all pairs. A pair has a slot of time: half round trips of 1 B, then 256 KiB each
    way, verified. `alone` measures one pair after the other, `together` all pairs of a round at
    once.

    Why: one bad cable, switch or node among hundreds slows down every program that meets it.
    `alone` tells whether a link is bad, `together` whether the fabric holds all of them.

    Reproduces: no figure.

    Read: `nearmetal fleet` names the node, switch or link that is slower than the others. A
    `bisection` of `together` far below that of `alone` shows that links share a path.
    """

    #: Pairs that are measured at a time. :values: `alone`, `together`
    traffic = builtin.parameter(["alone", "together"], loggable=True)
    #: Seconds of a repeat. They bound the number of rounds. Default: the partition's
    #: `fleet_seconds` (extras), or 60. :type: float
    seconds = setting(float, 60.0, extra="fleet_seconds", least=0.1, most=MOST_SECONDS)

    #: Most pairs of a node. A fleet of more nodes is measured by a selection of pairs, in which
    #: each node has as many. Default: the partition's `fleet_partners` (extras), or 128. :type: int
    partners = setting(int, 128, extra="fleet_partners", least=2)

    valid_systems = ["+fleet"]
    valid_prog_environs = ["+mpi"]
    parse, stored_as = staticmethod(parse_links), "links"
    num_tasks_per_node = 1
    repeats = 3  # a launch takes a minute
    tags = {"network", "fleet"}
    time_limit = "30m"  # or more, by the seconds (allow_time_for)

    def build(self):
        self.build_ours("links.c")

    def options(self):
        pairs = (self.num_nodes + 1) // 2
        slots = 1
        if self.traffic == "alone":
            slots = pairs
        most = rounds_in(self.seconds, self.num_nodes, slots)
        if not most:
            raise SanityError(
                f"{self.seconds:g} s are too short for one round of {pairs} pairs: raise "
                f"fleet_links.seconds to {LEAST_SLOT * slots:g} or more"
            )
        rounds, covers = rounds_of(self.partners, self._node_switches, most)
        if not covers:
            getlogger().warning(
                f"{self.display_name} does not measure all pairs of switches in "
                f"{self.seconds:g} s: raise fleet_links.seconds"
            )
        return [
            *("--seconds", f"{self.seconds:g}", "--repeats", "1"),
            *("--rounds", str(rounds)),
            *("--alone", str(int(self.traffic == "alone"))),
        ]

    def stored(self, facts):
        return stored_links(self.runs, facts, known_switches())

    def expect_all_measured(self, values):
        if dead := values["dead"]:
            pair, reasons = next(iter(dead.items()))
            raise SanityError(
                f"{len(dead)} links failed in every repeat, the first one of {pair} "
                f"({reasons[-1]}): `nearmetal fleet` names who is to blame"
            )

    def payload_bytes(self):
        pairs = sum(len(launch.links) for launch in self.runs)
        # A lower bound: each pair sends the long message at least four times each way.
        return int(pairs * 2 * 4 * self.runs[0].did["bytes"])

    latency = Variable("us", lambda launch: median(launch.of_links("latency_us")))
    worst_latency = Variable("us", lambda launch: max(launch.of_links("latency_us")))
    bandwidth = Variable("Gb/s", lambda launch: median(launch.of_links("mean_gbps")))
    worst_node_latency = Variable(
        "us", lambda launch: max(of_nodes(launch, "latency_us", "latency_us"))
    )
    latency_spread = Variable("% spread", lambda launch: spread(launch.of_links("latency_us")))
    worst_node_bandwidth = Variable(
        "Gb/s", lambda launch: min(of_nodes(launch, "gbps", "gbps_back"))
    )
    bandwidth_spread = Variable("% spread", lambda launch: spread(launch.of_links("mean_gbps")))
    worst_bandwidth = Variable("Gb/s", lambda launch: min(launch.of_links("worse_gbps")))
    # Of a round's pairs together, one way, as if none were missing.
    bisection = Variable(
        "Gb/s", lambda launch: len(launch.nodes) // 2 * fmean(launch.of_links("gbps"))
    )
