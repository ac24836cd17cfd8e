"""TCP between two nodes: the layer under MPI on Ethernet."""

import reframe as rfm
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.link import Link
from nearmetal.checks.parsing.qperf import parse_tcp
from nearmetal.checks.settings import MESSAGE_SIZES, MESSAGE_SIZES_MEANING, setting
from nearmetal.job.launch import Launch


@rfm.simple_test
class tcp(Link, NearmetalCheck):
    """Latency and bandwidth of plain TCP sockets over the sizes of `pingpong`: what the MPI library
    adds is the rest.

    Method: qperf's `tcp_lat` (half round trip) and `tcp_bw` (one way, at the receiver), one second
    each for a size. The messaging paper used Hpcbench (section 5.2, figure 4).

    Why: it separates the link and the kernel, which the hypervisor slows down, from the
    message-passing library above them.

    Reproduces: the sockets' line of the messaging paper's figure 4 (52 us and 5.5 Gb/s on EC2).

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

    def launches(self):
        return [Launch(options=[self.seconds, *map(int, self.sizes.split(","))])]

    def read_output(self, text):
        self.runs = parse_tcp(text)
        self.expect_repeats(self.runs)

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
