"""RDMA between two nodes: the layer under MPI on InfiniBand and RoCE."""

import reframe as rfm
import reframe.core.builtins as builtin

from nearmetal.checks import provenance
from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.link import Link
from nearmetal.checks.parsing.perftest import parse_rdma
from nearmetal.checks.settings import MESSAGE_SIZES, MESSAGE_SIZES_MEANING, setting
from nearmetal.job.launch import Launch


@rfm.simple_test
class rdma(Link, NearmetalCheck):
    """Latency and bandwidth of RDMA Read, Write and Send over message size: what MPI on InfiniBand
    or RoCE builds on.

    Method: perftest over a reliable connection, one size a run, as OFED ships it and the InfiniBand
    post ran it. Latency is the median (t_typical) of `ib_read_lat`, `ib_write_lat` and
    `ib_send_lat`. Bandwidth is the one-way average of `ib_read_bw`, `ib_write_bw` and `ib_send_bw`.

    Why: the operating system takes no part in an RDMA transfer, so passing the adapter through
    ought to cost nothing. Any cost is the platform's: doorbells without write combining add to the
    latency of every short message.

    Reproduces: the InfiniBand post's OFED micro benchmarks: Read, Write and Send, native,
    VMDirectPath I/O and SR-IOV. The post has "20%+ latency overheads", less bandwidth at middle
    sizes, a blip at 128 B and a drop at very large messages.

    Read: `startup_latency` is that of the smallest message. For Write and Send it is half the round
    trip. For Read it is the whole round trip, because the adapter answers alone. `peak_bandwidth`
    is the best over all sizes in 10^9 bit/s. Compare partitions by the ratio to native. `pingpong`
    less `send` is what the MPI library costs.
    """

    #: The operation. `read` and `write` bypass the other side's processor, `send` needs a posted
    #: receive. :values: `read`, `write`, `send`
    operation = builtin.parameter(["read", "write", "send"], loggable=True)
    #: Message sizes in bytes, separated by commas, with 1024 and 65536. Default: the partition's
    #: `rdma_sizes` (extras), or powers of two up to 8 MiB. :type: str
    sizes = setting(
        str,
        ",".join(str(2**exponent) for exponent in range(24)),
        extra="rdma_sizes",
        pattern=MESSAGE_SIZES,
        meaning=MESSAGE_SIZES_MEANING,
    )
    #: Messages of each size. Default: the partition's `rdma_iterations` (extras), or 1000. :type:
    #: int
    iterations = setting(int, 1000, extra="rdma_iterations", least=5)  # perftest's least
    #: Device or port, such as `mlx5_0` or `mlx5_0/1`. Default: the partition's `rdma_device`
    #: (extras), or each node's first active port. :type: str
    device = setting(
        str,
        "",
        extra="rdma_device",
        pattern=r"^[\w.-]+(/\d+)?$",
        meaning="a device of /sys/class/infiniband, or DEVICE/PORT",
    )
    #: Index of RoCE's address (GID). Default: the partition's `rdma_gid_index` (extras), or
    #: perftest's choice (-1). :type: int
    gid_index = setting(int, -1, extra="rdma_gid_index", least=0)

    valid_systems = ["+rdma"]
    valid_prog_environs = ["+serial"]
    num_nodes = 2
    num_tasks = 2
    num_tasks_per_node = 1
    time_limit = "30m"
    tags = {"network"}

    @builtin.run_after("init")
    def name_latency(self):
        if self.operation == "read":
            self.latency_curve = "round_trip_us"

    def build(self):
        self.run_script("sh rdma.sh")

    def preparations(self):
        ports = f"sh rdma.sh port {self.device}".rstrip()
        return [*super().preparations(), Launch(ports, output="rdma.ports")]

    def launches(self):
        gid_index = "-"
        if self.gid_index >= 0:
            gid_index = self.gid_index
        sizes = self.sizes.split(",")
        return [Launch(options=[self.operation, self.iterations, gid_index, *sizes])]

    def read_output(self, text):
        self.runs = parse_rdma(text)
        self.expect_repeats(self.runs)

    def requested(self):
        operation, iterations, gid_index, *sizes = self._command
        asked = {"operation": operation, "iterations": iterations, "sizes": ",".join(sizes)}
        return asked if gid_index == "-" else {**asked, "gid_index": gid_index}

    def payload_bytes(self):
        return sum(launch.payload_bytes for launch in self.runs)

    def check_transport(self):
        first = self.runs[0]
        try:
            self.transport = provenance.rdma_transport(
                *self._counters,
                self.payload_bytes(),
                {host: port for host, port, _ in first.ports},
                first.mtu,
            )
        except provenance.ProvenanceError as error:
            raise self._failure(str(error)) from None
