"""Some nodes of a partition, alone and beside traffic of the others."""

import functools
import statistics

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError
from reframe.core.logging import getlogger

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.fleet import MOST_SECONDS, Fleet
from nearmetal.checks.fleet_values import stored_congestion, value_alone
from nearmetal.checks.output import Variable
from nearmetal.checks.parsing.congestion import EXCHANGE_BYTES, LEAST_OF_99, parse_congestion
from nearmetal.checks.settings import setting
from nearmetal.model.congestion import KINDS, METRICS, ratios

#: Seconds of a slot, and most rounds of a repeat: more seconds make slots longer.
SLOT, MOST_ROUNDS = 1.0, 50

#: Ratios by their words (`congestion.ratios`): the one of a launch and a metric.
RATIOS = {
    "median": lambda launch, name: statistics.median(launch.ratios(name).values()),
    "mean": lambda launch, name: statistics.median(launch.ratios(name, mean=True).values()),
    "worst node": lambda launch, name: max(launch.ratios(name).values()),
    "99 %": lambda launch, name: statistics.median(launch.ratios_99(name).values()),
    "worst": lambda launch, name: launch.ratio_worst(name),
}


def _named(nodes) -> str:
    """Names of nodes, with what is wrong with each."""
    return ", ".join(f"{node} ({reason})" for node, reason in nodes)


@rfm.simple_test
class fleet_congestion(Fleet, NearmetalCheck):
    """Latency, bandwidth and Allreduce of some nodes of a partition, alone and beside traffic of
    the others.

    Method: that of `network_load_test` in GPCNeT 1.3 (Chunduri et al., SC19, article 42), by a
    program of our own. One process on each node. A shuffle with a fixed seed makes a fifth of the
    nodes victims, and all others generators of traffic. Victims exchange 8 B, and 8 messages of
    128 KiB, with both neighbours in a random ring, and reduce 8 B. Slots of time without and with
    traffic alternate. Payload is verified. `incast`: all generators send to one of them;
    `all_to_all`: each to all; `random`: each to four others, anew in each slot. Unlike GPCNeT: one
    kind of traffic a case, messages of 64 KiB from one process a node, and `MPI_Iallreduce`, which
    a node that hangs does not block.

    Why: a program has the network for itself in most benchmarks, and shares it in production.
    Where switches do not keep traffic apart, it waits for messages that are none of its own.

    Reproduces: no figure.

    Read: a ratio is the time beside traffic over the time alone. 1: traffic does no harm. 3: it
    takes three times as long. The variables without `ratio` are without traffic.
    """

    #: Kind of traffic. :values: `incast`, `all_to_all`, `random`
    traffic = builtin.parameter(["incast", "all_to_all", "random"], loggable=True)
    #: Seconds of a repeat. Its rounds have six slots of a second; below 6 seconds they are
    #: shorter. Default: the partition's `fleet_congestion_seconds` (extras), or 30. :type: float
    seconds = setting(float, 30.0, extra="fleet_congestion_seconds", least=1, most=MOST_SECONDS)

    #: Percent of the nodes that are victims; two nodes or more, and three generators are left where
    #: there are five nodes or more. The default is that of GPCNeT. :type: int
    victims = setting(int, 20, least=1, most=80)

    #: Seed of the shuffles. Another one chooses other victims. :type: int
    seed = setting(int, 1, least=0)

    valid_systems = ["+fleet"]
    valid_prog_environs = ["+mpi"]
    least_nodes, needs_them_for = 4, "has two victims and two generators of traffic"
    parse, stored_as = staticmethod(parse_congestion), "congestion"
    num_tasks_per_node = 1
    repeats = 3  # a launch takes half a minute
    tags = {"network", "fleet"}
    time_limit = "30m"  # or more, by the seconds (allow_time_for)

    def build(self):
        self.build_ours("congestion.c")

    def options(self):
        rounds = int(self.seconds / (2 * len(METRICS) * SLOT))
        victims = max(2, round(self.num_nodes * self.victims / 100))
        generators = 2
        if self.num_nodes > 4:
            generators = 3
        most = self.num_nodes - generators
        return [
            *("--seconds", f"{self.seconds:g}"),
            *("--rounds", str(min(max(1, rounds), MOST_ROUNDS))),
            *("--traffic", str(KINDS.index(self.traffic))),
            *("--victims", str(min(victims, most))),
            *("--seed", str(self.seed)),
        ]

    def stored(self, facts):
        self.record_program(self.runs[0].facts, "congestion")
        return stored_congestion(self.runs, self.traffic, facts)

    def expect_all_measured(self, values):
        if dead := values["dead"]:
            raise SanityError(f"failed: {_named(dead.items())}")
        if undone := values["undone"]:
            some = list(undone.items())[:5]
            raise SanityError(
                f"not all slots were done: {_named(some)}. A node was slow or hung for a while: "
                "raise fleet_congestion.seconds, or run fleet_links"
            )

    def payload_bytes(self):
        samples = 0
        for launch in self.runs:
            for (metric, _, _), tail in launch.tails.items():
                if metric == "bandwidth":
                    samples += tail.samples
        return samples * EXCHANGE_BYTES

    traffic_rate = Variable("Gb/s", lambda launch: launch.received_gbps())

    def name_variables(self):
        for name, unit in (("latency", "us"), ("bandwidth", "Gb/s"), ("allreduce", "us")):
            self.define(name, unit, lambda launch, name=name: self._alone(launch, name))
            for variable, statistic in ratios(name).items():
                if variable != f"{name}_ratio_99" or self._has_99(name):
                    ratio = functools.partial(RATIOS[statistic], name=name)
                    self.define(variable, "x time alone", ratio)

    def _alone(self, launch, metric):
        return value_alone(metric, statistics.median(launch.alone_us(metric).values()))

    def _has_99(self, name):
        """Whether there are enough samples for a quantile of 99 %. A warning says if not."""
        if self.is_dry_run() or all(launch.ratios_99(name) for launch in self.runs):
            return True
        fewest = min(launch.fewest_samples(name) for launch in self.runs)
        getlogger().warning(
            f"{self.display_name} has no {name}_ratio_99: a node has {fewest} samples, and 99 % "
            f"needs {LEAST_OF_99}. Raise fleet_congestion.seconds"
        )
        return False
