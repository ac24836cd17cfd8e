"""Half round trip and bandwidth of a message between two MPI ranks."""

import statistics

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.pages import LEAST, Pages
from nearmetal.checks.parsing.osu import parse_osu
from nearmetal.checks.parsing.pingpong import parse_imb
from nearmetal.checks.programs import SUITES, is_theirs
from nearmetal.checks.recorded import rounded
from nearmetal.checks.settings import MAX_TIME_LIMIT, JavaSettings, setting

#: Longest message in bytes by default, and for `peak_bandwidth`.
LARGEST = 1 << 22
#: Round trips of each size at least, where messages are longer than that.
FEWEST = 2
#: Bytes a second of the slowest link that longer messages have time for (0.2 Gb/s).
SLOWEST = 25e6
#: Longest messages of the launches of a repeat of `osu_latency`, which has one number of iterations
#: for all of its sizes; and the bytes that decide this number, as IMB's overall volume does.
OSU_RANGES, OSU_VOLUME = (8192, 1 << 18, LARGEST), 40 << 20
#: Memory that IMB may take on each process for long messages. Its default refuses 1 GiB.
IMB_GIGABYTES = "4"
#: Seconds of a job with messages up to LARGEST.
USUAL = 600


@rfm.simple_test
class pingpong(Pages, JavaSettings, NearmetalCheck):
    """Start-up latency and bandwidth, 1 B to 4 MiB, between nodes, through shared memory within
    one, and between guests of one host.

    Method: PingPong of the Intel MPI Benchmarks as in the messaging paper (section 5.1, figures 4
    and 5). A value is half of the round trip, with 1000 iterations for short messages and fewer for
    long ones.

    Why: an emulated NIC costs a copy and some switches between host and guest for every frame.
    Short messages feel that as latency. A NIC that the guest owns costs little but its interrupts.

    Reproduces: the messaging paper's figures 4 (between nodes: EC2, CAG with the NIC passed
    through, CAG native) and 5 (shared memory). Also the InfiniBand post's latencies, and slide
    10 of the HPC Cloud slides with `-S pingpong.max_bytes=1073741824`.

    Messages above 4 MiB have a variable of their own: `bandwidth_1GiB` is that of 1 GiB. Each size
    then takes at least 2 round trips in place of 5. The job's time limit grows: a repeat up to 1
    GiB takes half a minute at 10 Gb/s, and is given 11 minutes, enough for 0.2 Gb/s. Only the
    programs in C and IMB's measure them.

    In Java: byte arrays, as in that paper, by the same method. mpj-native sends direct buffers too
    (`-S pingpong.java_buffers=off_heap`), which it does not copy. Between nodes the same JVMs also
    send over a plain socket. `socket_latency` is its latency for 1 B. `latency_over_sockets` is the
    library's latency over that. Before the clock starts, all sizes are sent once or more. Over TCP,
    those of 4 to 32 KiB then take longer. The program in C does the same in a duet with Java.

    `-S pages=large` has the buffers in pages of 2 MiB, `-S pages=small` in small ones. Messages
    within a node gain most: each copy then walks through fewer entries of the page tables.

    Guests of one host exchange messages through its virtual switch, and no NIC takes part. The
    messaging paper calls several virtual machines on a node inefficient, without a figure (p. 13).

    Read: `startup_latency` is that of 1 B, `peak_bandwidth` the best up to 4 MiB, in 10^9 bit/s.
    Compare partitions by the ratio to native. Within a node no NIC takes part: memory and binding
    make the difference.
    """

    #: Place of the two ranks: on two nodes, on one, or on two guests of one host. The last is for
    #: partitions whose nodes are such guests: their environment has the feature `vswitch`. :values:
    #: `internode`, `intranode`, `guests`
    placement = builtin.parameter(["internode", "intranode", "guests"], loggable=True)
    #: Origin of the program: ours, IMB's, or `osu_latency` of the OSU Micro-Benchmarks. :values:
    #: `nearmetal`, `imb`, `osu`
    suite = builtin.variable(str, value="nearmetal", loggable=True)
    #: Most seconds for a message size (IMB's -time). Default: the partition's `pingpong_max_time`
    #: (extras), or 0.5. :type: float
    max_time = setting(float, 0.5, extra="pingpong_max_time", above=0)
    #: Longest message in bytes, at most 1 GiB. Default: the partition's `pingpong_max_bytes`
    #: (extras), or 4194304. :type: int
    max_bytes = setting(int, LARGEST, extra="pingpong_max_bytes", least=65536, most=1 << 30)
    #: Seconds without an answer after which a rank counts as hanging. Messages above 4 MiB add the
    #: time that they take on a slow link. :type: int
    stall_timeout = setting(int, 60, least=1)
    #: Messages of programs in Java: byte arrays (`heap`), or direct buffers (`off_heap`), which
    #: only mpj-native takes. :values: `heap`, `off_heap`
    java_buffers = setting(str, "heap", choices=("heap", "off_heap"))

    valid_prog_environs = ["+mpi", "+mpj"]
    java_program = "PingPong"
    num_tasks = 2
    tags = {"network", "mpi"}

    # Last, after ReFrame's own hook that sets the variables of -P.
    @builtin.run_after("init", always_last=True)
    def place_ranks(self):
        self.num_nodes = 1 if self.placement == "intranode" else 2
        if self.placement == "guests":
            self.valid_prog_environs = ["+vswitch"]
        self.num_tasks_per_node = self.num_tasks // self.num_nodes
        if self.placement == "intranode":
            self.set_default("java_device", "threads")

    def jvm_settings(self, environ):
        return {
            **super().jvm_settings(environ),
            "buffers": self.setting_in("java_buffers", environ),
        }

    @builtin.run_after("setup")
    def record_buffers_of_java_alone(self):
        if not self.runtime.java:
            self.java_buffers = ""

    @builtin.run_after("setup")
    def give_long_messages_time(self):
        if self.max_bytes <= LARGEST:
            return
        if self.runtime.java:
            self.skip(
                f"{self.display_name}: the program in Java measures up to 4 MiB, not "
                f"{self.max_bytes} bytes: leave max_bytes out, or select environments with mpi"
            )
        if self.time_limit == USUAL:  # not by the command line or the site
            # Verified, warmed up and timed, there and back: all sizes are twice the longest.
            moved = 2 * (2 + FEWEST) * 2 * self.max_bytes
            launches = self.repeats + self.spare_repeats
            wanted = USUAL + launches * moved / SLOWEST
            self.time_limit = MAX_TIME_LIMIT.of(self.current_partition) or wanted
            self.time_limit = min(self.time_limit, wanted)

    @builtin.run_before("compile")
    def choose_program(self):
        if is_theirs(self, "imb", "osu"):
            self.run_theirs(*SUITES[self.suite])
        else:
            self.build_ours("pingpong.c")

    def osu_launches(self) -> list[tuple[int, int, int]]:
        """Least and largest message, and iterations, of each launch of `osu_latency`."""
        longest = 1 << (self.max_bytes.bit_length() - 1)
        ends = [end for end in OSU_RANGES if end < longest] + [longest]
        counts = [max(FEWEST, min(1000, OSU_VOLUME // end)) for end in ends]
        return list(zip([1, *(2 * end for end in ends)], ends, counts))

    def launch(self, launcher, executable, options=()):
        if self.suite != "osu":
            return super().launch(launcher, executable, options)
        lines = []
        for least, most, count in self.osu_launches():
            warm_up = max(1, count // 10)
            self.executable_opts = [f"-m {least}:{most}", f"-i {count}", f"-x {warm_up}"]
            lines += super().launch(launcher, executable, options)
        self.executable_opts = []
        return lines

    @builtin.run_before("run")
    def set_command(self):
        # Two ranks that share a core would measure the kernel's scheduler. Between nodes each has a
        # node to itself.
        if self.placement == "intranode" and self.bind_to("core"):
            self._binding = "core"
        seconds, long = f"{self.max_time:g}", self.max_bytes > LARGEST
        if self.suite == "imb":
            self.executable_opts = [
                "PingPong",
                "-msglog",
                f"0:{self.max_bytes.bit_length() - 1}",
                "-time",
                seconds,
                *(["-mem", IMB_GIGABYTES] if long else []),
            ]
        elif self.suite == "nearmetal":
            # A phase has two verified or warming round trips, or FEWEST timed ones.
            stall = 2 * 2 * self.max_bytes / SLOWEST if long else 0
            self.executable_opts = [
                "--max-time",
                seconds,
                "--stall-timeout",
                f"{self.stall_timeout + stall:.0f}",
                "--max-bytes",
                str(self.max_bytes),
                *(["--min-iterations", str(FEWEST)] if long else []),
                # A program in Java has sent all sizes before the clock starts.
                *(["--rehearsals", "1"] if any(one.java for one in self.runtimes) else []),
            ]

    def requested(self):
        if self.suite == "osu":
            return {"max_bytes": self.osu_launches()[-1][1]}
        return {
            name: value for name, value in super().requested().items() if name != "stall_timeout"
        }

    def read_output(self, text):
        if self.suite == "osu":
            self.launches = parse_osu(text, self.osu_launches())
        else:
            self.launches = parse_imb(text)
        self.expect_repeats(self.launches)
        self.record_program(self.launches[0].facts, self.suite.upper())
        if any(
            "niodev" in launch.facts.get("mpi_library", "") and not launch.sockets
            for launch in self.launches
        ):
            raise SanityError(
                "a launch has no figures of plain sockets, which the same JVMs are to measure"
            )

    def buffer_bytes(self):
        of_a_rank = 2 * self.max_bytes  # one to send, one to receive
        return self.num_tasks * of_a_rank if of_a_rank >= LEAST else 0

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
        if self.placement != "intranode" and self.transport in ("shared memory", "loopback"):
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
    def name_the_longest(self):
        if self.max_bytes > LARGEST:
            longest = 1 << (self.max_bytes.bit_length() - 1)
            name = f"bandwidth_{_size(longest)}"
            self.perf_variables[name] = sn.make_performance_function(
                self._bandwidth, "Gb/s", name, longest
            )

    def _bandwidth(self, name, size):
        return self.over_launches(
            name,
            [p.bandwidth_gbps(size) for p in self.launches],
            [p.batch_gbps(size) for p in self.launches],
        )

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
        return self._bandwidth("bandwidth_64KiB", 65536)

    @builtin.performance_function("Gb/s")
    def peak_bandwidth(self):
        peaks = [p.peak_up_to(LARGEST) for p in self.launches]
        return self.over_launches(
            "peak_bandwidth",
            [p.bandwidth_gbps(size) for p, size in zip(self.launches, peaks)],
            [p.batch_gbps(size) for p, size in zip(self.launches, peaks)],
        )


def _size(size: int) -> str:
    """A power of two in bytes, as variables name it: `8MiB`, `1GiB`."""
    return f"{size >> 30}GiB" if size >= 1 << 30 else f"{size >> 20}MiB"
