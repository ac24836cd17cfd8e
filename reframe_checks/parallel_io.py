"""Parallel access to the directories that a site's file names: IOR and mdtest."""

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.output import Variable
from nearmetal.checks.parsing.parallel_io import parse_ior, parse_mdtest
from nearmetal.checks.scaling import Scaling
from nearmetal.checks.settings import setting

from .storage import InDirectory

MIB = 1 << 20


class ParallelIO(Scaling, InDirectory):
    """A program that many processes run in one directory, which the first node makes and removes.

    A node-local directory is one node's, so that all processes are on one node.
    """

    own_extras = {"processes": "io_processes", "ranks_per_node": "io_ranks_per_node"}
    tags = {"storage", "mpi"}
    time_limit = "1h"
    #: Name of the program on PATH. :type: str
    program = builtin.variable(str)
    #: The program's option that names its file or directory, and the key of extras that makes its
    #: files smaller or fewer.
    option, smaller = "", ""
    no_transport = "not told: the bytes of files are not messages"

    def configure(self):
        # Each node has a local directory of its own.
        if self.place == "local":
            self.default_nodes = 1
        self.use_processes(1 << 20)
        self.counts = self.counts[:1]
        if self.place == "local" and self.num_nodes > 1:
            raise SanityError(
                f"{self.num_tasks} processes need {self.num_nodes} nodes, but a local directory is "
                f"of one: give -S {type(self).__name__}.processes=... or .ranks_per_node=..."
            )

    def build(self):
        self.run_installed(self.program)

    def megabytes_needed(self) -> int:
        """Megabytes that must be free in the directory."""
        raise NotImplementedError

    def is_direct(self) -> bool:
        """Whether the program leaves out the page cache."""
        return False

    def options(self) -> list:
        """Options of the program."""
        raise NotImplementedError

    def launches(self):
        access = "cached"
        if self.is_direct():
            access = "direct"
        words = f"{self.megabytes_needed()} {self.smaller} {access} {self.option} data"
        prefix = f"sh parallel_io.sh {self.directory()} {words}"
        return [self.placed(self.counts[0], options=self.options(), prefix=prefix)]

    def payload_bytes(self):
        return 0

    def keep(self, launches: list) -> None:
        """Also check the binding, and store the program's version."""
        super().keep(launches)
        self.check_binding()
        self.facts = {**self.facts, "application": launches[0].facts["program"]}


@rfm.simple_test
class ior(ParallelIO):
    """Bandwidth of all processes together on a file system, through POSIX and through MPI-IO.

    Method: IOR 4 (github.com/hpc/ior). Each process writes and then reads one block, 1 MiB at a
    time. With `posix` it has a file of its own and direct I/O. With `mpiio` all share one file; the
    data is flushed before the time ends (`-e`), and each process reads what a process of another
    node wrote (`-C`). The time includes opening and closing.

    Why: one process seldom fills a parallel file system. Between clients and servers its bytes pass
    the NIC, where an emulated one costs a copy of each frame.

    Reproduces: no figure.

    Read: compare partitions by the ratio to native. On one node, `mpiio` has no `read_bandwidth`:
    it would be that of the page cache. `mpiio` far below `posix` shows locks on the shared file.
    """

    #: The interface. :values: `posix`, `mpiio`
    api = builtin.parameter(["posix", "mpiio"], loggable=True)
    #: Megabytes (2^20 B) that each process writes. Default: the partition's `ior_megabytes`
    #: (extras), or 256. :type: int
    megabytes = setting(int, 256, extra="ior_megabytes", least=1)

    program = "ior"
    option, smaller = "-o", "ior_megabytes"
    valid_prog_environs = ["+mpi +ior"]

    def is_direct(self):
        return self.api == "posix"

    def megabytes_needed(self):
        return 2 * self.num_tasks * self.megabytes

    def options(self):
        apart = []
        if self.is_direct():
            apart = ["--posix.odirect", "-F"]
        return [
            *("-a", self.api.upper(), *apart, "-b", f"{self.megabytes}m", "-t", "1m"),
            *("-w", "-r", "-e", "-C", "-O", "summaryFormat=JSON"),
        ]

    def requested(self):
        return {
            "api": self.api.upper(),
            "processes": self.num_tasks,
            "nodes": self.num_nodes,
            "block": self.megabytes * MIB,
            "transfer": MIB,
            "file_per_process": int(self.is_direct()),
            "fsync": 1,
            "reordered": 1,
        }

    def read_output(self, text):
        self.keep(parse_ior(text))

    def name_variables(self):
        # What one node reads of a shared file, its cache holds.
        if not self.is_direct() and self.num_nodes == 1:
            self.perf_variables.pop("read_bandwidth", None)

    write_bandwidth = Variable("MB/s", lambda launch: launch.values["write_bandwidth"])
    read_bandwidth = Variable("MB/s", lambda launch: launch.values["read_bandwidth"])


@rfm.simple_test
class mdtest(ParallelIO):
    """Files that all processes together create, look up, open and remove in a second.

    Method: mdtest 4 (github.com/hpc/ior), empty files, in a directory of each process. On several
    nodes each phase works on the files of a process of another node, whose cache does not know
    them.

    Why: each operation is a message to the server and back. It has the latency of the link, where
    an emulated NIC costs most.

    Reproduces: no figure.

    Read: compare partitions by the ratio to native.
    """

    #: Files of each process. Default: the partition's `mdtest_files` (extras), or 1000. :type: int
    files = setting(int, 1000, extra="mdtest_files", least=1)

    program = "mdtest"
    option, smaller = "-d", "mdtest_files"
    valid_prog_environs = ["+mpi +mdtest"]

    def megabytes_needed(self):
        return 1 + self.num_tasks * self.files // 100  # an inode and its names take less than 10 kB

    def options(self):
        options = ["-a", "POSIX", "-F", "-u", "-n", self.files]
        if self.num_nodes > 1:
            options += ["-N", self.num_tasks_per_node]
        return options

    def requested(self):
        return {"processes": self.num_tasks, "nodes": self.num_nodes, "files": self.files}

    def read_output(self, text):
        self.keep(parse_mdtest(text))

    create_rate = Variable("op/s", lambda launch: launch.values["create_rate"])
    stat_rate = Variable("op/s", lambda launch: launch.values["stat_rate"])
    open_rate = Variable("op/s", lambda launch: launch.values["open_rate"])
    remove_rate = Variable("op/s", lambda launch: launch.values["remove_rate"])
