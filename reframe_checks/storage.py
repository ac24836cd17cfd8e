"""Storage of a node: the directories that a site's file names."""

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.output import Variable
from nearmetal.checks.parsing.storage import parse_storage
from nearmetal.checks.settings import DIRECTORIES, directory_for_shell, setting
from nearmetal.job.launch import Launch


class InDirectory(NearmetalCheck):
    """A program that reads and writes in a directory that a site's file names."""

    #: The directory: the key `storage_local`, `storage_shared` or `storage_scratch` of the
    #: partition's `extras`. :values: `local`, `shared`, `scratch`
    place = builtin.parameter(list(DIRECTORIES), loggable=True)

    @builtin.run_after("init")
    def need_the_directory(self):
        self.valid_systems = [f"+{DIRECTORIES[self.place].key}"]

    def directory(self) -> str:
        """The directory as one word of the shell."""
        return directory_for_shell(DIRECTORIES[self.place].of(self.current_partition))

    def keep(self, launches: list) -> None:
        """Store launches, and the file system that they ran on."""
        self.expect_repeats(launches)
        systems = {launch.facts["file_system"] for launch in launches}
        if len(systems) > 1:
            raise SanityError(f"the repeats ran on several file systems: {', '.join(systems)}")
        self.runs = launches
        self.facts = {**self.facts, "storage": systems.pop()}


@rfm.simple_test
class storage(InDirectory):
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

    def build(self):
        self.run_script("sh storage.sh")

    def launches(self):
        return [Launch(options=[self.directory(), self.megabytes, self.seconds])]

    def requested(self):
        _, megabytes, seconds = self._command
        return {"megabytes": megabytes, "seconds": seconds}

    def read_output(self, text):
        self.keep(parse_storage(text))

    read_latency = Variable("us", lambda launch: launch.jobs["read_latency"].latency_us)
    write_latency = Variable("us", lambda launch: launch.jobs["write_latency"].latency_us)
    read_rate = Variable("IO/s", lambda launch: launch.jobs["read_rate"].rate)
    write_rate = Variable("IO/s", lambda launch: launch.jobs["write_rate"].rate)
    read_bandwidth = Variable("MB/s", lambda launch: launch.jobs["read_bandwidth"].mbytes_per_s)
    write_bandwidth = Variable("MB/s", lambda launch: launch.jobs["write_bandwidth"].mbytes_per_s)
