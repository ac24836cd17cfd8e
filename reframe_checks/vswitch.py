"""The same program on one host as 1, 2 and 4 guests."""

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError

from nearmetal.checks import first_nodes
from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.scaling import cores_of
from nearmetal.checks.settings import NUMBERS, setting

from .npb import CLASSES


@rfm.simple_test
class vswitch(NearmetalCheck):
    """A kernel of NPB on the same number of processes in 1, 2 and 4 guests of one host.

    Method: the ESX 4.1 NAMD post, table 2, with a kernel of ours in place of NAMD. One job has all
    guests and interleaves launches on 4, 2 and 1 of them. The number of guests is read back from
    the output.

    Why: guests of one host communicate through its virtual switch. One switch passes their frames
    on in memory. Guests on switches of their own meet in one more switch, which is a slower network
    for the program.

    Reproduces: the ESX 4.1 NAMD post, table 2 (4, 8 and 16 processes in 1, 2 and 4 VMs, on one
    vSwitch and on several). A site describes each way to join its guests as a partition. It gives
    the partition an environment with the feature `vswitch`. The messaging paper calls several
    virtual machines on a node inefficient, without a figure (p. 13). `pingpong` with
    `placement=guests` measures the messages between two of them.

    Read: `mops_S_4_guests_2` is the Mop/s of 4 processes on 2 guests. `kept_S_4_guests_2` is that
    in percent of the same on one guest in the same round. Compare the partitions: the difference
    between one switch and several is the price of several.
    """

    #: Numbers of guests, separated by commas. Each must divide the number of processes. :type: str
    guests = setting(str, "1,2,4", pattern=NUMBERS, meaning="numbers from 1 separated by commas")
    #: Processes. Default: the partition's `vswitch_processes` (extras), or its `cores_per_node`.
    #: :type: int
    processes = setting(int, 0, extra="vswitch_processes", least=1)
    #: The kernel. CG sends many short messages. :values: `cg`, `ft`, `is`, `mg`
    benchmark = setting(str, "cg", choices=("cg", "ft", "is", "mg"))
    #: Size of the problem. Default: the partition's `npb_class` (extras), or B. :values: `S`, `W`,
    #: `A`, `B`, `C`
    npb_class = setting(str, "B", extra="npb_class", choices=CLASSES)

    valid_prog_environs = ["+vswitch"]
    time_limit = "2h"
    tags = {"mpi", "network"}

    @builtin.run_after("setup")
    def spread_over_guests(self):
        if not self.processes:
            self.processes = cores_of(self.current_partition, "vswitch_processes")
        self.counts = sorted({int(count) for count in self.guests.split(",")}, reverse=True)
        if any(self.processes % count for count in self.counts):
            raise SanityError(
                f"{self.processes} processes cannot be spread evenly over {self.guests} guests: "
                "set `vswitch_processes` in the partition's extras, or -S vswitch.guests=..."
            )
        self.num_nodes = self.counts[0]
        self.num_tasks, self.num_tasks_per_node = self.processes, self.processes // self.num_nodes

    @builtin.run_before("compile")
    def build_kernel(self):
        self.build_ours(f"npb/{self.benchmark}.c")
        self.executable_opts = [self.npb_class]

    def launch(self, launcher, executable, options=()):
        return [
            line
            for count in self.counts
            for line in super(vswitch, self).launch(
                launcher,
                executable,
                [
                    *options,
                    f"--nodes={count}",
                    f"--ntasks-per-node={self.processes // count}",
                    *first_nodes.nodelist(count, self.num_nodes, options),
                ],
            )
        ]

    @builtin.run_before("run")
    def launch_by_srun_alone(self):
        if self.job.launcher.registered_name != "srun":
            self.skip(
                f"{self.display_name} places processes on guests by srun, which "
                f"{self.current_partition.fullname} has not"
            )
        self.job.launcher.options += ["--overcommit", "--cpu-bind=none"]
        self.prerun_cmds += first_nodes.definitions(self.counts, self.num_nodes)

    def read_output(self, text):
        launches = parse_npb(text)
        self.launches = self.rounds(launches, lambda run: run.hosts, "guests")
        self.record_program(launches[0].facts, "NPB")

    def requested(self):
        return {
            "kernel": self.benchmark.upper(),
            "class": self.npb_class,
            "processes": self.processes,
        }

    @builtin.run_before("performance")
    def name_variables(self):
        kinds = {
            "mops": (self._rate, "Mop/s", self.counts),
            "kept": (self._kept, "% of ideal", self.counts[:-1]),
        }
        self.perf_variables = {
            name: sn.make_performance_function(function, unit, name, count)
            for kind, (function, unit, counts) in kinds.items()
            for count in counts
            for name in [f"{kind}_{self.npb_class}_{self.processes}_guests_{count}"]
        }

    def _rate(self, name, count):
        return self.over_launches(name, [runs[count].mops for runs in self.launches])

    def _kept(self, name, count):
        return self.over_launches(
            name, [100 * runs[count].mops / runs[self.counts[-1]].mops for runs in self.launches]
        )
