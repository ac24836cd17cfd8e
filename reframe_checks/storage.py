"""Storage of a node: the directories that a site's file names."""

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.parsing.storage import parse_storage
from nearmetal.checks.settings import DIRECTORIES, directory_for_shell, setting
from nearmetal.job.launch import Launch


@rfm.simple_test
class storage(NearmetalCheck):
    """Latency, rate and bandwidth of reading and writing a file, on a node's own disk or a shared
    file system.

    Method: fio with direct I/O on one file. Latency is the mean time of a request of 4 KiB at a
    random place, one after the other. The rate is that of 32 such requests at once. Bandwidth is
    that of 1 MiB in sequence, 8 at once; writing ends with fsync.

    Why: an emulated disk costs the guest an exit for each request, as an emulated NIC does for each
    frame. A disk that the guest owns costs little but its interrupts.

    Reproduces: no figure.

    Read: compare partitions by the ratio to native. A `read_latency` below 10 us is a cache's, not
    a disk's. A low rate with a low latency shows that requests wait in one queue.
    """

    #: The directory: the key `storage_local`, `storage_shared` or `storage_scratch` of the
    #: partition's `extras`. :values: `local`, `shared`, `scratch`
    place = builtin.parameter(list(DIRECTORIES), loggable=True)
    #: Megabytes of the file; twice as many must be free. Default: the partition's
    #: `storage_megabytes` (extras), or 1024. :type: int
    megabytes = setting(int, 1024, extra="storage_megabytes", least=16)
    #: Seconds of each of five jobs. Default: the partition's `storage_seconds` (extras), or 5.
    #: :type: int
    seconds = setting(int, 5, extra="storage_seconds", least=1)

    valid_prog_environs = ["+serial"]
    num_tasks = 1
    num_tasks_per_node = 1
    time_limit = "30m"
    tags = {"storage"}

    @builtin.run_after("init")
    def need_the_directory(self):
        self.valid_systems = [f"+{DIRECTORIES[self.place].key}"]

    def build(self):
        self.run_script("sh storage.sh")

    def launches(self):
        named = DIRECTORIES[self.place].of(self.current_partition)
        return [Launch(options=[directory_for_shell(named), self.megabytes, self.seconds])]

    def requested(self):
        _, megabytes, seconds = self._command
        return {"megabytes": megabytes, "seconds": seconds}

    def read_output(self, text):
        self.runs = parse_storage(text)
        self.expect_repeats(self.runs)
        systems = {launch.facts["file_system"] for launch in self.runs}
        if len(systems) > 1:
            raise SanityError(f"the repeats ran on several file systems: {', '.join(systems)}")
        self.facts = {**self.facts, "storage": systems.pop()}

    def _latency(self, job):
        return self.over_runs(job, lambda launch: launch.jobs[job].latency_us)

    def _rate(self, job):
        return self.over_runs(job, lambda launch: launch.jobs[job].rate)

    def _bandwidth(self, job):
        return self.over_runs(job, lambda launch: launch.jobs[job].mbytes_per_s)

    @builtin.performance_function("us")
    def read_latency(self):
        return self._latency("read_latency")

    @builtin.performance_function("us")
    def write_latency(self):
        return self._latency("write_latency")

    @builtin.performance_function("IO/s")
    def read_rate(self):
        return self._rate("read_rate")

    @builtin.performance_function("IO/s")
    def write_rate(self):
        return self._rate("write_rate")

    @builtin.performance_function("MB/s")
    def read_bandwidth(self):
        return self._bandwidth("read_bandwidth")

    @builtin.performance_function("MB/s")
    def write_bandwidth(self):
        return self._bandwidth("write_bandwidth")
