"""Half round trip and bandwidth of a message between two MPI ranks."""

import statistics

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck, rounded
from nearmetal.checks.parsing.pingpong import parse_imb
from nearmetal.checks.programs import IMB, is_theirs
from nearmetal.checks.settings import JavaSettings, setting

#: Longest message in bytes.
LARGEST = 1 << 22


@rfm.simple_test
class pingpong(JavaSettings, NearmetalCheck):
    """Start-up latency and bandwidth, 1 B to 4 MiB, between nodes and through shared memory within
    one.

    Method: PingPong of the Intel MPI Benchmarks as in the messaging paper (section 5.1, figures 4
    and 5). A value is half of the round trip, with 1000 iterations for short messages and fewer for
    long ones.

    Why: an emulated NIC costs a copy and some switches between host and guest for every frame.
    Short messages feel that as latency. A NIC that the guest owns costs little but its interrupts.

    Reproduces: the messaging paper's figures 4 (between nodes: EC2, CAG with the NIC passed
    through, CAG native) and 5 (shared memory). Also the InfiniBand post's latencies.

    In Java: byte arrays, as in that paper, by the same method. Between nodes the same JVMs also
    send over a plain socket. `socket_latency` is its latency for 1 B. `latency_over_sockets` is the
    library's latency over that.

    Read: `startup_latency` is that of 1 B, `peak_bandwidth` the best over all sizes, in 10^9 bit/s.
    Compare partitions by the ratio to native. Within a node no NIC takes part: memory and binding
    make the difference.
    """

    #: Place of the two ranks: on two nodes, or on one. :values: `internode`, `intranode`
    placement = builtin.parameter(["internode", "intranode"], loggable=True)
    #: Origin of the program: ours, or the suite named above. :values: `nearmetal`, `imb`
    suite = builtin.variable(str, value="nearmetal", loggable=True)
    #: Most seconds for a message size (IMB's -time). Default: the partition's `pingpong_max_time`
    #: (extras), or 0.5. :type: float
    max_time = setting(float, 0.5, extra="pingpong_max_time", above=0)
    #: Seconds without an answer after which a rank counts as hanging. :type: int
    stall_timeout = setting(int, 60, least=1)

    valid_prog_environs = ["+mpi", "+mpj"]
    java_program = "PingPong"
    num_tasks = 2
    tags = {"network", "mpi"}

    # Last, after ReFrame's own hook that sets the variables of -P.
    @builtin.run_after("init", always_last=True)
    def place_ranks(self):
        self.num_nodes = 2 if self.placement == "internode" else 1
        self.num_tasks_per_node = self.num_tasks // self.num_nodes
        if self.placement == "intranode":
            self.set_default("java_device", "threads")

    @builtin.run_before("compile")
    def choose_program(self):
        if is_theirs(self, "imb"):
            self.run_theirs(*IMB)
        else:
            self.build_ours("pingpong.c")

    @builtin.run_before("run")
    def set_command(self):
        if self.placement == "intranode" and self.by_srun():
            # Two ranks that share a core would measure the kernel's scheduler. Between nodes each
            # has a node to itself.
            self.job.launcher.options += ["--cpu-bind=cores"]
        seconds = f"{self.max_time:g}"
        if self.suite == "imb":
            self.executable_opts = [
                "PingPong",
                "-msglog",
                f"0:{LARGEST.bit_length() - 1}",
                "-time",
                seconds,
            ]
        else:
            self.executable_opts = [
                "--max-time",
                seconds,
                "--stall-timeout",
                str(self.stall_timeout),
                "--max-bytes",
                str(LARGEST),
            ]

    def requested(self):
        return {
            name: value for name, value in super().requested().items() if name != "stall_timeout"
        }

    def read_output(self, text):
        self.launches = parse_imb(text)
        self.expect_repeats(self.launches)
        self.record_program(self.launches[0].facts, "IMB")
        if any(
            "niodev" in launch.facts.get("mpi_library", "") and not launch.sockets
            for launch in self.launches
        ):
            raise SanityError(
                "a launch has no figures of plain sockets, which the same JVMs are to measure"
            )

    def payload_bytes(self):
        return sum(
            2 * size * row.repetitions
            for launch in self.launches
            for size, row in launch.rows.items()
        )

    def check_transport(self):
        shared = self.transport.startswith("shared memory")
        if self.placement == "intranode" and not shared:
            raise SanityError(
                f"the messages within a node went through {self.transport}, not shared memory: "
                "is the MPI library's shared-memory transport disabled?"
            )
        if self.placement == "internode" and (self.transport in ("shared memory", "loopback")):
            raise SanityError(
                f"the messages between nodes went through {self.transport}, so they never left a "
                "node"
            )

    @builtin.run_before("performance")
    def keep_curve(self):
        if not self.is_dry_run():
            self.curves = {
                "half_round_trip_us": {
                    size: [rounded(launch.latency_us(size)) for launch in self.launches]
                    for size in self.launches[0].rows
                    if size
                }
            }

    @builtin.run_before("performance")
    def tell_the_library_from_java(self):
        if not self.is_dry_run() and all(launch.sockets for launch in self.launches):
            for name, unit in (("socket_latency", "us"), ("latency_over_sockets", "x sockets")):
                self.perf_variables[name] = sn.make_performance_function(self._plain, unit, name)

    def _plain(self, name):
        plain = [statistics.fmean(launch.sockets[1]) for launch in self.launches]
        if name == "socket_latency":
            return self.over_launches(name, plain, [launch.sockets[1] for launch in self.launches])
        return self.over_launches(
            name, [launch.startup_latency_us / us for launch, us in zip(self.launches, plain)]
        )

    @builtin.performance_function("us")
    def startup_latency(self):
        return self.over_launches(
            "startup_latency",
            [p.startup_latency_us for p in self.launches],
            [p.batches.get(1, []) for p in self.launches],
        )

    @builtin.performance_function("us")
    def latency_1KiB(self):
        return self.over_launches(
            "latency_1KiB",
            [p.latency_us(1024) for p in self.launches],
            [p.batches.get(1024, []) for p in self.launches],
        )

    @builtin.performance_function("Gb/s")
    def bandwidth_64KiB(self):
        return self.over_launches(
            "bandwidth_64KiB",
            [p.bandwidth_gbps(65536) for p in self.launches],
            [p.batch_gbps(65536) for p in self.launches],
        )

    @builtin.performance_function("Gb/s")
    def peak_bandwidth(self):
        return self.over_launches(
            "peak_bandwidth",
            [p.peak_bandwidth_gbps for p in self.launches],
            [p.batch_gbps(p.peak_size) for p in self.launches],
        )
