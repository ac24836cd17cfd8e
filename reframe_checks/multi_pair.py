"""Aggregate bandwidth and message rate of pairs of MPI ranks on two nodes."""

import reframe as rfm
from reframe.core.exceptions import SanityError

from nearmetal.checks import provenance
from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.parsing.multi_pair import BOTH, ONE_WAY, doubling, parse_multi_pair
from nearmetal.checks.scaling import cores_of
from nearmetal.checks.settings import setting
from nearmetal.job.launch import Launch

#: First part of the names of rates by directions.
RATES = {ONE_WAY: "bandwidth", BOTH: "bidirectional"}


@rfm.simple_test
class multi_pair(NearmetalCheck):
    """Aggregate bandwidth and message rate between two nodes: of 1, 2, 4, ... pairs of ranks up to
    all cores, in one direction and in both.

    Method: `osu_mbw_mr` and `osu_bibw` of the OSU Micro-Benchmarks, by a program of our own. Each
    rank sends a window of messages to its partner on the other node, and waits for an answer. The
    ranks of one launch measure 1, 2, 4, ... and all pairs. Ranks without a turn sleep. The payload
    of all sizes is verified. Unlike OSU: sizes from 8 B to 2 MiB in powers of eight, at most 8 MiB
    under way in a pair, and the time of the slowest rank.

    Why: one pair cannot use a node with several NICs, nor the message rate of one. Applications
    send from all cores at once. A virtual NIC may also have fewer queues than the node has cores.

    Reproduces: no figure. HPC Challenge asks the same with its rings.

    Before and after each repeat, the job reads the counters of all NICs. `nic_bytes` compares what
    they sent with what the ranks sent. `busiest_nic` is the share of a node's busiest NIC. Both are
    missing where the kernel counts nothing.

    Read: `bandwidth_8` is the rate of 8 pairs in one direction, the best over all sizes, in 10^9
    bit/s. `bidirectional_8` adds both directions. `message_rate_8` is of messages of 8 B, in 10^6
    a second. Where `bandwidth_1` is the link's rate, more pairs cannot add to it.
    """

    #: Pairs of ranks at most, each with a rank on either node. Default: the partition's
    #: `ranks_per_node` (extras), or its `cores_per_node`. :type: int
    pairs = setting(int, 0, extra="ranks_per_node", least=1)
    #: Seconds for each size, direction and number of pairs. :type: float
    max_time = setting(float, 0.1, above=0)
    #: Longest message in bytes. :type: int
    max_bytes = setting(int, 2 << 20, least=65536, most=8 << 20)
    #: Binding of each process. Default: the partition's `bind_to` (extras), or `core`. :values:
    #: `none`, `core`, `numa`
    binding = setting(str, "core", extra="bind_to", choices=("none", "core", "numa"))

    valid_prog_environs = ["+mpi"]
    num_nodes = 2
    time_limit = "30m"
    tags = {"network", "mpi"}

    def configure(self):
        if not self.pairs:
            self.pairs = cores_of(self.current_partition, "ranks_per_node")
        self.num_tasks_per_node = self.pairs
        self.num_tasks = 2 * self.pairs

    def binding_of_launcher(self):
        return self.binding

    def build(self):
        self.build_ours("multi_pair.c")

    def launches(self):
        return [Launch(options=["--max-time", f"{self.max_time:g}", "--max-bytes", self.max_bytes])]

    def requested(self):
        return {**super().requested(), "pairs": self.pairs}

    def read_output(self, text):
        self.runs = parse_multi_pair(text)
        self.expect_repeats(self.runs)
        self.record_program(self.runs[0].facts, "multi_pair")
        for run in self.runs:
            if len(set(run.hosts)) != self.num_nodes:
                raise SanityError(
                    f"the pairs are on {', '.join(sorted(set(run.hosts)))}, not on two nodes: "
                    "check how the launcher places ranks"
                )
        self._read_nics()

    def payload_bytes(self):
        return sum(run.payload_bytes for run in self.runs)

    def _read_nics(self):
        """What the NICs of both nodes sent in each repeat.

        Lost counters fail no case: it says already that the evidence of their repeat is unknown.
        """
        kept = [repeat for repeat in self._repeats if not repeat.again]
        for run, repeat in zip(self.runs, kept):
            if repeat.unknown:
                continue
            first, last = self._counters_around(repeat)
            # Drivers, and what an interface sends through, are in the first snapshot alone.
            for host, facts in self._counters[0].items():
                first[host] = {**facts, **first.get(host, {})}
            carried = provenance.transport(first, last, run.payload_bytes)
            run.nic_percent = 100 * carried.network_bytes / run.payload_bytes
            run.busiest_percent = _busiest_percent(carried)

    def name_variables(self):
        self.perf_variables, self.curves = {}, {}
        for count in doubling(self.pairs):
            for ways, name in RATES.items():
                key = count, ways
                self.define(
                    f"{name}_{count}", "Gb/s", lambda run, key=key: max(run.gbps[key].values())
                )
            self.define(f"message_rate_{count}", "Mmsg/s", lambda run, n=count: run.mmsg_per_s(n))
        if self.is_dry_run():
            return
        for (count, ways), sizes in self.runs[0].gbps.items():
            curve = self.curve(lambda run, size: run.gbps[count, ways][size], sizes)  # noqa: B023
            self.curves[f"{RATES[ways]}_gbps_{count}"] = curve
        if all(run.nic_percent for run in self.runs):
            self.define("nic_bytes", "% of payload", lambda run: run.nic_percent)
            self.define("busiest_nic", "% on one NIC", lambda run: run.busiest_percent)


def _busiest_percent(carried) -> float:
    """Largest share of a node's bytes that one interface or port sent."""
    shares = []
    for sent in carried.by_host.values():
        of_nics = [count for name, count in sent.items() if name != "loopback"]
        if sum(of_nics):
            shares.append(100 * max(of_nics) / sum(of_nics))
    return max(shares, default=0)
