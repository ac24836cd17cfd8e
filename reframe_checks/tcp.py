"""TCP between two nodes: the layer under MPI on Ethernet."""

import reframe as rfm
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.instances import Instances
from nearmetal.checks.link import Link
from nearmetal.checks.parsing.qperf import parse_tcp, together
from nearmetal.checks.settings import MESSAGE_SIZES, MESSAGE_SIZES_MEANING, setting
from nearmetal.job.launch import Launch


@rfm.simple_test
class tcp(Instances, Link, NearmetalCheck):
    """Latency and bandwidth of plain TCP sockets over the sizes of `pingpong`: what the MPI library
    adds is the rest.

    Method: qperf's `tcp_lat` (half round trip) and `tcp_bw` (one way, at the receiver), one second
    each for a size. The messaging paper used Hpcbench (section 5.2, figure 4).

    Why: it separates the link and the kernel, which the hypervisor slows down, from the
    message-passing library above them.

    Reproduces: the sockets' line of the messaging paper's figure 4 (52 us and 5.5 Gb/s on EC2).
    Also the ESX networking post, four VMs of one host at once (3400 Mb/s), on a partition of
    guests: `-S tcp.instances=4` has four pairs of nodes. Rates are then summed, latencies are
    means, and the variables end with the number of pairs.

    Read: `startup_latency` of `pingpong` less that of `tcp` is what the library costs. A library
    far above it took another path, or waits instead of polling.
    """

    #: Message sizes in bytes, separated by commas, with 1024 and 65536. Default: the partition's
    #: `tcp_sizes` (extras), or powers of two up to 4 MiB. :type: str
    sizes = setting(
        str,
        ",".join(str(2**exponent) for exponent in range(23)),
        extra="tcp_sizes",
        pattern=MESSAGE_SIZES,
        meaning=MESSAGE_SIZES_MEANING,
    )
    #: Seconds for each size and direction. qperf takes only whole ones. :type: int
    seconds = setting(int, 1, least=1)

    valid_prog_environs = ["+serial"]
    num_nodes = 2
    num_tasks = 2
    num_tasks_per_node = 1
    repeats = 3  # a launch takes a minute
    tags = {"network"}

    def build(self):
        self.run_script("sh tcp.sh")

    def configure(self):
        self.multiply_the_job()

    def preparations(self):
        if self.instances > 1:
            return []
        return super().preparations()

    def launches(self):
        options = [self.seconds, *map(int, self.sizes.split(","))]
        if self.instances == 1:
            return [Launch(options=options)]
        # The tasks of each instance find each other by a file in its own directory. task.sh ignores
        # the options.
        meeting = self.of_one(*options, program="sh task.sh", output="tasks.out")
        return [meeting, self.of_one(*options)]

    def read_output(self, text):
        repeats = self.each_repeat(parse_tcp(text))
        self.expect_repeats([pairs for pairs in repeats if len(pairs) == self.instances])
        self.runs = list(map(together, repeats))

    def name_variables(self):
        super().name_variables()
        if self.instances == 1:
            return
        self.perf_variables = {}
        self.define(
            f"startup_latency_at_once_{self.instances}",
            "us",
            lambda run: run.latency_us[min(run.latency_us)],
        )
        self.define(
            f"peak_bandwidth_at_once_{self.instances}",
            "Gb/s",
            lambda run: max(run.bandwidth_gbps.values()),
        )

    def requested(self):
        seconds, *sizes = self._command
        return {"seconds": seconds, "sizes": ",".join(sizes)}

    def payload_bytes(self):
        """At least what the largest size's bandwidth moved."""
        # Each size was sent for so many seconds; the others' bytes come on top.
        gbps = sum(max(run.bandwidth_gbps.values()) for run in self.runs)
        return int(gbps * 1e9 / 8 * self.seconds)

    def check_transport(self):
        if self.transport.startswith(("shared memory", "loopback")):
            raise SanityError(f"the bytes went through {self.transport}: they never left the node")
