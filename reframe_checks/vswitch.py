"""The same program on one host as 1, 2 and 4 guests."""

import re
import shlex

import reframe as rfm
import reframe.core.builtins as builtin
import reframe.utility.sanity as sn
from reframe.core.exceptions import SanityError

from nearmetal.checks import first_nodes
from nearmetal.checks.application import facts_of_program, with_lines_after
from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.scaling import Payload, cores_of
from nearmetal.checks.settings import NUMBERS, setting

from .gromacs import Water
from .lammps import Liquid
from .namd import SitesInput
from .npb import CLASSES

#: Applications -> the class of their problem. Each name is also the feature of its environments.
PROBLEMS = {"lammps": Liquid, "gromacs": Water, "namd": SitesInput}


@rfm.simple_test
class vswitch(Payload, NearmetalCheck):
    """A program on the same number of processes in 1, 2 and 4 guests of one host.

    Method: the ESX 4.1 NAMD post, table 2. One job has all guests and interleaves launches on 4, 2
    and 1 of them. The number of guests is read back: from the output of our programs, or by one
    more step on the same nodes before the launches.

    The program is a kernel of NPB. `-S vswitch.application=namd` runs the post's NAMD, on the
    input of `namd_input`, in environments that also have the feature `namd`. A site without NAMD
    takes `lammps` or `gromacs`. `vswitch_application` in the partition's extras chooses for good.
    Input, energies and values are those of the checks with these names.

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
    between one switch and several is the price of several. Applications have
    `timesteps_S_4_guests_2` (LAMMPS), `simulated_S_4_guests_2` (GROMACS) and `step_stmv_4_guests_2`
    (NAMD), and `kept_lammps_S_4_guests_2` and so on.
    """

    #: What runs. Default: the partition's `vswitch_application` (extras), or a kernel of NPB.
    #: :values: `npb`, `lammps`, `gromacs`, `namd`
    application = setting(
        str, "npb", extra="vswitch_application", choices=("npb", "lammps", "gromacs", "namd")
    )
    #: Size of the problem of LAMMPS or GROMACS. Default: the partition's `vswitch_size` (extras),
    #: or A. GROMACS has no C. :values: `S`, `W`, `A`, `B`, `C`
    size = setting(str, "A", extra="vswitch_size", choices=CLASSES)
    #: Path of NAMD's configuration file. Default: the partition's `namd_input` (extras). :type: str
    input = setting(
        str, "", extra="namd_input", pattern="^/", meaning="the absolute path of a file"
    )
    #: Name of the application on PATH. Default: that of the check with its name. :type: str
    program = builtin.variable(str, value="")

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

    @builtin.run_after("init")
    def run_where_the_application_is(self):
        if self.application in PROBLEMS:  # by the command line
            self.valid_prog_environs = [f"+vswitch +{self.application}"]

    @builtin.run_after("setup")
    def choose_problem(self):
        self.problem = None
        if self.application == "npb":
            return
        if self.application not in self.current_environ.features:
            self.skip(
                f"{self.display_name}: {self.current_environ.name} has not the feature "
                f"{self.application}, which `vswitch_application` of "
                f"{self.current_partition.fullname} asks for: give it the feature, or -S "
                "vswitch.application=npb"
            )
        if self.application == "namd":
            place = f"{self.current_partition.fullname} or by -S vswitch.input=..."
            self.problem = SitesInput(self.input, place)
        else:
            self.problem = PROBLEMS[self.application](self.size)

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
        if self.problem:
            self.program = self.program or self.problem.program
            self.run_installed(self.program, self.application)
            self.env_vars["OMP_NUM_THREADS"] = "1"  # one thread for each process
        else:
            self.build_ours(f"npb/{self.benchmark}.c")
            self.executable_opts = [self.npb_class]

    def launch_on(self, guests, command, launcher=None, options=(), processes=None):
        """The command line that runs a command on so many guests."""
        processes = processes or self.processes
        further = [
            *options,
            f"--nodes={guests}",
            f"--ntasks={processes}",
            f"--ntasks-per-node={processes // guests}",
            *first_nodes.nodelist(guests, self.num_nodes, options),
        ]
        return self.command_line(launcher or self.job.launcher, command, further, processes)

    def launch(self, launcher, executable, options=()):
        command = " ".join([executable, *self.executable_opts])
        lines = [self.launch_on(count, command, launcher, options) for count in self.counts]
        return with_lines_after(lines, self.problem) if self.problem else lines

    @builtin.run_before("run")
    def launch_by_srun_alone(self):
        if self.job.launcher.registered_name != "srun":
            self.skip(
                f"{self.display_name} places processes on guests by srun, which "
                f"{self.current_partition.fullname} has not"
            )
        self.job.launcher.options += ["--overcommit", "--cpu-bind=none"]
        self.prerun_cmds += first_nodes.definitions({1, *self.counts}, self.num_nodes)

    # After the hook above, whose options and variables it uses.
    @builtin.run_before("run")
    def prepare_application(self):
        if not self.problem:
            return
        self.env_vars.update(self.problem.env_vars)
        self.prerun_cmds += self.problem.preparations(
            lambda command: self.launch_on(1, command, processes=1), shlex.quote(self.program)
        )
        # The applications do not report their hosts.
        self.prerun_cmds += [
            f"{self.launch_on(count, 'sh task.sh')} > guests_{count}.out" for count in self.counts
        ]
        self.postrun_cmds += self.problem.clean_up()
        self.executable_opts = self.problem.options()

    def read_output(self, text):
        launches = self.problem.read(text) if self.problem else parse_npb(text)
        if self.problem:
            self._expect_guests()
            self.launches = self.rounds(launches, on=None)
            self.facts = {**self.facts, **facts_of_program(launches)}
        else:
            self.launches = self.rounds(launches, lambda run: run.hosts, "guests")
        self.record_program(launches[0].facts, self.problem.title if self.problem else "NPB")

    def _expect_guests(self) -> None:
        """Raise SanityError if the step on some guests ran on other numbers of them."""
        for count in self.counts:
            text = self._read(f"guests_{count}.out")
            names = re.findall(r"^# nearmetal task: \d+ (\S+) ", text, re.M)
            each = sorted({names.count(name) for name in names})
            if len(set(names)) != count or each != [self.processes // count]:
                raise SanityError(
                    f"a step of {self.processes} processes on {count} guests ran on "
                    f"{', '.join(sorted(names)) or 'none'}: check how srun places processes"
                )

    def payload_of(self, run):
        if self.problem:
            return run.payload_bytes
        return float(run.facts["payload_bytes"])

    def payloads(self):
        # Of those on the most guests alone, which may have one process each.
        return [self.payload_of(runs[self.counts[0]]) for runs in self.launches]

    def requested(self):
        if self.problem:
            return {"processes": self.processes, **self.problem.requested()}
        return {
            "kernel": self.benchmark.upper(),
            "class": self.npb_class,
            "processes": self.processes,
        }

    @builtin.run_before("performance")
    def name_variables(self):
        problem = self.problem
        size = f"{problem.size if problem else self.npb_class}_{self.processes}"
        kept = f"kept_{self.application}" if problem else "kept"
        self.perf_variables = {}
        for count in self.counts:
            if problem:
                name = f"{problem.quantity}_{size}_guests_{count}"
                self.perf_variables[name] = sn.make_performance_function(
                    self._value, problem.unit, name, count
                )
            else:
                name = f"mops_{size}_guests_{count}"
                self.perf_variables[name] = sn.make_performance_function(
                    self._value, "Mop/s", name, count
                )
        for count in self.counts[:-1]:
            name = f"{kept}_{size}_guests_{count}"
            self.perf_variables[name] = sn.make_performance_function(
                self._kept, "% of ideal", name, count
            )

    def _value(self, name, count):
        value = self.problem.value["value"] if self.problem else self._rate_of
        return self.over_launches(name, [value(runs[count]) for runs in self.launches])

    def _rate_of(self, run):
        return run.rate if self.problem else run.mops

    def _kept(self, name, count):
        rate, one = self._rate_of, self.counts[-1]
        return self.over_launches(
            name, [100 * rate(runs[count]) / rate(runs[one]) for runs in self.launches]
        )
