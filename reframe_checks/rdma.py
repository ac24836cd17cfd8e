"""RDMA between two nodes: the layer under MPI on InfiniBand and RoCE."""

import reframe as rfm
import reframe.core.builtins as builtin

from nearmetal.checks import provenance
from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.link import Link
from nearmetal.checks.parsing.perftest import parse_rdma
from nearmetal.checks.settings import MESSAGE_SIZES, MESSAGE_SIZES_MEANING, setting


@rfm.simple_test
class rdma(Link, NearmetalCheck):
    """Latency and bandwidth of RDMA Read, Write and Send over message size: what MPI on InfiniBand or RoCE builds on.

    Method: perftest's ib_read_lat, ib_write_lat, ib_send_lat (the median, t_typical) and ib_read_bw, ib_write_bw, ib_send_bw
    (the average, one way), reliable connection, one size a run, as OFED brings them and the InfiniBand post ran them.

    Why: the operating system takes no part in an RDMA transfer, so that passing the adapter through ought to cost nothing. What
    it does cost is the platform's: doorbells without write combining add to the latency of every short message.

    Reproduces: the InfiniBand post's OFED micro benchmarks: Read, Write and Send, native, VMDirectPath I/O and SR-IOV ("20%+
    latency overheads", less bandwidth at middle sizes, a blip at 128 B, a drop at very large messages).

    Read: `startup_latency` is that of the smallest message, half the round trip of Write and Send, and of Read the whole one,
    whose answer the adapter gives alone. `peak_bandwidth` is the best over all sizes in 10^9 bit/s. Compare partitions by the
    ratio to native; `pingpong` less `send` is what the MPI library costs.
    """

    #: `read` and `write` pass by the other side's processor, `send` wants its receive posted. :values: `read`, `write`, `send`
    operation = builtin.parameter(["read", "write", "send"], loggable=True)
    #: Message sizes in bytes, separated by commas, 1024 and 65536 among them; default: the partition's
    #: `rdma_sizes` (extras), or powers of two up to 8 MiB. :type: str
    sizes = setting(
        str,
        ",".join(str(2**exponent) for exponent in range(24)),
        extra="rdma_sizes",
        pattern=MESSAGE_SIZES,
        meaning=MESSAGE_SIZES_MEANING,
    )
    #: Messages a size; default: the partition's `rdma_iterations` (extras), or 1000. :type: int
    iterations = setting(int, 1000, extra="rdma_iterations", least=5)  # perftest's least
    #: As `mlx5_0` or `mlx5_0/1`; default: the partition's `rdma_device` (extras), or each node's first active port. :type: str
    device = setting(
        str,
        "",
        extra="rdma_device",
        pattern=r"^[\w.-]+(/\d+)?$",
        meaning="a device of /sys/class/infiniband, or DEVICE/PORT",
    )
    #: Index of RoCE's address; default: the partition's `rdma_gid_index` (extras), or what perftest takes (-1). :type: int
    gid_index = setting(int, -1, extra="rdma_gid_index", least=0)

    valid_systems = ["+rdma"]
    valid_prog_environs = ["+serial"]
    num_nodes = 2
    num_tasks = 2
    num_tasks_per_node = 1
    time_limit = "30m"
    tags = {"network"}
    build_system = "CustomBuild"

    @builtin.run_before("compile")
    def nothing_to_build(self):
        self.build_system.commands = ["true"]

    @builtin.run_after("init")
    def name_latency(self):
        if self.operation == "read":
            self.latency_curve = "round_trip_us"

    @builtin.run_before("run")
    def set_command(self):
        launch = self.job.launcher.run_command(self.job)
        self.prerun_cmds += [f"{launch} sh rdma.sh port {self.device}".rstrip() + " > rdma.ports"]
        self.executable = "sh rdma.sh"
        self.executable_opts = [
            self.operation,
            str(self.iterations),
            str(self.gid_index if self.gid_index >= 0 else "-"),
            *self.sizes.split(","),
        ]

    def read_output(self, text):
        self.launches = parse_rdma(text)
        self.expect_repeats(self.launches)

    def requested(self):
        operation, iterations, gid_index, *sizes = self._command
        asked = {"operation": operation, "iterations": iterations, "sizes": ",".join(sizes)}
        return asked if gid_index == "-" else {**asked, "gid_index": gid_index}

    def payload_bytes(self):
        return sum(launch.payload_bytes for launch in self.launches)

    def check_transport(self):
        first = self.launches[0]
        try:
            self.transport = provenance.rdma_transport(
                *self._counters,
                self.payload_bytes(),
                {host: port for host, port, _ in first.ports},
                first.mtu,
            )
        except provenance.ProvenanceError as error:
            raise self._failure(str(error)) from None
