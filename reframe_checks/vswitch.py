"""The same program on one host as 1, 2 and 4 guests."""

import re
import shlex

import reframe as rfm
import reframe.core.builtins as builtin
from reframe.core.exceptions import SanityError

from nearmetal.checks.application import Problem, facts_of_program
from nearmetal.checks.base import NearmetalCheck
from nearmetal.checks.parsing.npb import parse_npb
from nearmetal.checks.scaling import Payload, cores_of
from nearmetal.checks.settings import NUMBERS, setting
from nearmetal.job.launch import Launch

from .gromacs import Water
from .lammps import Liquid
from .namd import SitesInput
from .npb import CLASSES


class Kernel(Problem):
    """A kernel of NPB: a program of ours."""

    title, quantity, unit = "NPB", "mops", "Mop/s"

    def __init__(self, benchmark: str, npb_class: str):
        self.benchmark, self.size = benchmark, npb_class

    def options(self):
        return [self.size]

    def requested(self):
        return {"kernel": self.benchmark.upper(), "class": self.size}

    def read(self, text):
        return parse_npb(text)


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
    size = setting(str, "A", extra="vswitch_size", choices=tuple("SWABC"))
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
    #: `A`, `B`, `C`, `D`, `E`
    npb_class = setting(str, "B", extra="npb_class", choices=CLASSES)

    valid_prog_environs = ["+vswitch"]
    time_limit = "2h"
    tags = {"mpi", "network"}
    # Guests may have fewer cores than processes.
    bound_to, launcher_options = "none", ("--overcommit",)

    @builtin.run_after("init")
    def run_where_the_application_is(self):
        if self.application in PROBLEMS:  # by the command line
            self.valid_prog_environs = [f"+vswitch +{self.application}"]

    def configure(self):
        if self.job.launcher.registered_name != "srun":
            self.skip(
                f"{self.display_name} places processes on guests by srun, which "
                f"{self.current_partition.fullname} has not"
            )
        self.problem = self._problem()
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

    def _problem(self) -> Problem:
        if self.application == "npb":
            return Kernel(self.benchmark, self.npb_class)
        place = self.current_partition.fullname
        if self.application not in self.current_environ.features:
            self.skip(
                f"{self.display_name}: {self.current_environ.name} has not the feature "
                f"{self.application}, which `vswitch_application` of "
                f"{place} asks for: give it the feature, or -S vswitch.application=npb"
            )
        if self.application == "namd":
            return SitesInput(self.input, f"{place} or by -S vswitch.input=...")
        return PROBLEMS[self.application](self.size)

    def build(self):
        if self.application == "npb":
            self.build_ours(f"npb/{self.benchmark}.c")
            return
        self.program = self.program or self.problem.program
        self.run_installed(self.program, self.application)
        self.env_vars["OMP_NUM_THREADS"] = "1"  # one thread for each process
        self.env_vars.update(self.problem.env_vars)

    def on_guests(self, guests: int, **fields) -> Launch:
        """A launch of all processes on so many guests."""
        return Launch(
            nodes=guests,
            processes=self.processes,
            processes_per_node=self.processes // guests,
            **fields,
        )

    def launches(self):
        options, after = self.problem.options(), self.problem.after_launch
        return [self.on_guests(count, options=options, after=after) for count in self.counts]

    def preparations(self):
        if self.application == "npb":  # it reports its hosts
            return []
        steps = self.problem.preparations(shlex.quote(self.program))
        for count in self.counts:
            output = f"guests_{count}.out"
            steps.append(self.on_guests(count, program="sh task.sh", output=output))
        return steps

    def clean_up(self):
        return self.problem.clean_up()

    def read_output(self, text):
        launches = self.problem.read(text)
        if self.application == "npb":
            self.runs = self.rounds(launches, lambda run: run.hosts, "guests")
        else:
            self._expect_guests()
            self.runs = self.rounds(launches, on=None)
            self.facts = {**self.facts, **facts_of_program(launches)}
        self.record_program(launches[0].facts, self.problem.title)

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

    def payloads(self):
        # Of those on the most guests alone, which may have one process each.
        return [self.payload_of(runs[self.counts[0]]) for runs in self.runs]

    def requested(self):
        return {"processes": self.processes, **self.problem.requested()}

    def name_variables(self):
        problem, kept = self.problem, "kept"
        if self.application != "npb":
            kept = f"kept_{self.application}"
        self.perf_variables = {}
        for count in self.counts:
            name = f"{problem.quantity}_{problem.size}_{self.processes}_guests_{count}"
            self.define(name, problem.unit, problem.value["value"], on=count)
        for count in self.counts[:-1]:
            self.define(
                f"{kept}_{problem.size}_{self.processes}_guests_{count}",
                "% of ideal",
                lambda runs, count=count: self._kept(runs, count),
            )

    def _kept(self, runs: dict, count: int) -> float:
        """The rate on some guests in percent of the one on the fewest."""
        fewest = self.counts[-1]
        return 100 * runs[count].rate / runs[fewest].rate
