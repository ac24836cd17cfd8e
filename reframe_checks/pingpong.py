"""Half round trip and bandwidth of a message between two MPI ranks."""

import statistics

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.output import Variable
from nearmetal.checks.pages import LEAST, Pages
from nearmetal.checks.parsing.osu import parse_osu
from nearmetal.checks.parsing.pingpong import parse_imb
from nearmetal.checks.programs import SUITES, is_theirs
from nearmetal.checks.settings import MAX_TIME_LIMIT, JavaSettings, setting
from nearmetal.job.launch import Launch
from nearmetal.site.launchers import binding_options

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

    def configure(self):
        if not self.runtime.java:
            self.java_buffers = ""
        # Two ranks that share a core would measure the kernel's scheduler. Between nodes each has a
        # node to itself.
        if self.placement == "intranode":
            self.bound_to = "core"
            if binding_options(self.job.launcher.registered_name, "core"):
                self._binding = "core"
        if self.max_bytes > LARGEST:
            self._give_long_messages_time()

    def _give_long_messages_time(self) -> None:
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

    def build(self):
        if is_theirs(self, "imb", "osu"):
            self.run_theirs(*SUITES[self.suite])
        else:
            self.build_ours("pingpong.c")

    def osu_ranges(self) -> list[tuple[int, int, int]]:
        """Least and largest message, and iterations, of each launch of `osu_latency`."""
        longest = 1 << (self.max_bytes.bit_length() - 1)
        ranges, least = [], 1
        for end in [*(end for end in OSU_RANGES if end < longest), longest]:
            ranges.append((least, end, max(FEWEST, min(1000, OSU_VOLUME // end))))
            least = 2 * end
        return ranges

    def launches(self):
        if self.suite == "osu":
            return [self._osu_launch(*numbers) for numbers in self.osu_ranges()]
        if self.suite == "imb":
            return [Launch(options=self._imb_options())]
        return [Launch(options=self._options())]

    def _osu_launch(self, least, most, count):
        warm_up = max(1, count // 10)
        return Launch(options=["-m", f"{least}:{most}", "-i", count, "-x", warm_up])

    def _imb_options(self):
        sizes = f"0:{self.max_bytes.bit_length() - 1}"
        options = ["PingPong", "-msglog", sizes, "-time", f"{self.max_time:g}"]
        if self.max_bytes > LARGEST:
            options += ["-mem", IMB_GIGABYTES]
        return options

    def _options(self):
        """Options of our own program."""
        stall, long = self.stall_timeout, []
        if self.max_bytes > LARGEST:
            # A phase has two verified or warming round trips, or FEWEST timed ones.
            stall += 2 * 2 * self.max_bytes / SLOWEST
            long = ["--min-iterations", FEWEST]
        rehearsals = []
        if any(runtime.java for runtime in self.runtimes):
            # A program in Java has sent all sizes before the clock starts.
            rehearsals = ["--rehearsals", 1]
        return [
            *("--max-time", f"{self.max_time:g}", "--stall-timeout", f"{stall:.0f}"),
            *("--max-bytes", self.max_bytes, *long, *rehearsals),
        ]

    def requested(self):
        if self.suite == "osu":
            return {"max_bytes": self.osu_ranges()[-1][1]}
        return {
            name: value for name, value in super().requested().items() if name != "stall_timeout"
        }

    def read_output(self, text):
        if self.suite == "osu":
            self.runs = parse_osu(text, self.osu_ranges())
        else:
            self.runs = parse_imb(text)
        self.expect_repeats(self.runs)
        self.record_program(self.runs[0].facts, self.suite.upper())
        for run in self.runs:
            if "niodev" in run.facts.get("mpi_library", "") and not run.sockets:
                raise SanityError(
                    "a launch has no figures of plain sockets, which the same JVMs are to measure"
                )

    def buffer_bytes(self):
        of_a_rank = 2 * self.max_bytes  # one to send, one to receive
        return self.num_tasks * of_a_rank if of_a_rank >= LEAST else 0

    def payload_bytes(self):
        payload = 0
        for run in self.runs:
            payload += sum(2 * size * row.repetitions for size, row in run.rows.items())
        return payload

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

    def name_variables(self):
        if self.max_bytes > LARGEST:
            longest = 1 << (self.max_bytes.bit_length() - 1)
            self.define(
                f"bandwidth_{_size(longest)}",
                "Gb/s",
                lambda run: run.bandwidth_gbps(longest),
                lambda run: run.batch_gbps(longest),
            )
        if self.is_dry_run():
            return
        sizes = filter(None, self.runs[0].rows)
        self.curves = {
            "half_round_trip_us": self.curve(lambda run, size: run.latency_us(size), sizes)
        }

    # Not in name_variables, which a duet calls for A and for B: where one of them sends over no
    # sockets, these form no pairs.
    @builtin.run_before("performance")
    def name_sockets(self):
        if self.is_dry_run() or not all(run.sockets for run in self.runs):
            return
        self.define("socket_latency", "us", _socket_us, lambda run: run.sockets[1])
        self.define(
            "latency_over_sockets",
            "x sockets",
            lambda run: run.startup_latency_us / _socket_us(run),
        )

    startup_latency = Variable(
        "us", lambda run: run.startup_latency_us, lambda run: run.batches.get(1, [])
    )
    latency_1KiB = Variable(
        "us", lambda run: run.latency_us(1024), lambda run: run.batches.get(1024, [])
    )
    bandwidth_64KiB = Variable(
        "Gb/s", lambda run: run.bandwidth_gbps(65536), lambda run: run.batch_gbps(65536)
    )
    peak_bandwidth = Variable(
        "Gb/s",
        lambda run: run.bandwidth_gbps(run.peak_up_to(LARGEST)),
        lambda run: run.batch_gbps(run.peak_up_to(LARGEST)),
    )


def _socket_us(run) -> float:
    """Half round trip of 1 B over a plain socket, us."""
    return statistics.fmean(run.sockets[1])


def _size(size: int) -> str:
    """A power of two in bytes, as variables name it: `8MiB`, `1GiB`."""
    if size >= 1 << 30:
        return f"{size >> 30}GiB"
    return f"{size >> 20}MiB"
